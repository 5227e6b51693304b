//! Arrays and sets.

use super::Function;

pub(super) const TABLE: &[Function] = &[];
