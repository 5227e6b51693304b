//! Plans for clients that fan out: what to send to each partition, and how to put the answers
//! together.
//!
//! Such a client asks for the plan of a query, sends the rewritten query to every partition in the
//! ranges, and merges by order, aggregates, groups, different values and counts. Answers here need
//! none of it: a source over several partitions gives the rows of the whole.

use model::Result;
use model::epk::EpkRange;
use model::partition_key::Definition;
use serde_json::{Map, Value, json};

use crate::ast::{Expr, Output, Query};
use crate::bind::{aggregate_of, has_aggregate, names_of};
use crate::error::unserved;
use crate::statement::Statement;

mod derived;
mod features;
mod hybrid;
mod ranges;
mod rewrite;

use rewrite::Rewrite;

/// What a client does with a query.
#[derive(Debug, Clone, PartialEq)]
pub struct FanOut {
    /// How rows are put together; none for a hybrid search.
    pub info: Info,
    /// Where the rows are.
    pub ranges: Vec<EpkRange>,
    /// The parts of a search that fuses several ranks.
    pub hybrid: Option<hybrid::Hybrid>,
}

/// How the rows of partitions are put together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// `None`, `Ordered` or `Unordered`.
    pub distinct: &'static str,
    /// `TOP`
    pub top: Option<u64>,
    /// `OFFSET` and `LIMIT`
    pub offset_limit: Option<(u64, u64)>,
    /// Whether each key of `ORDER BY` descends.
    pub order_by: Vec<bool>,
    /// The keys as texts.
    pub order_by_expressions: Vec<String>,
    /// The keys of `GROUP BY` as texts.
    pub group_by_expressions: Vec<String>,
    /// The columns, where rows are grouped or aggregated.
    pub aliases: Vec<(String, Option<&'static str>)>,
    /// The aggregate of a query that is one.
    pub aggregates: Vec<&'static str>,
    /// What to send; empty for the query as it is.
    pub rewritten: String,
    /// Whether rows are values and not lists of columns.
    pub has_select_value: bool,
    /// The column of a count of different values.
    pub distinct_count: Option<String>,
    /// Whether the rows of a partition are in order only once all are there.
    pub non_streaming: bool,
}

impl Statement {
    /// Where the rows can be, by what the filter says of the partition key: in order, apart.
    pub fn key_ranges(&self, key: &Definition) -> Vec<EpkRange> {
        match &self.derived {
            Some(derived) => derived.inner.key_ranges(key),
            None => ranges::of(self, key),
        }
    }

    /// The plan of the query for a client that fans out over a container.
    pub fn fan_out(&self, key: &Definition) -> Result<FanOut> {
        let ranges = self.key_ranges(key);
        if let Some(rank) = &self.bound.order.rank {
            let hybrid = hybrid::of(self, rank)?;
            let info = Info { distinct: "None", ..Info::default() };
            return Ok(FanOut { info, ranges, hybrid: Some(hybrid) });
        }
        let info = match &self.derived {
            Some(derived) => derived::info_of(self, &derived.inner, key)?,
            None => info(self)?,
        };
        Ok(FanOut { info, ranges, hybrid: None })
    }
}

fn info(statement: &Statement) -> Result<Info> {
    let query = &statement.query;
    let bound = &statement.bound;
    let mut info = Info {
        distinct: if query.distinct.is_some() { "Unordered" } else { "None" },
        top: bound.top,
        offset_limit: bound.offset_limit,
        has_select_value: matches!(query.output, Output::Value(_)),
        ..Info::default()
    };
    let mut rewrite = Rewrite::of(statement);
    if !query.group_by.is_empty() || has_aggregate(&query.output) {
        // Clients drop rows that are the same before they put groups together.
        if query.distinct.is_some() && !rows_tell_groups(query) {
            return Err(unserved(
                "DISTINCT with GROUP BY is planned for several partitions only where all keys are \
                 selected.",
            ));
        }
        info.distinct = "None";
        grouped(query, &mut info, &mut rewrite)?;
    } else if let Some(order) = &query.order_by {
        info.order_by = bound.order.keys.iter().map(|key| key.descending).collect();
        info.order_by_expressions = order.keys.iter().map(|key| key.expr.to_string()).collect();
        info.non_streaming = bound.order.keys.iter().any(|key| key.path.is_none());
        if query.distinct.is_some() && is_ordered_distinct(query) {
            info.distinct = "Ordered";
        }
        rewrite.order(query);
    }
    info.rewritten = rewrite.finish(bound.offset_limit);
    Ok(info)
}

