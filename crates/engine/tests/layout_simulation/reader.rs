//! Readers of the change feed, as clients are, and what each of them must have seen.

use std::collections::{BTreeSet, HashMap, HashSet};

use astrarium_engine::{
    Changed, ChangesMode, ChangesPage, ChangesRead, ChangesStart, Container, Operation, Scope,
};
use bytes::Bytes;
use model::epk::{Epk, EpkRange};
use model::partition_key::PartitionKey;
use model::token::Position;
use model::{Error, Fault};
use serde_json::Value;

use super::{ALL, DELETES, Dice, KEYS, LATEST, Name, Totals, World, key};

/// A change as readers compare it: the item, the LSN and whether there is a body, and the time.
/// Under one LSN an item may end that has expired, and another begin in its place.
type Event = (Name, (u64, bool), u64);

fn event(change: &Changed) -> Event {
    (name_of(change), (change.lsn, !change.body.is_empty()), change.ts_ms)
}

/// A reader of the change feed: parts of the key space, each with its etag as text.
pub struct Reader {
    mode: ChangesMode,
    parts: Vec<(Scope, EpkRange, Option<String>)>,
    /// What it is about.
    wanted: EpkRange,
    /// The newest change seen of each item.
    newest: HashMap<Name, (u64, bool)>,
    /// What is known of each item: its newest version, or that there is none.
    known: HashMap<Name, Option<(u64, u64)>>,
    /// Changes in the order of reading, with their times.
    events: Vec<Event>,
    /// Etags of a reader of everything, and how many changes had been seen with them.
    etags: Vec<(String, usize)>,
    /// Writes acknowledged from here on must be seen; `None` until it has begun.
    pub from_ack: Option<usize>,
    pub refused: u64,
}

pub fn new_readers(world: &World, dice: &mut Dice) -> Vec<Reader> {
    let definition = world.container.definition();
    let key = key((dice.below(KEYS), 0), world.levels);
    let prefix = PartitionKey(vec![key.0[0].clone()]);
    let bound = definition.partition_key.epk(&key);
    let lower = EpkRange::new(Epk::MIN, bound.clone());
    let upper = EpkRange::new(bound, Epk::max());
    let range_of = |key: &PartitionKey| definition.partition_key.range_of(key);
    let mode = |dice: &mut Dice| [LATEST, DELETES, ALL][dice.below(3) as usize];
    let mut by_range = Reader::new(mode(dice), Scope::Everything, EpkRange::full());
    by_range.parts.clear();
    for range in world.container.ranges().ranges {
        by_range.parts.push((Scope::Range(range.id.to_string()), range.span, None));
    }
    vec![
        Reader::new(DELETES, Scope::Everything, EpkRange::full()),
        Reader::new(ALL, Scope::Everything, EpkRange::full()),
        Reader::new(mode(dice), Scope::Epk(lower.clone()), lower),
        Reader::new(mode(dice), Scope::Epk(upper.clone()), upper),
        Reader::new(mode(dice), Scope::Key(key.clone()), range_of(&key)),
        Reader::new(mode(dice), Scope::Key(prefix.clone()), range_of(&prefix)),
        by_range,
    ]
}

impl Reader {
    pub fn new(mode: ChangesMode, scope: Scope, wanted: EpkRange) -> Self {
        Self {
            mode,
            parts: vec![(scope, wanted.clone(), None)],
            wanted,
            newest: HashMap::new(),
            known: HashMap::new(),
            events: Vec::new(),
            etags: Vec::new(),
            from_ack: None,
            refused: 0,
        }
    }

    /// Reads a page of each part; true when there was something.
    pub async fn read(&mut self, world: &World, dice: &mut Dice, totals: &mut Totals) -> bool {
        let container = &world.container;
        let (mut any, mut n) = (false, 0);
        while n < self.parts.len() {
            let (scope, span, etag) = self.parts[n].clone();
            let start = match &etag {
                None => ChangesStart::Beginning,
                Some(etag) => ChangesStart::After(Position::parse(etag).unwrap()),
            };
            match page(container, scope, self.mode, start, 1 + dice.below(9) as usize).await {
                Ok(page) => {
                    any |= !page.changes.is_empty();
                    page.changes.iter().for_each(|change| self.see(change, totals));
                    self.parts[n].2 = Some(page.position.to_string());
                    n += 1;
                }
                Err(error) if error.fault == Fault::RangeGone => {
                    assert_eq!((error.fault.status(), error.fault.substatus()), (410, 1002));
                    self.parts.splice(n..=n, successors(container, &span, etag));
                }
                Err(error) => {
                    self.refuse(n, &error);
                    return error.fault == Fault::HistoryPurged;
                }
            }
        }
        if let [(Scope::Everything, _, Some(etag))] = &self.parts[..] {
            self.etags.push((etag.clone(), self.events.len()));
        }
        // All parts have begun, so what is acknowledged from now on comes after their positions.
        let acks = world.acks.lock().unwrap().len();
        self.from_ack.get_or_insert(acks);
        any
    }

