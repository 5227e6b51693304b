//! What must hold, checked while it happens.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use processor::lease::extra::PARENT;
use processor::lease::{Lease, Owner, document};
use processor::span::holes;
use processor::{CloseReason, Names, Sort};
use serde_json::{Map, Value};

use crate::executor::Process;
use crate::world::{Data, Written};

/// A tenure, as an observer sees it: process, lease, epoch.
type Seat = (Process, String, u64);

/// Everything that was seen.
#[derive(Default)]
pub struct Ledger {
    pub violations: Vec<String>,
    /// Serial numbers of changes whose handler has returned, or that were set aside.
    pub acked: HashSet<u64>,
    /// How often each change was begun.
    pub begun: BTreeMap<u64, u32>,
    /// The last change of each key that was acknowledged for the first time.
    last_first_ack: BTreeMap<usize, u64>,
    last_ack: BTreeMap<(Seat, usize), u64>,
    open: BTreeSet<Seat>,
    closed: BTreeSet<Seat>,
    /// Who has opened an observer in an epoch of a lease.
    openers: BTreeMap<(String, u64), Process>,
    owners: BTreeMap<(String, u64), String>,
    /// Where each tenure's lease stood when its epoch began.
    began_at: BTreeMap<(String, u64), u64>,
    pub moves: u64,
    /// Every close, in order.
    pub closes: Vec<(Process, String, CloseReason)>,
    /// When each process was called first and last for a lease.
    pub first_call: BTreeMap<(Process, String), Duration>,
    pub last_call: BTreeMap<(Process, String), Duration>,
    bootstrapped: bool,
    /// Peers of another library are about, whose rules are weaker.
    pub has_peers: bool,
    pub seeking: bool,
}

/// How the documents of the simulated processor are called.
pub fn names() -> Names {
    Names::new("sim", "host", "d", "c")
}

fn etag_lsn(lease: &Lease) -> u64 {
    let etag = lease.continuation.as_deref().unwrap_or("\"0\"");
    etag.trim_matches('"').parse().unwrap_or(0)
}

impl Ledger {
    fn wrong(&mut self, now: Duration, invariant: u32, what: String) {
        self.violations.push(format!("invariant {invariant} at {now:?}: {what}"));
    }

    /// A document was written or deleted.
    pub fn committed(
        &mut self,
        now: Duration,
        data: &Data,
        keys: &[String],
        id: &str,
        before: Option<Map<String, Value>>,
        after: Option<&Map<String, Value>>,
    ) {
        match names().sort(id) {
            Sort::Info => self.bootstrapped = true,
            Sort::Other if id.contains(".dead.") => self.posted(after),
            Sort::Lease => {
                let read = |body: &Map<String, Value>| document::read(body, None).ok();
                let before = before.as_ref().and_then(read);
                let after = after.and_then(read);
                if let (Some(before), Some(after)) = (&before, &after) {
                    self.check_owner(now, before, after);
                    if etag_lsn(after) < etag_lsn(before) && !self.seeking {
                        self.wrong(
                            now,
                            5,
                            format!(
                                "{id} went back from {} to {}",
                                etag_lsn(before),
                                etag_lsn(after)
                            ),
                        );
                    }
                }
                if let Some(after) = &after {
                    self.note_epoch(now, after);
                    self.check_acked(now, data, keys, after);
                }
                self.check_coverage(now, data);
            }
            _ => {}
        }
    }

    /// A dead letter: its change is taken care of.
    fn posted(&mut self, letter: Option<&Map<String, Value>>) {
        let serial =
            letter.and_then(|letter| letter.get("item")?.get("id")?.as_str()?.parse().ok());
        self.acked.extend::<Option<u64>>(serial);
    }

