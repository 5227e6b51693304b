//! An item on its way in: what the database reads of it, and the bytes that are stored.

use std::borrow::Cow;

use crate::json::{self, Document, Kind};
use crate::limits::{ITEM_BYTES, ITEM_ID_BYTES, RESOURCE_ID_CHARS};
use crate::rid::ItemRid;
use crate::token::Etag;
use crate::{Error, Fault, Result, digits};

/// The members that the server sets; what a client sends under these names is dropped.
pub const SYSTEM_PROPERTIES: [&str; 6] = ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

/// A checked item.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// Its id.
    pub id: Cow<'a, str>,
    /// Its own time to live in seconds; -1 is forever.
    pub ttl: Option<i32>,
    /// Everything that was sent.
    pub document: Document<'a>,
}

/// What the server adds to an item.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// The resource id.
    pub rid: ItemRid,
    /// The container's path of resource ids, with a slash at its end.
    pub container: &'a str,
    /// The version.
    pub etag: Etag,
    /// When it was written, in seconds since 1970.
    pub ts: u32,
}

impl<'a> Item<'a> {
    /// Checks the body of a write.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        Self::of(Document::parse(body)?)
    }

    /// The same, where the text has been checked.
    pub fn of(document: Document<'a>) -> Result<Self> {
        for name in ["id", "ttl"] {
            if document.duplicate(name) {
                return Err(Error::bad_request(format!(
                    "the input content is invalid: it has '{name}' more than once"
                )));
            }
        }
        let id = item_id(&document)?;
        let ttl = document.get("ttl").map(ttl_seconds).transpose()?;
        Ok(Self { id, ttl, document })
    }

    /// Appends the stored form: the members as they were sent, without the system properties
    /// among them, then ours. Returns where in `out` ours begin.
    pub fn write(&self, stamp: &Stamp<'_>, out: &mut Vec<u8>) -> Result<usize> {
        let start = out.len();
        out.reserve(self.document.text().len() + STAMP_BYTES + stamp.container.len());
        out.push(b'{');
        self.write_members(out);
        if out.len() > start + 1 {
            out.push(b',');
        }
        let stamped = out.len();
        stamp.write_into(out);
        out.push(b'}');
        let bytes = out.len() - start;
        if bytes > ITEM_BYTES {
            out.truncate(start);
            return Err(Error::new(
                Fault::TooLarge,
                format!("the item has {bytes} bytes, the limit is {ITEM_BYTES}; make it smaller"),
            ));
        }
        Ok(stamped)
    }

    /// Members that follow each other are copied as one slice, with what stands between them.
    fn write_members(&self, out: &mut Vec<u8>) {
        let kept = |index: usize| !is_system_property(&self.document.members()[index].key);
        let members = self.document.members();
        let mut runs = 0;
        let mut first = 0;
        while first < members.len() {
            if !kept(first) {
                first += 1;
                continue;
            }
            let mut last = first;
            while last + 1 < members.len() && kept(last + 1) {
                last += 1;
            }
            if runs > 0 {
                out.push(b',');
            }
            let span = members[first].span.start..members[last].span.end;
            out.extend_from_slice(self.document.slice(span));
            runs += 1;
            first = last + 1;
        }
    }
}

impl Stamp<'_> {
    fn write_into(&self, out: &mut Vec<u8>) {
        // Ids and paths of ids have nothing to escape.
        out.extend_from_slice(b"\"_rid\":\"");
        let rid = out.len();
        self.rid.write_into(out);
        let rid = rid..out.len();
        out.extend_from_slice(b"\",\"_self\":\"");
        out.extend_from_slice(self.container.as_bytes());
        out.extend_from_slice(b"docs/");
        out.extend_from_within(rid);
        out.extend_from_slice(b"/\",\"_etag\":");
        self.etag.write_json_into(out);
        out.extend_from_slice(b",\"_attachments\":\"attachments/\",\"_ts\":");
        digits::push(out, self.ts.into());
    }
}

