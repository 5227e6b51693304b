//! Dates and times.

use super::Function;

pub(super) const TABLE: &[Function] = &[];
