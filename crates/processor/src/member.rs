//! Host documents: a host says that it lives, and what it can carry.
//!
//! One document per host, rewritten at each heartbeat, is what keeps all of its leases: an idle
//! host with a thousand leases writes as little as one with a single lease.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lease::Owner;

/// Whether a host takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Up,
    /// It gives its leases away and takes none.
    Leaving,
    /// It has stopped and means to come back under its name: its leases wait for it.
    Away,
    /// It has gone, and released what it had.
    Left,
}

/// What a host says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The id of the document.
    pub id: String,
    /// Its partition key, where the container is keyed by `/partitionKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// The instance name.
    pub instance: String,
    /// Which life of that name.
    pub generation: u64,
    /// Tells two processes apart that chose the same generation.
    pub nonce: u32,
    /// Counts heartbeats.
    pub beat: u64,
    /// Whether it takes part.
    pub state: State,
    /// How much it can carry compared with others.
    pub weight: f64,
    /// Fewest leases it wants; 0: no floor.
    pub min: usize,
    /// Most leases it takes; 0: no limit.
    pub max: usize,
    /// For how long others leave its leases alone after it went away, in milliseconds.
    #[serde(default)]
    pub grace_ms: u64,
    /// For how long it may be silent, in milliseconds; those who are less patient wait all the same.
    #[serde(default)]
    pub expires_ms: u64,
}

impl Member {
    /// Reads a host document.
    pub fn read(body: &Map<String, Value>) -> Option<Self> {
        let member: Self = serde_json::from_value(Value::Object(body.clone())).ok()?;
        (member.weight.is_finite() && member.weight > 0.0).then_some(member)
    }

    /// The document.
    pub fn write(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(body)) => body,
            _ => Map::new(),
        }
    }

    /// As whom it owns leases.
    pub fn owner(&self) -> Owner {
        Owner { name: self.instance.clone(), generation: self.generation, nonce: self.nonce }
    }

    /// Changes with each sign of life.
    pub fn mark(&self) -> String {
        format!("{}.{}.{}.{:?}", self.generation, self.nonce, self.beat, self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_survive_their_document() {
        let member = Member {
            id: "P.host.a".into(),
            partition_key: None,
            instance: "a".into(),
            generation: 2,
            nonce: 7,
            beat: 1,
            state: State::Up,
            weight: 1.0,
            min: 0,
            max: 0,
            grace_ms: 0,
            expires_ms: 15_000,
        };
        assert_eq!(Member::read(&member.write()), Some(member.clone()));
        assert_eq!(member.owner().to_string(), "a~2.00000007");
        let mut odd = member.write();
        odd.insert("weight".into(), 0.into());
        assert_eq!(Member::read(&odd), None);
    }
}
