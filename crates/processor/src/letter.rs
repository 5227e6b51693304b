//! Dead letters: changes that were set aside, until somebody redrives them.
//!
//! A letter's id follows from the change, so that writing it twice leaves one; it sorts by commit,
//! so that redriving keeps the order.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::change::Change;
use crate::env::scramble;
use crate::span::Span;
use crate::store::{LeaseStore, StoreError, Stored};

/// Longest error text that is kept.
const ERROR_BYTES_MAX: usize = 8 * 1024;

/// A change that was set aside.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// The id of the document.
    pub id: String,
    /// Its partition key, where the container is keyed by `/partitionKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// The lease it came through.
    pub lease_token: String,
    /// The keys of that lease, `min-max`.
    pub span: String,
    /// The value of the change's partition key, a JSON list.
    pub key: String,
    /// Whether later changes of the key wait behind it.
    pub parked: bool,
    /// The number of its commit.
    pub lsn: u64,
    /// Its place within the commit.
    pub place: usize,
    /// What the handler said; nothing for those that only wait behind another.
    pub error: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was set aside, in seconds since 1970.
    pub at: u64,
    /// Whether it is to be handled again.
    pub redrive: bool,
    /// The change.
    pub item: Box<RawValue>,
}

impl Letter {
    /// The change that was set aside.
    pub fn change(&self, key_paths: &[String]) -> Change {
        Change::new(bytes::Bytes::copy_from_slice(self.item.get().as_bytes()), key_paths)
    }

    /// Reads a letter.
    pub fn read(body: &Map<String, Value>) -> Option<Self> {
        serde_json::from_str(&Value::Object(body.clone()).to_string()).ok()
    }

    /// The document.
    pub fn write(&self) -> Map<String, Value> {
        let text = serde_json::to_string(self).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Whether the owner of a lease redrives it: the lease it came through, after a split the first of
    /// its children, after a join what it has become a part of. That is whoever has its lowest key.
    pub fn is_for(&self, token: &str, span: Option<&Span>) -> bool {
        match (Span::of_token(&self.span), span) {
            (Some(whole), Some(span)) => span.min <= whole.min && whole.min < span.max,
            _ => self.lease_token == token,
        }
    }
}

/// Cuts an error text to what is kept.
pub fn shortened(error: &str) -> String {
    let end = (0..=ERROR_BYTES_MAX.min(error.len())).rev().find(|at| error.is_char_boundary(*at));
    error[..end.unwrap_or(0)].to_owned()
}

/// What the ids of all letters of a processor begin with.
pub fn prefix(names_prefix: &str) -> String {
    format!("{names_prefix}dead.")
}

/// The id of a letter.
pub fn id(names_prefix: &str, change: &Change, place: usize) -> String {
    let hash = change.raw().iter().fold(change.lsn(), |sum, byte| scramble(sum ^ u64::from(*byte)));
    format!("{}{:020}.{place:05}.{hash:016x}", prefix(names_prefix), change.lsn())
}

/// Writes a letter; one that is there already is as good.
pub async fn post(store: &dyn LeaseStore, letter: &Letter) -> Result<(), StoreError> {
    match store.create(&letter.write()).await {
        Ok(_) | Err(StoreError::Exists) => Ok(()),
        Err(wrong) => Err(wrong),
    }
}

/// All letters, in the order of their commits.
pub async fn all(
    store: &dyn LeaseStore,
    names_prefix: &str,
) -> Result<Vec<(Letter, Stored)>, StoreError> {
    let mut stored = store.list(&prefix(names_prefix)).await?;
    stored.sort_by(|a, b| a.id.cmp(&b.id));
    let read = |stored: Stored| Letter::read(&stored.body).map(|letter| (letter, stored));
    Ok(stored.into_iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_survive_their_document() {
        let text = r#"{"id":"1","n":1.50,"_lsn":7}"#;
        let change = Change::new(bytes::Bytes::from_static(text.as_bytes()), &["/id".into()]);
        let letter = Letter {
            id: id("P.", &change, 0),
            partition_key: None,
            lease_token: "0".into(),
            span: "-FF".into(),
            key: change.key().into(),
            parked: true,
            lsn: 7,
            place: 0,
            error: Some("no".into()),
            attempts: 3,
            at: 5,
            redrive: false,
            item: RawValue::from_string(text.into()).expect("json"),
        };
        let read = Letter::read(&letter.write()).expect("a letter");
        assert_eq!((read.key.as_str(), read.lsn, read.change(&[]).lsn()), (r#"["1"]"#, 7, 7));
        assert!(letter.id.starts_with("P.dead.00000000000000000007.00000."));
        assert!(letter.is_for("0", None));
        assert!(letter.is_for("1", Span::of_token("-20").as_ref()));
        assert!(!letter.is_for("2", Span::of_token("20-FF").as_ref()));
        let joined = Letter { span: "20-30".into(), ..letter.clone() };
        assert!(joined.is_for("3", Span::of_token("10-FF").as_ref()));
        assert!(!joined.is_for("4", Span::of_token("-20").as_ref()));
        assert!(!joined.is_for("4", Span::of_token("25-FF").as_ref()));
        assert_eq!(shortened(&"ä".repeat(8000)).len(), 8192);
    }
}