    fn check_owner(&mut self, now: Duration, before: &Lease, after: &Lease) {
        if before.owner == after.owner {
            return;
        }
        self.moves += u64::from(after.owner.is_some());
        let ours = after.owner.as_ref().is_some_and(|owner| owner.parse::<Owner>().is_ok());
        if ours && after.epoch() <= before.epoch() && !self.has_peers {
            self.wrong(
                now,
                1,
                format!("{} changed hands within epoch {}", after.id, after.epoch()),
            );
        }
    }

    fn note_epoch(&mut self, now: Duration, lease: &Lease) {
        let Some(owner) = lease.owner.as_ref().filter(|_| !lease.is_closed()) else { return };
        if owner.parse::<Owner>().is_err() || self.has_peers {
            return;
        }
        let seat = (lease.id.clone(), lease.epoch());
        self.began_at.entry(seat.clone()).or_insert(etag_lsn(lease));
        // One that waits for its parent may be a ghost, which nobody has read by: the epoch of its name
        // may have been another's. Whoever begins is told in [`Self::opened`].
        if lease.property(PARENT).is_some() {
            return;
        }
        let first = self.owners.entry(seat).or_insert_with(|| owner.clone()).clone();
        if first != *owner {
            self.wrong(now, 1, format!("{} epoch {} has two committers", lease.id, lease.epoch()));
        }
    }

    fn check_acked(&mut self, now: Duration, data: &Data, keys: &[String], lease: &Lease) {
        let Some(span) = &lease.span else { return };
        let end = etag_lsn(lease);
        let inside = |change: &&Written| {
            let key = keys[change.key].as_str();
            span.min.as_str() <= key && key < span.max.as_str()
        };
        let until = data.log.partition_point(|change| change.lsn <= end);
        // Newest first: what was checked at the last checkpoint lies behind.
        let recent = data.log[..until].iter().rev().take(200);
        let missing = recent.filter(inside).find(|change| !self.acked.contains(&change.serial));
        if let Some(missing) = missing {
            let text =
                format!("{} is at {end}, but change {missing:?} was not acknowledged", lease.id);
            self.wrong(now, 2, text);
        }
    }

    fn live(data: &Data) -> Vec<Lease> {
        let leases = data.documents.iter().filter(|(id, _)| names().sort(id) == Sort::Lease);
        let read = leases.filter_map(|(_, (body, _))| document::read(body, None).ok());
        read.filter(|lease| !lease.is_closed()).collect()
    }

    fn check_coverage(&mut self, now: Duration, data: &Data) {
        if !self.bootstrapped {
            return;
        }
        let spans: Vec<_> = Self::live(data).into_iter().filter_map(|lease| lease.span).collect();
        let open = holes(&spans);
        if !open.is_empty() {
            self.wrong(now, 4, format!("nobody covers {open:?}"));
        }
    }

    /// An observer was opened.
    pub fn opened(&mut self, now: Duration, process: Process, lease: &str, epoch: u64) {
        let seat = (process, lease.to_owned(), epoch);
        if self.closed.contains(&seat) || !self.open.insert(seat.clone()) {
            self.wrong(now, 9, format!("{seat:?} was opened twice"));
        }
        let first = *self.openers.entry((lease.to_owned(), epoch)).or_insert(process);
        if first != process && !self.has_peers {
            self.wrong(now, 1, format!("{seat:?} was opened before by {first}"));
        }
    }

    /// An observer was closed.
    pub fn closed(
        &mut self,
        now: Duration,
        process: Process,
        lease: &str,
        epoch: u64,
        reason: CloseReason,
    ) {
        self.closes.push((process, lease.to_owned(), reason));
        let seat = (process, lease.to_owned(), epoch);
        if !self.open.remove(&seat) || !self.closed.insert(seat.clone()) {
            self.wrong(now, 9, format!("{seat:?} was closed without being open"));
        }
    }

    /// A handler was called, while its lease was in this epoch, or gone.
    pub fn called(
        &mut self,
        now: Duration,
        process: Process,
        lease: &str,
        epoch: u64,
        current: Option<u64>,
    ) {
        if current != Some(epoch) && !self.has_peers {
            self.wrong(
                now,
                10,
                format!(
                    "p{process} was called for {lease} in epoch {epoch}, which was {current:?}"
                ),
            );
        }
    }

