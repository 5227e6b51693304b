//! How geometries lie to each other: what is inside, what touches, what covers.

use model::Result;

use super::edge::{Edge, NEAR, between};
use super::figure::{Area, Figure};
use super::vector::Vector;
use crate::world::Budget;

/// Where a position is, seen from an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Inside,
    Border,
    Outside,
}

/// Whether two geometries share a point.
pub(super) fn intersect(budget: &Budget, a: &Figure, b: &Figure) -> Result<bool> {
    let (theirs, ours) = (b.edges(), a.edges());
    for edge in &ours {
        budget.spend(1 + theirs.len() as u64)?;
        if theirs.iter().any(|other| edge.meets(other)) {
            return Ok(true);
        }
    }
    // No edges meet: every part is wholly within the other geometry or wholly without.
    for (sample, other) in
        a.samples().iter().map(|p| (p, b)).chain(b.samples().iter().map(|p| (p, a)))
    {
        if covers(budget, other, *sample)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all of the first geometry lies in the second, its border included.
pub(super) fn within(budget: &Budget, a: &Figure, b: &Figure) -> Result<bool> {
    match (a, b) {
        (Figure::Point(p), _) => covers(budget, b, *p),
        (Figure::Line(edges), _) => lie_in(budget, edges.iter(), b),
        (Figure::Areas(areas), Figure::Areas(others)) => {
            for area in areas {
                if !area_within(budget, area, others, b)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Figure::Areas(_), _) => Ok(false),
    }
}

fn area_within(budget: &Budget, area: &Area, others: &[Area], b: &Figure) -> Result<bool> {
    if !lie_in(budget, area.edges(), b)? {
        return Ok(false);
    }
    // The border of the other may not enter the area: behind it is something else. Where two
    // polygons of the other share a border there is more of the other behind it.
    let border: Vec<&Edge> = area.edges().collect();
    for other in others {
        for edge in other.edges() {
            for middle in pieces(budget, edge, &border)? {
                let enters = place(budget, area, middle)? == Place::Inside;
                if enters && count_borders(budget, others, middle)? < 2 {
                    return Ok(false);
                }
            }
        }
    }
    // With the same border all of it is inside or all of it outside.
    match border.first() {
        Some(edge) => covers(budget, b, edge.beside()),
        None => Ok(false),
    }
}

fn count_borders(budget: &Budget, areas: &[Area], p: Vector) -> Result<usize> {
    let mut count = 0;
    for area in areas {
        count += usize::from(place(budget, area, p)? == Place::Border);
    }
    Ok(count)
}

/// Whether edges lie in a geometry with all their length.
fn lie_in<'e>(
    budget: &Budget,
    edges: impl Iterator<Item = &'e Edge>,
    figure: &Figure,
) -> Result<bool> {
    let border = figure.edges();
    for edge in edges {
        if !covers(budget, figure, edge.a)? || !covers(budget, figure, edge.b)? {
            return Ok(false);
        }
        for middle in pieces(budget, edge, &border)? {
            if !covers(budget, figure, middle)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The middles of the pieces into which others cut an edge. No piece crosses any of them.
fn pieces(budget: &Budget, edge: &Edge, others: &[&Edge]) -> Result<Vec<Vector>> {
    budget.spend(1 + others.len() as u64)?;
    let mut cuts = vec![edge.a, edge.b];
    for other in others {
        if !edge.meets(other) {
            continue;
        }
        if edge.crosses(other) {
            cuts.push(edge.crossing(other));
        }
        cuts.extend([other.a, other.b].into_iter().filter(|end| edge.has(*end)));
    }
    let along = edge.b - edge.a;
    let at = |p: &Vector| (*p - edge.a).dot(along);
    cuts.sort_by(|p, q| at(p).total_cmp(&at(q)));
    let planar = edge.is_planar();
    let pairs = cuts.windows(2).filter(|pair| (pair[1] - pair[0]).length() > 2.0 * NEAR);
    Ok(pairs.map(|pair| between(pair[0], pair[1], planar)).collect())
}

/// Whether a position is in a geometry or on its border.
pub(super) fn covers(budget: &Budget, figure: &Figure, p: Vector) -> Result<bool> {
    Ok(match figure {
        Figure::Point(q) => (p - *q).length() <= NEAR,
        Figure::Line(edges) => {
            budget.spend(edges.len() as u64)?;
            edges.iter().any(|edge| edge.has(p))
        }
        Figure::Areas(areas) => {
            for area in areas {
                if place(budget, area, p)? != Place::Outside {
                    return Ok(true);
                }
            }
            false
        }
    })
}

fn place(budget: &Budget, area: &Area, p: Vector) -> Result<Place> {
    for ring in &area.rings {
        budget.spend(2 * ring.len() as u64)?;
        if ring.iter().any(|edge| edge.has(p)) {
            return Ok(Place::Border);
        }
        if !is_left(ring, p) {
            return Ok(Place::Outside);
        }
    }
    Ok(Place::Inside)
}

/// Whether a position that is not on a ring is to its left.
///
/// A way leads from the position to the middle of an edge. The side from which it comes there is
/// known; with every other edge that it crosses on the way it changes sides.
fn is_left(ring: &[Edge], p: Vector) -> bool {
    // The edge that is most to one side: a way along an edge would tell nothing.
    let sides = ring.iter().map(|edge| edge.side(p).abs());
    let most = sides.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((aim, _)) = most else { return false };
    let way = Edge::new(p, ring[aim].middle(), ring[aim].is_planar());
    let others = ring.iter().enumerate().filter(|(at, _)| *at != aim);
    let crossed = others.filter(|(_, edge)| leads_across(&way, edge)).count();
    (ring[aim].side(p) > 0.0) == (crossed % 2 == 0)
}

/// Whether a way crosses an edge. A way through the end of an edge crosses one of the two that
/// meet there, or both or none where it only touches.
fn leads_across(way: &Edge, edge: &Edge) -> bool {
    let (a, b) = (way.side(edge.a) >= 0.0, way.side(edge.b) >= 0.0);
    let (from, to) = (edge.side(way.a) > 0.0, edge.side(way.b) > 0.0);
    a != b && from != to && b == from
}

/// Whether the inside of one of two areas whose edges do not cross has a part of the other: a
/// place just inside of the other's border.
pub(super) fn contain_samples(budget: &Budget, a: &Area, b: &Area) -> Result<bool> {
    for (area, other) in [(a, b), (b, a)] {
        let Some(edge) = other.edges().next() else { continue };
        if place(budget, area, edge.beside())? == Place::Inside {
            return Ok(true);
        }
    }
    Ok(false)
}
