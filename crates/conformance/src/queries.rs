//! Random items, and random queries over them.

use crate::random::Random;

/// What random items and queries are made of.
#[derive(Debug)]
pub struct Chance(Random);

const SCALARS: &[&str] = &[
    "0", "1", "2", "2.0", "-1.5", "10", "null", "true", "false", "\"a\"", "\"ab\"", "\"b\"",
    "\"\"", "\"Zé\"",
];
const PATHS: &[&str] =
    &["c.a", "c.b", "c.n", "c.o.p", "c.o.q.r", "c.l[0]", "c.missing", "c.o", "c.pk"];
const ORDERED: &[&str] = &["c.a", "c.b", "c.n", "c.o.p", "c.id"];

impl Chance {
    /// What belongs to a seed.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn scalar(&mut self) -> &'static str {
        self.pick(SCALARS)
    }

    fn path(&mut self) -> &'static str {
        self.pick(PATHS)
    }

    fn value(&mut self) -> String {
        match self.below(8) {
            0 => format!("[{},{}]", self.scalar(), self.scalar()),
            1 => format!("{{\"x\":{}}}", self.scalar()),
            _ => self.scalar().to_owned(),
        }
    }

    /// An item and its partition key; other members may be missing.
    pub fn item(&mut self, id: usize) -> (String, String) {
        let key = format!("k{}", self.below(9));
        let mut members = vec![format!("\"id\":\"{id}\""), format!("\"pk\":\"{key}\"")];
        for name in ["a", "b"] {
            if !self.once_in(5) {
                members.push(format!("\"{name}\":{}", self.value()));
            }
        }
        if !self.once_in(4) {
            members.push(format!("\"n\":{}", self.below(6)));
        }
        if !self.once_in(3) {
            let count = self.below(4);
            let list: Vec<String> = (0..count)
                .map(|_| match self.below(2) {
                    0 => self.scalar().to_owned(),
                    _ => format!("{{\"x\":{},\"y\":{}}}", self.scalar(), self.scalar()),
                })
                .collect();
            members.push(format!("\"l\":[{}]", list.join(",")));
        }
        if !self.once_in(3) {
            let (p, r) = (self.value(), self.scalar());
            members.push(format!("\"o\":{{\"p\":{p},\"q\":{{\"r\":{r}}}}}"));
        }
        (format!("{{{}}}", members.join(",")), key)
    }

    fn filter(&mut self, depth: usize) -> String {
        if depth > 0 && self.once_in(2) {
            let (left, right) = (self.filter(depth - 1), self.filter(depth - 1));
            return match self.below(5) {
                0 => format!("NOT ({left})"),
                1 | 2 => format!("({left} OR {right})"),
                _ => format!("({left} AND {right})"),
            };
        }
        let path = self.path();
        match self.below(13) {
            0..=2 => {
                let operator = self.pick(&["=", "!=", "<", "<=", ">", ">="]);
                format!("{path} {operator} {}", self.scalar())
            }
            3 => format!("{path} IN ({}, {}, [1])", self.scalar(), self.scalar()),
            4 => format!("{path} BETWEEN {} AND {}", self.scalar(), self.scalar()),
            5 => format!("{path} LIKE {}", self.pick(&["'a%'", "'%b'", "'a'", "'_'", "'%'"])),
            6 => {
                let check = self.pick(&["IS_DEFINED", "IS_NULL", "IS_NUMBER", "IS_STRING"]);
                format!("{check}({path})")
            }
            7 => format!("ARRAY_CONTAINS(c.l, {})", self.scalar()),
            8 => format!("EXISTS(SELECT VALUE e FROM e IN c.l WHERE e.x = {})", self.scalar()),
            9 => format!("c.pk = 'k{}'", self.below(10)),
            10 => {
                let operator = self.pick(&["=", "<", ">="]);
                format!("(c.a = {} AND c.b {operator} {})", self.scalar(), self.scalar())
            }
            11 => {
                let call = self.pick(&["CONTAINS", "ENDSWITH", "STARTSWITH", "STRINGEQUALS"]);
                let case = self.pick(&["", ", true"]);
                format!("{call}({path}, {}{case})", self.pick(&["'a'", "'B'", "''", "'zÉ'"]))
            }
            _ => format!("{path} = {}", self.scalar()),
        }
    }

    /// A query. What the server adds to items is in none of its rows: that differs.
    pub fn query(&mut self) -> String {
        let filter = match self.below(4) {
            0 => String::new(),
            depth => format!(" WHERE {}", self.filter(depth - 1)),
        };
        match self.below(8) {
            0 => self.grouped(&filter),
            1 => self.aggregated(&filter),
            7 => self.derived(&filter),
            2 | 3 => self.ordered(&filter),
            4 => {
                let output = self.pick(&["VALUE c.a", "c.a", "VALUE c.o.p", "c.a, c.b"]);
                format!("SELECT DISTINCT {output} FROM c{filter}")
            }
            _ => self.plain(&filter),
        }
    }

    fn counts(&mut self) -> (String, String) {
        match self.below(5) {
            0 => (format!("TOP {} ", self.below(9)), String::new()),
            1 => (String::new(), format!(" OFFSET {} LIMIT {}", self.below(5), self.below(9))),
            _ => (String::new(), String::new()),
        }
    }

    fn plain(&mut self, filter: &str) -> String {
        let output = self.pick(&[
            "VALUE c.a",
            "c.id, c.a",
            "VALUE {i: c.id, b: c.b}",
            "c.id, c.n + 1 AS m, c.a ?? c.b AS ab",
        ]);
        let (top, limit) = self.counts();
        if self.once_in(3) {
            return format!("SELECT {top}c.id, e FROM c JOIN e IN c.l{filter}{limit}");
        }
        format!("SELECT {top}{output} FROM c{filter}{limit}")
    }

    fn ordered(&mut self, filter: &str) -> String {
        let (top, limit) = self.counts();
        let order = match self.below(4) {
            0 => self.pick(&["c.a, c.b DESC", "c.a DESC, c.b", "c.n, c.id"]).to_owned(),
            _ => format!("{}{}", self.pick(ORDERED), self.pick(&["", " ASC", " DESC"])),
        };
        format!("SELECT {top}c.id, c.a, c.b FROM c{filter} ORDER BY {order}{limit}")
    }

    fn aggregated(&mut self, filter: &str) -> String {
        let path = self.path();
        match self.below(6) {
            0 => format!("SELECT VALUE COUNT(1) FROM c{filter}"),
            1 => format!(
                "SELECT COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN({path}) AS lo, \
                 MAX({path}) AS hi FROM c{filter}"
            ),
            2 => format!("SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE {path} FROM c{filter})"),
            3 => format!("SELECT VALUE COUNTIF({path} = 1) FROM c{filter}"),
            4 => format!(
                "SELECT MIN(c.b) AS lo, MAX(c.b) AS hi FROM c WHERE c.a = {}",
                self.scalar()
            ),
            _ => {
                let function = self.pick(&["COUNT", "SUM", "AVG", "MIN", "MAX"]);
                format!("SELECT VALUE {function}({path}) FROM c{filter}")
            }
        }
    }

    fn grouped(&mut self, filter: &str) -> String {
        let key = self.pick(&["c.a", "c.n", "c.o.p", "c.o", "c.id", "c.pk"]);
        match self.below(5) {
            0 => format!("SELECT {key} AS k FROM c{filter} GROUP BY {key}"),
            1 => format!("SELECT VALUE COUNT(c.b) FROM c{filter} GROUP BY {key}"),
            2 => format!(
                "SELECT {key} AS k, c.b AS b, COUNT(1) AS n, MAX(c.id) AS m FROM c{filter} \
                 GROUP BY {key}, c.b"
            ),
            3 => format!(
                "SELECT {key} AS k, COUNT(1) AS n FROM c WHERE c.a = {} GROUP BY {key}",
                self.scalar()
            ),
            _ => format!(
                "SELECT {key} AS k, COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.b) AS lo \
                 FROM c{filter} GROUP BY {key}"
            ),
        }
    }

    /// Over the rows of another query, as far as there are plans for it.
    fn derived(&mut self, filter: &str) -> String {
        let (path, scalar) = (self.path(), self.scalar());
        let key = self.pick(&["c.a", "c.n", "c.o", "c.id"]);
        match self.below(7) {
            0 => format!(
                "SELECT VALUE x FROM (SELECT DISTINCT VALUE {path} FROM c{filter}) x WHERE x >= {scalar}"
            ),
            1 => format!(
                "SELECT * FROM (SELECT DISTINCT c.a, {path} AS p FROM c{filter}) x WHERE x.p != {scalar}"
            ),
            2 => format!(
                "SELECT COUNT(x) AS n FROM (SELECT DISTINCT VALUE {path} FROM c{filter}) x \
                 WHERE x != {scalar}"
            ),
            3 => format!(
                "SELECT VALUE COUNT(1) FROM (SELECT {key}, MAX({path}) AS m FROM c{filter} \
                 GROUP BY {key}, c.b) x"
            ),
            4 => format!(
                "SELECT * FROM (SELECT {key} AS k, AVG({path}) AS m FROM c{filter} GROUP BY {key}) x"
            ),
            // One partition has all of a row, so it may do with it whatever it likes.
            5 => format!(
                "SELECT MAX(x.n) AS hi, SUM(x.n) AS s, COUNT(1) AS g FROM \
                 (SELECT COUNT({path}) AS n FROM c{filter} GROUP BY c.pk, {key}) x"
            ),
            _ => format!(
                "SELECT x.a, COUNT(1) AS n FROM (SELECT DISTINCT c.pk, c.a FROM c{filter}) x GROUP BY x.a"
            ),
        }
    }
}
