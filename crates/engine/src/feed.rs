//! Pages of items, in the order of their keys.
//!
//! The order is that of `Docs`: effective partition key, then id. It is the same over all
//! partitions of a container, so the key of the last item is a position that survives
//! restarts and splits, and a page never repeats or skips an item that stays.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::epk::{self, Epk};
use model::partition_key::PartitionKey;
use model::rid::ItemRid;
use model::token::{Continuation, Session};
use model::{Result, charge, limits};

use crate::Container;
use crate::api::{Answer, ItemPage, Page, Scope, storage};
use crate::container::Span;
use crate::doomed::Doomed;
use crate::item;
use crate::keys::{self, Row, Slot};

/// Marks the continuations made here.
const CONTINUATION_KIND: u8 = b'i';

/// Rows looked at for one page. A page of items that are mostly gone ends here.
const ROWS_EXAMINED: usize = 20_000;

impl Container {
    /// The next page of the items in a scope.
    pub async fn read_items(
        &self,
        scope: &Scope,
        page: &Page,
        session: Option<&Session>,
    ) -> Result<Answer<ItemPage>> {
        self.page(scope, page, session).await
    }

    /// The id of the item that a rid names, among those of a partition key. Links by rid are
    /// rare enough to be paid for by a scan of the key's items instead of by every write.
    pub async fn id_of(&self, rid: ItemRid, key: &PartitionKey) -> Result<Option<String>> {
        self.check_alive()?;
        if rid.container != self.rid {
            return Ok(None);
        }
        let prefix = keys::key_prefix(&self.definition().partition_key, key);
        for span in self.spans_of(&Scope::Key(key.clone()))? {
            let (_, view) = span.partition.view();
            let mut from = Bound::Included(Bytes::copy_from_slice(span.keys.min.significant()));
            loop {
                let chunk = view.scan(span.scan(from, 1_000)).await.map_err(storage)?;
                for (item_key, stored) in &chunk.rows {
                    if let Some(id) = item_key.strip_prefix(&prefix[..])
                        && let Slot::Item(row) = Slot::decode(stored)?
                        && row.ordinal == rid.ordinal
                    {
                        return Ok(Some(String::from_utf8_lossy(id).into_owned()));
                    }
                }
                match chunk.resume {
                    Some(resume) => from = Bound::Excluded(resume),
                    None => break,
                }
            }
        }
        Ok(None)
    }

    async fn page(
        &self,
        scope: &Scope,
        page: &Page,
        session: Option<&Session>,
    ) -> Result<Answer<ItemPage>> {
        self.check_alive()?;
        let spans = self.spans_of(scope)?;
        let token_scope = self.token_scope(scope);
        let after = match &page.continuation {
            Some(text) => {
                Some(Continuation::decode(text, CONTINUATION_KIND, token_scope)?.position)
            }
            None => None,
        };
        let partition = spans
            .first()
            .map_or_else(|| self.partitions()[0].clone(), |span| span.partition.clone());
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let lsn = partition.lsn();
        let result = self.gather(&spans, page, session, after).await;
        let charge = match &result {
            Ok(gathered) => charge::feed(gathered.bytes, gathered.bodies.len()),
            Err(_) => charge::refused(),
        };
        let result = result.map(|gathered| ItemPage {
            continuation: gathered.position.map(|position| {
                Continuation { kind: CONTINUATION_KIND, scope: token_scope, position }.encode()
            }),
            bodies: gathered.bodies,
        });
        Ok(self.charged(Answer {
            at: partition.at(lsn, None),
            charge,
            retry_after_ms: None,
            result,
        }))
    }

    /// Tells the continuations of one list from those of every other. Ranges count as one list:
    /// after a split or merge clients go on in another range, or a part of one, with what they have.
    fn token_scope(&self, scope: &Scope) -> u64 {
        let scope = match scope {
            Scope::Range(_) | Scope::Epk(_) => "a range".to_owned(),
            other => format!("{other:?}"),
        };
        epk::digest64(format!("{}\0{scope}\0", self.rid()).as_bytes())
    }