    /// It has missed something, and knows.
    fn refuse(&mut self, part: usize, error: &Error) {
        self.refused += 1;
        self.known.clear();
        self.events.clear();
        self.etags.clear();
        self.from_ack = None;
        if error.fault == Fault::HistoryPurged && self.mode == ALL {
            let named = error.message.split("the etag ").nth(1).unwrap();
            self.parts[part].2 = Some(named.split(", of").next().unwrap().to_owned());
            return;
        }
        if error.fault != Fault::HistoryPurged {
            assert_eq!(error.fault, Fault::BadRequest, "{error}");
            assert!(error.message.contains("replace it with"), "{error}");
        }
        // All over again.
        self.newest.clear();
        self.parts.iter_mut().for_each(|part| part.2 = None);
    }

    fn see(&mut self, change: &Changed, totals: &mut Totals) {
        totals.changes += 1;
        let (name, place, _) = event(change);
        let newest = self.newest.insert(name, place);
        let later = newest.is_none_or(|newest| newest < place);
        assert!(later, "{name:?}: a change comes once, in order: {newest:?}, {}", change.lsn);
        if self.mode == ALL {
            self.check_chain(name, change);
            totals.expired += u64::from(change.detail.as_ref().unwrap().expired);
        }
        let now = (!change.body.is_empty()).then(|| (change.lsn, version_of(&change.body)));
        self.known.insert(name, now);
        self.events.push(event(change));
    }

    /// Each version names the one before it, so none lies between.
    fn check_chain(&self, name: Name, change: &Changed) {
        let detail = change.detail.as_ref().unwrap();
        let before = self.known.get(&name).copied();
        if detail.operation == Operation::Create {
            assert_eq!(detail.previous_lsn, None);
            assert!(before.is_none_or(|before| before.is_none()), "{name:?} was there");
            return;
        }
        let before = before.map(|before| before.expect("what is changed was there"));
        if let Some((lsn, version)) = before {
            assert_eq!(detail.previous_lsn, Some(lsn), "{name:?}: nothing lies between");
            let image = detail.previous.as_ref().map(version_of);
            assert!(image.is_none_or(|image| image == version), "{name:?}");
        }
    }

    pub async fn read_all(&mut self, world: &World, dice: &mut Dice, totals: &mut Totals) {
        // A page may be empty though another part of the container has more.
        let mut idle = 0;
        while idle < 10 {
            idle = if self.read(world, dice, totals).await { 0 } else { idle + 1 };
        }
    }

    pub fn check(&self, world: &World, found: &HashMap<Name, Option<u64>>) {
        // Refused, and not let in since: it knows nothing.
        let Some(from_ack) = self.from_ack else { return };
        for (name, version) in found {
            if !self.wanted.contains(&world.epk(*name)) {
                continue;
            }
            let known = self.known.get(name).map(|known| known.map(|(_, version)| version));
            match (self.mode, version, known) {
                (ALL, _, None) | (LATEST, None, _) | (DELETES, None, None) => {}
                // A newer one has expired, unseen, and is not purged.
                (_, None, Some(Some(_))) if !world.purged() => {}
                _ => assert_eq!(known, Some(*version), "{:?} {name:?}", self.mode),
            }
        }
        let seen: HashSet<(Name, u64)> =
            self.events.iter().map(|(name, (lsn, _), _)| (*name, *lsn)).collect();
        for ack in world.acks.lock().unwrap()[from_ack..].iter().filter(|_| self.mode == ALL) {
            let wanted = self.wanted.contains(&world.epk(ack.0));
            assert!(!wanted || seen.contains(ack), "{ack:?} was acknowledged and not seen");
        }
    }

