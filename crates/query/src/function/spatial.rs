//! Places: geometries in GeoJSON.

use super::Function;

pub(super) const TABLE: &[Function] = &[];
