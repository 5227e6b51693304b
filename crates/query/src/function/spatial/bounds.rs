//! Boxes around geometries: what spatial indexes keep, and what they are asked for.

use super::edge::Edge;
use super::figure::{Figure, figures, position};
use super::relate;
use super::shape::Shape;
use super::vector::Vector;
use crate::source::Bounds;
use crate::value::Value;
use crate::world::Budget;

/// All of the globe.
const GLOBE: Bounds = Bounds { west: -180.0, south: -90.0, east: 180.0, north: 90.0 };
/// Degrees added on all sides, so that no rounding leaves a border outside.
const MARGIN: f64 = 1e-9;

/// The box around the geometry that a value describes, if it is one.
pub fn bounds(value: &Value<'_>, planar: bool) -> Option<Bounds> {
    let budget = Budget::default();
    let shape = Shape::read(&budget, value, planar).ok()?.ok()?;
    if planar {
        return Some(on_plane(&shape));
    }
    let [figure, _] = figures(&shape, &shape, planar);
    // Too many corners to look at are as if they were everywhere.
    Some(on_globe(&budget, &figure).unwrap_or(GLOBE))
}

/// The box that also holds everything so near to it, in metres on the globe.
pub fn grown(bounds: Bounds, distance: f64, planar: bool) -> Bounds {
    if planar {
        return Bounds {
            west: bounds.west - distance,
            south: bounds.south - distance,
            east: bounds.east + distance,
            north: bounds.north + distance,
        };
    }
    // No degree of latitude is shorter than this, nor one of longitude at the equator.
    const METRES_PER_DEGREE: f64 = 110_574.0;
    let degrees = distance / METRES_PER_DEGREE + MARGIN;
    let (south, north) = (bounds.south - degrees, bounds.north + degrees);
    if south <= -90.0 || north >= 90.0 || !degrees.is_finite() {
        return Bounds { south: south.max(-90.0), north: north.min(90.0), ..GLOBE };
    }
    // Meridians draw together: at the latitude farthest from the equator most of all.
    let narrowest = south.abs().max(north.abs()).to_radians().cos();
    let sine = degrees.to_radians().sin() / narrowest;
    if degrees >= 90.0 || sine >= 1.0 {
        return Bounds { south, north, ..GLOBE };
    }
    let sideways = sine.asin().to_degrees() + MARGIN;
    let width = width(&bounds) + 2.0 * sideways;
    if width >= 360.0 {
        return Bounds { south, north, ..GLOBE };
    }
    let west = turned(bounds.west - sideways);
    Bounds { west, south, east: turned(bounds.east + sideways), north }
}

fn on_plane(shape: &Shape) -> Bounds {
    let all: Vec<[f64; 2]> = match shape {
        Shape::Point(p) => vec![*p],
        Shape::Line(positions) => positions.clone(),
        Shape::Areas(areas) => areas.iter().flatten().flatten().copied().collect(),
    };
    let fold = |axis: usize, start: f64, pick: fn(f64, f64) -> f64| {
        all.iter().map(|position| position[axis]).fold(start, pick)
    };
    Bounds {
        west: fold(0, f64::INFINITY, f64::min),
        south: fold(1, f64::INFINITY, f64::min),
        east: fold(0, f64::NEG_INFINITY, f64::max),
        north: fold(1, f64::NEG_INFINITY, f64::max),
    }
}

fn on_globe(budget: &Budget, figure: &Figure) -> Option<Bounds> {
    let all = match figure {
        Figure::Point(p) => {
            let [x, y] = position(*p);
            Bounds { west: x, south: y, east: x, north: y }
        }
        Figure::Line(edges) => chain(edges)?,
        Figure::Areas(areas) => {
            let outer = areas.iter().filter_map(|area| area.rings.first());
            let mut boxes = outer.map(|ring| chain(ring));
            boxes.try_fold(None::<Bounds>, |sum, next| {
                let next = next?;
                Some(Some(sum.map_or(next, |sum| joined(sum, next))))
            })??
        }
    };
    let pole = |z: f64| relate::covers(budget, figure, Vector([0.0, 0.0, z])).ok();
    let (north_pole, south_pole) = (pole(1.0)?, pole(-1.0)?);
    let south = if south_pole { -90.0 } else { (all.south - MARGIN).max(-90.0) };
    let north = if north_pole { 90.0 } else { (all.north + MARGIN).min(90.0) };
    if north_pole || south_pole {
        return Some(Bounds { south, north, ..GLOBE });
    }
    if width(&all) + 2.0 * MARGIN >= 360.0 {
        return Some(Bounds { south, north, ..GLOBE });
    }
    let (west, east) = (turned(all.west - MARGIN), turned(all.east + MARGIN));
    Some(Bounds { west, south, east, north })
}

/// The box around edges that follow each other.
fn chain(edges: &[Edge]) -> Option<Bounds> {
    let first = position(edges.first()?.a);
    let (mut west, mut east, mut longitude) = (first[0], first[0], first[0]);
    let (mut south, mut north) = (first[1], first[1]);
    for edge in edges {
        let [x, y] = position(edge.b);
        longitude += turned(x - longitude);
        (west, east) = (west.min(longitude), east.max(longitude));
        (south, north) = (south.min(y), north.max(y));
        // The way between two places may come nearer to a pole than either.
        for z in [1.0, -1.0] {
            let pole = Vector([0.0, 0.0, z]);
            let top = (pole - edge.left * edge.left.dot(pole)).unit();
            if edge.left.length() > 0.0 && edge.spans(top) {
                let [_, y] = position(top);
                (south, north) = (south.min(y), north.max(y));
            }
        }
    }
    if east - west >= 360.0 {
        return Some(Bounds { west: -180.0, south, east: 180.0, north });
    }
    Some(Bounds { west: turned(west), south, east: turned(east), north })
}

/// The narrower of the two boxes that hold both.
fn joined(a: Bounds, b: Bounds) -> Bounds {
    let (south, north) = (a.south.min(b.south), a.north.max(b.north));
    let from = |first: &Bounds, second: &Bounds| {
        // As far as the second reaches, going east from the start of the first.
        let start = (second.west - first.west).rem_euclid(360.0);
        (start + width(second)).max(width(first))
    };
    let (a_first, b_first) = (from(&a, &b), from(&b, &a));
    let (west, width) = if a_first <= b_first { (a.west, a_first) } else { (b.west, b_first) };
    if width >= 360.0 {
        return Bounds { south, north, ..GLOBE };
    }
    Bounds { west, south, east: turned(west + width), north }
}

/// How many degrees a box is wide.
fn width(bounds: &Bounds) -> f64 {
    let width = bounds.east - bounds.west;
    if width < 0.0 { width + 360.0 } else { width }
}

/// Degrees of longitude from -180 to 180.
fn turned(longitude: f64) -> f64 {
    if (-180.0..=180.0).contains(&longitude) {
        longitude
    } else {
        (longitude + 180.0).rem_euclid(360.0) - 180.0
    }
}
