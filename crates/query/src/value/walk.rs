//! Walks over the elements of arrays and the members of objects, parsed or not.

use std::borrow::Cow;
use std::collections::HashMap;

use model::json;

use super::{Type, Value};

/// The elements of an array.
pub struct Elements<'v, 'a> {
    walk: ElementWalk<'v, 'a>,
}

enum ElementWalk<'v, 'a> {
    Built(std::slice::Iter<'v, Value<'a>>),
    Raw(json::Elements<'a>),
}

impl<'v, 'a> Elements<'v, 'a> {
    pub(super) fn of(value: &'v Value<'a>) -> Option<Self> {
        let walk = match value {
            Value::Array(elements) => ElementWalk::Built(elements.iter()),
            Value::Raw(raw) if value.kind() == Type::Array => ElementWalk::Raw(json::elements(raw)),
            _ => return None,
        };
        Some(Self { walk })
    }
}

impl<'a> Iterator for Elements<'_, 'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        match &mut self.walk {
            ElementWalk::Built(elements) => elements.next().cloned(),
            ElementWalk::Raw(elements) => elements.next().map(Value::from_raw),
        }
    }
}

/// The members of an object.
pub struct Members<'v, 'a> {
    walk: MemberWalk<'v, 'a>,
}

enum MemberWalk<'v, 'a> {
    Built(std::slice::Iter<'v, (Cow<'a, str>, Value<'a>)>),
    Raw(std::vec::IntoIter<(Cow<'a, str>, &'a [u8])>),
}

impl<'v, 'a> Members<'v, 'a> {
    pub(super) fn of(value: &'v Value<'a>) -> Option<Self> {
        let walk = match value {
            Value::Object(members) => MemberWalk::Built(members.iter()),
            Value::Raw(raw) if value.kind() == Type::Object => {
                MemberWalk::Raw(last_of_each(json::members(raw).collect()).into_iter())
            }
            _ => return None,
        };
        Some(Self { walk })
    }
}

impl<'a> Iterator for Members<'_, 'a> {
    type Item = (Cow<'a, str>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.walk {
            MemberWalk::Built(members) => members.next().cloned(),
            MemberWalk::Raw(members) => {
                members.next().map(|(name, raw)| (name, Value::from_raw(raw)))
            }
        }
    }
}

/// Up to here comparing every pair of names is quicker than a map.
const FEW: usize = 16;

/// Of members with the same name only the last, which is the one that counts.
fn last_of_each<'a>(members: Vec<(Cow<'a, str>, &'a [u8])>) -> Vec<(Cow<'a, str>, &'a [u8])> {
    let repeated: Vec<bool> = if members.len() <= FEW {
        let later = |at: usize| members[at + 1..].iter().any(|(name, _)| *name == members[at].0);
        (0..members.len()).map(later).collect()
    } else {
        let last: HashMap<&str, usize> =
            members.iter().enumerate().map(|(at, (name, _))| (name.as_ref(), at)).collect();
        members.iter().enumerate().map(|(at, (name, _))| last[name.as_ref()] != at).collect()
    };
    let kept = members.into_iter().zip(repeated).filter(|(_, repeated)| !repeated);
    kept.map(|(member, _)| member).collect()
}