    async fn gather(
        &self,
        spans: &[Span],
        page: &Page,
        session: Option<&Session>,
        after: Option<Bytes>,
    ) -> Result<Gathered> {
        let wanted = page.items.unwrap_or(limits::PAGE_ITEMS_DEFAULT).min(limits::PAGE_ITEMS);
        let mut gathered = Gathered::new(wanted);
        let default_ttl = self.definition().default_ttl;
        for (n, span) in spans.iter().enumerate() {
            span.partition.check_session(session)?;
            let Some(mut from) = start(span, after.as_ref()) else { continue };
            let (_, view, doomed) = span.partition.look().await?;
            let live = Live { doomed: &doomed, default_ttl, now: self.env.now_seconds() };
            loop {
                let chunk = view.scan(span.scan(from, gathered.room())).await.map_err(storage)?;
                let filled = take(&*view, &chunk.rows, &live, &mut gathered).await?;
                if filled {
                    let last = n + 1 == spans.len()
                        && chunk.resume.is_none()
                        && gathered.took_all(&chunk.rows);
                    return Ok(if last { gathered.finished() } else { gathered });
                }
                match chunk.resume {
                    Some(resume) => from = Bound::Excluded(resume),
                    None => break,
                }
            }
        }
        Ok(gathered.finished())
    }
}

/// Which items are there for everybody.
struct Live<'a> {
    doomed: &'a Doomed,
    default_ttl: Option<i32>,
    now: u32,
}

/// Adds the items of some rows; true when the page is full.
async fn take(
    view: &dyn View,
    rows: &[(Bytes, Bytes)],
    live: &Live<'_>,
    gathered: &mut Gathered,
) -> Result<bool> {
    let is_alive = |key: &Bytes, row: &Row| {
        !row.expired(live.default_ttl, live.now) && !live.doomed.hides(key, row.etag.lsn())
    };
    let mut alive = Vec::with_capacity(rows.len());
    for (key, stored) in rows {
        if let Some(row) = Slot::item(Some(stored))?.filter(|row| is_alive(key, row)) {
            alive.push((key, row));
        }
    }
    let feed_keys: Vec<Bytes> = alive.iter().map(|(_, row)| row.feed_key()).collect();
    let bodies = view.get_many(Keyspace::Feed, &feed_keys).await.map_err(storage)?;
    for ((key, row), stored) in alive.into_iter().zip(bodies) {
        let body = item::body_of(&row, key, stored.as_ref())?;
        if gathered.add(key, body) {
            return Ok(true);
        }
    }
    if let Some((key, _)) = rows.last() {
        gathered.position = Some(key.clone());
    }
    gathered.examined += rows.len();
    Ok(gathered.examined >= ROWS_EXAMINED)
}

/// Where a span is entered: after the last item of the page before, or at its beginning.
/// `None` when the page before was already past it.
pub(crate) fn start(span: &Span, after: Option<&Bytes>) -> Option<Bound<Bytes>> {
    let begin = Bytes::copy_from_slice(span.keys.min.significant());
    let Some(after) = after else { return Some(Bound::Included(begin)) };
    if !span.is_last() && after[..] >= *span.keys.max.significant() {
        return None;
    }
    if after[..] < begin[..] {
        Some(Bound::Included(begin))
    } else {
        Some(Bound::Excluded(after.clone()))
    }
}

impl Span {
    /// Whether it reaches to the end of the key space.
    pub(crate) fn is_last(&self) -> bool {
        self.keys.max == Epk::max()
    }

    pub(crate) fn scan(&self, from: Bound<Bytes>, rows: usize) -> Scan {
        let to = match self.is_last() {
            true => Bound::Unbounded,
            false => Bound::Excluded(Bytes::copy_from_slice(self.keys.max.significant())),
        };
        Scan {
            keyspace: Keyspace::Docs,
            from,
            to,
            reverse: false,
            rows,
            bytes: usize::MAX,
            keys_only: false,
        }
    }
}

/// A page being filled.
struct Gathered {
    bodies: Vec<Bytes>,
    bytes: usize,
    wanted: usize,
    examined: usize,
    position: Option<Bytes>,
}

impl Gathered {
    fn new(wanted: usize) -> Self {
        Self { bodies: Vec::new(), bytes: 0, wanted, examined: 0, position: None }
    }

    /// Rows worth asking for at once.
    fn room(&self) -> usize {
        (self.wanted - self.bodies.len()).clamp(16, 256)
    }

    /// Adds an item; true when the page is full with it.
    fn add(&mut self, key: &Bytes, body: Bytes) -> bool {
        self.position = Some(key.clone());
        self.bytes += body.len();
        self.bodies.push(body);
        self.bodies.len() >= self.wanted || self.bytes >= limits::PAGE_BYTES
    }

    fn took_all(&self, rows: &[(Bytes, Bytes)]) -> bool {
        rows.last().is_none_or(|(key, _)| Some(key) == self.position.as_ref())
    }

    /// The same page, with nothing after it.
    fn finished(self) -> Self {
        Self { position: None, ..self }
    }
}

const _: () = {
    /// Pages are gathered on any thread.
    const fn is_send<T: Send>() {}
    is_send::<Arc<Container>>();
};
