//! A client that fans out: asks for a plan, sends the rewritten query to every partition, and puts
//! the answers together as the official ones do.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use model::partition_key::Definition;
use query::Statement;
use query::value::{Value, compare, identity_into};
use query::world::Settings;
use serde_json::{Map, Value as Tree, json};

use super::memory::Memory;

/// The rows of a query over partitions, in pages of so many rows.
pub fn rows(text: &str, partitions: &[Memory], per_page: usize) -> model::Result<Vec<Tree>> {
    let key = Definition::from_json(&json!({ "paths": ["/id"], "kind": "Hash", "version": 2 }), 2)?;
    let plan = Statement::new(text, &[], &Settings::default())?.fan_out(&key)?.to_json();
    let info = &plan["queryInfo"];
    let rewritten = match info["rewrittenQuery"].as_str().unwrap_or("") {
        "" => text.to_owned(),
        rewritten => rewritten.replace("{documentdb-formattableorderbyquery-filter}", "true"),
    };
    let statement = Statement::new(&rewritten, &[], &Settings::default())?;
    let mut parts = Vec::new();
    for partition in partitions {
        let rows = super::rows(&statement, partition, per_page)?;
        parts.push(rows.iter().map(|row| serde_json::from_str(row).expect(row)).collect());
    }
    let rows = combined(info, parts);
    Ok(counted(info, distinct(info, rows)))
}

fn combined(info: &Tree, parts: Vec<Vec<Tree>>) -> Vec<Tree> {
    let aggregates = strings(&info["aggregates"]);
    let aliases = info["groupByAliasToAggregateType"].as_object().cloned().unwrap_or_default();
    if !info["orderBy"].as_array().expect("order").is_empty() {
        return merged(info, parts);
    }
    let all: Vec<Tree> = parts.into_iter().flatten().collect();
    let group_by = !strings(&info["groupByExpressions"]).is_empty();
    if group_by {
        return grouped(&aggregates, &aliases, all);
    }
    if let [aggregate] = &aggregates[..] {
        let parts: Vec<Tree> = all.into_iter().map(|row| row[0].clone()).collect();
        return total(aggregate, &parts).into_iter().collect();
    }
    if !aliases.is_empty() {
        let payloads: Vec<Tree> = all.into_iter().map(|row| row["payload"].clone()).collect();
        return vec![columns(&aliases, &payloads)];
    }
    all
}

fn strings(tree: &Tree) -> Vec<String> {
    let list = tree.as_array().expect("a list");
    list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// Rows of all partitions by their keys; of equal ones those of the first partition first.
fn merged(info: &Tree, parts: Vec<Vec<Tree>>) -> Vec<Tree> {
    let descending: Vec<bool> =
        strings(&info["orderBy"]).iter().map(|word| word == "Descending").collect();
    let mut all: Vec<Tree> = parts.into_iter().flatten().collect();
    let key = |row: &Tree, at: usize| match row["orderByItems"][at].get("item") {
        Some(item) => Value::from_tree(item),
        None => Value::Undefined,
    };
    all.sort_by(|a, b| {
        for (at, descending) in descending.iter().enumerate() {
            let order = compare(&key(a, at), &key(b, at));
            let order = if *descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    });
    all.into_iter().map(|row| row["payload"].clone()).collect()
}

fn grouped(aggregates: &[String], aliases: &Map<String, Tree>, all: Vec<Tree>) -> Vec<Tree> {
    let mut groups: BTreeMap<Vec<u8>, Vec<Tree>> = BTreeMap::new();
    for row in all {
        let mut identity = Vec::new();
        identity_into(&Value::from_tree(&row["groupByItems"]), &mut identity);
        let payload = row.get("payload").cloned().unwrap_or(Tree::Null);
        groups.entry(identity).or_default().push(payload);
    }
    let row = |payloads: Vec<Tree>| match aggregates {
        [aggregate] => {
            let parts: Vec<Tree> = payloads.iter().map(|payload| payload[0].clone()).collect();
            total(aggregate, &parts)
        }
        _ => Some(columns(aliases, &payloads)),
    };
    groups.into_values().filter_map(row).collect()
}

fn columns(aliases: &Map<String, Tree>, payloads: &[Tree]) -> Tree {
    let mut row = Map::new();
    for (alias, aggregate) in aliases {
        let value = match aggregate.as_str() {
            None => payloads[0].get(alias).cloned(),
            Some(aggregate) => {
                let parts: Vec<Tree> =
                    payloads.iter().map(|p| p.get(alias).cloned().unwrap_or(json!({}))).collect();
                total(aggregate, &parts)
            }
        };
        if let Some(value) = value {
            row.insert(alias.clone(), value);
        }
    }
    Tree::Object(row)
}

/// The aggregate of what partitions told of it; none where it is undefined.
fn total(aggregate: &str, parts: &[Tree]) -> Option<Tree> {
    let items = || parts.iter().map(|part| part.get("item"));
    let sum = |values: Vec<Option<f64>>| values.into_iter().sum::<Option<f64>>();
    match aggregate {
        "Count" | "CountIf" | "Sum" => {
            sum(items().map(|item| item.and_then(Tree::as_f64)).collect()).map(number)
        }
        "Average" => {
            let counts = items().map(|item| item?["count"].as_f64()).sum::<Option<f64>>()?;
            let sums = items().map(|item| item?["sum"].as_f64()).sum::<Option<f64>>()?;
            (counts > 0.0).then(|| number(sums / counts))
        }
        "Min" | "Max" => {
            let name = aggregate.to_lowercase();
            let mut best: Option<Tree> = None;
            for part in parts {
                let part = &part["item2"];
                if part["count"] == json!(0) {
                    continue;
                }
                let value = part.get(&name)?.clone();
                let better = best.as_ref().is_none_or(|best| {
                    let order = compare(&Value::from_tree(&value), &Value::from_tree(best));
                    if name == "min" { order.is_lt() } else { order.is_gt() }
                });
                if better {
                    best = Some(value);
                }
            }
            best
        }
        other => panic!("no merge of {other}"),
    }
}

fn number(value: f64) -> Tree {
    serde_json::from_str(&Value::number(value).to_json()).expect("a number")
}

fn distinct(info: &Tree, mut rows: Vec<Tree>) -> Vec<Tree> {
    if info["distinctType"] != "None" {
        let mut seen = std::collections::HashSet::new();
        rows.retain(|row| {
            let mut identity = Vec::new();
            identity_into(&Value::from_tree(row), &mut identity);
            seen.insert(identity)
        });
    }
    match info["dCountInfo"]["dCountAlias"].as_str() {
        Some("") => vec![json!(rows.len())],
        Some(alias) => vec![json!({ alias: rows.len() })],
        None => rows,
    }
}

fn counted(info: &Tree, rows: Vec<Tree>) -> Vec<Tree> {
    let count = |name: &str| info[name].as_u64().map(|count| count as usize);
    let skip = count("offset").unwrap_or(0);
    let take = count("limit").into_iter().chain(count("top")).min().unwrap_or(usize::MAX);
    rows.into_iter().skip(skip).take(take).collect()
}
