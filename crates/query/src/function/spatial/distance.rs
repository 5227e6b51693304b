//! Distances between geometries that do not touch.
//!
//! The nearest points of two such are never both in the middle of an edge, so it is enough to
//! compare corners with edges, both ways.

use geographiclib_rs::{Geodesic, InverseGeodesic};
use model::Result;

use super::edge::Edge;
use super::figure::{Figure, position};
use super::shape::{Position, Shape};
use super::vector::Vector;
use crate::world::Budget;

/// Metres on the ellipsoid for an angle of 1 between directions from its centre: at least and at
/// most, whatever the place and the course.
const METRES_MIN: f64 = 6_356_752.0;
const METRES_MAX: f64 = 6_378_210.0;
/// Steps that one distance on the ellipsoid counts for.
const GEODESIC_STEPS: u64 = 30;

/// A corner of one geometry, and an edge of the other or a corner of it.
type Candidate<'e> = (Vector, Target<'e>);

#[derive(Clone, Copy)]
enum Target<'e> {
    Corner(Vector),
    Edge(&'e Edge),
}

/// Metres between two geometries on the globe.
///
/// By their angles almost all pairs are too far apart to matter; the few others are measured on
/// the ellipsoid.
pub(super) fn on_globe(budget: &Budget, a: &Figure, b: &Figure) -> Result<f64> {
    let mut least = f64::INFINITY;
    each(budget, a, b, |(corner, target)| {
        least = least.min(angle(corner, target));
        Ok(())
    })?;
    let geodesic = Geodesic::wgs84();
    let mut metres = f64::INFINITY;
    each(budget, a, b, |(corner, target)| {
        let angle = angle(corner, target);
        if angle * METRES_MIN <= metres.min(least * METRES_MAX) {
            metres = metres.min(measure(budget, &geodesic, corner, target)?);
        }
        Ok(())
    })?;
    Ok(metres)
}

/// Goes through all corners of either geometry with all edges of the other.
fn each<'e>(
    budget: &Budget,
    a: &'e Figure,
    b: &'e Figure,
    mut see: impl FnMut(Candidate<'e>) -> Result<()>,
) -> Result<()> {
    for (corners, other) in [(a.positions(), b), (b.positions(), a)] {
        let targets: Vec<Target<'e>> = match other {
            Figure::Point(p) => vec![Target::Corner(*p)],
            _ => other.edges().into_iter().map(Target::Edge).collect(),
        };
        for corner in corners {
            budget.spend(1 + targets.len() as u64)?;
            for target in &targets {
                see((corner, *target))?;
            }
        }
    }
    Ok(())
}

fn angle(p: Vector, target: Target<'_>) -> f64 {
    match target {
        Target::Corner(q) => p.angle(q),
        Target::Edge(edge) => match foot(p, edge) {
            Some(_) => edge.side(p).abs().min(1.0).asin(),
            None => p.angle(edge.a).min(p.angle(edge.b)),
        },
    }
}

/// The position on an edge that is nearest by angle, unless that is an end.
fn foot(p: Vector, edge: &Edge) -> Option<Vector> {
    let foot = (p - edge.left * edge.side(p)).unit();
    (foot.length() > 0.0 && edge.left.length() > 0.0 && edge.spans(foot)).then_some(foot)
}

fn measure(budget: &Budget, geodesic: &Geodesic, p: Vector, target: Target<'_>) -> Result<f64> {
    let metres = |q: Vector| -> Result<f64> {
        budget.spend(GEODESIC_STEPS)?;
        let ([x, y], [u, v]) = (position(p), position(q));
        Ok(geodesic.inverse(y, x, v, u))
    };
    let edge = match target {
        Target::Corner(q) => return metres(q),
        Target::Edge(edge) => edge,
    };
    let mut least = metres(edge.a)?.min(metres(edge.b)?);
    let length = edge.a.angle(edge.b);
    let ahead = edge.left.cross(edge.a);
    let at = |along: f64| edge.a * along.cos() + ahead * along.sin();
    // Near the least distance by angle lies the least one on the ellipsoid: twice the lowest
    // point of a parabola through three distances comes closer to it than a micrometre.
    let nearest = foot(p, edge).map_or_else(
        || if p.angle(edge.a) < p.angle(edge.b) { 0.0 } else { length },
        |foot| edge.a.angle(foot),
    );
    let mut along = nearest.clamp(0.0, length);
    let mut step = (0.005 * p.angle(at(along))).clamp(1e-6, 0.01);
    for _ in 0..3 {
        let [before, here, after] =
            [metres(at(along - step))?, metres(at(along))?, metres(at(along + step))?];
        let bend = before - 2.0 * here + after;
        let shift = if bend > 0.0 { step * (before - after) / (2.0 * bend) } else { 0.0 };
        along = (along + shift.clamp(-2.0 * step, 2.0 * step)).clamp(0.0, length);
        least = least.min(metres(at(along))?);
        step = (step * 0.2).max(2e-8);
    }
    Ok(least)
}

/// The distance of two geometries on the plane.
pub(super) fn on_plane(budget: &Budget, a: &Shape, b: &Shape) -> Result<f64> {
    let mut least = f64::INFINITY;
    for (corners, other) in [(lines(a), lines(b)), (lines(b), lines(a))] {
        let edges: Vec<(Position, Position)> =
            other.iter().flat_map(|line| line.windows(2).map(|pair| (pair[0], pair[1]))).collect();
        for corner in corners.iter().flatten() {
            budget.spend(1 + edges.len() as u64)?;
            for (from, to) in &edges {
                least = least.min(to_segment(*corner, *from, *to));
            }
        }
    }
    Ok(least)
}

/// All lines of a geometry; those of rings are closed, and a point is a line that goes nowhere.
fn lines(shape: &Shape) -> Vec<Vec<Position>> {
    match shape {
        Shape::Point(p) => vec![vec![*p, *p]],
        Shape::Line(positions) => vec![positions.clone()],
        Shape::Areas(areas) => {
            let closed = |ring: &Vec<Position>| {
                ring.iter().chain(ring.first()).copied().collect::<Vec<Position>>()
            };
            areas.iter().flatten().map(closed).collect()
        }
    }
}

fn to_segment([x, y]: Position, [ax, ay]: Position, [bx, by]: Position) -> f64 {
    let (dx, dy) = (bx - ax, by - ay);
    let square = dx * dx + dy * dy;
    let along = ((x - ax) * dx + (y - ay) * dy) / square;
    // A segment without length has no direction to go along.
    let along = if along.is_finite() { along.clamp(0.0, 1.0) } else { 0.0 };
    (x - ax - along * dx).hypot(y - ay - along * dy)
}
