//! Pages of a transaction's items, its own changes included, in the order of their ids.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use kv::{Keyspace, Scan};
use model::{Error, Result, charge, json, limits};
use script::{Page, PageRequest};
use serde_json::Value;

use super::Transaction;
use crate::api::storage;
use crate::item::body_of;
use crate::keys::{Row, Slot};

/// Rows of one scan.
const CHUNK_ROWS: usize = 256;

impl Transaction {
    /// A page of all items.
    pub(super) fn page(&mut self, request: &PageRequest) -> Result<Page> {
        let wanted = (request.size as usize).clamp(1, limits::PAGE_ITEMS);
        let prefix = self.prefix();
        let mut from = match request.continuation.as_str() {
            "" => Bound::Included(prefix.clone()),
            after => Bound::Excluded(position(&prefix, after)?),
        };
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let (rows, resume) = self.rows(&prefix, from)?;
            for (item_key, row) in rows {
                let body = self.body(&item_key, &row)?;
                bytes += body.len();
                items.push(body);
                if items.len() >= wanted || bytes >= limits::PAGE_BYTES {
                    self.charge += charge::feed(bytes, items.len());
                    let continuation = Some(shown(&prefix, &item_key));
                    return Ok(Page { items, continuation });
                }
            }
            match resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => break,
            }
        }
        self.charge += charge::feed(bytes, items.len());
        Ok(Page { items, continuation: None })
    }

    /// The id of the item with a number. Links by rid are rare enough to be paid for by a scan.
    pub(super) fn id_by_ordinal(&mut self, ordinal: u64) -> Result<Option<String>> {
        let prefix = self.prefix();
        let mut from = Bound::Included(prefix.clone());
        loop {
            let (rows, resume) = self.rows(&prefix, from)?;
            for (item_key, row) in rows {
                if row.ordinal == ordinal {
                    let id = String::from_utf8_lossy(&item_key[prefix.len()..]);
                    return Ok(Some(id.into_owned()));
                }
            }
            match resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => return Ok(None),
            }
        }
    }

    /// Items after a key, own changes included, and whether there are more.
    pub(super) fn documents(
        &mut self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool)> {
        let prefix = self.prefix();
        let mut from = match after {
            None => Bound::Included(prefix.clone()),
            Some(after) => Bound::Excluded(Bytes::copy_from_slice(after)),
        };
        let (mut found, mut bytes) = (Vec::new(), 0);
        loop {
            let (rows, resume) = self.rows(&prefix, from)?;
            for (item_key, row) in rows {
                if found.len() >= limit || bytes >= limits::PAGE_BYTES {
                    return Ok((found, true));
                }
                let body = self.body(&item_key, &row)?;
                bytes += body.len();
                found.push((item_key, body));
            }
            match resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => return Ok((found, false)),
            }
        }
    }

    /// The body of an item, by its key.
    pub(super) fn body_at(&mut self, item_key: &Bytes) -> Result<Option<Bytes>> {
        let prefix = self.prefix();
        let id = item_key.strip_prefix(&prefix[..]).and_then(|id| std::str::from_utf8(id).ok());
        match id {
            Some(id) => Ok(self.find(id)?.map(|(_, body)| body)),
            None => Ok(None),
        }
    }

    /// The next rows of live items under the key, and where the following ones begin.
    fn rows(
        &mut self,
        prefix: &Bytes,
        from: Bound<Bytes>,
    ) -> Result<(BTreeMap<Bytes, Row>, Option<Bytes>)> {
        let (default_ttl, runtime) = (self.definition.default_ttl, self.runtime.clone());
        let ground = self.ground()?;
        let scan = Scan {
            keyspace: Keyspace::Docs,
            from: from.clone(),
            to: Bound::Unbounded,
            reverse: false,
            rows: CHUNK_ROWS,
            bytes: usize::MAX,
            keys_only: false,
        };
        let chunk = runtime.block_on(ground.view.scan(scan)).map_err(storage)?;
        let resume = chunk.resume.filter(|resume| resume.starts_with(prefix));
        let now = crate::item::seconds(ground.now_ms);
        let doomed = ground.doomed.clone();
        let is_alive = |item_key: &Bytes, row: &Row| {
            !row.expired(default_ttl, now) && !doomed.hides(item_key, row.etag.lsn())
        };
        let mut rows = BTreeMap::new();
        for (item_key, stored) in chunk.rows {
            if !item_key.starts_with(prefix) || self.touched.contains(&item_key) {
                continue;
            }
            if let Some(row) = Slot::item(Some(&stored))?.filter(|row| is_alive(&item_key, row)) {
                rows.insert(item_key, row);
            }
        }
        let to = resume.clone().map_or(Bound::Unbounded, Bound::Included);
        let own: Vec<Bytes> = self.touched.range((from, to)).cloned().collect();
        for item_key in own {
            let stored = self.attempt(|draft| draft.get(&(Keyspace::Docs, item_key.clone())))?;
            if let Some(row) = Slot::item(stored.as_ref())? {
                rows.insert(item_key, row);
            }
        }
        Ok((rows, resume))
    }

    pub(super) fn body(&mut self, item_key: &Bytes, row: &Row) -> Result<Bytes> {
        let place = (Keyspace::Feed, row.feed_key());
        if self.touched.contains(item_key) {
            let stored = self.attempt(|draft| draft.get(&place))?;
            return body_of(row, item_key, stored.as_ref());
        }
        // Not kept among what the commit looks at: nobody can have changed it there.
        let runtime = self.runtime.clone();
        let view = self.ground()?.view.clone();
        let stored = runtime.block_on(view.get(place.0, &place.1)).map_err(storage)?;
        body_of(row, item_key, stored.as_ref())
    }
}

/// Where a page ended, as the script is told: the id, by its bytes.
fn shown(prefix: &Bytes, item_key: &Bytes) -> String {
    digits(&item_key[prefix.len()..])
}

fn position(prefix: &Bytes, shown: &str) -> Result<Bytes> {
    Ok([&prefix[..], &bytes_of(shown)?].concat().into())
}

/// Bytes as scripts are given them.
pub(super) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that a script was given.
pub(super) fn bytes_of(digits: &str) -> Result<Vec<u8>> {
    let digits = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.0.iter().map(byte).collect();
    bytes
        .filter(|_| digits.1.is_empty())
        .ok_or_else(|| Error::bad_request("the continuation is not one that a page was given"))
}

/// The parameters of a query, as the script gave them.
pub(super) fn parameters(text: Option<&str>) -> Result<Vec<(String, Value)>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let wrong = || Error::bad_request("the parameters of a query are an array of names and values");
    json::check(text.as_bytes())?;
    let Ok(Value::Array(list)) = serde_json::from_str(text) else { return Err(wrong()) };
    let pair = |mut entry: Value| {
        let name = entry.get("name").and_then(Value::as_str).map(str::to_owned);
        let value = entry.get_mut("value").map(Value::take);
        name.zip(value).ok_or_else(wrong)
    };
    list.into_iter().map(pair).collect()
}
