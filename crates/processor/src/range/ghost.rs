//! A child that was made too late, and that nobody needs.
//!
//! A request that makes a child may be carried out long after its sender has died: the split was
//! finished by another, and what it made was divided or joined since. The child of the late request,
//! the ghost, has a parent that is gone like that of any child that may begin; but other leases have
//! its keys.
//!
//! It goes if all of its keys have leases of higher rank, and that loses nothing. The position of
//! any lease says that everything before it is done, so a key may be left to any lease that has it;
//! what must not happen is that the last lease of a key goes. Now the highest rank among the leases of
//! a key never falls: whatever follows a lease ranks higher, a parent goes only when children of its
//! own rank are there, and a lease goes by this rule only when a key of it has one above it. So those
//! above a ghost when it looked, or others above it, are there when it goes.

use crate::env::Rule;
use crate::lease::{Lease, document, extra};
use crate::names::Sort;
use crate::range::NotWritten;
use crate::shared::{Patience, Shared};
use crate::span::{Span, holes};

/// How often an unclear picture is looked at again: a listing need not show one moment.
const LOOKS_MAX: u32 = 10;

/// What others have of a lease's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    Nothing,
    Something,
    Everything,
}

/// Whether a lease of ours whose parent is gone was made too late. What we know of the lease may be
/// old: one that another has taken, or that is gone, is lost.
pub(super) async fn is_ghost(shared: &Shared, lease: &Lease) -> Result<bool, NotWritten> {
    // Ranks come from lists. A simulation that does without those does without this too: it would
    // make up for what is missing, and nobody would notice.
    let is_kept = shared.env.keeps(Rule::Ghost) && shared.env.keeps(Rule::Listed);
    // Leases of an earlier version do not say when they were listed.
    if lease.property(extra::LISTED).is_none() || !is_kept {
        return Ok(false);
    }
    let mut patience = Patience::default();
    for _ in 0..LOOKS_MAX {
        let listed = shared.list().await;
        let listed = listed.map_err(|wrong| NotWritten::Refused(wrong.to_string()))?;
        let leases = listed.iter().filter(|each| shared.names.sort(&each.id) == Sort::Lease);
        let all: Vec<Lease> =
            leases.filter_map(|each| document::read(&each.body, Some(&each.etag)).ok()).collect();
        let is_ours = |each: &Lease| each.id == lease.id && each.is_of_tenure(lease);
        if !all.iter().any(is_ours) {
            return Err(NotWritten::Lost);
        }
        match others(lease, &all) {
            Others::Nothing => return Ok(false),
            Others::Everything => return Ok(true),
            Others::Something => patience.wait(shared, None).await,
        }
    }
    let message = "parts of this lease are covered by others as well; their changes come twice";
    shared.alarm(Some(&lease.token), message);
    Ok(false)
}

/// How much of a lease has others of higher rank.
fn others(lease: &Lease, all: &[Lease]) -> Others {
    let Some(span) = &lease.span else { return Others::Nothing };
    let is_above =
        |other: &&Lease| other.id != lease.id && !other.is_closed() && other.rank() > lease.rank();
    let mut covered: Vec<Span> = all
        .iter()
        .filter(is_above)
        .filter_map(|other| other.span.as_ref()?.intersection(span))
        .collect();
    if covered.is_empty() {
        return Others::Nothing;
    }
    let whole = Span::whole();
    covered.extend(Span::new(&whole.min, &span.min));
    covered.extend(Span::new(&span.max, &whole.max));
    if holes(&covered).is_empty() { Others::Everything } else { Others::Something }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Kind;

    /// `20-30`, in an epoch, and perhaps listed in one.
    fn lease(token: &str, epoch: u64, listed: Option<u64>) -> Lease {
        let span = Span::of_token(token);
        let mut lease = Lease::new(format!("P..{token}"), token, Kind::Span, span);
        lease.set(extra::EPOCH, epoch);
        if let Some(listed) = listed {
            lease.set(extra::LISTED, listed);
        }
        lease
    }

    #[test]
    fn only_what_ranks_higher_counts() {
        // Taken often, but listed early.
        let ghost = lease("20-30", 9, Some(3));
        let have = |all: &[Lease]| others(&ghost, all);
        assert_eq!(have(std::slice::from_ref(&ghost)), Others::Nothing);
        assert_eq!(have(&[lease("-20", 8, None), lease("30-FF", 8, None)]), Others::Nothing);
        assert_eq!(have(&[lease("-FF", 4, None)]), Others::Everything);
        assert_eq!(have(&[lease("-25", 4, None), lease("25-FF", 8, Some(4))]), Others::Everything);
        assert_eq!(have(&[lease("-25", 4, None), lease("25-FF", 8, Some(3))]), Others::Something);
        assert_eq!(have(&[lease("-25", 3, None), lease("25-FF", 3, None)]), Others::Nothing);
        let mut closed = lease("-FF", 4, None);
        closed.set(extra::CLOSED, "true");
        assert_eq!(have(&[closed]), Others::Nothing);
    }

    #[test]
    fn of_two_leases_at_most_one_goes() {
        let (a, b) = (lease("20-30", 7, Some(3)), lease("20-30", 5, Some(4)));
        let b = Lease { id: "P..other".into(), ..b };
        assert_eq!(others(&a, std::slice::from_ref(&b)), Others::Everything);
        assert_eq!(others(&b, &[a]), Others::Nothing);
    }
}
