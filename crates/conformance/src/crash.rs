//! Writers that remember what the server promised them, and the check of its promises.

pub mod group;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::http::Response;
use crate::json::Json;
use crate::random::Random;
use crate::wire::Wire;

/// Items of one writer.
const ITEMS: usize = 12;

/// What was found wrong, and how much was done.
#[derive(Debug, Default)]
pub struct Report {
    /// Times the server was killed.
    pub cycles: u64,
    /// Writes that the server said it had.
    pub acknowledged: u64,
    /// Batches that the server said it had.
    pub batches: u64,
    /// Procedures likewise.
    pub procedures: u64,
    /// Bulk requests likewise.
    pub bulks: u64,
    /// Writes whose answer never came.
    pub in_flight: u64,
    /// Acknowledged writes that are gone, or gone back.
    pub lost: u64,
    /// Items that are neither what was acknowledged nor what was under way.
    pub torn: u64,
    /// LSNs that did not grow.
    pub lsn: u64,
    /// Each of them in words.
    pub wrong: Vec<String>,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server has it.
    Acknowledged,
    /// The server said no.
    Refused,
    /// No answer: it may or may not have it.
    Unknown,
}

/// An item as the server shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Its etag.
    pub etag: String,
    /// The number of the write that made it.
    pub version: u64,
    /// The text that goes with the number.
    pub filling: String,
}

impl Item {
    /// Reads an item of ours out of a body.
    fn of(body: &Json) -> Option<Self> {
        let text = |name| body.get(name).and_then(Json::text).map(str::to_owned);
        let Json::Number(version) = body.get("version")? else { return None };
        Some(Self {
            id: text("id")?,
            etag: text("_etag")?,
            version: version.parse().ok()?,
            filling: text("filling")?,
        })
    }

    /// Whether the filling is the one of the version: a mixture of two writes would show.
    fn is_whole(&self) -> bool {
        self.filling == filling(&self.id, self.version)
    }
}

/// What a writer knows of one of its items.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Version and etag last acknowledged; `None` when it should not exist. The etag is not
    /// known where the acknowledged write was found after a crash.
    stored: Option<(u64, Option<String>)>,
    /// What may be instead: the write whose answer never came. `Some(None)` is a delete.
    pending: Option<Option<u64>>,
}

/// A client that writes its own items and remembers.
#[derive(Debug)]
pub struct Writer {
    name: String,
    container: &'static str,
    random: Random,
    items: Vec<Known>,
    version: u64,
    /// Highest LSN seen, by range.
    lsns: HashMap<String, u64>,
    acknowledged: u64,
    wrong: Vec<String>,
}