    /// Reads again from an earlier etag: the same changes come, or the reader is told.
    pub async fn replay(&self, world: &World, dice: &mut Dice, totals: &mut Totals) {
        let Some(n) = dice.next().checked_rem(self.etags.len() as u64) else { return };
        if self.mode != ALL {
            return;
        }
        let (etag, from) = &self.etags[n as usize];
        let start = ChangesStart::After(Position::parse(etag).unwrap());
        let Some(again) = read_through(&world.container, ALL, start, dice).await else { return };
        totals.replays += 1;
        let expected: BTreeSet<_> = self.events[*from..].iter().copied().collect();
        assert_eq!(again.len(), expected.len(), "each comes once");
        assert_eq!(again.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    /// Reads from a time: nothing of it or later is left out, or the reader is told.
    pub async fn replay_since(
        &self,
        world: &World,
        found: &HashMap<Name, Option<u64>>,
        dice: &mut Dice,
        totals: &mut Totals,
    ) {
        let Some(n) = dice.next().checked_rem(self.events.len() as u64) else { return };
        if !matches!(self.parts[..], [(Scope::Everything, ..)]) {
            return;
        }
        let (_, _, ts_ms) = self.events[n as usize];
        let start = ChangesStart::Since(ts_ms);
        let again = read_through(&world.container, self.mode, start, dice).await;
        let Some(again) = again else { return };
        totals.since += 1;
        let again: BTreeSet<_> = again.into_iter().collect();
        for event in self.events.iter().filter(|event| event.2 >= ts_ms) {
            let newest = self.newest[&event.0] == event.1;
            // What has expired is no change any more, until it is purged; that may be an item that
            // took the place of a deleted one, unseen.
            let known = self.known[&event.0].map(|(_, version)| version);
            let certain = known.is_some() || world.purged();
            let wanted = newest && certain && found[&event.0] == known;
            let came = again.contains(event);
            assert!(came || !(self.mode == ALL || wanted), "{:?} {event:?}", self.mode);
        }
    }
}

/// Everything from a start on; `None` when it is no longer kept.
async fn read_through(
    container: &Container,
    mode: ChangesMode,
    mut start: ChangesStart,
    dice: &mut Dice,
) -> Option<Vec<Event>> {
    let (mut events, mut idle) = (Vec::new(), 0);
    while idle < 10 {
        let items = 1 + dice.below(30) as usize;
        let page = match page(container, Scope::Everything, mode, start, items).await {
            Ok(page) => page,
            Err(error) => {
                assert!(matches!(error.fault, Fault::HistoryPurged | Fault::BadRequest), "{error}");
                return None;
            }
        };
        idle = if page.changes.is_empty() { idle + 1 } else { 0 };
        events.extend(page.changes.iter().map(event));
        start = ChangesStart::After(page.position);
    }
    Some(events)
}

async fn page(
    container: &Container,
    scope: Scope,
    mode: ChangesMode,
    start: ChangesStart,
    items: usize,
) -> Result<ChangesPage, Error> {
    let read = ChangesRead { scope, start, mode, items: Some(items) };
    container.read_changes(&read, None).await?.result
}

fn name_of(change: &Changed) -> Name {
    let number = |text: &str| text[1..].parse::<u64>().unwrap();
    let Some(id) = change.detail.as_ref().and_then(|detail| detail.id.as_ref()) else {
        let body: Value = serde_json::from_slice(&change.body).unwrap();
        return (body["name"][0].as_u64().unwrap(), body["name"][1].as_u64().unwrap());
    };
    let key = change.detail.as_ref().and_then(|detail| detail.key.as_ref()).unwrap();
    let key: Vec<String> = serde_json::from_str(key).unwrap();
    (number(key.last().unwrap()), number(id))
}

pub fn version_of(body: &Bytes) -> u64 {
    let body: Value = serde_json::from_slice(body).expect("an item is whole");
    body["version"].as_u64().unwrap()
}

/// Where a client goes on when a range is gone: in the ranges that have its keys, or the part of
/// one that they are, with the etag it had.
fn successors(
    container: &Container,
    span: &EpkRange,
    etag: Option<String>,
) -> Vec<(Scope, EpkRange, Option<String>)> {
    let mut parts = Vec::new();
    for range in container.ranges().ranges {
        let Some(common) = range.span.intersect(span) else { continue };
        let scope = match common == range.span {
            true => Scope::Range(range.id.to_string()),
            false => Scope::Epk(common.clone()),
        };
        parts.push((scope, common, etag.clone()));
    }
    assert!(!parts.is_empty());
    parts
}
