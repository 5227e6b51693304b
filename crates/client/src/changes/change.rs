//! One change, as it came: a document, or an envelope around it.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer;
use crate::error::Result;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    whole: Bytes,
    /// Absent where the whole is the document.
    envelope: Option<Box<Envelope>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Envelope {
    current: Option<Bytes>,
    previous: Option<Bytes>,
    metadata: Metadata,
}

/// What is known of a change beside the document.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Metadata {
    /// The number of the commit.
    pub lsn: Option<u64>,
    /// What was done; told in all-versions mode, and of deletes.
    #[serde(rename = "operationType")]
    pub operation: Option<Operation>,
    /// When, in seconds since 1970.
    #[serde(rename = "crts")]
    pub seconds: Option<u64>,
    /// The commit of the version before.
    #[serde(rename = "previousImageLSN")]
    pub previous_lsn: Option<u64>,
    /// Whether the item was deleted because its time was over.
    #[serde(rename = "timeToLiveExpired", default)]
    pub is_expiry: bool,
    /// The id, of deletes.
    pub id: Option<String>,
    /// The partition key, of deletes, as the server writes it.
    #[serde(rename = "partitionKey")]
    pub partition_key: Option<Value>,
}

/// What was done to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Operation {
    /// It is new.
    Create,
    /// It has another version.
    Replace,
    /// It is gone.
    Delete,
    /// A word that this client does not know.
    #[serde(other)]
    Other,
}

impl Change {
    /// The changes of a page. None of them is copied.
    pub(crate) fn page(body: &Bytes, are_envelopes: bool) -> Result<Vec<Self>> {
        #[derive(Deserialize)]
        struct Page<'a> {
            #[serde(rename = "Documents", borrow)]
            documents: Vec<&'a RawValue>,
        }
        let page: Page<'_> = answer::borrow(body)?;
        let changes = page.documents.into_iter().map(|document| {
            let whole = slice(body, document);
            let envelope = are_envelopes.then(|| Envelope::read(&whole)).transpose()?;
            Ok(Self { whole, envelope: envelope.map(Box::new) })
        });
        changes.collect()
    }

    /// The change as it came: a document, or an envelope around it.
    pub fn bytes(&self) -> &Bytes {
        &self.whole
    }

    /// The document as it is now; none if it was deleted.
    pub fn document_bytes(&self) -> Option<&Bytes> {
        match &self.envelope {
            None => Some(&self.whole),
            Some(envelope) => envelope.current.as_ref(),
        }
    }

    /// The document as it is now, read as a type; none if it was deleted.
    pub fn document<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.document_bytes().map(|bytes| answer::parse(bytes)).transpose()
    }

    /// The document as it was before, where the container keeps it.
    pub fn previous_bytes(&self) -> Option<&Bytes> {
        self.envelope.as_ref()?.previous.as_ref()
    }

    /// The document as it was before, read as a type.
    pub fn previous<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.previous_bytes().map(|bytes| answer::parse(bytes)).transpose()
    }

    /// Whether the item is gone.
    pub fn is_delete(&self) -> bool {
        self.envelope.as_ref().is_some_and(|envelope| envelope.is_delete())
    }

    /// What is known of the change beside the document.
    pub fn metadata(&self) -> Result<Metadata> {
        if let Some(envelope) = &self.envelope {
            return Ok(envelope.metadata.clone());
        }
        #[derive(Deserialize)]
        struct System {
            #[serde(rename = "_lsn")]
            lsn: Option<u64>,
            #[serde(rename = "_ts")]
            seconds: Option<u64>,
        }
        let System { lsn, seconds } = answer::parse(&self.whole)?;
        Ok(Metadata { lsn, seconds, ..Metadata::default() })
    }

    /// The id of the item.
    pub fn id(&self) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Named {
            id: Option<String>,
        }
        match self.document::<Named>()? {
            Some(document) => Ok(document.id),
            None => Ok(self.metadata()?.id),
        }
    }
}

impl Envelope {
    fn read(whole: &Bytes) -> Result<Self> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow, default)]
            current: Option<&'a RawValue>,
            #[serde(borrow, default)]
            previous: Option<&'a RawValue>,
            #[serde(default)]
            metadata: Metadata,
        }
        let parts: Parts<'_> = answer::borrow(whole)?;
        let part = |part: Option<&RawValue>| {
            part.filter(|part| !matches!(part.get(), "null")).map(|part| slice(whole, part))
        };
        let mut envelope = Self {
            current: part(parts.current),
            previous: part(parts.previous),
            metadata: parts.metadata,
        };
        // Some servers send an empty document with a delete.
        if envelope.is_delete() {
            envelope.current = None;
        }
        Ok(envelope)
    }

    fn is_delete(&self) -> bool {
        self.metadata.operation == Some(Operation::Delete)
    }
}

/// The bytes of a value that was read from a text.
fn slice(text: &Bytes, value: &RawValue) -> Bytes {
    text.slice_ref(value.get().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(documents: &str, are_envelopes: bool) -> Result<Vec<Change>> {
        let body = format!(r#"{{"_rid":"r","Documents":[{documents}],"_count":1}}"#);
        Change::page(&Bytes::from(body), are_envelopes)
    }

    #[test]
    fn bare_documents_come_as_they_were_sent() {
        let changes = page(r#"{"id":"1", "n":1.10,"_ts":7,"_lsn":42}, {"id":"2"}"#, false).unwrap();
        assert_eq!(changes[0].bytes(), &br#"{"id":"1", "n":1.10,"_ts":7,"_lsn":42}"#[..]);
        let metadata = changes[0].metadata().unwrap();
        assert_eq!((metadata.lsn, metadata.seconds), (Some(42), Some(7)));
        assert_eq!(changes[1].id().unwrap().as_deref(), Some("2"));
        assert!(!changes[0].is_delete());
    }

    #[test]
    fn envelopes_are_opened() {
        let replace = r#"{"current":{"id":"1"},"previous":{"id":"0"},"metadata":{"lsn":2,"crts":3,"operationType":"replace","previousImageLSN":1}}"#;
        let delete = r#"{"current":{},"metadata":{"lsn":4,"crts":5,"operationType":"delete","timeToLiveExpired":true,"id":"1","partitionKey":{"pk":"a"}}}"#;
        let odd = r#"{"current":{"id":"9"},"metadata":{"operationType":"rename"}}"#;
        let changes = page(&[replace, delete, odd].join(","), true).unwrap();
        assert_eq!(changes[0].document_bytes().unwrap(), &br#"{"id":"1"}"#[..]);
        assert_eq!(changes[0].previous::<Value>().unwrap().unwrap()["id"], "0");
        assert_eq!(changes[0].metadata().unwrap().previous_lsn, Some(1));
        assert!(changes[1].is_delete() && changes[1].document_bytes().is_none());
        assert_eq!(changes[1].id().unwrap().as_deref(), Some("1"));
        assert!(changes[1].metadata().unwrap().is_expiry);
        assert_eq!(changes[2].metadata().unwrap().operation, Some(Operation::Other));
    }

    #[test]
    fn what_is_no_page_is_an_error() {
        assert!(Change::page(&Bytes::from_static(b"<html>"), false).is_err());
        assert!(Change::page(&Bytes::from_static(b"{}"), false).is_err());
        assert!(page("7", true).is_err());
        assert!(page("7", false).unwrap()[0].metadata().is_err());
    }
}