/// Whether rows that are the same follow each other.
fn is_ordered_distinct(query: &Query) -> bool {
    let keys = query.order_by.iter().flat_map(|order| &order.keys).map(|key| &key.expr);
    match &query.output {
        Output::Star(_) => false,
        Output::Value(expr) => keys.eq([&**expr]),
        Output::List(items) => keys.eq(items.iter().map(|item| &item.expr)),
    }
}

/// Whether no two groups give the same row.
fn rows_tell_groups(query: &Query) -> bool {
    let shown = |key: &Expr| match &query.output {
        Output::Star(_) => false,
        Output::Value(expr) => **expr == *key,
        Output::List(items) => items.iter().any(|item| item.expr == *key),
    };
    query.group_by.iter().all(shown)
}

fn grouped(query: &Query, info: &mut Info, rewrite: &mut Rewrite) -> Result<()> {
    info.group_by_expressions = query.group_by.iter().map(Expr::to_string).collect();
    let payload = match &query.output {
        Output::Star(_) => return Err(composition()),
        Output::Value(expr) => {
            let aggregate = aggregate_of(expr);
            info.aggregates = aggregate.iter().map(|aggregate| aggregate.plan_name()).collect();
            if aggregate.is_none() && crate::bind::aggregate_in(expr).is_some() {
                return Err(composition());
            }
            rewrite::value_payload(expr)
        }
        Output::List(items) => {
            for (name, item) in names_of(items).into_iter().zip(items) {
                let aggregate = aggregate_of(&item.expr);
                if aggregate.is_none() && crate::bind::aggregate_in(&item.expr).is_some() {
                    return Err(composition());
                }
                info.aliases.push((name, aggregate.map(|aggregate| aggregate.plan_name())));
            }
            rewrite::list_payload(items)
        }
    };
    rewrite.group(query, payload);
    Ok(())
}

fn composition() -> model::Error {
    unserved("Compositions of aggregates and other expressions are not allowed.")
}

impl FanOut {
    /// Refuses a client that cannot do what the plan asks of it. What it can do is a list of words
    /// between commas, as such clients send it.
    pub fn check_client(&self, features: &str) -> Result<()> {
        features::check(self, features)
    }

    /// The plan as clients read it.
    pub fn to_json(&self) -> Value {
        let range = |range: &EpkRange| {
            json!({
                "min": range.min.to_hex(),
                "max": range.max.to_hex(),
                "isMinInclusive": true,
                "isMaxInclusive": false,
            })
        };
        let ranges: Vec<Value> = self.ranges.iter().map(range).collect();
        json!({
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": self.info.to_json(),
            "queryRanges": ranges,
            "hybridSearchQueryInfo": self.hybrid.as_ref().map(hybrid::Hybrid::to_json),
        })
    }
}

impl Info {
    /// The information as clients read it.
    pub fn to_json(&self) -> Value {
        let direction = |descending: &bool| if *descending { "Descending" } else { "Ascending" };
        let order_by: Vec<&str> = self.order_by.iter().map(direction).collect();
        let aliases: Vec<&String> = self.aliases.iter().map(|(name, _)| name).collect();
        let types: Map<String, Value> =
            self.aliases.iter().map(|(name, aggregate)| (name.clone(), json!(aggregate))).collect();
        json!({
            "distinctType": self.distinct,
            "top": self.top,
            "offset": self.offset_limit.map(|(offset, _)| offset),
            "limit": self.offset_limit.map(|(_, limit)| limit),
            "orderBy": order_by,
            "orderByExpressions": self.order_by_expressions,
            "groupByExpressions": self.group_by_expressions,
            "groupByAliases": aliases,
            "aggregates": self.aggregates,
            "groupByAliasToAggregateType": types,
            "rewrittenQuery": self.rewritten,
            "hasSelectValue": self.has_select_value,
            "dCountInfo": self.distinct_count.as_ref().map(|alias| json!({ "dCountAlias": alias })),
            "hasNonStreamingOrderBy": self.non_streaming,
        })
    }
}

/// Whether a query asks for rows that only all partitions together can give: those which clients
/// that do not fan out must have from the server.
pub fn is_cross(query: &Query) -> bool {
    query.order_by.is_some()
        || query.distinct.is_some()
        || query.top.is_some()
        || query.offset_limit.is_some()
        || !query.group_by.is_empty()
        || has_aggregate(&query.output)
}