impl Writer {
    /// The writer of that number; numbers spread over the containers.
    pub fn new(number: usize, containers: &[&'static str], seed: u64) -> Self {
        Self {
            name: format!("w{number}"),
            container: containers[number % containers.len()],
            random: Random::new(seed.wrapping_mul(1000).wrapping_add(number as u64)),
            items: vec![Known::default(); ITEMS],
            version: 0,
            lsns: HashMap::new(),
            acknowledged: 0,
            wrong: Vec::new(),
        }
    }

    /// Writes until told to stop or until the server is gone.
    pub fn write(&mut self, endpoint: &str, stop: &AtomicBool) {
        let mut wire = Wire::new(endpoint);
        while !stop.load(Ordering::Relaxed) {
            let n = self.random.below(ITEMS as u64) as usize;
            let outcome = self.change(&mut wire, n);
            match outcome {
                Outcome::Acknowledged => self.acknowledged += 1,
                Outcome::Refused => {}
                Outcome::Unknown => return,
            }
        }
    }

    /// One create, replace, upsert or delete, whichever fits what should be there.
    fn change(&mut self, wire: &mut Wire, n: usize) -> Outcome {
        let exists = self.items[n].stored.is_some();
        let deletes = exists && self.random.below(4) == 0;
        self.version += 1;
        let (id, key) = (self.id(n), self.key(n));
        let mut headers = vec![("x-ms-documentdb-partitionkey", key.as_str())];
        let etag = self.items[n]
            .stored
            .as_ref()
            .and_then(|(_, etag)| etag.clone())
            .filter(|_| self.version.is_multiple_of(3));
        if let Some(etag) = &etag {
            headers.push(("if-match", etag));
        }
        let body = if deletes { Vec::new() } else { self.body(n).into_bytes() };
        let list = format!("/dbs/crash/colls/{}/docs", self.container);
        let item = format!("{list}/{id}");
        let (method, path) = match (exists, deletes) {
            (_, true) => ("DELETE", &item),
            (true, false) => ("PUT", &item),
            (false, false) => ("POST", &list),
        };
        let answer = wire.send(method, path, &headers, &body);
        self.items[n].pending = Some((!deletes).then_some(self.version));
        self.learn(n, answer.ok(), method)
    }

    fn learn(&mut self, n: usize, answer: Option<Response>, method: &str) -> Outcome {
        let Some(answer) = answer else { return Outcome::Unknown };
        if !(200..300).contains(&answer.status) {
            self.items[n].pending = None;
            // A busy server may refuse; anything else means that it does not know what we know.
            if !matches!(answer.status, 408 | 429 | 449 | 503) {
                let text = answer.text();
                self.wrong.push(format!(
                    "{method} {} {}: {} {text}",
                    self.container,
                    self.id(n),
                    answer.status
                ));
            }
            return Outcome::Refused;
        }
        self.see_lsn(&answer);
        let known = &mut self.items[n];
        let etag = answer.header("etag").map(str::to_owned);
        known.stored = known.pending.take().flatten().map(|version| (version, etag));
        Outcome::Acknowledged
    }

    /// A write's LSN must be above all that this writer has seen of the range, restarts included.
    fn see_lsn(&mut self, answer: &Response) {
        let range = answer.header("x-ms-documentdb-partitionkeyrangeid").unwrap_or("").to_owned();
        let lsn = answer.header("lsn").and_then(|lsn| lsn.parse().ok()).unwrap_or(0);
        let before = self.lsns.insert(range, lsn).unwrap_or(0);
        if lsn <= before {
            self.wrong.push(format!("LSN {lsn} after {before} in {}", self.container));
        }
    }

    /// Reads everything back. What is in order is taken out of the list of what feeds showed.
    pub fn check(
        &mut self,
        wire: &mut Wire,
        listed: &mut HashMap<(String, String), Item>,
        report: &mut Report,
    ) -> usize {
        report.acknowledged += std::mem::take(&mut self.acknowledged);
        for wrong in self.wrong.drain(..) {
            report.lsn += u64::from(wrong.starts_with("LSN"));
            report.wrong.push(wrong);
        }
        (0..ITEMS).filter(|&n| self.check_item(wire, n, listed, report)).count()
    }

    fn check_item(
        &mut self,
        wire: &mut Wire,
        n: usize,
        listed: &mut HashMap<(String, String), Item>,
        report: &mut Report,
    ) -> bool {
        let (id, key) = (self.id(n), self.key(n));
        let path = format!("/dbs/crash/colls/{}/docs/{id}", self.container);
        let from_feed = listed.remove(&(self.container.to_owned(), id.clone()));
        let name = format!("{} {id}", self.container);
        let answer = match wire.send("GET", &path, &[("x-ms-documentdb-partitionkey", &key)], &[]) {
            Ok(answer) if matches!(answer.status, 200 | 404) => answer,
            Ok(answer) => {
                return fail(
                    &mut report.torn,
                    &mut report.wrong,
                    format!("{name}: {} {}", answer.status, answer.text()),
                );
            }
            Err(error) => {
                return fail(&mut report.torn, &mut report.wrong, format!("{name}: {error}"));
            }
        };
        let found = match answer.status {
            200 => match Json::parse(&answer.text()).ok().as_ref().and_then(Item::of) {
                Some(item) if item.is_whole() => Some(item),
                _ => {
                    return fail(
                        &mut report.torn,
                        &mut report.wrong,
                        format!("{name} is half-written: {}", answer.text()),
                    );
                }
            },
            _ => None,
        };
        if found != from_feed {
            let what = format!("{name}: the feed shows {from_feed:?}, a read {found:?}");
            return fail(&mut report.torn, &mut report.wrong, what);
        }
        report.in_flight += u64::from(self.items[n].pending.is_some());
        if let Err(what) = self.items[n].settle(found.as_ref()) {
            return fail(&mut report.lost, &mut report.wrong, format!("{name}: {what}"));
        }
        found.is_some()
    }

    /// Tells all writers of the highest LSNs that any of them saw: what comes next must be above.
    pub fn share_lsns(writers: &mut [Writer]) {
        let mut highest: HashMap<(&'static str, String), u64> = HashMap::new();
        for writer in writers.iter() {
            for (range, lsn) in &writer.lsns {
                let known = highest.entry((writer.container, range.clone())).or_default();
                *known = (*known).max(*lsn);
            }
        }
        for writer in writers {
            let ours = highest.iter().filter(|((container, _), _)| *container == writer.container);
            writer.lsns = ours.map(|((_, range), lsn)| (range.clone(), *lsn)).collect();
        }
    }

    fn id(&self, n: usize) -> String {
        format!("{}-{n}", self.name)
    }

    /// Writers share partition keys, so that a crash hits groups of several of them.
    fn key(&self, n: usize) -> String {
        match self.container {
            "levels" => format!(r#"["k{}","{}"]"#, n % 3, self.name),
            _ => format!(r#"["k{}"]"#, n % 5),
        }
    }

    fn body(&self, n: usize) -> String {
        let id = self.id(n);
        let key = match self.container {
            "levels" => format!(r#""a":"k{}","b":"{}""#, n % 3, self.name),
            _ => format!(r#""a":"k{}""#, n % 5),
        };
        let filling = filling(&id, self.version);
        format!(r#"{{"id":"{id}",{key},"version":{},"filling":"{filling}"}}"#, self.version)
    }
}

impl Known {
    /// Compares with what is there, which is from now on what should be there.
    fn settle(&mut self, found: Option<&Item>) -> Result<(), String> {
        let version = found.map(|item| item.version);
        let stored = self.stored.as_ref().map(|(version, _)| *version);
        let pending = self.pending.take();
        if version == stored {
            let etag = self.stored.as_ref().and_then(|(_, etag)| etag.as_deref());
            if let (Some(etag), Some(item)) = (etag, found)
                && etag != item.etag
            {
                return Err(format!("etag {etag} was acknowledged, {} is there", item.etag));
            }
        } else if pending != Some(version) {
            return Err(format!(
                "version {stored:?} was acknowledged, {pending:?} in flight, {version:?} is there"
            ));
        }
        self.stored = found.map(|item| (item.version, Some(item.etag.clone())));
        Ok(())
    }
}

fn fail(count: &mut u64, wrong: &mut Vec<String>, what: String) -> bool {
    *count += 1;
    wrong.push(what);
    false
}

/// A text that belongs to one version of one item, of a length that varies up to some pages.
fn filling(id: &str, version: u64) -> String {
    let unit = format!("{id}/{version};");
    let times = if version.is_multiple_of(17) { 600 } else { 1 + (version % 40) as usize };
    unit.repeat(times)
}

/// All items of a container, page by page.
pub fn feed(wire: &mut Wire, container: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let mut headers = vec![("x-ms-max-item-count", "500")];
        if let Some(token) = &continuation {
            headers.push(("x-ms-continuation", token));
        }
        let path = format!("/dbs/crash/colls/{container}/docs");
        let answer = wire.send("GET", &path, &headers, &[]).map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(format!("{} {}", answer.status, answer.text()));
        }
        let body = Json::parse(&answer.text())?;
        for entry in body.get("Documents").and_then(Json::items).unwrap_or_default() {
            items.push(Item::of(entry).ok_or_else(|| format!("not an item of ours: {entry}"))?);
        }
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return Ok(items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(version: u64, etag: &str) -> Item {
        Item { id: "x".into(), etag: etag.into(), version, filling: filling("x", version) }
    }

    fn known(stored: Option<(u64, &str)>, pending: Option<Option<u64>>) -> Known {
        Known { stored: stored.map(|(version, etag)| (version, Some(etag.to_owned()))), pending }
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        assert!(known(Some((3, "e")), None).settle(Some(&item(3, "e"))).is_ok());
        assert!(known(Some((3, "e")), None).settle(Some(&item(3, "f"))).is_err());
        assert!(known(Some((3, "e")), None).settle(Some(&item(2, "d"))).is_err());
        assert!(known(Some((3, "e")), None).settle(None).is_err());
        assert!(known(None, None).settle(Some(&item(1, "e"))).is_err());
    }

    #[test]
    fn what_was_under_way_may_be_there() {
        assert!(known(Some((3, "e")), Some(Some(4))).settle(Some(&item(4, "f"))).is_ok());
        assert!(known(Some((3, "e")), Some(Some(4))).settle(Some(&item(3, "e"))).is_ok());
        assert!(known(Some((3, "e")), Some(None)).settle(None).is_ok());
        assert!(known(Some((3, "e")), Some(Some(4))).settle(None).is_err());
        assert!(known(None, Some(Some(1))).settle(None).is_ok());
    }

    #[test]
    fn a_mixture_of_two_writes_shows() {
        assert!(item(5, "e").is_whole());
        assert!(!Item { filling: filling("x", 4), ..item(5, "e") }.is_whole());
    }
}