/// Checks the id of anything but an item.
pub fn check_resource_id(id: &str) -> Result<()> {
    if id.chars().count() > RESOURCE_ID_CHARS {
        return Err(Error::bad_request(format!(
            "the id is longer than {RESOURCE_ID_CHARS} characters; choose a shorter one"
        )));
    }
    check_characters(id, &['/', '\\', '?', '#'])
}

/// Checks the id of an item.
pub fn check_item_id(id: &str) -> Result<()> {
    if id.len() > ITEM_ID_BYTES {
        return Err(Error::bad_request(format!(
            "the id is longer than {ITEM_ID_BYTES} bytes; choose a shorter one"
        )));
    }
    check_characters(id, &['/', '\\'])
}

/// Whether the server sets the member of this name.
pub fn is_system_property(name: &str) -> bool {
    // Asked for every member of every item: most are told by one byte.
    name.as_bytes().first() == Some(&b'_') && SYSTEM_PROPERTIES.contains(&name)
}

/// At least what a stamp takes beside the container's path.
const STAMP_BYTES: usize = 216;

fn item_id<'a>(document: &Document<'a>) -> Result<Cow<'a, str>> {
    let Some(raw) = document.get("id") else {
        return Err(Error::bad_request(
            "the input content is invalid because the required properties - 'id' - are missing; \
             add a string member \"id\"",
        ));
    };
    let Some(id) = json::unescape(raw) else {
        return Err(Error::bad_request(
            "the input content is invalid because of the required properties - 'id' - is not a \
             string; write it in quotes",
        ));
    };
    check_item_id(&id)?;
    Ok(id)
}

fn check_characters(id: &str, refused: &[char]) -> Result<()> {
    let refuse = |what: &str| Err(Error::bad_request(format!("the id {what}; choose another one")));
    if id.is_empty() {
        return refuse("is empty");
    }
    // Of letters and digits alone, as most are, it is told at once.
    if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        if let Some(character) = id.chars().find(|character| refused.contains(character)) {
            return refuse(&format!("has the character '{character}'"));
        }
        if id.contains(char::is_control) {
            return refuse("has a control character");
        }
    }
    if id.ends_with(' ') {
        return refuse("ends in a space");
    }
    Ok(())
}

