//! A client that fans out: asks for the plan of a query, sends what the plan says to every range, and
//! puts the answers together as the official SDKs that fan out do.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::http::Response;
use crate::json::{Json, quoted};
use crate::order::{as_set, canonical, compare, is_ordered, number};

/// How the driver reaches the server: headers and body of a POST to the items of a container.
pub type Ask<'a> = &'a mut dyn FnMut(&[(&str, &str)], &str) -> Result<Response, String>;

/// What clients of this kind say they can do.
const FEATURES: &str = "Aggregate,CompositeAggregate,CountIf,DCount,Distinct,GroupBy,HybridSearch,\
                        ListAndSetAggregate,MultipleAggregates,MultipleOrderBy,NonStreamingOrderBy,\
                        NonValueAggregate,OffsetAndLimit,OrderBy,Top,WeightedRankFusion";
const PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";
/// Pages of one range; a server that gives more is going round in circles.
const PAGES_MAX: usize = 10_000;

/// The answer to a query.
#[derive(Debug)]
pub enum Answer {
    /// Its rows, and how far they are determined.
    Rows(Vec<Json>, Certainty),
    /// No plan, for this reason.
    NoPlan(String),
}

/// What of the rows of a query is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The rows and their order.
    Order,
    /// Which rows there are.
    Set,
    /// How many there are: any that fit, or any of those that stand equal.
    Count,
}

impl Certainty {
    /// Why two answers differ; nothing where they are the same as far as they must be.
    pub fn difference(self, one: &[Json], other: &[Json]) -> Option<String> {
        let list = |rows: &[Json]| rows.iter().map(canonical).collect::<Vec<_>>();
        let same = match self {
            Self::Order => list(one) == list(other),
            Self::Set => as_set(one) == as_set(other),
            Self::Count => one.len() == other.len(),
        };
        let show =
            |rows: &[Json]| rows.iter().map(Json::to_string).collect::<Vec<_>>().join("\n      ");
        (!same).then(|| format!("({self:?})\n      {}\n    but\n      {}", show(one), show(other)))
    }
}

/// The rows of a query over ranges, in pages of so many rows. Parameters are a JSON array.
pub fn rows(
    ask: Ask<'_>,
    ranges: &[String],
    text: &str,
    parameters: &str,
    per_page: usize,
) -> Result<Answer, String> {
    let body = |text: &str| format!(r#"{{"query":{},"parameters":{parameters}}}"#, quoted(text));
    let headers = [
        ("content-type", "application/query+json"),
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-cosmos-supported-query-features", FEATURES),
        ("x-ms-cosmos-query-version", "1.4"),
    ];
    let response = ask(&headers, &body(text))?;
    if response.status != 200 {
        return Ok(Answer::NoPlan(response.text()));
    }
    let plan = Json::parse(&response.text())?;
    if let Some(hybrid @ Json::Object(_)) = plan.get("hybridSearchQueryInfo") {
        return crate::hybrid::rows(ask, ranges, hybrid, (parameters, per_page));
    }
    let info = plan.get("queryInfo").ok_or("a plan without queryInfo")?;
    let text = match info.get("rewrittenQuery").and_then(Json::text).unwrap_or("") {
        "" => text.to_owned(),
        rewritten => rewritten.replace(PLACEHOLDER, "true"),
    };
    let mut parts = Vec::new();
    for range in ranges {
        parts.push(range_rows(ask, range, &body(&text), per_page)?);
    }
    let (rows, certainty) = combined(info, parts)?;
    Ok(counted(info, distinct(info, rows), certainty))
}

/// The ids of the ranges that an answer lists.
pub fn range_ids(body: &str) -> Result<Vec<String>, String> {
    let body = Json::parse(body)?;
    let list = body.get("PartitionKeyRanges").and_then(Json::items).ok_or("no ranges")?;
    let id = |range: &Json| range.get("id").and_then(Json::text).map(str::to_owned);
    list.iter().map(id).collect::<Option<_>>().ok_or_else(|| "a range without id".to_owned())
}

/// All pages of one range.
pub(crate) fn range_rows(
    ask: Ask<'_>,
    range: &str,
    body: &str,
    per_page: usize,
) -> Result<Vec<Json>, String> {
    let per_page = per_page.to_string();
    all_pages(ask, &[("x-ms-documentdb-partitionkeyrangeid", range)], body, &per_page)
}

/// The rows of all pages of one query.
pub fn all_pages(
    ask: Ask<'_>,
    scope: &[(&str, &str)],
    body: &str,
    per_page: &str,
) -> Result<Vec<Json>, String> {
    let mut rows = Vec::new();
    let mut continuation: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let mut headers = vec![
            ("content-type", "application/query+json"),
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
            ("x-ms-max-item-count", per_page),
        ];
        headers.extend_from_slice(scope);
        if let Some(continuation) = &continuation {
            headers.push(("x-ms-continuation", continuation));
        }
        let response = ask(&headers, body)?;
        if response.status != 200 {
            return Err(format!("{} for {body}: {}", response.status, response.text()));
        }
        let page = Json::parse(&response.text())?;
        let found = page.get("Documents").and_then(Json::items).ok_or("no Documents")?;
        rows.extend_from_slice(found);
        match response.header("x-ms-continuation") {
            Some(next) => continuation = Some(next.to_owned()),
            None => return Ok(rows),
        }
    }
    Err(format!("more than {PAGES_MAX} pages for {body}"))
}

