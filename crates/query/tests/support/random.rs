//! Random documents and queries over them.

use super::chance::Chance;

/// A scalar of any type, out of few, so that values meet.
fn scalar(chance: &mut Chance) -> String {
    let all = [
        "0", "1", "2", "2.0", "-1.5", "10", "null", "true", "false", "\"a\"", "\"ab\"", "\"b\"",
        "\"\"", "\"Zé\"",
    ];
    chance.pick(&all).to_owned()
}

fn value(chance: &mut Chance) -> String {
    match chance.below(8) {
        0 => format!("[{},{}]", scalar(chance), scalar(chance)),
        1 => format!("{{\"x\":{}}}", scalar(chance)),
        _ => scalar(chance),
    }
}

/// A document; members may be missing.
pub fn document(chance: &mut Chance, id: usize) -> String {
    let mut members = vec![format!("\"id\":\"{id}\""), format!("\"_rid\":\"r{id}\"")];
    for name in ["a", "b"] {
        if !chance.once_in(5) {
            members.push(format!("\"{name}\":{}", value(chance)));
        }
    }
    if !chance.once_in(4) {
        members.push(format!("\"n\":{}", chance.below(6)));
    }
    if !chance.once_in(3) {
        let count = chance.below(4);
        let list: Vec<String> = (0..count)
            .map(|_| {
                if chance.once_in(2) {
                    scalar(chance)
                } else {
                    format!("{{\"x\":{},\"y\":{}}}", scalar(chance), scalar(chance))
                }
            })
            .collect();
        members.push(format!("\"l\":[{}]", list.join(",")));
    }
    if !chance.once_in(3) {
        members.push(format!(
            "\"o\":{{\"p\":{},\"q\":{{\"r\":{}}}}}",
            value(chance),
            scalar(chance)
        ));
    }
    format!("{{{}}}", members.join(","))
}

fn path(chance: &mut Chance) -> &'static str {
    chance.pick(&["c.a", "c.b", "c.n", "c.o.p", "c.o.q.r", "c.l[0]", "c.missing", "c.o"])
}

fn literal(chance: &mut Chance) -> String {
    match chance.below(10) {
        0 => "undefined".to_owned(),
        1 => format!("[{}]", scalar(chance)),
        2 => format!("{{\"x\": {}}}", scalar(chance)),
        _ => scalar(chance),
    }
}

/// A filter of some depth.
pub fn filter(chance: &mut Chance, depth: usize) -> String {
    if depth > 0 && chance.once_in(2) {
        let (left, right) = (filter(chance, depth - 1), filter(chance, depth - 1));
        return match chance.below(5) {
            0 => format!("NOT ({left})"),
            1 | 2 => format!("({left} OR {right})"),
            _ => format!("({left} AND {right})"),
        };
    }
    let path = path(chance);
    match chance.below(17) {
        14 => {
            // What a composite index begins with, and where it goes from there.
            let operator = chance.pick(&["=", "<", "<=", ">", ">="]);
            let first = chance.pick(&["c.a", "c.n", "c.b"]);
            let second = chance.pick(&["c.b", "c.id", "c.a"]);
            format!("({first} = {} AND {second} {operator} {})", scalar(chance), scalar(chance))
        }
        15 | 16 => {
            let call = chance.pick(&["CONTAINS", "ENDSWITH", "STARTSWITH", "STRINGEQUALS"]);
            let case = chance.pick(&["", ", true", ", false"]);
            let text = chance.pick(&["'a'", "'B'", "''", "'zÉ'", "1"]);
            match chance.below(5) {
                0 => format!("REGEXMATCH({path}, {})", chance.pick(&["'^a'", "'b$'", "'é'"])),
                _ => format!("{call}({path}, {text}{case})"),
            }
        }
        0..=3 => {
            let operator = chance.pick(&["=", "!=", "<", "<=", ">", ">="]);
            if chance.once_in(5) {
                format!("{} {operator} {path}", literal(chance))
            } else {
                format!("{path} {operator} {}", literal(chance))
            }
        }
        4 => format!("{path} IN ({}, {}, {})", literal(chance), literal(chance), literal(chance)),
        5 => format!("{path} BETWEEN {} AND {}", scalar(chance), scalar(chance)),
        6 => format!("{path} LIKE {}", chance.pick(&["'a%'", "'%b'", "'a'", "'_'", "'%'"])),
        7 => format!("IS_DEFINED({path})"),
        8 => {
            format!("{}({path})", chance.pick(&["IS_NULL", "IS_NUMBER", "IS_STRING", "IS_OBJECT"]))
        }
        9 => format!("ARRAY_CONTAINS(c.l, {})", literal(chance)),
        10 => format!("ARRAY_CONTAINS(c.l, {{\"x\": {}}}, true)", scalar(chance)),
        11 => format!(
            "EXISTS(SELECT VALUE e FROM e IN c.l WHERE e.x = {} {} e.y = {})",
            scalar(chance),
            chance.pick(&["AND", "OR"]),
            scalar(chance)
        ),
        12 => path.to_owned(),
        _ => format!("{path} = {}", scalar(chance)),
    }
}

