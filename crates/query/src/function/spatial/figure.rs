//! Geometries as vectors and edges, ready to be related.
//!
//! **Invariant:** the inside of an area is to the left of all edges of all its rings.

use super::edge::Edge;
use super::shape::{Position, Ring, Shape};
use super::vector::Vector;

/// The first eccentricity of the ellipsoid, squared.
pub(super) const ECCENTRICITY_2: f64 = 0.006_694_379_990_141_316;

/// A geometry.
pub(super) enum Figure {
    Point(Vector),
    Line(Vec<Edge>),
    Areas(Vec<Area>),
}

/// A polygon: the edges of each ring.
pub(super) struct Area {
    pub(super) rings: Vec<Vec<Edge>>,
}

impl Figure {
    /// All edges.
    pub(super) fn edges(&self) -> Vec<&Edge> {
        match self {
            Self::Point(_) => Vec::new(),
            Self::Line(edges) => edges.iter().collect(),
            Self::Areas(areas) => areas.iter().flat_map(Area::edges).collect(),
        }
    }

    /// All positions.
    pub(super) fn positions(&self) -> Vec<Vector> {
        match self {
            Self::Point(p) => vec![*p],
            Self::Line(edges) => edges
                .first()
                .map(|edge| edge.a)
                .into_iter()
                .chain(edges.iter().map(|e| e.b))
                .collect(),
            Self::Areas(areas) => areas.iter().flat_map(Area::edges).map(|edge| edge.a).collect(),
        }
    }

    /// A position of each connected part of it.
    pub(super) fn samples(&self) -> Vec<Vector> {
        match self {
            Self::Point(p) => vec![*p],
            Self::Line(edges) => edges.first().map(|edge| edge.a).into_iter().collect(),
            Self::Areas(areas) => areas
                .iter()
                .flat_map(|area| &area.rings)
                .filter_map(|ring| ring.first().map(|edge| edge.a))
                .collect(),
        }
    }
}

impl Area {
    pub(super) fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.rings.iter().flatten()
    }
}

/// Two geometries on one map. On the plane both are moved and shrunk to about the size of 1, so
/// that what counts as near does not depend on their units.
pub(super) fn figures(a: &Shape, b: &Shape, planar: bool) -> [Figure; 2] {
    let map = if planar { Map::around([a, b]) } else { Map::Globe };
    [map.figure(a), map.figure(b)]
}

enum Map {
    Globe,
    Plane { middle: Position, scale: f64 },
}

impl Map {
    fn around(shapes: [&Shape; 2]) -> Self {
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        let mut see = |position: &Position| {
            for axis in 0..2 {
                low[axis] = low[axis].min(position[axis]);
                high[axis] = high[axis].max(position[axis]);
            }
        };
        for shape in shapes {
            match shape {
                Shape::Point(position) => see(position),
                Shape::Line(positions) => positions.iter().for_each(&mut see),
                Shape::Areas(areas) => areas.iter().flatten().flatten().for_each(&mut see),
            }
        }
        // Halved first: the sum of two large numbers may be too large.
        let middle = [low[0] / 2.0 + high[0] / 2.0, low[1] / 2.0 + high[1] / 2.0];
        let size = (high[0] / 2.0 - low[0] / 2.0).max(high[1] / 2.0 - low[1] / 2.0);
        let scale = if size > f64::MIN_POSITIVE { 1.0 / size } else { 1.0 };
        Self::Plane { middle, scale }
    }

    fn vector(&self, [x, y]: Position) -> Vector {
        match self {
            Self::Globe => direction([x, y]),
            Self::Plane { middle, scale } => {
                Vector([(x - middle[0]) * scale, (y - middle[1]) * scale, 1.0])
            }
        }
    }

    fn is_planar(&self) -> bool {
        matches!(self, Self::Plane { .. })
    }

    fn figure(&self, shape: &Shape) -> Figure {
        match shape {
            Shape::Point(position) => Figure::Point(self.vector(*position)),
            Shape::Line(positions) => {
                let vectors: Vec<Vector> = positions.iter().map(|p| self.vector(*p)).collect();
                Figure::Line(
                    vectors.windows(2).map(|w| Edge::new(w[0], w[1], self.is_planar())).collect(),
                )
            }
            Shape::Areas(areas) => Figure::Areas(
                areas
                    .iter()
                    .map(|rings| {
                        let rings =
                            rings.iter().enumerate().map(|(at, ring)| self.ring(ring, at > 0));
                        Area { rings: rings.collect() }
                    })
                    .collect(),
            ),
        }
    }

    /// The edges of a ring, turned such that the inside is to their left. On the globe an outer
    /// ring says itself which side that is; a hole is always the smaller side.
    fn ring(&self, ring: &Ring, hole: bool) -> Vec<Edge> {
        let mut vectors: Vec<Vector> = ring.iter().map(|p| self.vector(*p)).collect();
        let turns_left = signed_area(&vectors, self.is_planar()) > 0.0;
        let turned = match self {
            Self::Globe => hole && turns_left,
            Self::Plane { .. } => turns_left == hole,
        };
        if turned {
            vectors.reverse();
        }
        let next = vectors.iter().cycle().skip(1);
        let pairs = vectors.iter().zip(next);
        pairs.map(|(a, b)| Edge::new(*a, *b, self.is_planar())).collect()
    }
}

/// The direction of a position from the centre of the earth.
pub(super) fn direction([longitude, latitude]: Position) -> Vector {
    let (longitude, latitude) = (longitude.to_radians(), latitude.to_radians());
    let (sin, cos) = latitude.sin_cos();
    Vector([cos * longitude.cos(), cos * longitude.sin(), (1.0 - ECCENTRICITY_2) * sin]).unit()
}

/// The position on the globe in a direction.
pub(super) fn position(direction: Vector) -> Position {
    let [x, y, z] = direction.0;
    let latitude = z.atan2((1.0 - ECCENTRICITY_2) * x.hypot(y));
    [y.atan2(x).to_degrees(), latitude.to_degrees()]
}

/// The area to the left of a ring where that is the smaller side, otherwise less than 0.
fn signed_area(vectors: &[Vector], planar: bool) -> f64 {
    let Some(first) = vectors.first() else { return 0.0 };
    let triangles = vectors.windows(2).map(|pair| {
        let volume = first.cross(pair[0]).dot(pair[1]);
        if planar {
            return volume;
        }
        let cosines = first.dot(pair[0]) + pair[0].dot(pair[1]) + pair[1].dot(*first);
        2.0 * volume.atan2(1.0 + cosines)
    });
    let sum: f64 = triangles.sum();
    if planar {
        return sum;
    }
    let whole = 4.0 * std::f64::consts::PI;
    sum - (sum / whole).round() * whole
}
