//! Which property of the item an expression is.

use crate::bound::{Fields, ITEM, Node};
use crate::source::{IndexPath, PathStep};

/// The members on the way from the item to an expression: empty for the item itself, none for
/// what is no plain property of it.
pub(crate) fn member_names(node: &Node, fields: &Fields) -> Option<Vec<String>> {
    match node {
        Node::Slot(ITEM) => Some(Vec::new()),
        Node::Field(at) => Some(vec![fields.name(*at).clone()]),
        Node::Computed(name, _) => Some(vec![name.clone()]),
        Node::Member(owner, name) => {
            let mut names = member_names(owner, fields)?;
            names.push(name.clone());
            Some(names)
        }
        _ => None,
    }
}

/// The index path of an expression: members of the item, or of elements that an alias stands for.
pub(crate) fn index_path_of(
    node: &Node,
    fields: &Fields,
    aliases: &[(usize, IndexPath)],
) -> Option<IndexPath> {
    match node {
        Node::Slot(ITEM) => Some(IndexPath(Vec::new())),
        Node::Slot(slot) => {
            aliases.iter().find(|(known, _)| known == slot).map(|(_, path)| path.clone())
        }
        Node::Field(at) => Some(super::index_path(std::slice::from_ref(fields.name(*at)))),
        Node::Computed(name, _) => Some(super::index_path(std::slice::from_ref(name))),
        Node::Member(owner, name) => {
            let owner = index_path_of(owner, fields, aliases)?;
            Some(owner.then(PathStep::Member(name.clone())))
        }
        // The element at one place is one of all elements.
        Node::Index(owner, index) if index.constant()?.as_int().is_some() => {
            Some(index_path_of(owner, fields, aliases)?.then(PathStep::Elements))
        }
        _ => None,
    }
}
