//! Request headers and bodies, turned into the types that the engine takes.
//!
//! What a client wrote wrongly is refused here, with the header's name in the message;
//! below, nobody looks at a header again.

pub mod batch;
pub mod changes;

use bytes::Bytes;
use engine::{Conditions, CreateOptions, Migration, Page, ReplaceOptions, Scope};
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use model::epk::{Epk, EpkRange};
use model::partition_key::PartitionKey;
use model::throughput::Throughput;
use model::token::{Match, Session};
use model::{Error, Fault, Result, json, limits};
use serde_json::Value;

use crate::consistency::Consistency;
use crate::header;

/// The headers of a request, by meaning.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    map: &'a HeaderMap,
    /// The marks of all that are there. Many headers are asked for, and few are sent: that one is missing is
    /// mostly seen here, without looking for it.
    marks: u64,
}

impl<'a> Headers<'a> {
    /// Those of a request.
    pub fn of(map: &'a HeaderMap) -> Self {
        Self { map, marks: map.keys().fold(0, |marks, name| marks | mark(name)) }
    }

    /// A header's first value.
    pub fn get(self, name: &HeaderName) -> Option<&'a HeaderValue> {
        if self.may_have(name) { self.map.get(name) } else { None }
    }

    fn all(self, name: &HeaderName) -> impl Iterator<Item = &'a HeaderValue> {
        self.may_have(name).then(|| self.map.get_all(name)).into_iter().flatten()
    }

    fn may_have(self, name: &HeaderName) -> bool {
        self.marks & mark(name) != 0
    }

    /// The text of a header that has one value.
    pub fn text(self, name: &HeaderName) -> Result<Option<&'a str>> {
        let mut values = self.all(name);
        let Some(value) = values.next() else { return Ok(None) };
        if values.any(|other| other != value) {
            let why = format!("header {name} is sent more than once, with different values");
            return Err(Error::bad_request(why));
        }
        as_text(name, value).map(Some)
    }

    /// The entries of a header that is a list, in one line or in several.
    pub fn list(self, name: &HeaderName) -> Result<Vec<&'a str>> {
        let mut entries = Vec::new();
        for value in self.all(name) {
            entries.extend(as_text(name, value)?.split(','));
        }
        Ok(entries)
    }

    /// A switch: `True` and `true` are on, `False`, `false`, nothing and absence are off.
    pub fn flag(self, name: &HeaderName) -> Result<bool> {
        match self.text(name)? {
            None | Some("") => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(wrong(name, text, "must be True or False")),
        }
    }

    /// Whether the body is a query: a header says so, or its type.
    pub fn is_query(self) -> Result<bool> {
        const QUERY: &[u8] = b"application/query+json";
        let typed = self
            .get(&CONTENT_TYPE)
            .and_then(|kind| kind.as_bytes().get(..QUERY.len()))
            .is_some_and(|kind| kind.eq_ignore_ascii_case(QUERY));
        Ok(self.flag(&header::IS_QUERY)? || typed)
    }

    /// How much of a list is wanted, and from where.
    pub fn page(self) -> Result<Page> {
        let items = match self.text(&header::MAX_ITEM_COUNT)? {
            None | Some("" | "-1") => None,
            Some(text) => match text.parse() {
                Ok(items) if items > 0 => Some(items),
                _ => return Err(wrong(&header::MAX_ITEM_COUNT, text, "must be -1 or at least 1")),
            },
        };
        let continuation = self.text(&header::CONTINUATION)?.filter(|text| !text.is_empty());
        Ok(Page { items, continuation: continuation.map(str::to_owned) })
    }

    /// The etag conditions.
    pub fn conditions(self) -> Result<Conditions> {
        Ok(Conditions {
            if_match: self.text(&IF_MATCH)?.map(Match::parse),
            if_none_match: self.if_none_match()?,
        })
    }

    /// The etag that the client has already.
    pub fn if_none_match(self) -> Result<Option<Match>> {
        Ok(self.text(&IF_NONE_MATCH)?.map(Match::parse))
    }

    /// How new the answer must be at least.
    pub fn session(self) -> Result<Option<Session>> {
        let text = self.text(&header::SESSION_TOKEN)?.filter(|text| !text.is_empty());
        text.map(Session::parse).transpose()
    }

    /// The partition key of an item.
    pub fn partition_key(self) -> Result<Option<PartitionKey>> {
        self.text(&header::PARTITION_KEY)?.map(PartitionKey::parse_header).transpose()
    }

    /// The part of a container that the request is about. A key says more than the range it
    /// lies in, and a span says more than its range, so a range beside them adds nothing.
    pub fn scope(self) -> Result<Scope> {
        let key = self.partition_key()?;
        let span = self.span()?;
        let range = self.text(&header::RANGE_ID)?.filter(|text| !text.is_empty());
        match (key, span, range) {
            (Some(_), Some(_), _) => Err(Error::bad_request(
                "a request names either a partition key or a span of keys, not both",
            )),
            (Some(key), None, _) => Ok(Scope::Key(key)),
            (None, Some(span), _) => Ok(Scope::Epk(span)),
            (None, None, Some(range)) => Ok(Scope::Range(range.to_owned())),
            (None, None, None) => Ok(Scope::Everything),
        }
    }

    fn span(self) -> Result<Option<EpkRange>> {
        let (start, end) = (self.text(&header::START_EPK)?, self.text(&header::END_EPK)?);
        let (start, end) = match (start, end) {
            (None, None) => return Ok(None),
            (Some(start), Some(end)) => (Epk::from_hex(start)?, Epk::from_hex(end)?),
            _ => {
                return Err(Error::bad_request(
                    "x-ms-start-epk and x-ms-end-epk come together or not at all",
                ));
            }
        };
        match self.text(&header::READ_KEY_TYPE)? {
            Some(kind) if !kind.eq_ignore_ascii_case("EffectivePartitionKeyRange") => {
                Err(wrong(&header::READ_KEY_TYPE, kind, "must be EffectivePartitionKeyRange"))
            }
            _ if start >= end => {
                Err(Error::bad_request("x-ms-start-epk must be below x-ms-end-epk"))
            }
            _ => Ok(Some(EpkRange::new(start, end))),
        }
    }

    /// The consistency of this read. It may be weaker than the account's, never stronger.
    pub fn consistency(self, account: Consistency) -> Result<Consistency> {
        let Some(text) = self.text(&header::CONSISTENCY)?.filter(|text| !text.is_empty()) else {
            return Ok(account);
        };
        let asked = Consistency::parse(text)
            .ok_or_else(|| wrong(&header::CONSISTENCY, text, "is not a consistency level"))?;
        if asked.strength() > account.strength() {
            let why = format!("is stronger than the account's, {}", account.word());
            return Err(wrong(&header::CONSISTENCY, text, &why));
        }
        Ok(asked)
    }

    /// What a create brings beside its body.
    pub fn create_options(self, upsert: bool) -> Result<CreateOptions> {
        let manual = self.text(&header::THROUGHPUT)?;
        let autopilot = self.text(&header::AUTOPILOT)?;
        Ok(CreateOptions { throughput: Throughput::from_headers(manual, autopilot)?, upsert })
    }

    /// What a replace brings beside its body.
    pub fn replace_options(self) -> Result<ReplaceOptions> {
        let migration = match (self.flag(&header::TO_AUTOSCALE)?, self.flag(&header::TO_MANUAL)?) {
            (false, false) => None,
            (true, false) => Some(Migration::ToAutoscale),
            (false, true) => Some(Migration::ToManual),
            (true, true) => {
                return Err(Error::bad_request(
                    "throughput cannot become autoscale and manual at once",
                ));
            }
        };
        Ok(ReplaceOptions { conditions: self.conditions()?, migration })
    }

    /// Whether the client does not want to see what it has just written.
    pub fn wants_minimal(self) -> Result<bool> {
        let mut wants = false;
        for value in self.all(&header::PREFER) {
            let mut preferences = as_text(&header::PREFER, value)?.split(',');
            wants |= preferences.any(|part| part.trim().eq_ignore_ascii_case("return=minimal"));
        }
        Ok(wants)
    }

    /// How long the tokens of the answer live.
    pub fn expiry_seconds(self) -> Result<u64> {
        let Some(text) = self.text(&header::EXPIRY_SECONDS)? else {
            return Ok(limits::RESOURCE_TOKEN_SECONDS_DEFAULT);
        };
        match text.parse() {
            Ok(seconds) if (1..=limits::RESOURCE_TOKEN_SECONDS).contains(&seconds) => Ok(seconds),
            _ => {
                let why = format!("must be between 1 and {}", limits::RESOURCE_TOKEN_SECONDS);
                Err(wrong(&header::EXPIRY_SECONDS, text, &why))
            }
        }
    }

    /// A client that knows the container by another rid must learn that it was recreated.
    pub fn check_intended_rid(self, rid: &str) -> Result<()> {
        match self.text(&header::INTENDED_RID)? {
            Some(intended) if !intended.is_empty() && intended != rid => Err(Error::new(
                Fault::ContainerRidMismatch,
                format!("the container was recreated: its rid is {rid}, not {intended}"),
            )),
            _ => Ok(()),
        }
    }

    /// The triggers that a write names: before it, and after it. The header is a list, of which
    /// one may be.
    pub fn triggers(self) -> Result<(Option<&'a str>, Option<&'a str>)> {
        let one = |name: &HeaderName| match self.text(name)?.filter(|text| !text.is_empty()) {
            Some(text) if text.contains(',') => {
                Err(wrong(name, text, "must name one trigger; only one runs"))
            }
            named => Ok(named),
        };
        Ok((one(&header::PRE_TRIGGER)?, one(&header::POST_TRIGGER)?))
    }

    /// Batches run no triggers, so one that names some must not go on without them.
    pub fn refuse_triggers(self) -> Result<()> {
        match self.triggers()? {
            (None, None) => Ok(()),
            _ => Err(Error::bad_request(
                "a patch or batch runs no triggers: leave their headers out",
            )),
        }
    }
}

