//! Queries over the items of a container: one page from one snapshot.

use std::ops::Bound;

use bytes::Bytes;
use model::policy::ContainerDefinition;
use model::token::{Continuation, Session};
use model::{Result, charge, epk, limits};
use query::source::{Composite, IndexPath, Scan};
use query::world::{Settings, VectorSetting, World};
use query::{Statement, Want};
use serde_json::Value;

use crate::api::{Answer, Page, Query, QueryMetrics, QueryPage, Scope, UsedIndex};
use crate::functions::Around;
use crate::source::Snapshot;
use crate::{Container, Env};

/// Marks the continuations made here.
const CONTINUATION_KIND: u8 = b'q';

impl Container {
    /// The next page of a query's answer.
    pub async fn query_items(
        &self,
        query: &Query<'_>,
        page: &Page,
        session: Option<&Session>,
    ) -> Result<Answer<QueryPage>> {
        self.check_alive()?;
        let spans = self.spans_of(query.scope)?;
        let partition = spans
            .first()
            .map_or_else(|| self.partitions()[0].clone(), |span| span.partition.clone());
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let lsn = partition.lsn();
        let result = self.query_page(query, page, session).await;
        let charge = match &result {
            Ok(page) => {
                let metrics = &page.metrics;
                charge::query(metrics.documents, metrics.document_bytes, metrics.entries)
            }
            Err(_) => charge::refused(),
        };
        let at = partition.at(lsn, None);
        Ok(self.charged(Answer { at, charge, retry_after_ms: None, result }))
    }

    async fn query_page(
        &self,
        query: &Query<'_>,
        page: &Page,
        session: Option<&Session>,
    ) -> Result<QueryPage> {
        let began_ms = self.env.now_ms();
        let statement = self.statement(query.text, query.parameters)?;
        let resume = match &page.continuation {
            Some(text) => {
                let scope = self.query_scope(query);
                Some(Continuation::decode(text, CONTINUATION_KIND, scope)?.position)
            }
            None => None,
        };
        let ranges = statement.key_ranges(&self.definition().partition_key);
        let snapshot = Snapshot::take(self, query.scope, &ranges, session).await?;
        let unasked =
            if statement.starts_over() { limits::PAGE_ITEMS } else { limits::PAGE_ITEMS_DEFAULT };
        let rows = page.items.unwrap_or(unasked).min(limits::PAGE_ITEMS);
        let around = Around::new(&self.env, query.functions.as_ref());
        let want = Want { rows, bytes: limits::PAGE_BYTES };
        let found = statement.page(&snapshot, &around, want, resume.as_deref()).await?;
        let continuation = found.resume.map(|position| {
            let scope = self.query_scope(query);
            Continuation { kind: CONTINUATION_KIND, scope, position }.encode()
        });
        let took_ms = self.env.now_ms().saturating_sub(began_ms);
        let metrics = metrics(found.metrics);
        Ok(QueryPage { rows: found.rows, continuation, metrics, took_ms })
    }

    /// Which indexes would have served a query that the policy has not, named as those that were
    /// read are.
    pub async fn query_advice(&self, query: &Query<'_>) -> Result<Vec<String>> {
        let statement = self.statement(query.text, query.parameters)?;
        let ranges = statement.key_ranges(&self.definition().partition_key);
        let snapshot = Snapshot::take(self, query.scope, &ranges, None).await?;
        let advice = statement.advice(&snapshot);
        let single = advice.single.iter().map(ToString::to_string);
        Ok(single.chain(advice.composite.iter().map(composite_name)).collect())
    }

    /// How a client that asks every range by itself, and has these features, should run a query, as
    /// such clients read it.
    pub fn query_plan(
        &self,
        text: &str,
        parameters: &[(String, Value)],
        features: &str,
    ) -> Result<Value> {
        self.check_alive()?;
        let statement = self.statement(text, parameters)?;
        let plan = statement.fan_out(&self.definition().partition_key)?;
        plan.check_client(features)?;
        Ok(plan.to_json())
    }

    /// Tells the continuations of one query from those of every other. Ranges count as one: after
    /// a split or merge clients go on in another range, or a part of one, with what they have.
    fn query_scope(&self, query: &Query<'_>) -> u64 {
        let scope = match query.scope {
            Scope::Range(_) | Scope::Epk(_) => "a range".to_owned(),
            other => format!("{other:?}"),
        };
        let mut text = format!("{}\0{scope}\0{}", self.rid(), query.text);
        for (name, value) in query.parameters {
            text.push_str(&format!("\0{name}\0{value}"));
        }
        epk::digest64(text.as_bytes())
    }

