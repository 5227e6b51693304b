//! The lease container as this host sees it: leases, hosts, orders, and who of them is alive.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::balance::{Host, Item};
use crate::control::Control;
use crate::lease::{Lease, Owner, document, extra, stamp};
use crate::member::{Member, State};
use crate::names::{Names, Sort};
use crate::sight::Sightings;
use crate::store::Stored;

/// A host of another library that has not written for so long is dead, as its peers think too.
const PEER_EXPIRATION: Duration = Duration::from_secs(60);

/// Whether the owner of a lease has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It has.
    Live,
    /// Nobody has it.
    Free,
}

/// All that is known.
#[derive(Debug)]
pub(crate) struct FleetView {
    names: Names,
    expiration: Duration,
    pub leases: BTreeMap<String, Lease>,
    pub members: BTreeMap<String, (Member, String)>,
    pub control: Control,
    pub has_info: bool,
    /// The highest epoch of any lease, also of those that are gone.
    pub epoch_seen: u64,
    seen_hosts: Sightings<String>,
    seen_leases: Sightings<String>,
    /// The wall clock, where a simulation has switched the better rule off.
    pub wall: Option<Duration>,
    is_listing: bool,
    /// What was learnt since the listing that is under way was asked for: it may be newer.
    recent: Vec<Stored>,
    gone: Vec<String>,
    /// What could not be read, and other oddities.
    pub complaints: Vec<String>,
}

impl FleetView {
    pub fn new(names: Names, expiration: Duration) -> Self {
        Self {
            names,
            expiration,
            leases: BTreeMap::new(),
            members: BTreeMap::new(),
            control: Control::default(),
            has_info: false,
            epoch_seen: 0,
            seen_hosts: Sightings::default(),
            seen_leases: Sightings::default(),
            wall: None,
            is_listing: false,
            recent: Vec::new(),
            gone: Vec::new(),
            complaints: Vec::new(),
        }
    }

    /// A listing is asked for, or has come to nothing.
    pub fn listing(&mut self, is_listing: bool) {
        self.is_listing = is_listing;
        self.recent.clear();
        self.gone.clear();
    }

    /// Takes in all documents: what is not among them is gone.
    pub fn replace(&mut self, documents: &[Stored], now: Duration) {
        self.leases.clear();
        self.members.clear();
        // One that cannot be read does not set a paused fleet going.
        let control = std::mem::take(&mut self.control);
        if documents.iter().any(|document| self.names.sort(&document.id) == Sort::Control) {
            self.control = control;
        }
        self.has_info = false;
        self.complaints.clear();
        for document in documents {
            self.put(document, now);
        }
        for document in std::mem::take(&mut self.recent) {
            self.put(&document, now);
        }
        for id in std::mem::take(&mut self.gone) {
            self.leases.remove(&id);
        }
        self.is_listing = false;
        let Self { leases, members, seen_hosts, seen_leases, .. } = self;
        seen_hosts.keep(|name| members.contains_key(name));
        seen_leases.keep(|id| leases.contains_key(id));
    }

    /// Takes in documents that have changed. Whether any of it bears on who should do what.
    pub fn merge(&mut self, documents: &[Stored], now: Duration) -> bool {
        let mut matters = false;
        for document in documents {
            let before = self.gist(&document.id);
            self.put(document, now);
            if self.is_listing {
                self.recent.push(document.clone());
            }
            matters |= before != self.gist(&document.id);
        }
        matters
    }

    /// What of a document bears on the plan: a checkpoint or a heartbeat does not.
    fn gist(&self, id: &str) -> Option<String> {
        match self.names.sort(id) {
            Sort::Lease => {
                self.leases.get(id).map(|lease| format!("{:?} {}", lease.owner, lease.epoch()))
            }
            Sort::Host => {
                let member = self.members.values().find(|(member, _)| member.id == id);
                member.map(|(member, _)| format!("{} {:?}", member.owner(), member.state))
            }
            Sort::Control => Some(format!("{:?}", self.control)),
            _ => None,
        }
    }

