//! How the catalog is stored: rows of partition 0, in `Meta`.
//!
//! ```text
//! 'n'               → JSON   the next numbers to give out, so that none is given twice
//! 'k'               → 32 bytes, the signing secret
//! 'r' <rid>         → JSON   one resource
//! 'g' <number u32>  → ""     a partition whose rows are still to be removed
//! 's' <rid>         → JSON   how many partitions a container is to get
//! ```

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use kv::{Keyspace, Op, Owner, Scan, View};
use model::Result;
use model::epk::{Epk, EpkRange};
use model::token::Etag;
use serde_json::{Map, Value, json};

use crate::Kind;
use crate::api::{Resource, storage};
use crate::keys::corrupt;

const COUNTERS: Bytes = Bytes::from_static(b"n");
const SECRET: Bytes = Bytes::from_static(b"k");

/// The next numbers to give out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    /// For resources and their versions.
    pub seq: u64,
    /// For partitions. 0 is the catalog.
    pub partition: u32,
}

/// A partition of a container, as stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionRecord {
    pub number: u32,
    pub range: String,
    pub span: EpkRange,
    pub parents: Vec<String>,
}

/// A resource, as stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub seq: u64,
    pub resource: Resource,
    pub partitions: Vec<PartitionRecord>,
    pub highest: u32,
}

/// Everything that was stored.
pub(crate) struct Loaded {
    pub counters: Counters,
    pub secret: Option<[u8; 32]>,
    pub entries: Vec<Record>,
    pub garbage: Vec<u32>,
    pub scaling: Vec<(String, usize)>,
}

pub(crate) fn put_counters(counters: Counters) -> Op {
    let stored = json!({"seq": counters.seq, "partition": counters.partition}).to_string();
    Op::Put(Keyspace::Meta, COUNTERS, stored.into())
}

pub(crate) fn put(record: &Record) -> Op {
    Op::Put(Keyspace::Meta, row_key(&record.resource.rid), encode(record).into())
}

pub(crate) fn remove(rid: &str) -> Op {
    Op::Delete(Keyspace::Meta, row_key(rid))
}

pub(crate) fn put_garbage(number: u32) -> Op {
    Op::Put(Keyspace::Meta, garbage_key(number), Bytes::new())
}

pub(crate) fn remove_garbage(number: u32) -> Op {
    Op::Delete(Keyspace::Meta, garbage_key(number))
}

pub(crate) fn put_scaling(rid: &str, partitions: usize) -> Op {
    Op::Put(Keyspace::Meta, scaling_key(rid), partitions.to_string().into())
}

pub(crate) fn remove_scaling(rid: &str) -> Op {
    Op::Delete(Keyspace::Meta, scaling_key(rid))
}

/// Keeps the secret, and returns it.
pub(crate) async fn save_secret(owner: &dyn Owner, secret: [u8; 32]) -> Result<[u8; 32]> {
    let batch = vec![Op::Put(Keyspace::Meta, SECRET, Bytes::copy_from_slice(&secret))];
    owner.submit(batch).map_err(storage)?.durable().await.map_err(storage)?;
    Ok(secret)
}

/// Reads everything.
pub(crate) async fn load(view: &dyn View) -> Result<Loaded> {
    let counters = match view.get(Keyspace::Meta, &COUNTERS).await.map_err(storage)? {
        Some(stored) => {
            decode_counters(&stored).ok_or_else(|| corrupt("the catalog's counters"))?
        }
        None => Counters { seq: 1, partition: 1 },
    };
    let secret = view.get(Keyspace::Meta, &SECRET).await.map_err(storage)?;
    let secret = secret
        .map(|stored| <[u8; 32]>::try_from(&stored[..]).map_err(|_| corrupt("the signing secret")));
    let mut entries = Vec::new();
    for (_, stored) in rows(view, b'r').await? {
        entries.push(decode(&stored).ok_or_else(|| corrupt("a resource of the catalog"))?);
    }
    let mut garbage = Vec::new();
    for (key, _) in rows(view, b'g').await? {
        let number = key.get(1..).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes);
        garbage.push(number.ok_or_else(|| corrupt("the list of removed partitions"))?);
    }
    let mut scaling = Vec::new();
    for (key, stored) in rows(view, b's').await? {
        let rid = key.get(1..).and_then(|rid| std::str::from_utf8(rid).ok());
        let partitions = serde_json::from_slice(&stored).ok();
        let row = rid.map(str::to_owned).zip(partitions);
        scaling.push(row.ok_or_else(|| corrupt("the list of containers to scale"))?);
    }
    Ok(Loaded { counters, secret: secret.transpose()?, entries, garbage, scaling })
}

