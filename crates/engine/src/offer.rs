//! Offers: the provisioned throughput of a database or container, as a resource.

use model::throughput::Throughput;
use model::{Error, Result};
use serde_json::{Map, Value};

use crate::api::{Migration, Resource};
use crate::keys::corrupt;

/// What a container gets when nobody says and its database shares nothing.
pub(crate) const DEFAULT: Throughput = Throughput::Manual(400);

/// The body of a new offer.
pub(crate) fn body(rid: &str, target: &Resource, throughput: &Throughput) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("id".into(), rid.into());
    body.insert("resource".into(), target.self_link.as_str().into());
    body.insert("offerResourceId".into(), target.rid.as_str().into());
    body.insert("offerType".into(), "Invalid".into());
    body.insert("offerVersion".into(), "V2".into());
    with_throughput(&body, throughput)
}

/// The same body with another throughput.
pub(crate) fn with_throughput(
    body: &Map<String, Value>,
    throughput: &Throughput,
) -> Map<String, Value> {
    let mut body = body.clone();
    body.insert("content".into(), Value::Object(throughput.offer_content()));
    body
}

/// Rid of what an offer is for.
pub(crate) fn resource_of(offer: &Resource) -> Option<&str> {
    offer.body.get("offerResourceId")?.as_str()
}

/// The throughput of an offer that we stored.
pub(crate) fn throughput_of(offer: &Resource) -> Result<Throughput> {
    let content =
        offer.body.get("content").and_then(Value::as_object).ok_or_else(|| corrupt("an offer"))?;
    Throughput::from_offer_content(content)
}

/// The throughput that a replace asks for.
pub(crate) fn replaced(
    old: &Resource,
    body: &Map<String, Value>,
    minimum: u32,
    highest: u32,
    migration: Option<Migration>,
) -> Result<Throughput> {
    for name in ["id", "resource", "offerResourceId"] {
        if body.get(name).is_some_and(|value| Some(value) != old.body.get(name)) {
            return Err(Error::bad_request(format!(
                "the property '{name}' of an offer cannot be changed"
            )));
        }
    }
    let current = throughput_of(old)?;
    match migration {
        Some(Migration::ToAutoscale) => {
            return Ok(current.migrate_to_autoscale(highest, 0, 0, false));
        }
        Some(Migration::ToManual) => return Ok(current.migrate_to_manual()),
        None => {}
    }
    let content = body.get("content").and_then(Value::as_object);
    let content =
        content.ok_or_else(|| Error::bad_request("the property 'content' must be an object"))?;
    current.replace(Throughput::from_offer_content(content)?, minimum)
}
