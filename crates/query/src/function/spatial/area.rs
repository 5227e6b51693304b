//! Areas of polygons: of the ellipsoid between geodesics, or of the plane.

use geographiclib_rs::{Geodesic, PolygonArea, Winding};

use super::shape::{Ring, Shape};

/// The area of a geometry; none for points and lines.
pub(super) fn of(shape: &Shape, planar: bool) -> f64 {
    let Shape::Areas(areas) = shape else { return 0.0 };
    let ring_area = if planar { on_plane } else { on_globe };
    let area = |rings: &Vec<Ring>| {
        let holes: f64 = rings.iter().skip(1).map(|ring| ring_area(ring, true)).sum();
        let outer = rings.first().map_or(0.0, |ring| ring_area(ring, false));
        (outer - holes).max(0.0)
    };
    areas.iter().map(area).sum()
}

/// What is to the left of the ring; of a hole, the smaller side.
fn on_globe(ring: &Ring, hole: bool) -> f64 {
    let geodesic = Geodesic::wgs84();
    let mut polygon = PolygonArea::new(&geodesic, Winding::CounterClockwise);
    for [longitude, latitude] in ring {
        polygon.add_point(*latitude, *longitude);
    }
    let (_, area, _) = polygon.compute(hole);
    area.abs()
}

fn on_plane(ring: &Ring, _: bool) -> f64 {
    let Some([x0, y0]) = ring.first() else { return 0.0 };
    // Seen from the first corner, so that places far from 0 lose no digits.
    let triangles = ring.windows(2).map(|pair| {
        let ([a, b], [c, d]) = (pair[0], pair[1]);
        (a - x0) * (d - y0) - (c - x0) * (b - y0)
    });
    triangles.sum::<f64>().abs() / 2.0
}