    /// A change was handed to a handler.
    pub fn begin(
        &mut self,
        now: Duration,
        process: Process,
        lease: &str,
        epoch: u64,
        lsn: u64,
        serial: u64,
    ) {
        *self.begun.entry(serial).or_default() += 1;
        self.last_call.insert((process, lease.to_owned()), now);
        self.first_call.entry((process, lease.to_owned())).or_insert(now);
        let seat = (process, lease.to_owned(), epoch);
        if !self.open.contains(&seat) {
            self.wrong(now, 9, format!("{seat:?} was called though it is not open"));
        }
        let id = names().lease(lease);
        if let Some(began) = self.began_at.get(&(id, epoch)).filter(|began| lsn <= **began) {
            self.wrong(
                now,
                7,
                format!("change {lsn} came again in a tenure of {lease} that began at {began}"),
            );
        }
    }

    /// A handler has returned.
    pub fn acked(
        &mut self,
        now: Duration,
        process: Process,
        lease: &str,
        epoch: u64,
        key: usize,
        serial: u64,
    ) {
        if self.acked.insert(serial) {
            let last = self.last_first_ack.entry(key).or_default();
            let before = std::mem::replace(last, serial);
            if serial < before {
                self.wrong(now, 3, format!("key {key}: change {serial} was done after {before}"));
            }
        }
        let seat = (process, lease.to_owned(), epoch);
        let last = self.last_ack.entry((seat, key)).or_default();
        let before = std::mem::replace(last, serial);
        if serial <= before {
            self.wrong(
                now,
                3,
                format!("key {key}: within one tenure {serial} came after {before}"),
            );
        }
    }

    /// Whether no observer is open.
    pub fn all_closed(&self) -> bool {
        self.open.is_empty()
    }

    /// A process ended without warning: its observers are not closed.
    pub fn crashed(&mut self, process: Process) {
        self.open.retain(|(each, _, _)| *each != process);
    }

    /// Changes that were begun more than once.
    pub fn duplicates(&self) -> u64 {
        self.begun.values().map(|times| u64::from(times - 1)).sum()
    }

    /// After the last fault and some time: everything is owned, spread and done.
    pub fn check_rest(
        &mut self,
        now: Duration,
        data: &Data,
        keys: &[String],
        hosts: &[String],
        strict: bool,
    ) {
        let leases = Self::live(data);
        let mut spans: Vec<_> = leases.iter().filter_map(|lease| lease.span.clone()).collect();
        spans.sort();
        if spans.windows(2).any(|pair| pair[0].max != pair[1].min) || !holes(&spans).is_empty() {
            self.wrong(now, 4, format!("leases do not tile: {spans:?}"));
        }
        let mut counts: BTreeMap<String, usize> =
            hosts.iter().map(|host| (host.clone(), 0)).collect();
        for lease in &leases {
            let owner = lease.owner.clone().unwrap_or_default();
            let name = owner.parse::<Owner>().map_or(owner, |owner| owner.name);
            match counts.get_mut(&name) {
                Some(count) => *count += 1,
                None => self.wrong(
                    now,
                    8,
                    format!("{} belongs to '{name}', which does not run", lease.id),
                ),
            }
        }
        let spread = counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0);
        if strict && spread > 1 {
            self.wrong(now, 8, format!("leases are spread unevenly: {counts:?}"));
        }
        let lost: Vec<u64> = data
            .log
            .iter()
            .filter(|change| !self.acked.contains(&change.serial))
            .map(|change| change.serial)
            .collect();
        if !lost.is_empty() {
            let (count, first) = (lost.len(), &lost[..lost.len().min(5)]);
            self.wrong(now, 2, format!("{count} changes were never handled: {first:?}"));
        }
        let _ = keys;
    }
}
