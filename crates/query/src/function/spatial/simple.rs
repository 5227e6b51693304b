//! Whether the rings of polygons keep apart, from themselves and from each other.

use model::Result;

use super::edge::Edge;
use super::figure::{Area, Figure};
use super::relate;
use super::shape::Reason;
use crate::world::Budget;

/// What is wrong with a geometry whose form is sound. Rings and polygons may touch.
pub(super) fn fault(budget: &Budget, figure: &Figure) -> Result<Option<Reason>> {
    let Figure::Areas(areas) = figure else { return Ok(None) };
    for area in areas {
        let edges: Vec<&Edge> = area.edges().collect();
        if any_cross(budget, &edges)? {
            return Ok(Some("The rings of a polygon must not cross themselves or each other."));
        }
    }
    for (at, area) in areas.iter().enumerate() {
        for other in &areas[at + 1..] {
            if overlap(budget, area, other)? {
                return Ok(Some("The polygons of a MultiPolygon must not overlap."));
            }
        }
    }
    Ok(None)
}

fn any_cross(budget: &Budget, edges: &[&Edge]) -> Result<bool> {
    for (at, edge) in edges.iter().enumerate() {
        let others = &edges[at + 1..];
        budget.spend(1 + others.len() as u64)?;
        if others.iter().any(|other| edge.crosses(other)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn overlap(budget: &Budget, a: &Area, b: &Area) -> Result<bool> {
    for edge in a.edges() {
        budget.spend(1 + b.rings.iter().map(|ring| ring.len() as u64).sum::<u64>())?;
        if b.edges().any(|other| edge.crosses(other)) {
            return Ok(true);
        }
    }
    relate::contain_samples(budget, a, b)
}
