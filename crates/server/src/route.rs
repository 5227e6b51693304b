//! Which operation a request asks for.
//!
//! The protocol overloads its verbs: POST on a feed creates, upserts, queries, plans a query
//! or runs a batch, and headers tell which. [`Verb::of`] folds those switches into one word;
//! what is left is a plain table. To serve a new request is to add a line to [`ROUTES`].

use std::sync::LazyLock;

use engine::Kind;
use hyper::Method;
use model::{Error, Fault, Result};

use crate::header;
use crate::path::{Path, SEGMENTS_MAX};
use crate::request::Headers;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Is the server up; for probes, unsigned.
    Ready,
    /// Figures for Prometheus, unsigned.
    Metrics,
    /// The certificate that clients should trust, unsigned.
    Certificate,
    /// The account document.
    Account,
    /// Makes a resource.
    Create(Kind),
    /// Makes or replaces a resource.
    Upsert(Kind),
    /// Lists resources.
    List(Kind),
    /// Finds resources.
    Query(Kind),
    /// Reads a resource.
    Read(Kind),
    /// Replaces a resource.
    Replace(Kind),
    /// Deletes a resource.
    Delete(Kind),
    /// The partition key ranges of a container.
    ReadRanges,
    /// Makes an item.
    CreateItem,
    /// Makes or replaces an item.
    UpsertItem,
    /// Reads an item.
    ReadItem,
    /// Replaces an item.
    ReplaceItem,
    /// Deletes an item.
    DeleteItem,
    /// Changes parts of an item.
    PatchItem,
    /// Runs several operations on items.
    Batch,
    /// Deletes all items of a partition key.
    DeleteKey,
    /// Runs a stored procedure.
    Execute,
    /// Reads all items, page by page.
    ReadItems,
    /// Reads what has changed.
    ReadChanges,
    /// How much a reader of changes has still to read.
    ReadLag,
    /// Cuts a partition key range in two.
    SplitRange,
    /// Makes one partition key range of several.
    MergeRanges,
    /// Finds items.
    QueryItems,
    /// How a client should run a query.
    QueryPlan,
    /// Conflicts between regions: one region has none.
    ListConflicts,
    /// Any one conflict.
    MissingConflict,
    /// A part of the protocol that this version refuses, and its name.
    Refuse(&'static str),
}

/// What a request does to what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody may ask.
    Public,
    /// Only looks.
    Read,
    /// Changes something.
    Write,
}

impl Operation {
    /// Whether it is about a few items that are known by their ids, and so is soon done.
    pub fn is_brief(self) -> bool {
        use Operation as Op;
        matches!(
            self,
            Op::CreateItem
                | Op::UpsertItem
                | Op::ReadItem
                | Op::ReplaceItem
                | Op::DeleteItem
                | Op::PatchItem
                | Op::Batch
        )
    }

    /// What kind of right it needs.
    pub fn access(self) -> Access {
        match self {
            Self::Ready | Self::Metrics | Self::Certificate => Access::Public,
            Self::Account
            | Self::List(_)
            | Self::Query(_)
            | Self::Read(_)
            | Self::ReadRanges
            | Self::ReadItem
            | Self::ReadItems
            | Self::ReadChanges
            | Self::ReadLag
            | Self::QueryItems
            | Self::QueryPlan
            | Self::ListConflicts
            | Self::MissingConflict => Access::Read,
            Self::Create(_)
            | Self::Upsert(_)
            | Self::Replace(_)
            | Self::Delete(_)
            | Self::CreateItem
            | Self::UpsertItem
            | Self::ReplaceItem
            | Self::DeleteItem
            | Self::PatchItem
            | Self::Batch
            | Self::DeleteKey
            | Self::Execute
            | Self::SplitRange
            | Self::MergeRanges
            | Self::Refuse(_) => Access::Write,
        }
    }
}

/// An HTTP method together with the headers that change its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// POST as such.
    Post,
    /// POST that may replace.
    Upsert,
    /// POST of a query.
    Query,
    /// POST of a query over what has changed.
    ChangesQuery,
    /// POST that asks for a query plan.
    Plan,
    /// POST of a batch.
    Batch,
    /// GET or HEAD.
    Get,
    /// GET of what has changed.
    Changes,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// The verb of a request; refuses methods that the protocol does not use.
    pub fn of(method: &Method, headers: Headers<'_>) -> Result<Self> {
        Ok(match *method {
            Method::GET | Method::HEAD if headers.get(&header::A_IM).is_some() => Self::Changes,
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::of_post(headers)?,
            Method::PUT => Self::Put,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => {
                return Err(Error::new(
                    Fault::MethodNotAllowed,
                    format!("method {method} is not used"),
                ));
            }
        })
    }

    /// A plan request may also say that it is a query, and some say only that it is a plan.
    fn of_post(headers: Headers<'_>) -> Result<Self> {
        Ok(if headers.flag(&header::IS_QUERY_PLAN)? {
            Self::Plan
        } else if headers.flag(&header::IS_BATCH)? {
            Self::Batch
        } else if headers.is_query()? {
            match headers.get(&header::A_IM) {
                Some(_) => Self::ChangesQuery,
                None => Self::Query,
            }
        } else if headers.flag(&header::IS_UPSERT)? {
            Self::Upsert
        } else {
            Self::Post
        })
    }
}