    /// A query that is ready to run.
    pub(crate) fn statement(
        &self,
        text: &str,
        parameters: &[(String, Value)],
    ) -> Result<Statement> {
        Statement::of(self.texts.read(text)?, parameters, &self.settings.load())
    }
}

/// The indexes that a page has read, as policies name their paths.
pub(crate) fn used_indexes(took: &query::Metrics) -> Vec<UsedIndex> {
    let used = |scan: &Scan| UsedIndex { name: index_name(scan), is_narrow: is_narrow(scan) };
    let mut indexes: Vec<UsedIndex> = took.used().iter().map(used).collect();
    // Of several ways through one index the narrow one counts.
    indexes.sort_unstable_by(|a, b| b.cmp(a));
    indexes.dedup_by(|one, kept| one.name == kept.name);
    indexes.reverse();
    indexes
}

fn metrics(took: query::Metrics) -> QueryMetrics {
    QueryMetrics {
        documents: took.documents,
        document_bytes: took.document_bytes,
        entries: took.entries,
        kept: took.kept,
        output_bytes: took.output_bytes,
        took,
    }
}

/// An index as policies name its paths.
fn index_name(scan: &Scan) -> String {
    match scan {
        Scan::Range { path, .. } | Scan::Spatial { path, .. } | Scan::Word { path, .. } => {
            path.to_string()
        }
        Scan::Composite { columns, .. } => composite_name(columns),
    }
}

/// Whether a scan looks for values, or for all in their order: not for everything of some type.
fn is_narrow(scan: &Scan) -> bool {
    let Scan::Range { range, .. } = scan else { return true };
    // The sort key of a value begins with one byte for its type.
    let of_a_type = |bound: &Bound<Bytes>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.len() <= 1,
        Bound::Unbounded => false,
    };
    !(of_a_type(&range.from) && (of_a_type(&range.to) || range.to == Bound::Unbounded))
}

fn composite_name(columns: &Composite) -> String {
    let column = |(path, descending): &(IndexPath, bool)| {
        let path = path.to_string();
        let path = path.strip_suffix("/?").unwrap_or(&path);
        format!("{path} {}", if *descending { "DESC" } else { "ASC" })
    };
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

/// What queries may know of a container's policies.
pub(crate) fn settings_of(definition: &ContainerDefinition) -> Settings {
    let definition = definition.to_json();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let list = |policy: &str, key: &str| {
        let list = definition.get(policy).and_then(|policy| policy.get(key));
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let computed = definition.get("computedProperties").and_then(Value::as_array);
    Settings {
        planar: definition
            .get("geospatialConfig")
            .is_some_and(|config| config["type"] == "Geometry"),
        vectors: list("vectorEmbeddingPolicy", "vectorEmbeddings")
            .iter()
            .map(|vector| VectorSetting {
                path: text(vector, "path"),
                distance: text(vector, "distanceFunction"),
                dimensions: vector["dimensions"].as_u64().unwrap_or(0) as usize,
            })
            .collect(),
        language: definition
            .get("fullTextPolicy")
            .and_then(|policy| policy["defaultLanguage"].as_str())
            .map(str::to_owned),
        languages: list("fullTextPolicy", "fullTextPaths")
            .iter()
            .filter(|path| path["language"].is_string())
            .map(|path| (text(path, "path"), text(path, "language")))
            .collect(),
        computed: computed
            .into_iter()
            .flatten()
            .map(|property| (text(property, "name"), text(property, "query")))
            .collect(),
    }
}

/// Time and chance, as queries see them.
pub(crate) struct Here<'a>(pub &'a Env);

impl World for Here<'_> {
    fn now_ticks(&self) -> i64 {
        const TICKS_PER_MS: i64 = 10_000;
        i64::try_from(self.0.now_ms())
            .unwrap_or(i64::MAX / TICKS_PER_MS)
            .saturating_mul(TICKS_PER_MS)
    }

    fn random(&self) -> f64 {
        // As many bits as a double has below one.
        const BITS: u32 = 53;
        (self.0.random() >> (64 - BITS)) as f64 / (1_u64 << BITS) as f64
    }
}
