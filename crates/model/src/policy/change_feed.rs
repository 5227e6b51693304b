//! The change feed policy: how much history a container keeps for readers of its changes.

use serde_json::{Map, Value};

use super::field;
use crate::{Error, Result};

/// Deletes stay readable for a week where the policy does not say.
const TOMBSTONE_MINUTES_DEFAULT: u32 = 7 * 24 * 60;

/// What the change feed keeps beside the newest version of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeFeedPolicy {
    /// Minutes for which every version and delete is kept; 0: they are not.
    pub retention_minutes: u32,
    /// Most bytes of versions that the container keeps, whatever their age.
    pub retention_bytes: Option<u64>,
    /// Versions are kept together with the one they replaced.
    pub previous_images: bool,
    /// Minutes for which the latest-version feed can tell that an item was deleted; 0: it cannot.
    pub tombstone_minutes: u32,
}

impl ChangeFeedPolicy {
    /// The policy that a container's body asks for.
    pub(super) fn read(body: &Map<String, Value>) -> Result<Self> {
        let empty = Map::new();
        let policy = field::object(body, "changeFeedPolicy")?.unwrap_or(&empty);
        Ok(Self {
            retention_minutes: minutes(policy, "retentionDuration")?.unwrap_or(0),
            retention_bytes: bytes(policy)?,
            previous_images: previous_images(policy)?,
            tombstone_minutes: minutes(policy, "tombstoneDuration")?
                .unwrap_or(TOMBSTONE_MINUTES_DEFAULT),
        })
    }
}

fn minutes(policy: &Map<String, Value>, name: &str) -> Result<Option<u32>> {
    let Some(value) = policy.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let read = value.as_u64().and_then(|minutes| u32::try_from(minutes).ok());
    read.map(Some).ok_or_else(|| {
        Error::bad_request(format!(
            "changeFeedPolicy.{name} must be a whole number of minutes from 0 to {}, not {value}",
            u32::MAX
        ))
    })
}

fn bytes(policy: &Map<String, Value>) -> Result<Option<u64>> {
    let value = policy.get("retentionBytes").filter(|value| !value.is_null());
    let Some(value) = value else { return Ok(None) };
    value.as_u64().filter(|bytes| *bytes > 0).map(Some).ok_or_else(|| {
        Error::bad_request(format!(
            "changeFeedPolicy.retentionBytes must be a whole number of bytes above 0, not {value}; \
             leave it out to keep versions by time alone"
        ))
    })
}

fn previous_images(policy: &Map<String, Value>) -> Result<bool> {
    match policy.get("previousImages") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(asked)) => Ok(*asked),
        Some(value) => Err(Error::bad_request(format!(
            "changeFeedPolicy.previousImages must be true or false, not {value}"
        ))),
    }
}