use Kind::{
    ClientEncryptionKey, Container, Database, Offer, Permission, StoredProcedure, Trigger, User,
    UserDefinedFunction,
};
use Operation as Op;

/// `*` stands for one name chosen by the user.
#[rustfmt::skip]
const ROUTES: &[(Verb, &str, Operation)] = &[
    (Verb::Get, "", Op::Account),
    (Verb::Get, "ready", Op::Ready),
    (Verb::Get, "metrics", Op::Metrics),
    (Verb::Get, "_explorer/emulator.pem", Op::Certificate),

    (Verb::Post, "dbs", Op::Create(Database)),
    (Verb::Get, "dbs", Op::List(Database)),
    (Verb::Query, "dbs", Op::Query(Database)),
    (Verb::Get, "dbs/*", Op::Read(Database)),
    (Verb::Delete, "dbs/*", Op::Delete(Database)),

    (Verb::Get, "offers", Op::List(Offer)),
    (Verb::Query, "offers", Op::Query(Offer)),
    (Verb::Get, "offers/*", Op::Read(Offer)),
    (Verb::Put, "offers/*", Op::Replace(Offer)),

    (Verb::Post, "dbs/*/colls", Op::Create(Container)),
    (Verb::Get, "dbs/*/colls", Op::List(Container)),
    (Verb::Query, "dbs/*/colls", Op::Query(Container)),
    (Verb::Get, "dbs/*/colls/*", Op::Read(Container)),
    (Verb::Put, "dbs/*/colls/*", Op::Replace(Container)),
    (Verb::Delete, "dbs/*/colls/*", Op::Delete(Container)),

    (Verb::Post, "dbs/*/users", Op::Create(User)),
    (Verb::Upsert, "dbs/*/users", Op::Upsert(User)),
    (Verb::Get, "dbs/*/users", Op::List(User)),
    (Verb::Query, "dbs/*/users", Op::Query(User)),
    (Verb::Get, "dbs/*/users/*", Op::Read(User)),
    (Verb::Put, "dbs/*/users/*", Op::Replace(User)),
    (Verb::Delete, "dbs/*/users/*", Op::Delete(User)),

    (Verb::Post, "dbs/*/users/*/permissions", Op::Create(Permission)),
    (Verb::Upsert, "dbs/*/users/*/permissions", Op::Upsert(Permission)),
    (Verb::Get, "dbs/*/users/*/permissions", Op::List(Permission)),
    (Verb::Query, "dbs/*/users/*/permissions", Op::Query(Permission)),
    (Verb::Get, "dbs/*/users/*/permissions/*", Op::Read(Permission)),
    (Verb::Put, "dbs/*/users/*/permissions/*", Op::Replace(Permission)),
    (Verb::Delete, "dbs/*/users/*/permissions/*", Op::Delete(Permission)),

    (Verb::Post, "dbs/*/clientencryptionkeys", Op::Create(ClientEncryptionKey)),
    (Verb::Get, "dbs/*/clientencryptionkeys", Op::List(ClientEncryptionKey)),
    (Verb::Query, "dbs/*/clientencryptionkeys", Op::Query(ClientEncryptionKey)),
    (Verb::Get, "dbs/*/clientencryptionkeys/*", Op::Read(ClientEncryptionKey)),
    (Verb::Put, "dbs/*/clientencryptionkeys/*", Op::Replace(ClientEncryptionKey)),
    (Verb::Delete, "dbs/*/clientencryptionkeys/*", Op::Delete(ClientEncryptionKey)),

    (Verb::Post, "dbs/*/colls/*/sprocs", Op::Create(StoredProcedure)),
    (Verb::Upsert, "dbs/*/colls/*/sprocs", Op::Upsert(StoredProcedure)),
    (Verb::Get, "dbs/*/colls/*/sprocs", Op::List(StoredProcedure)),
    (Verb::Query, "dbs/*/colls/*/sprocs", Op::Query(StoredProcedure)),
    (Verb::Get, "dbs/*/colls/*/sprocs/*", Op::Read(StoredProcedure)),
    (Verb::Put, "dbs/*/colls/*/sprocs/*", Op::Replace(StoredProcedure)),
    (Verb::Delete, "dbs/*/colls/*/sprocs/*", Op::Delete(StoredProcedure)),
    (Verb::Post, "dbs/*/colls/*/sprocs/*", Op::Execute),

    (Verb::Post, "dbs/*/colls/*/triggers", Op::Create(Trigger)),
    (Verb::Upsert, "dbs/*/colls/*/triggers", Op::Upsert(Trigger)),
    (Verb::Get, "dbs/*/colls/*/triggers", Op::List(Trigger)),
    (Verb::Query, "dbs/*/colls/*/triggers", Op::Query(Trigger)),
    (Verb::Get, "dbs/*/colls/*/triggers/*", Op::Read(Trigger)),
    (Verb::Put, "dbs/*/colls/*/triggers/*", Op::Replace(Trigger)),
    (Verb::Delete, "dbs/*/colls/*/triggers/*", Op::Delete(Trigger)),

    (Verb::Post, "dbs/*/colls/*/udfs", Op::Create(UserDefinedFunction)),
    (Verb::Upsert, "dbs/*/colls/*/udfs", Op::Upsert(UserDefinedFunction)),
    (Verb::Get, "dbs/*/colls/*/udfs", Op::List(UserDefinedFunction)),
    (Verb::Query, "dbs/*/colls/*/udfs", Op::Query(UserDefinedFunction)),
    (Verb::Get, "dbs/*/colls/*/udfs/*", Op::Read(UserDefinedFunction)),
    (Verb::Put, "dbs/*/colls/*/udfs/*", Op::Replace(UserDefinedFunction)),
    (Verb::Delete, "dbs/*/colls/*/udfs/*", Op::Delete(UserDefinedFunction)),

    (Verb::Get, "dbs/*/colls/*/pkranges", Op::ReadRanges),
    (Verb::Get, "dbs/*/colls/*/lag", Op::ReadLag),
    (Verb::Get, "dbs/*/colls/*/conflicts", Op::ListConflicts),
    (Verb::Query, "dbs/*/colls/*/conflicts", Op::ListConflicts),
    (Verb::Get, "dbs/*/colls/*/conflicts/*", Op::MissingConflict),
    (Verb::Delete, "dbs/*/colls/*/conflicts/*", Op::MissingConflict),
    (Verb::Post, "dbs/*/colls/*/operations/split", Op::SplitRange),
    (Verb::Post, "dbs/*/colls/*/operations/merge", Op::MergeRanges),
    (Verb::Post, "dbs/*/colls/*/operations/partitionkeydelete", Op::DeleteKey),

    (Verb::Get, "dbs/*/colls/*/docs/*", Op::ReadItem),
    (Verb::Put, "dbs/*/colls/*/docs/*", Op::ReplaceItem),
    (Verb::Delete, "dbs/*/colls/*/docs/*", Op::DeleteItem),
    (Verb::Patch, "dbs/*/colls/*/docs/*", Op::PatchItem),
    (Verb::Post, "dbs/*/colls/*/docs", Op::CreateItem),
    (Verb::Upsert, "dbs/*/colls/*/docs", Op::UpsertItem),
    (Verb::Get, "dbs/*/colls/*/docs", Op::ReadItems),
    (Verb::Query, "dbs/*/colls/*/docs", Op::QueryItems),
    (Verb::Plan, "dbs/*/colls/*/docs", Op::QueryPlan),
    (Verb::Changes, "dbs/*/colls/*/docs", Op::ReadChanges),
    (Verb::ChangesQuery, "dbs/*/colls/*/docs", Op::ReadChanges),
    (Verb::Batch, "dbs/*/colls/*/docs", Op::Batch),
];