fn ttl_seconds(raw: &[u8]) -> Result<i32> {
    let value = if json::kind(raw) == Kind::Number { json::number(raw) } else { None };
    match value {
        Some(seconds)
            if seconds == -1.0
                || (1.0..=f64::from(i32::MAX)).contains(&seconds) && seconds.fract() == 0.0 =>
        {
            Ok(seconds as i32)
        }
        _ => {
            let shown: String = String::from_utf8_lossy(raw).chars().take(32).collect();
            Err(Error::bad_request(format!(
                "the input ttl '{shown}' is invalid; give a whole number of seconds from 1 to \
                 {}, or -1 for an item that never expires",
                i32::MAX
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rid::ContainerRid;

    const RID: ItemRid =
        ItemRid { container: ContainerRid { database: 1, container: 1 }, ordinal: 1 };
    const STAMP: Stamp<'_> = Stamp { rid: RID, container: "dbs/x/", etag: Etag([0x1a; 16]), ts: 7 };
    const STAMPED: &str = "\"_rid\":\"AAAAAYAAAAEBAAAAAAAAAA==\",\
        \"_self\":\"dbs/x/docs/AAAAAYAAAAEBAAAAAAAAAA==/\",\
        \"_etag\":\"\\\"1a1a1a1a-1a1a-1a1a-1a1a-1a1a1a1a1a1a\\\"\",\
        \"_attachments\":\"attachments/\",\"_ts\":7}";

    fn stored(body: &str) -> String {
        let mut out = Vec::new();
        Item::parse(body.as_bytes()).unwrap().write(&STAMP, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn refused(body: &str) -> String {
        let error = Item::parse(body.as_bytes()).unwrap_err();
        assert_eq!(error.fault, Fault::BadRequest);
        error.message
    }

    #[test]
    fn bytes_are_stored_as_sent() {
        let kept =
            "\"id\" : \"a\",\n \"n\": 1.50e+2 , \"o\": { \"x\" :[1, 2] }, \"u\\u0065\":\"\\u00e9\"";
        assert_eq!(stored(&format!(" {{ {kept} }} \n")), format!("{{{kept},{STAMPED}"));
    }

    #[test]
    fn system_properties_of_the_client_are_dropped() {
        assert_eq!(
            stored(
                r#"{"_rid":"x","id":"a","_ts":5,"_lsn":1,"b":1,"c":2,"\u005fself":"y","_x":0,"_etag":{}}"#
            ),
            format!("{{\"id\":\"a\",\"b\":1,\"c\":2,\"_x\":0,{STAMPED}")
        );
        assert_eq!(
            stored(r#"{"id":"a","o":{"_rid":1}}"#),
            format!("{{\"id\":\"a\",\"o\":{{\"_rid\":1}},{STAMPED}")
        );
    }

    #[test]
    fn ids_follow_the_rules() {
        assert!(refused("{}").contains("the required properties - 'id'"));
        for id in ["5", "null", "\"\"", "\"a/b\"", "\"a\\\\b\"", "\"a \"", "\"\\n\""] {
            refused(&format!("{{\"id\":{id}}}"));
        }
        refused(r#"{"id":"a","id":"b"}"#);
        refused(r#"{"id":"a","\u0069d":"b"}"#);
        refused(&format!("{{\"id\":\"{}\"}}", "x".repeat(1024)));
        assert!(Item::parse(format!("{{\"id\":\"{}\"}}", "x".repeat(1023)).as_bytes()).is_ok());
        assert_eq!(Item::parse(br#"{"id":"\u00e9 b"}"#).unwrap().id, "é b");
        assert_eq!(Item::parse(br#"{"id":"a?#"}"#).unwrap().id, "a?#");
    }

    #[test]
    fn resource_ids_count_characters() {
        assert!(check_resource_id(&"é".repeat(255)).is_ok());
        assert!(check_resource_id(&"e".repeat(256)).is_err());
        assert!(check_resource_id("").is_err() && check_resource_id("a#").is_err());
    }

    #[test]
    fn time_to_live_is_a_whole_number_of_seconds() {
        let ttl = |value: &str| {
            Item::parse(format!("{{\"id\":\"a\",\"ttl\":{value}}}").as_bytes()).map(|item| item.ttl)
        };
        assert_eq!(ttl("-1"), Ok(Some(-1)));
        assert_eq!(ttl("1"), Ok(Some(1)));
        assert_eq!(ttl("2147483647"), Ok(Some(i32::MAX)));
        assert_eq!(ttl("6e1"), Ok(Some(60)));
        for value in ["0", "-2", "1.5", "2147483648", "\"5\"", "null", "[]", "1e99"] {
            assert!(ttl(value).is_err(), "{value}");
        }
        assert_eq!(Item::parse(br#"{"id":"a"}"#).unwrap().ttl, None);
    }

    #[test]
    fn the_limit_counts_the_stored_form() {
        let room = ITEM_BYTES - stored(r#"{"id":"a","s":""}"#).len();
        let fits = format!("{{\"id\":\"a\",\"s\":\"{}\"}}", "x".repeat(room));
        assert_eq!(stored(&fits).len(), ITEM_BYTES);
        let body = fits.replace("\"id\":\"a\"", "\"id\":\"ab\"");
        let mut out = b"before".to_vec();
        let error = Item::parse(body.as_bytes()).unwrap().write(&STAMP, &mut out).unwrap_err();
        assert_eq!((error.fault, &out[..]), (Fault::TooLarge, &b"before"[..]));
    }
}