/// A query, and what of its rows is determined.
pub struct Random {
    pub text: String,
    pub kind: Kind,
}

/// What of the rows of a query is determined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Which rows, in no order.
    Set,
    /// How many rows: any of those that fit.
    Count,
    /// Which rows, and the order of their keys, which are members `k0`, `k1`.
    Ordered,
    /// The keys, but not which rows have them.
    OrderedKeys,
}

pub fn query(chance: &mut Chance) -> Random {
    let filter = match chance.below(4) {
        0 => String::new(),
        depth => format!(" WHERE {}", filter(chance, depth - 1)),
    };
    match chance.below(8) {
        0 => grouped(chance, &filter),
        1 => aggregated(chance, &filter),
        7 => derived(chance, &filter),
        2 | 3 => ordered(chance, &filter),
        4 => {
            let output =
                chance.pick(&["VALUE c.a", "c.a", "VALUE c.o.p", "c.a, c.b", "VALUE [c.n]"]);
            Random { text: format!("SELECT DISTINCT {output} FROM c{filter}"), kind: Kind::Set }
        }
        _ => plain(chance, &filter),
    }
}

fn plain(chance: &mut Chance, filter: &str) -> Random {
    let output = chance.pick(&[
        "*",
        "VALUE c.a",
        "c.id, c.a",
        "VALUE {i: c.id, b: c.b}",
        "c.id, c.n + 1 AS m, c.a ?? c.b AS ab",
    ]);
    let counted = match chance.below(6) {
        0 => Some((format!("TOP {} ", chance.below(5)), String::new())),
        1 => {
            Some((String::new(), format!(" OFFSET {} LIMIT {}", chance.below(4), chance.below(6))))
        }
        _ => None,
    };
    let kind = if counted.is_some() { Kind::Count } else { Kind::Set };
    let (top, limit) = counted.unwrap_or_default();
    if chance.once_in(3) {
        let output = chance.pick(&["c.id, e", "VALUE e", "c.id, e.x, e.y"]);
        let text = format!("SELECT {top}{output} FROM c JOIN e IN c.l{filter}{limit}");
        return Random { text, kind };
    }
    Random { text: format!("SELECT {top}{output} FROM c{filter}{limit}"), kind }
}

/// Composite indexes: paths, and whether each descends.
pub const COMPOSITES: [[(&str, bool); 2]; 4] = [
    [("a", false), ("b", true)],
    [("b", true), ("n", false)],
    [("n", true), ("a", true)],
    [("n", true), ("id", true)],
];

/// Keys of `ORDER BY`, and the directions they have: one of any property, two, or those of a composite
/// index forwards or backwards.
fn order(chance: &mut Chance) -> Vec<(String, &'static str)> {
    if chance.once_in(3) {
        let (composite, backwards) =
            (COMPOSITES[chance.below(COMPOSITES.len())], chance.once_in(2));
        let direction = |descends| if descends == backwards { " ASC" } else { " DESC" };
        return composite.map(|(name, down)| (format!("c.{name}"), direction(down))).to_vec();
    }
    let paths = ["c.a", "c.b", "c.n", "c.o.p", "c.id"];
    let first = chance.below(paths.len());
    let mut keys = vec![paths[first]];
    if chance.once_in(3) {
        keys.push(paths[(first + 1 + chance.below(4)) % 5]);
    }
    let direction = |chance: &mut Chance| chance.pick(&["", " ASC", " DESC"]);
    keys.into_iter().map(|key| (key.to_owned(), direction(chance))).collect()
}

fn ordered(chance: &mut Chance, filter: &str) -> Random {
    let keys = order(chance);
    let columns: Vec<String> =
        keys.iter().enumerate().map(|(at, (key, _))| format!("{key} AS k{at}")).collect();
    let directions: Vec<String> =
        keys.iter().map(|(key, direction)| format!("{key}{direction}")).collect();
    let (top, limit) = match chance.below(4) {
        0 => (format!("TOP {} ", chance.below(9)), String::new()),
        1 => (String::new(), format!(" OFFSET {} LIMIT {}", chance.below(5), chance.below(9))),
        _ => (String::new(), String::new()),
    };
    let counted = !top.is_empty() || !limit.is_empty();
    let join = if chance.once_in(5) { " JOIN e IN c.l" } else { "" };
    let text = format!(
        "SELECT {top}{}, c.id FROM c{join}{filter} ORDER BY {}{limit}",
        columns.join(", "),
        directions.join(", ")
    );
    Random { text, kind: if counted { Kind::OrderedKeys } else { Kind::Ordered } }
}