fn combined(info: &Json, parts: Vec<Vec<Json>>) -> Result<(Vec<Json>, Certainty), String> {
    if !strings(info, "orderBy").is_empty() {
        return Ok(merged(info, parts));
    }
    let all: Vec<Json> = parts.into_iter().flatten().collect();
    let aggregates = strings(info, "aggregates");
    let aliases = match info.get("groupByAliasToAggregateType") {
        Some(Json::Object(aliases)) => aliases.clone(),
        _ => Vec::new(),
    };
    let rows = if !strings(info, "groupByExpressions").is_empty() {
        grouped(&aggregates, &aliases, all)?
    } else if let [aggregate] = &aggregates[..] {
        let parts: Vec<Option<Json>> = all.iter().map(|row| row.pointer("/0").cloned()).collect();
        total(aggregate, &parts)?.into_iter().collect()
    } else if !aliases.is_empty() {
        let payloads: Vec<Json> =
            all.iter().filter_map(|row| row.get("payload").cloned()).collect();
        vec![columns(&aliases, &payloads)?]
    } else {
        all
    };
    Ok((rows, Certainty::Set))
}

fn strings(info: &Json, name: &str) -> Vec<String> {
    let list = info.get(name).and_then(Json::items).unwrap_or_default();
    list.iter().filter_map(Json::text).map(str::to_owned).collect()
}

