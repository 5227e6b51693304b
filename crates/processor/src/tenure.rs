//! The lease protocol: how a lease is taken, written, handed over and lost. Pure.
//!
//! A tenure is an owner and an epoch. Every write carries the etag of the document it was made
//! from, so one from an old tenure cannot land; and an id of its own, so that one whose answer was
//! lost is recognised when the document is read again.

use std::time::Duration;

use crate::lease::{Lease, Owner, extra, stamp};

/// A lease while it is ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenure {
    /// The lease as it was last known to be stored.
    pub lease: Lease,
    owner: Owner,
    writes: u64,
}

/// What a document that was read again means for a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The write had landed after all.
    Landed,
    /// The lease is still ours, but the document is another: write again onto it.
    Again(Box<Lease>),
    /// The lease is not ours any more.
    Lost,
}

/// Who should have a lease after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heir {
    /// We keep it.
    Us,
    /// Nobody.
    Nobody,
    /// Another host, at once.
    Other(Owner),
}

/// The document that takes a lease for an owner. `floor` is the highest epoch that this process
/// remembers of it: other libraries may write old ones back.
pub fn taking(lease: &Lease, owner: &Owner, floor: u64, write_id: u64, wall: Duration) -> Lease {
    let mut taken = lease.clone();
    taken.owner = Some(owner.to_string());
    taken.timestamp = Some(stamp::format(wall));
    taken.set(extra::EPOCH, lease.epoch().max(floor).saturating_add(1));
    taken.set(extra::ATTEMPTS, lease.attempts().saturating_add(1));
    taken.set(extra::WRITE, format!("{owner}/take/{write_id:x}"));
    taken
}

impl Tenure {
    /// A lease that is stored as ours.
    pub fn new(lease: Lease, owner: Owner) -> Self {
        Self { lease, owner, writes: 0 }
    }

    /// As whom.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// A document to be written, to be changed further by the caller.
    pub fn draft(&mut self, wall: Duration, heir: &Heir) -> Lease {
        self.writes += 1;
        let mut draft = self.lease.clone();
        draft.timestamp = Some(stamp::format(wall));
        draft.set(extra::WRITE, format!("{}/{}/{}", self.owner, self.lease.epoch(), self.writes));
        match heir {
            Heir::Us => {}
            Heir::Nobody => draft.owner = None,
            Heir::Other(other) => {
                draft.owner = Some(other.to_string());
                draft.set(extra::EPOCH, self.lease.epoch().saturating_add(1));
                // A planned move is no sign of a change that kills its handlers.
                draft.set(extra::ATTEMPTS, 0);
            }
        }
        draft
    }

    /// What the document, read again after a write of `draft`, means.
    pub fn verdict(&self, draft: &Lease, current: &Lease) -> Verdict {
        if current.property(extra::WRITE) == draft.property(extra::WRITE) {
            return Verdict::Landed;
        }
        let ours = current.owner.as_deref() == Some(self.owner.to_string().as_str())
            && current.epoch() == self.lease.epoch();
        if !ours {
            return Verdict::Lost;
        }
        let mut again = draft.clone();
        again.etag.clone_from(&current.etag);
        Verdict::Again(Box::new(again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Kind;

    fn owner(name: &str) -> Owner {
        Owner { name: name.into(), generation: 1, nonce: 1 }
    }

    fn lease() -> Lease {
        Lease {
            continuation: Some("\"1\"".into()),
            etag: "e1".into(),
            ..Lease::new("P..0".into(), "0", Kind::Range, None)
        }
    }

    fn tenure() -> Tenure {
        let taken = taking(&lease(), &owner("a"), 0, 7, Duration::ZERO);
        Tenure::new(taken, owner("a"))
    }

    #[test]
    fn taking_begins_an_epoch_that_no_one_has_had() {
        assert_eq!(tenure().lease.epoch(), 1);
        assert_eq!(taking(&lease(), &owner("a"), 9, 7, Duration::ZERO).epoch(), 10);
        assert_eq!(tenure().lease.attempts(), 1);
        // Whatever a document says.
        let mut last = lease();
        last.set(extra::EPOCH, u64::MAX);
        assert_eq!(taking(&last, &owner("a"), 0, 7, Duration::ZERO).epoch(), u64::MAX);
    }

    #[test]
    fn ambiguous_write() {
        let mut tenure = tenure();
        let draft = tenure.draft(Duration::ZERO, &Heir::Us);
        let mut landed = draft.clone();
        landed.etag = "e2".into();
        assert_eq!(tenure.verdict(&draft, &landed), Verdict::Landed);
        // Not landed, still ours: again, onto the new etag.
        let mut touched = tenure.lease.clone();
        touched.etag = "e3".into();
        assert!(
            matches!(tenure.verdict(&draft, &touched), Verdict::Again(again) if again.etag == "e3")
        );
    }

    #[test]
    fn aba_same_host() {
        let mut first = tenure();
        let draft = first.draft(Duration::ZERO, &Heir::Us);
        // Lost to another, then won back by the same process: the first tenure stays over.
        let other = taking(&first.lease, &owner("b"), 0, 1, Duration::ZERO);
        assert_eq!(first.verdict(&draft, &other), Verdict::Lost);
        let back = taking(&other, &owner("a"), 1, 2, Duration::ZERO);
        assert_eq!(first.verdict(&draft, &back), Verdict::Lost);
    }

    #[test]
    fn handing_over_is_one_write() {
        let mut tenure = tenure();
        let draft = tenure.draft(Duration::ZERO, &Heir::Other(owner("b")));
        assert_eq!(draft.owner, Some(owner("b").to_string()));
        assert_eq!((draft.epoch(), draft.attempts()), (2, 0));
        assert_eq!(tenure.draft(Duration::ZERO, &Heir::Nobody).owner, None);
    }
}