async fn rows(view: &dyn View, family: u8) -> Result<Vec<(Bytes, Bytes)>> {
    let mut rows = Vec::new();
    let mut from = Bound::Included(Bytes::copy_from_slice(&[family]));
    loop {
        let to = Bound::Excluded(Bytes::copy_from_slice(&[family + 1]));
        let scan = Scan {
            keyspace: Keyspace::Meta,
            from,
            to,
            reverse: false,
            rows: 1000,
            bytes: 1 << 20,
            keys_only: false,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        rows.extend(chunk.rows);
        match chunk.resume {
            Some(resume) => from = Bound::Excluded(resume),
            None => return Ok(rows),
        }
    }
}

fn row_key(rid: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(1 + rid.len());
    key.put_u8(b'r');
    key.put_slice(rid.as_bytes());
    key.freeze()
}

fn scaling_key(rid: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(1 + rid.len());
    key.put_u8(b's');
    key.put_slice(rid.as_bytes());
    key.freeze()
}

fn garbage_key(number: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(5);
    key.put_u8(b'g');
    key.put_u32(number);
    key.freeze()
}

fn decode_counters(stored: &[u8]) -> Option<Counters> {
    let stored: Value = serde_json::from_slice(stored).ok()?;
    Some(Counters {
        seq: stored["seq"].as_u64()?,
        partition: u32::try_from(stored["partition"].as_u64()?).ok()?,
    })
}

fn encode(record: &Record) -> String {
    let Record { seq, resource, partitions, highest } = record;
    let partitions: Vec<Value> = partitions.iter().map(encode_partition).collect();
    json!({
        "seq": seq,
        "kind": resource.kind.segment(),
        "rid": resource.rid,
        "owner": resource.owner,
        "self": resource.self_link,
        "etag": resource.etag.to_string(),
        "ts": resource.ts,
        "body": resource.body,
        "partitions": partitions,
        "highest": highest,
    })
    .to_string()
}

fn encode_partition(partition: &PartitionRecord) -> Value {
    let PartitionRecord { number, range, span, parents } = partition;
    json!({
        "number": number,
        "range": range,
        "min": span.min.to_hex(),
        "max": span.max.to_hex(),
        "parents": parents,
    })
}

fn decode(stored: &[u8]) -> Option<Record> {
    let stored: Value = serde_json::from_slice(stored).ok()?;
    let text = |name: &str| stored[name].as_str().map(str::to_owned);
    let body: Map<String, Value> = stored["body"].as_object()?.clone();
    let kind = stored["kind"].as_str()?;
    let resource = Resource {
        kind: Kind::ALL.into_iter().find(|known| known.segment() == kind)?,
        id: body.get("id")?.as_str()?.to_owned(),
        rid: text("rid")?,
        owner: text("owner")?,
        self_link: text("self")?,
        etag: Etag::parse(stored["etag"].as_str()?)?,
        ts: u32::try_from(stored["ts"].as_u64()?).ok()?,
        body,
    };
    Some(Record {
        seq: stored["seq"].as_u64()?,
        resource,
        partitions: stored["partitions"]
            .as_array()?
            .iter()
            .map(decode_partition)
            .collect::<Option<_>>()?,
        highest: u32::try_from(stored["highest"].as_u64()?).ok()?,
    })
}

fn decode_partition(stored: &Value) -> Option<PartitionRecord> {
    let bound = |name: &str| Epk::from_hex(stored[name].as_str()?).ok();
    let parents = stored["parents"].as_array()?;
    Some(PartitionRecord {
        number: u32::try_from(stored["number"].as_u64()?).ok()?,
        range: stored["range"].as_str()?.to_owned(),
        span: EpkRange { min: bound("min")?, max: bound("max")? },
        parents: parents
            .iter()
            .map(|parent| parent.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was() {
        let Value::Object(body) = json!({"id": "orders", "partitionKey": {"paths": ["/pk"]}})
        else {
            panic!()
        };
        let record = Record {
            seq: 9,
            resource: Resource {
                kind: Kind::Container,
                id: "orders".into(),
                rid: "AAAAAYAAAAI=".into(),
                owner: "AAAAAQ==".into(),
                self_link: "dbs/AAAAAQ==/colls/AAAAAYAAAAI=/".into(),
                etag: Etag([3; 16]),
                ts: 77,
                body,
            },
            partitions: vec![PartitionRecord {
                number: 4,
                range: "0".into(),
                span: EpkRange {
                    min: Epk::from_hex("").unwrap(),
                    max: Epk::from_hex("FF").unwrap(),
                },
                parents: vec!["7".into()],
            }],
            highest: 400,
        };
        assert_eq!(decode(encode(&record).as_bytes()), Some(record));
        assert_eq!(decode(b"{\"seq\":1}"), None);
    }
}