fn aggregated(chance: &mut Chance, filter: &str) -> Random {
    let path = path(chance);
    if chance.once_in(4) {
        // What a composite index answers by itself.
        let filter = format!("c.a = {}", scalar(chance));
        let text = match chance.below(3) {
            0 => format!("SELECT VALUE COUNT(1) FROM c WHERE {filter} AND IS_DEFINED(c.b)"),
            1 => format!("SELECT MIN(c.b) AS lo, MAX(c.b) AS hi FROM c WHERE {filter}"),
            _ => format!("SELECT c.b AS k, COUNT(1) AS n FROM c WHERE {filter} GROUP BY c.b"),
        };
        return Random { text, kind: Kind::Set };
    }
    let text = match chance.below(6) {
        0 => format!("SELECT VALUE COUNT(1) FROM c{filter}"),
        1 => format!(
            "SELECT COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN({path}) AS lo, MAX({path}) AS hi FROM c{filter}"
        ),
        2 => format!("SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE {path} FROM c{filter})"),
        3 => format!("SELECT VALUE COUNTIF({path} = 1) FROM c{filter}"),
        _ => {
            let function = chance.pick(&["COUNT", "SUM", "AVG", "MIN", "MAX"]);
            format!("SELECT VALUE {function}({path}) FROM c{filter}")
        }
    };
    Random { text, kind: Kind::Set }
}

fn grouped(chance: &mut Chance, filter: &str) -> Random {
    let key = chance.pick(&["c.a", "c.n", "c.o.p", "c.o", "c.id"]);
    let filter = if chance.once_in(3) {
        &format!(" WHERE {key} {} {}", chance.pick(&["=", ">", "<="]), scalar(chance))
    } else {
        filter
    };
    let text = match chance.below(6) {
        4 | 5 => format!("SELECT {key} AS k, COUNT(1) AS n FROM c{filter} GROUP BY {key}"),
        0 => format!("SELECT {key} AS k FROM c{filter} GROUP BY {key}"),
        1 => format!("SELECT VALUE COUNT(c.b) FROM c{filter} GROUP BY {key}"),
        2 => format!(
            "SELECT {key} AS k, c.b AS b, COUNT(1) AS n, MAX(c.id) AS m FROM c{filter} GROUP BY {key}, c.b"
        ),
        _ => format!(
            "SELECT {key} AS k, COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.b) AS lo FROM c{filter} GROUP BY {key}"
        ),
    };
    Random { text, kind: Kind::Set }
}

/// Over the rows of another query, as far as there are plans for it.
fn derived(chance: &mut Chance, filter: &str) -> Random {
    let path = path(chance);
    let key = chance.pick(&["c.a", "c.n", "c.o", "c.id"]);
    let scalar = scalar(chance);
    let text = match chance.below(7) {
        6 => format!(
            "SELECT * FROM (SELECT {key} AS k, AVG({path}) AS m FROM c{filter} GROUP BY {key}) x"
        ),
        0 => format!(
            "SELECT VALUE x FROM (SELECT DISTINCT VALUE {path} FROM c{filter}) x WHERE x >= {scalar}"
        ),
        1 => format!(
            "SELECT * FROM (SELECT DISTINCT c.a, {path} AS p FROM c{filter}) x WHERE x.p = {scalar} OR x.a = 1"
        ),
        2 => format!(
            "SELECT COUNT(x) AS n FROM (SELECT DISTINCT VALUE {path} FROM c{filter}) x WHERE x != {scalar}"
        ),
        3 => format!(
            "SELECT VALUE COUNT(1) FROM (SELECT {key}, MAX({path}) AS m FROM c{filter} GROUP BY {key}, c.b) x"
        ),
        4 => format!(
            "SELECT MAX(x.n) AS hi, SUM(x.n) AS s, COUNT(1) AS g FROM \
             (SELECT COUNT({path}) AS n FROM c{filter} GROUP BY c.id, {key}) x"
        ),
        _ => format!(
            "SELECT x.a, COUNT(1) AS n FROM (SELECT DISTINCT c.id, c.a FROM c{filter}) x GROUP BY x.a"
        ),
    };
    Random { text, kind: Kind::Set }
}
