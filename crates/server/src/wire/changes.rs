//! Changes as clients read them: in pages, as events, and how many are still to come.
//!
//! Stored items are copied as they are. What is added (an LSN, an envelope) is put around them.

use bytes::Bytes;
use engine::{Changed, ChangesPage, Container, Detail, Operation, RangeLag};
use model::partition_key::Definition;
use model::token::Position;
use model::{Error, digits};
use serde_json::{Map, Value, json};

use crate::request::changes::Form;

/// Most that the form adds to an item, apart from what it says of a delete.
const AROUND_BYTES: usize = 256;

/// A page as it is sent.
#[derive(Debug)]
pub struct Written {
    /// Nothing where nothing has changed.
    pub body: Option<Bytes>,
    /// How many changes there are in it.
    pub changes: usize,
    /// Whether there are more behind it.
    pub more: bool,
    /// Where to go on.
    pub position: Position,
}

impl Written {
    /// Writes a page of a container.
    pub fn new(container: &Container, form: Form, page: ChangesPage) -> Self {
        let ChangesPage { changes, more, position, .. } = page;
        let body = (more || !changes.is_empty()).then(|| {
            let definition = container.definition();
            Writer { form, key: &definition.partition_key }.page(container.rid(), &changes)
        });
        Self { body, changes: changes.len(), more, position }
    }
}

/// How the changes of a container are written.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The form that the client understands.
    pub form: Form,
    /// Names the values of partition keys.
    pub key: &'a Definition,
}

impl Writer<'_> {
    /// A page.
    pub fn page(&self, owner: &str, changes: &[Changed]) -> Bytes {
        let bytes: usize = changes.iter().map(|change| self.room(change) + 1).sum();
        let mut out = Vec::with_capacity(owner.len() + bytes + AROUND_BYTES);
        out.extend_from_slice(b"{\"_rid\":\"");
        out.extend_from_slice(owner.as_bytes());
        out.extend_from_slice(b"\",\"Documents\":[");
        for (n, change) in changes.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            self.change(&mut out, change);
        }
        out.extend_from_slice(b"],\"_count\":");
        digits::push(&mut out, changes.len() as u64);
        out.push(b'}');
        Bytes::from(out)
    }

    /// A page as events. Only the last carries the position: who comes back with it has had all
    /// the others. Without changes, the position alone.
    pub fn events(&self, page: &ChangesPage) -> Bytes {
        let bytes: usize = page.changes.iter().map(|change| self.room(change)).sum();
        let mut out = Vec::with_capacity(bytes + AROUND_BYTES);
        let mut text = Vec::new();
        for (n, change) in page.changes.iter().enumerate() {
            if n + 1 == page.changes.len() {
                event_id(&mut out, &page.position);
            }
            text.clear();
            self.change(&mut text, change);
            out.extend_from_slice(b"event: change\n");
            event_data(&mut out, &text);
            out.push(b'\n');
        }
        if page.changes.is_empty() {
            event_id(&mut out, &page.position);
            out.push(b'\n');
        }
        Bytes::from(out)
    }

    fn room(&self, change: &Changed) -> usize {
        // `,"_lsn":` and the longest number, or the envelope.
        let around = match (self.form, &change.detail) {
            (Form::Bare, None) => 28,
            (Form::Envelope, None) => 80,
            (_, Some(detail)) => AROUND_BYTES + detail_bytes(detail),
        };
        change.body.len() + around
    }

    fn change(&self, out: &mut Vec<u8>, change: &Changed) {
        match (self.form, &change.detail) {
            (Form::Bare, None) => bare(out, change),
            (_, detail) => self.envelope(out, change, detail.as_deref()),
        }
    }

    fn envelope(&self, out: &mut Vec<u8>, change: &Changed, detail: Option<&Detail>) {
        out.push(b'{');
        if !change.body.is_empty() {
            out.extend_from_slice(b"\"current\":");
            out.extend_from_slice(&change.body);
            out.push(b',');
        }
        if let Some(previous) = detail.and_then(|detail| detail.previous.as_ref()) {
            out.extend_from_slice(b"\"previous\":");
            out.extend_from_slice(previous);
            out.push(b',');
        }
        out.extend_from_slice(b"\"metadata\":{\"lsn\":");
        digits::push(out, change.lsn);
        out.extend_from_slice(b",\"crts\":");
        digits::push(out, change.ts_ms / 1000);
        if let Some(detail) = detail {
            self.detail(out, detail);
        }
        out.extend_from_slice(b"}}");
    }

    fn detail(&self, out: &mut Vec<u8>, detail: &Detail) {
        out.extend_from_slice(match detail.operation {
            Operation::Create => b",\"operationType\":\"create\"",
            Operation::Replace => b",\"operationType\":\"replace\"",
            Operation::Delete => b",\"operationType\":\"delete\"",
        });
        if let Some(lsn) = detail.previous_lsn {
            out.extend_from_slice(b",\"previousImageLSN\":");
            digits::push(out, lsn);
        }
        if detail.expired {
            out.extend_from_slice(b",\"timeToLiveExpired\":true");
        }
        if let Some(id) = &detail.id {
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(Value::from(id.as_str()).to_string().as_bytes());
        }
        if let Some(key) = &detail.key {
            out.extend_from_slice(b",\"partitionKey\":");
            out.extend_from_slice(self.named(key).to_string().as_bytes());
        }
    }

    /// A partition key, which is an array, as an object: by the path of each level without its
    /// first slash. Levels that the item did not have are left out.
    fn named(&self, key: &str) -> Value {
        let values: Vec<Value> = serde_json::from_str(key).unwrap_or_default();
        let names = self.key.paths.iter().map(|path| path.segments.join("/"));
        let members = names.zip(values).filter(|(_, value)| !value.is_object());
        Value::Object(members.collect::<Map<_, _>>())
    }
}

