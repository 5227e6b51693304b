//! Strings.

use super::Function;

pub(super) const TABLE: &[Function] = &[];