    fn put(&mut self, stored: &Stored, now: Duration) {
        match self.names.sort(&stored.id) {
            Sort::Info => self.has_info = true,
            Sort::Control => match Control::read(&stored.body) {
                Some(control) => self.control = control,
                None => self.complaints.push("the control document cannot be read".into()),
            },
            Sort::Host => match Member::read(&stored.body) {
                Some(member) => {
                    self.seen_hosts.see(member.instance.clone(), &member.mark(), now);
                    self.members.insert(member.instance.clone(), (member, stored.etag.clone()));
                }
                None => {
                    self.complaints.push(format!("host document '{}' cannot be read", stored.id))
                }
            },
            Sort::Lease => match document::read(&stored.body, Some(&stored.etag)) {
                Ok(lease) => self.put_lease(lease, now),
                Err(wrong) => self.complaints.push(wrong.to_string()),
            },
            Sort::Lock | Sort::Other => {}
        }
    }

    /// A lease as we have just written it.
    pub fn wrote(&mut self, lease: Lease, now: Duration) {
        if self.is_listing {
            let body = document::write(&lease);
            self.recent.push(Stored { id: lease.id.clone(), etag: lease.etag.clone(), body });
        }
        self.put_lease(lease, now);
    }

    /// Old versions of .NET could make a lease twice, under different partition keys: the one that
    /// was worked on counts, and the older one if neither was.
    fn put_lease(&mut self, lease: Lease, now: Duration) {
        if let Some(other) = self.leases.get(&lease.id) {
            let twice = other.partition_key != lease.partition_key;
            if twice {
                self.complaints.push(format!(
                    "there are two leases of the id '{}'; delete the one under the partition key '{}'",
                    lease.id,
                    [other, &lease].into_iter().min_by_key(rank).map_or("", key_of)
                ));
                if rank(&&lease) < rank(&other) {
                    return;
                }
            }
        }
        self.seen_leases.see(lease.id.clone(), &mark(&lease), now);
        self.epoch_seen = self.epoch_seen.max(lease.epoch());
        self.leases.insert(lease.id.clone(), lease);
    }

    pub fn remove_lease(&mut self, id: &str) {
        if self.is_listing {
            self.gone.push(id.to_owned());
        }
        self.leases.remove(id);
    }