/// Rows of all ranges by their keys. Their order is certain where no two stand equal.
fn merged(info: &Json, parts: Vec<Vec<Json>>) -> (Vec<Json>, Certainty) {
    let descending: Vec<bool> =
        strings(info, "orderBy").iter().map(|word| word == "Descending").collect();
    let mut all: Vec<Json> = parts.into_iter().flatten().collect();
    let key = |row: &Json, at: usize| row.pointer(&format!("/orderByItems/{at}/item")).cloned();
    let by_keys = |a: &Json, b: &Json| {
        for (at, descending) in descending.iter().enumerate() {
            let order = compare(key(a, at).as_ref(), key(b, at).as_ref());
            if order != Ordering::Equal {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    };
    all.sort_by(by_keys);
    let ordered = |row: &Json| (0..descending.len()).all(|at| is_ordered(key(row, at).as_ref()));
    let ties = all.windows(2).any(|pair| by_keys(&pair[0], &pair[1]).is_eq());
    let certain = !ties && all.iter().all(ordered);
    let certainty = if certain { Certainty::Order } else { Certainty::Set };
    (all.iter().filter_map(|row| row.get("payload").cloned()).collect(), certainty)
}

fn grouped(
    aggregates: &[String],
    aliases: &[(String, Json)],
    all: Vec<Json>,
) -> Result<Vec<Json>, String> {
    let mut groups: BTreeMap<String, Vec<Option<Json>>> = BTreeMap::new();
    for row in all {
        let keys = row.get("groupByItems").ok_or("a group without its keys")?;
        groups.entry(canonical(keys)).or_default().push(row.get("payload").cloned());
    }
    let mut rows = Vec::new();
    for payloads in groups.into_values() {
        if let [aggregate] = aggregates {
            let part = |payload: &Option<Json>| payload.as_ref()?.pointer("/0").cloned();
            rows.extend(total(aggregate, &payloads.iter().map(part).collect::<Vec<_>>())?);
        } else if aliases.is_empty() {
            rows.extend(payloads.into_iter().next().flatten());
        } else {
            let payloads: Vec<Json> = payloads.into_iter().flatten().collect();
            rows.push(columns(aliases, &payloads)?);
        }
    }
    Ok(rows)
}

fn columns(aliases: &[(String, Json)], payloads: &[Json]) -> Result<Json, String> {
    let mut row = Vec::new();
    for (alias, aggregate) in aliases {
        let value = match aggregate.text() {
            None => payloads.first().and_then(|payload| payload.get(alias)).cloned(),
            Some(aggregate) => {
                let parts: Vec<Option<Json>> =
                    payloads.iter().map(|payload| payload.get(alias).cloned()).collect();
                total(aggregate, &parts)?
            }
        };
        row.extend(value.map(|value| (alias.clone(), value)));
    }
    Ok(Json::Object(row))
}

/// The aggregate of what ranges told of it; none where it is undefined.
fn total(aggregate: &str, parts: &[Option<Json>]) -> Result<Option<Json>, String> {
    let at = |pointer: &str| -> Vec<Option<Json>> {
        parts.iter().map(|part| part.as_ref()?.pointer(pointer).cloned()).collect()
    };
    Ok(match aggregate {
        "Count" | "CountIf" | "Sum" => sum(&at("/item")).map(spelled),
        "Average" => {
            let (sums, counts) = (sum(&at("/item/sum")), sum(&at("/item/count")));
            match (sums, counts) {
                (Some(sums), Some(counts)) if counts > 0.0 => Some(spelled(sums / counts)),
                _ => None,
            }
        }
        "Min" => extreme(&at("/item2"), "min", Ordering::Less),
        "Max" => extreme(&at("/item2"), "max", Ordering::Greater),
        "MakeList" => Some(Json::Array(elements(&at("/item")))),
        "MakeSet" => {
            let mut seen = std::collections::HashSet::new();
            let mut all = elements(&at("/item"));
            all.retain(|element| seen.insert(canonical(element)));
            Some(Json::Array(all))
        }
        other => return Err(format!("this driver does not merge {other}")),
    })
}

/// The elements of all lists.
fn elements(lists: &[Option<Json>]) -> Vec<Json> {
    let elements = |list: &Option<Json>| list.as_ref()?.items().map(<[Json]>::to_vec);
    lists.iter().filter_map(elements).flatten().collect()
}

fn sum(values: &[Option<Json>]) -> Option<f64> {
    values
        .iter()
        .map(|value| match value {
            Some(Json::Number(spelled)) => Some(number(spelled)),
            _ => None,
        })
        .sum()
}

fn spelled(value: f64) -> Json {
    Json::Number(value.to_string())
}

fn extreme(parts: &[Option<Json>], name: &str, better: Ordering) -> Option<Json> {
    let mut best: Option<Json> = None;
    for part in parts.iter().flatten() {
        if matches!(part.get("count"), Some(Json::Number(count)) if number(count) == 0.0) {
            continue;
        }
        let value = part.get(name)?;
        if best.as_ref().is_none_or(|best| compare(Some(value), Some(best)) == better) {
            best = Some(value.clone());
        }
    }
    best
}

fn distinct(info: &Json, mut rows: Vec<Json>) -> Vec<Json> {
    if info.get("distinctType").and_then(Json::text).is_some_and(|kind| kind != "None") {
        let mut seen = std::collections::HashSet::new();
        rows.retain(|row| seen.insert(canonical(row)));
    }
    let count = Json::Number(rows.len().to_string());
    match info.pointer("/dCountInfo/dCountAlias").and_then(Json::text) {
        Some("") => vec![count],
        Some(alias) => vec![Json::Object(vec![(alias.to_owned(), count)])],
        None => rows,
    }
}

fn counted(info: &Json, rows: Vec<Json>, certainty: Certainty) -> Answer {
    let count = |name: &str| match info.get(name) {
        Some(Json::Number(count)) => count.parse::<usize>().ok(),
        _ => None,
    };
    let skip = count("offset").unwrap_or(0);
    let take = count("limit").into_iter().chain(count("top")).min();
    let cut = skip > 0 || take.is_some_and(|take| take < rows.len());
    // Which of several that stand equal are left out, nobody says.
    let certainty = match certainty {
        Certainty::Set if cut => Certainty::Count,
        other => other,
    };
    Answer::Rows(rows.into_iter().skip(skip).take(take.unwrap_or(usize::MAX)).collect(), certainty)
}