/// One of 64 marks, by the length and the end of a name: names of one protocol differ there.
fn mark(name: &HeaderName) -> u64 {
    let name = name.as_str().as_bytes();
    let last = name.last().copied().unwrap_or(0);
    1 << ((5 * name.len() + usize::from(last)) % 64)
}

fn as_text<'v>(name: &HeaderName, value: &'v HeaderValue) -> Result<&'v str> {
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Error::bad_request(format!("header {name} is not UTF-8")))?;
    Ok(text.trim())
}

fn wrong(name: &HeaderName, value: &str, why: &str) -> Error {
    let shown: String = value.chars().take(64).collect();
    Error::bad_request(format!("header {name} is '{shown}': it {why}"))
}

/// A query and its parameters.
#[derive(Debug, PartialEq)]
pub struct QueryBody {
    /// The text.
    pub text: String,
    /// Names, with their `@`, and values.
    pub parameters: Vec<(String, Value)>,
}

impl QueryBody {
    /// Reads `{"query": …, "parameters": [{"name": …, "value": …}]}`.
    pub fn parse(body: &Bytes) -> Result<Self> {
        let body = json::Document::parse(body)?;
        let Some(text) = body.get("query").and_then(json::unescape) else {
            return Err(Error::bad_request("the body of a query needs the text 'query'"));
        };
        if body.get("resumeFilter").is_some_and(|filter| json::kind(filter) != json::Kind::Null) {
            // Taking no notice would give rows twice.
            return Err(Error::bad_request(
                "'resumeFilter' is not served: go on with the continuation of the last answer",
            ));
        }
        let list = body.get("parameters").unwrap_or(b"null");
        let parameters = match json::kind(list) {
            json::Kind::Null => Vec::new(),
            json::Kind::Array => json::elements(list).map(parameter).collect::<Result<_>>()?,
            _ => return Err(Error::bad_request("'parameters' of a query must be an array")),
        };
        Ok(Self { text: text.into_owned(), parameters })
    }
}

fn parameter(entry: &[u8]) -> Result<(String, Value)> {
    let (mut name, mut value) = (None, None);
    for (key, raw) in json::raw_members(entry) {
        if json::key_is(key, "name") {
            name = json::unescape(raw);
        } else if json::key_is(key, "value") {
            value = Some(raw);
        }
    }
    let (Some(name), Some(value)) = (name, value) else {
        let what = "each query parameter needs a text 'name' and a 'value'";
        return Err(Error::bad_request(what));
    };
    let value = serde_json::from_slice(value)
        .map_err(|error| Error::bad_request(format!("the body is not valid JSON: {error}")))?;
    Ok((name.into_owned(), value))
}

#[cfg(test)]
mod tests;