    /// Leases that are not tombstones.
    pub fn live_leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values().filter(|lease| !lease.is_closed())
    }

    /// Whether hosts of another library own leases here.
    pub fn has_peers(&self) -> bool {
        self.live_leases()
            .any(|lease| lease.owner.as_ref().is_some_and(|owner| owner.parse::<Owner>().is_err()))
    }

    /// Whether a lease has an owner that lives.
    pub fn life(&self, lease: &Lease, now: Duration) -> Life {
        let Some(text) = &lease.owner else { return Life::Free };
        if let Some(wall) = self.wall {
            let written = lease.timestamp.as_deref().and_then(stamp::parse).unwrap_or_default();
            return if written + self.expiration < wall { Life::Free } else { Life::Live };
        }
        let still = self.seen_leases.still_for(&lease.id, now);
        let free_if = |is_dead: bool| if is_dead { Life::Free } else { Life::Live };
        let Ok(owner) = text.parse::<Owner>() else {
            return free_if(still >= self.expiration.max(PEER_EXPIRATION));
        };
        let Some((member, _)) = self.members.get(&owner.name) else {
            // Perhaps its document was only read before it was written.
            return free_if(still >= self.expiration);
        };
        if member.owner() == owner {
            // A lease that has just been written is a sign of life, too: whoever was silent for long may
            // be seen to take one, or to be given one, before its heartbeat is.
            let silent = self.seen_hosts.still_for(&owner.name, now).min(still);
            return free_if(match member.state {
                State::Left => true,
                State::Away => silent >= Duration::from_millis(member.grace_ms),
                State::Up | State::Leaving => silent >= self.patience_with(member),
            });
        }
        let newer_life = member.generation > owner.generation;
        let silent = self.seen_hosts.still_for(&owner.name, now);
        free_if(newer_life || still.min(silent) >= self.expiration)
    }

    /// Hosts may be set up differently: how long a silence means nothing is the host's to say.
    fn patience_with(&self, member: &Member) -> Duration {
        self.expiration.max(Duration::from_millis(member.expires_ms))
    }

    fn is_alive(&self, member: &Member, now: Duration) -> bool {
        let silent = self.seen_hosts.still_for(&member.instance, now);
        match member.state {
            State::Left => false,
            State::Away => silent < Duration::from_millis(member.grace_ms),
            State::Up | State::Leaving => silent < self.patience_with(member),
        }
    }

    /// Hosts and leases, as the plan wants them.
    pub fn table(&self, now: Duration) -> (Vec<Host>, Vec<Item>) {
        let mut hosts: Vec<Host> = Vec::new();
        for (member, _) in self.members.values().filter(|(member, _)| self.is_alive(member, now)) {
            hosts.push(Host {
                owner: member.owner().to_string(),
                weight: member.weight,
                min: member.min,
                max: member.max,
                closed: member.state != State::Up,
                leaving: member.state == State::Leaving,
            });
        }
        let mut items = Vec::new();
        for lease in self.live_leases() {
            let owner = self.owner_to_be(lease, now);
            if let Some(owner) = &owner
                && !hosts.iter().any(|host| host.owner == *owner)
            {
                let closed = Host {
                    owner: owner.clone(),
                    weight: 1.0,
                    min: 0,
                    max: 0,
                    closed: true,
                    leaving: false,
                };
                hosts.push(closed);
            }
            items.push(Item { id: lease.id.clone(), owner, load: lease.measure(extra::RATE) });
        }
        (hosts, items)
    }

    /// Its live owner; or the new life of the name that it belonged to, which gets it back.
    fn owner_to_be(&self, lease: &Lease, now: Duration) -> Option<String> {
        let text = lease.owner.clone()?;
        if self.life(lease, now) == Life::Live {
            return Some(text);
        }
        let owner: Owner = text.parse().ok()?;
        let (member, _) = self.members.get(&owner.name)?;
        let back = member.state == State::Up && self.is_alive(member, now);
        back.then(|| member.owner().to_string())
    }

    /// The highest generation in which a name was ever seen.
    pub fn generation(&self, name: &str) -> u64 {
        let owners =
            self.leases.values().filter_map(|lease| lease.owner.as_ref()?.parse::<Owner>().ok());
        let owned = owners.filter(|owner| owner.name == name).map(|owner| owner.generation).max();
        let said = self.members.get(name).map(|(member, _)| member.generation);
        owned.unwrap_or(0).max(said.unwrap_or(0))
    }

    /// Documents of hosts that are long gone and own nothing.
    pub fn forgettable(&self, now: Duration) -> Vec<Stored> {
        let gone = self.members.values().filter(|(member, _)| {
            let silent = self.seen_hosts.still_for(&member.instance, now);
            let owner = member.owner().to_string();
            let owns = self.leases.values().any(|lease| lease.owner.as_ref() == Some(&owner));
            silent >= self.patience_with(member).saturating_mul(10)
                && !self.is_alive(member, now)
                && !owns
        });
        gone.map(|(member, etag)| Stored {
            id: member.id.clone(),
            etag: etag.clone(),
            body: member.write(),
        })
        .collect()
    }
}

/// Which of two documents of one lease counts: the greater.
fn rank<'a>(lease: &&'a Lease) -> (u64, bool, Reverse<i64>, Reverse<&'a str>) {
    let has_position = lease.continuation.is_some();
    (lease.epoch(), has_position, Reverse(lease.ts), Reverse(key_of(lease)))
}

fn key_of(lease: &Lease) -> &str {
    lease.partition_key.as_deref().unwrap_or_default()
}

/// Changes whenever the owner writes.
fn mark(lease: &Lease) -> String {
    format!(
        "{:?} {} {:?} {:?} {:?}",
        lease.owner,
        lease.epoch(),
        lease.property(extra::WRITE),
        lease.timestamp,
        lease.continuation
    )
}