struct Route {
    verb: Verb,
    pattern: Vec<&'static str>,
    operation: Operation,
}

/// [`ROUTES`] by the number of segments.
static BY_LENGTH: LazyLock<[Vec<Route>; SEGMENTS_MAX + 1]> = LazyLock::new(|| {
    let mut by_length = [const { Vec::new() }; SEGMENTS_MAX + 1];
    for &(verb, pattern, operation) in ROUTES {
        let pattern: Vec<_> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
        by_length[pattern.len()].push(Route { verb, pattern, operation });
    }
    by_length
});

/// The operation that a verb asks for on a path.
pub fn route(verb: Verb, path: &Path) -> Result<Operation> {
    if let Some(operation) = find(path, |candidate| candidate == verb) {
        return Ok(operation);
    }
    // Feeds of which only the whole is served (ranges) are asked for incrementally too.
    if verb == Verb::Changes
        && let Some(operation) = find(path, |candidate| candidate == Verb::Get)
    {
        return Ok(operation);
    }
    Err(match find(path, |_| true) {
        Some(_) => Error::new(Fault::MethodNotAllowed, "this path does not take this method"),
        None => Error::new(Fault::NotFound, "no resource has a path of this form"),
    })
}

fn find(path: &Path, wanted: impl Fn(Verb) -> bool) -> Option<Operation> {
    let segments = path.segments();
    BY_LENGTH
        .get(segments.len())?
        .iter()
        .find(|route| wanted(route.verb) && matches(&route.pattern, segments))
        .map(|route| route.operation)
}

