//! The reference of the language, made from the table of functions and the limits.

use std::fmt::Write;

use super::{FAMILIES, Function, Run};
use crate::limits;

const INTRODUCTION: &str = "\
<!-- Made from the table of functions: `BLESS=1 cargo test -p astrarium-query --test docs`. -->

# The query language

The language is that of Azure Cosmos DB for NoSQL: `SELECT` over the items of one container.

```
SELECT [DISTINCT] [TOP n] * | VALUE e | e [AS a], …
[FROM c | c.path | x IN c.path | (subquery)  [AS a]  [JOIN …] …]
[WHERE e]
[GROUP BY e, …]
[ORDER BY path [ASC|DESC], … | ORDER BY RANK score]
[OFFSET n LIMIT m]
```

- **Values** are `undefined`, `null`, booleans, numbers, strings, arrays and objects. What is missing is `undefined`: it is
  never stored, falls out of arrays and objects, and a row whose `VALUE` is undefined is no row.
- **Numbers** are doubles; integers of 64 bits are kept exact, and what a query passes through keeps its spelling.
- **`=`** compares deeply; values of different types are not equal. **`<`** and its kin compare numbers, strings, booleans
  and nulls, each with its own kind; anything else is undefined.
- **`AND`, `OR`, `NOT`** know three truths: true, false, and undefined for whatever is no boolean. `WHERE` keeps a row only
  where its condition is exactly true.
- **Order** across types: undefined, null, false, true, numbers, strings, arrays, objects. Strings compare by UTF-16 units.
- **Operators**, tightest first: `. [] ()`, unary `- + ~`, `* / %`, `+ -`, `||`, `<< >> >>>`, `&`, `^`, `|`,
  `< <= > >=`, `= != <>`, `IN BETWEEN LIKE`, `NOT`, `AND`, `OR`, `??`, `? :`.
- **Subqueries**: `(…)` is the one row, `EXISTS(…)` whether there is one, `ARRAY(…)` all of them. In `FROM` they are sources
  of rows. They have no `TOP`, `ORDER BY` and `OFFSET LIMIT`.
- **Aggregates** without `GROUP BY` give one row, even over nothing. Groups come in the order of their keys.
- **Pages** put together are the rows of one large page. Their continuations hold no state but a position.
";

/// The whole reference, in Markdown.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    out.push_str("\n## Functions\n\nAn argument that is undefined, or of another type than named, makes the answer undefined unless said\notherwise.\n");
    for (family, table) in FAMILIES {
        let _ = write!(
            out,
            "\n### {family}\n\n| function | what it is | example |\n| --- | --- | --- |\n"
        );
        for function in *table {
            line(&mut out, function);
        }
    }
    out.push_str("\n## Limits\n\n| what | at most |\n| --- | --- |\n");
    let limits: &[(&str, u64)] = &[
        ("bytes of text", limits::TEXT_BYTES as u64),
        ("levels of brackets and subqueries", limits::NESTING as u64),
        ("levels of operators", limits::TREE_HEIGHT as u64),
        ("`JOIN`s", limits::JOINS as u64),
        ("calls of user-defined functions", limits::UDF_CALLS as u64),
        ("`TOP`, `OFFSET`, `LIMIT`", limits::COUNT_MAX),
        ("bytes of a value that is built", limits::VALUE_BYTES as u64),
        (
            "bytes that `DISTINCT`, ranks and one page of groups or sorted rows hold",
            limits::MEMORY_BYTES as u64,
        ),
        ("steps for one row", limits::ROW_STEPS),
    ];
    for (what, most) in limits {
        let _ = writeln!(out, "| {what} | {most} |");
    }
    out
}

fn line(out: &mut String, function: &Function) {
    let optional = function.params.len() - function.optional;
    let mut arguments = String::new();
    for (at, param) in function.params.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let open = if at >= optional { "[" } else { "" };
        let _ = write!(arguments, "{open}{comma}{}", param.word());
    }
    if function.repeats {
        arguments.push_str(", …");
    }
    arguments.push_str(&"]".repeat(function.optional));
    let aliases = match function.aliases {
        [] => String::new(),
        aliases => format!(" Also {}.", aliases.join(", ")),
    };
    let example = match function.example {
        ("", _) => String::new(),
        (call, "") => format!("`{call}` is undefined"),
        (call, answer) => format!("`{call}` is `{answer}`"),
    };
    let rank = if matches!(function.run, Run::Rank) { " Only in `ORDER BY RANK`." } else { "" };
    let cell = |text: &str| text.replace('|', "\\|");
    let _ = writeln!(
        out,
        "| `{}({arguments})` | {}{rank}{aliases} | {} |",
        function.name,
        cell(function.doc),
        cell(&example)
    );
}