fn detail_bytes(detail: &Detail) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, |text| 2 * text.len());
    let previous = detail.previous.as_ref().map_or(0, Bytes::len);
    text(&detail.id) + text(&detail.key) + previous
}

/// The item, with its LSN as its last member.
fn bare(out: &mut Vec<u8>, change: &Changed) {
    let body = &change.body[..];
    if body.first() != Some(&b'{') {
        // What a filter made of it has no members.
        return out.extend_from_slice(body);
    }
    let end = body.iter().rposition(|&byte| byte == b'}').unwrap_or(body.len());
    out.extend_from_slice(&body[..end]);
    let separator: &[u8] = if body == b"{}" { b"" } else { b"," };
    out.extend_from_slice(separator);
    out.extend_from_slice(b"\"_lsn\":");
    digits::push(out, change.lsn);
    out.push(b'}');
}

/// What keeps a silent stream alive.
pub fn heartbeat() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// A refusal in the middle of a stream; the last event.
pub fn error_event(error: &Error) -> Bytes {
    let data = json!({ "status": error.fault.status(), "substatus": error.fault.substatus(),
        "code": error.fault.code(), "message": error.message });
    Bytes::from(format!("event: error\ndata: {data}\n\n"))
}

fn event_id(out: &mut Vec<u8>, position: &Position) {
    out.extend_from_slice(format!("id: {position}\n").as_bytes());
}

/// A line of data for each line of the text, whichever way its lines end.
fn event_data(out: &mut Vec<u8>, text: &[u8]) {
    for line in text.split(|&byte| byte == b'\n' || byte == b'\r') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}

/// What a reader has still to read.
pub fn lag(ranges: &[RangeLag]) -> Value {
    let items: u64 = ranges.iter().map(|range| range.items).sum();
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let entry = |range: &RangeLag| {
        json!({
            "id": &*range.range,
            "lsn": range.lsn,
            "position": range.position_lsn,
            "items": range.items,
            "oldestUnread": range.oldest_unread_ts_ms.map(seconds),
            "ageSeconds": seconds(range.age_ms),
        })
    };
    json!({ "ranges": ranges.iter().map(entry).collect::<Vec<_>>(), "items": items })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(body: &'static str, detail: Option<Detail>) -> Changed {
        let body = Bytes::from_static(body.as_bytes());
        Changed { body, lsn: 7, ts_ms: 5_999, detail: detail.map(Box::new) }
    }

    fn deleted() -> Changed {
        let detail = Detail {
            operation: Operation::Delete,
            expired: true,
            previous_lsn: Some(6),
            id: Some("a\"b".into()),
            key: Some(r#"["x",{}]"#.into()),
            previous: Some(Bytes::from_static(b"{\"id\":\"a\\\"b\"}")),
        };
        changed("", Some(detail))
    }

    fn key() -> Definition {
        let paths = json!({"paths": ["/tenant/id", "/user"], "kind": "MultiHash", "version": 2});
        Definition::from_json(&paths, 2).unwrap()
    }

    #[test]
    fn pages() {
        let key = key();
        let writer = |form| Writer { form, key: &key };
        assert_eq!(
            writer(Form::Bare).page("r=", &[changed("{\"id\":\"1\"}\n", None), deleted()]),
            r#"{"_rid":"r=","Documents":[{"id":"1","_lsn":7},{"previous":{"id":"a\"b"},"metadata":{"lsn":7,"crts":5,"operationType":"delete","previousImageLSN":6,"timeToLiveExpired":true,"id":"a\"b","partitionKey":{"tenant/id":"x"}}}],"_count":2}"#
        );
        assert_eq!(
            writer(Form::Envelope).page("r=", &[changed("{\"id\":\"1\"}", None)]),
            r#"{"_rid":"r=","Documents":[{"current":{"id":"1"},"metadata":{"lsn":7,"crts":5}}],"_count":1}"#
        );
    }

    #[test]
    fn what_is_written_fits_into_what_was_reserved() {
        let key = key();
        for form in [Form::Bare, Form::Envelope] {
            let writer = Writer { form, key: &key };
            for mut change in [changed("{\"id\":\"1\"}", None), deleted()] {
                (change.lsn, change.ts_ms) = (u64::MAX, u64::MAX);
                let mut out = Vec::new();
                writer.change(&mut out, &change);
                assert!(out.len() <= writer.room(&change), "{form:?}");
            }
        }
    }

    #[test]
    fn events_carry_the_position_at_the_end_of_a_page() {
        let key = key();
        let writer = Writer { form: Form::Bare, key: &key };
        let changes = vec![changed("{\r\n\"id\":\"1\"}", None), changed("{\"id\":\"2\"}", None)];
        let page = ChangesPage { changes, position: Position::Lsn(7), more: false };
        assert_eq!(
            writer.events(&page),
            "event: change\ndata: {\ndata: \ndata: \"id\":\"1\",\"_lsn\":7}\n\n\
             id: \"7\"\nevent: change\ndata: {\"id\":\"2\",\"_lsn\":7}\n\n"
        );
        let empty = ChangesPage { changes: Vec::new(), ..page };
        assert_eq!(writer.events(&empty), "id: \"7\"\n\n");
    }
}
