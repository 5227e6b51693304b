//! The control document: what the whole fleet is told.
//!
//! Written by people (through the command line or [`crate::Fleet`]), obeyed by every host. A seek
//! happens while nobody owns a lease: hosts let go of everything, the one who asked rewrites the
//! leases, and takes the order back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What hosts are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Control {
    /// The id of the document.
    pub id: String,
    /// Its partition key, where the container is keyed by `/partitionKey`.
    #[serde(rename = "partitionKey", default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// No handler is called while this holds.
    #[serde(default)]
    pub paused: bool,
    /// Grows with each order to redrive dead letters.
    #[serde(default)]
    pub redrive: u64,
    /// A seek that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek: Option<Seek>,
    /// How many seeks there were.
    #[serde(default)]
    pub seeks: u64,
}

/// A seek.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seek {
    /// Its number; leases that have followed it carry it.
    pub serial: u64,
    /// Where to, as text of a [`crate::Start`].
    pub start: String,
    /// The leases it concerns, by token; nothing for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<String>>,
}

impl Control {
    /// Reads the document.
    pub fn read(body: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(Value::Object(body.clone())).ok()
    }

    /// The document.
    pub fn write(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(body)) => body,
            _ => Map::new(),
        }
    }

    /// Whether a seek holds a lease back.
    pub fn holds(&self, token: &str) -> bool {
        let names = |seek: &Seek| {
            seek.tokens.as_ref().is_none_or(|tokens| tokens.iter().any(|each| each == token))
        };
        self.seek.as_ref().is_some_and(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_their_document() {
        let seek = Seek { serial: 2, start: "beginning".into(), tokens: Some(vec!["0".into()]) };
        let control = Control { id: "P.control".into(), seek: Some(seek), ..Control::default() };
        assert_eq!(Control::read(&control.write()), Some(control.clone()));
        assert!(control.holds("0") && !control.holds("1"));
        assert!(!Control::default().holds("0"));
    }
}