fn matches(pattern: &[&str], segments: &[std::borrow::Cow<'_, str>]) -> bool {
    // From the end, where paths differ most.
    pattern.iter().zip(segments).rev().all(|(word, segment)| *word == "*" || word == segment)
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    /// `METHOD path [header[=value]]…` against the operation and the names of the path.
    #[track_caller]
    fn check(request: &str, expect: &str) {
        let mut words = request.split(' ');
        let method: Method = words.next().unwrap().parse().unwrap();
        let path = Path::parse(words.next().unwrap());
        let mut headers = HeaderMap::new();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, "True"));
            let name: HeaderName = name.parse().unwrap();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        let got = path.and_then(|path| {
            let operation = route(Verb::of(&method, Headers::of(&headers))?, &path)?;
            let names = path.segments().iter().skip(1).step_by(2);
            Ok(names.fold(format!("{operation:?}"), |text, name| format!("{text} {name}")))
        });
        let got = got.unwrap_or_else(|error| error.fault.status().to_string());
        assert_eq!(got, expect, "{request}");
    }

    #[test]
    fn headers_change_the_meaning_of_a_verb() {
        check("POST /dbs/a/colls/b/docs", "CreateItem a b");
        check("POST /dbs/a/colls/b/docs x-ms-documentdb-is-upsert", "UpsertItem a b");
        check("POST /dbs/a/colls/b/docs x-ms-documentdb-is-upsert=False", "CreateItem a b");
        check("POST /dbs/a/colls/b/docs x-ms-documentdb-isquery=true", "QueryItems a b");
        check("POST /dbs/a/colls/b/docs content-type=application/query+json", "QueryItems a b");
        check(
            "POST /dbs/a/colls/b/docs content-type=Application/Query+json;charset=utf-8",
            "QueryItems a b",
        );
        check("POST /dbs/a/colls/b/docs x-ms-cosmos-is-query-plan-request", "QueryPlan a b");
        check(
            "POST /dbs/a/colls/b/docs x-ms-documentdb-isquery x-ms-cosmos-is-query-plan-request",
            "QueryPlan a b",
        );
        check("POST /dbs/a/colls/b/docs x-ms-cosmos-is-batch-request", "Batch a b");
        check("GET /dbs/a/colls/b/docs a-im=Incremental", "ReadChanges a b");
        check(
            "POST /dbs/a/colls/b/docs a-im=Incremental x-ms-documentdb-isquery",
            "ReadChanges a b",
        );
        check("GET /dbs/a/colls/b/docs/c a-im=Incremental", "ReadItem a b c");
        check("GET /dbs/a/colls/b/lag", "ReadLag a b");
        check("POST /dbs/a/colls/b/operations/split", "SplitRange a b split");
        check("POST /dbs/a/colls/b/sprocs/s", "Execute a b s");
        check("GET /dbs/a/colls/b/pkranges a-im=Incremental", "ReadRanges a b");
        check("POST /dbs/a/colls/b/docs x-ms-documentdb-is-upsert=perhaps", "400");
    }

    #[test]
    fn paths_are_read_by_position() {
        check("GET /", "Account");
        check("GET /dbs/colls/colls/dbs/", "Read(Container) colls dbs");
        check("HEAD /dbs/a/colls/b/docs/c/", "ReadItem a b c");
        check("GET /dbs/a/colls/b/docs/x+y%20%C3%A9%25", "ReadItem a b x+y é%");
        check("GET /dbs/a/colls/b/docs/x%2Fy", "ReadItem a b x/y");
        check("PUT /offers/Ab12", "Replace(Offer) Ab12");
        check("PATCH /dbs/a/colls/b/docs/c", "PatchItem a b c");
        check(
            "POST /dbs/a/users/u/permissions x-ms-documentdb-is-upsert",
            "Upsert(Permission) a u",
        );
        check(
            "POST /dbs/a/colls/b/operations/partitionkeydelete",
            "DeleteKey a b partitionkeydelete",
        );
    }

    #[test]
    fn what_is_not_in_the_table_is_refused() {
        check("GET /dbx", "404");
        check("GET /dbs//colls", "404");
        check("GET /dbs/a/colls/b/docs/c/attachments/d", "404");
        check("POST /dbs/a/colls/b/operations/other", "404");
        check("PUT /dbs/a", "405");
        check("POST /offers", "405");
        check("TRACE /", "405");
        check("GET /dbs/%FF", "400");
        check("GET /dbs/%4", "400");
    }
}
