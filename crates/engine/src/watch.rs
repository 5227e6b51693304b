//! Transactions under way, each over the items of one partition key.
//!
//! A script runs for up to seconds, too long for the writer's lock. It works on one view and on
//! its own changes, and *watches* its partition key meanwhile: whoever commits a change under the
//! key marks the watch, and a transaction whose watch is marked does not commit but starts over.
//! The second time it *holds* the key: writers of the key wait, all others go on. So a transaction
//! runs at most twice, nobody is parted from it by another, and nobody waits for it longer than a
//! script may run.

use std::sync::Arc;

use bytes::Bytes;
use kv::Keyspace;

use crate::commit::Place;
use crate::keys;
use crate::partition::Partition;

/// What becomes of a key.
type Change = (Place, Option<Bytes>);

/// The watches of a partition, behind its writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    given: u64,
    list: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// What all items of the key begin with.
    prefix: Bytes,
    holds: bool,
    marked: bool,
}

impl Watches {
    /// Whether something that is to be changed is held by another.
    pub fn stop(&self, changes: &[Change], own: Option<u64>) -> bool {
        let mut held = self.list.iter().filter(|entry| entry.holds && Some(entry.number) != own);
        held.any(|entry| changes.iter().any(|(place, _)| is_under(&entry.prefix, place)))
    }

    /// Marks the watches of what was changed.
    pub fn note(&mut self, changes: &[Change], own: Option<u64>) {
        for entry in self.list.iter_mut().filter(|entry| Some(entry.number) != own) {
            entry.marked |= changes.iter().any(|(place, _)| is_under(&entry.prefix, place));
        }
    }

    /// Whether somebody has changed what a watch is about.
    pub fn is_marked(&self, number: u64) -> bool {
        self.list.iter().any(|entry| entry.number == number && entry.marked)
    }
}

/// Whether a key is about items that begin with a prefix.
fn is_under(prefix: &Bytes, (keyspace, key): &Place) -> bool {
    match keyspace {
        Keyspace::Docs => key.starts_with(prefix),
        Keyspace::Index => key.first() == Some(&b'x') && keys::doomed_prefix(key) == *prefix,
        Keyspace::Feed | Keyspace::Log | Keyspace::Meta | Keyspace::Terms => false,
    }
}

/// A watch; ends when it is dropped.
pub(crate) struct Watch {
    pub partition: Arc<Partition>,
    pub number: u64,
}

impl Watch {
    /// Begins to watch what a prefix has. Also says whether every view from now on shows all that
    /// was submitted under it before.
    pub fn begin(partition: &Arc<Partition>, prefix: &Bytes, holds: bool) -> (Self, bool) {
        let mut writer = partition.writer();
        let watches = &mut writer.watches;
        watches.given += 1;
        let number = watches.given;
        let prefix = prefix.clone();
        let published = partition.owner.published().commit();
        let shown = writer.submitted_after(published).all(|place| !is_under(&prefix, place));
        writer.watches.list.push(Entry { number, prefix, holds, marked: false });
        drop(writer);
        (Self { partition: partition.clone(), number }, shown)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.partition.writer().watches.list.retain(|entry| entry.number != self.number);
        self.partition.released.set(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_hear_of_their_key_alone() {
        let entry = |number, prefix: &'static [u8], holds| Entry {
            number,
            prefix: Bytes::from_static(prefix),
            holds,
            marked: false,
        };
        let mut watches =
            Watches { given: 2, list: vec![entry(1, b"aa", false), entry(2, b"bb", true)] };
        let put = |keyspace, key: &'static [u8]| [((keyspace, Bytes::from_static(key)), None)];
        assert!(watches.stop(&put(Keyspace::Docs, b"bb1"), None));
        assert!(!watches.stop(&put(Keyspace::Docs, b"bb1"), Some(2)));
        assert!(!watches.stop(&put(Keyspace::Docs, b"aa1"), None), "it does not hold");
        assert!(!watches.stop(&put(Keyspace::Feed, b"bb1"), None));
        watches.note(&put(Keyspace::Docs, b"aa1"), Some(1));
        watches.note(&put(Keyspace::Docs, b"ab"), None);
        watches.note(&put(Keyspace::Index, b"xab"), None);
        assert!(!watches.is_marked(1));
        watches.note(&put(Keyspace::Index, b"xaa"), None);
        assert!(watches.is_marked(1) && !watches.is_marked(2));
    }
}
