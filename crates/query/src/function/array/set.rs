//! Arrays as sets: how often an element comes counts for nothing.

use std::collections::HashSet;

use model::Result;

use crate::function::Call;
use crate::value::{Value, identity_into};

/// The elements with their identities, by which equal ones are found without comparing all.
fn identified<'a>(call: &Call<'_>, array: &Value<'a>) -> Result<Vec<(Vec<u8>, Value<'a>)>> {
    let mut all = Vec::new();
    let mut bytes = 0;
    for element in array.elements().into_iter().flatten() {
        let mut identity = Vec::new();
        identity_into(&element, &mut identity);
        bytes += identity.len() + size_of::<(Vec<u8>, Value<'_>)>();
        call.budget.spend(1 + identity.len() as u64 / 64)?;
        if bytes > crate::limits::VALUE_BYTES {
            call.budget.build(bytes)?;
        }
        all.push((identity, element));
    }
    Ok(all)
}

/// The first of each, of those that are kept.
fn distinct<'a>(
    elements: impl Iterator<Item = (Vec<u8>, Value<'a>)>,
    keep: impl Fn(&[u8]) -> bool,
) -> Value<'a> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for (identity, element) in elements {
        if keep(&identity) && seen.insert(identity) {
            kept.push(element);
        }
    }
    Value::array(kept)
}

fn identities<'v>(elements: &'v [(Vec<u8>, Value<'_>)]) -> HashSet<&'v [u8]> {
    elements.iter().map(|(identity, _)| &identity[..]).collect()
}

pub(super) fn union<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = (identified(call, &arguments[0])?, identified(call, &arguments[1])?);
    Ok(distinct(a.into_iter().chain(b), |_| true))
}

/// In the order of the second, as the service does.
pub(super) fn intersect<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = (identified(call, &arguments[0])?, identified(call, &arguments[1])?);
    let known = identities(&a);
    Ok(distinct(b.into_iter(), |identity| known.contains(identity)))
}

pub(super) fn difference<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = (identified(call, &arguments[0])?, identified(call, &arguments[1])?);
    let known = identities(&b);
    Ok(distinct(a.into_iter(), |identity| !known.contains(identity)))
}

pub(super) fn equal<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = (identified(call, &arguments[0])?, identified(call, &arguments[1])?);
    Ok(Value::Bool(identities(&a) == identities(&b)))
}
