//! Seeded checks of places: what must hold for all geometries, whatever they are.

use geographiclib_rs::{Geodesic, InverseGeodesic};

use super::distance;
use super::edge::Edge;
use super::figure::{Figure, direction, figures, position};
use super::relate::{intersect, within};
use super::shape::{Position, Shape};
use super::{bounds, grown};
use crate::source::Bounds;
use crate::value::Value;
use crate::world::Budget;

/// Numbers by chance that are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 * limit
    }

    fn place(&mut self) -> Position {
        [self.below(360.0) - 180.0, self.below(170.0) - 85.0]
    }

    /// A polygon around a place, as a star is: every corner is seen from the middle.
    fn star(&mut self, [x, y]: Position, size: f64) -> Vec<Position> {
        let corners = 3 + self.below(9.0) as usize;
        let turn = std::f64::consts::TAU / corners as f64;
        let corner = |at: usize| {
            let (sin, cos) = (at as f64 * turn).sin_cos();
            let far = size * (0.3 + self.below(0.7));
            [x + far * cos, y + far * sin]
        };
        (0..corners).map(corner).collect()
    }
}

fn area(ring: &[Position]) -> Shape {
    Shape::Areas(vec![vec![ring.to_vec()]])
}

fn related(
    how: fn(&Budget, &Figure, &Figure) -> model::Result<bool>,
    a: &Shape,
    b: &Shape,
    planar: bool,
) -> bool {
    let [a, b] = figures(a, b, planar);
    how(&Budget::default(), &a, &b).expect("within the budget")
}

/// Whether a point is in a ring, by the crossings of a ray to the east, and how near to it.
fn by_ray([x, y]: Position, ring: &[Position]) -> (bool, f64) {
    let (mut inside, mut near) = (false, f64::INFINITY);
    for (at, [ax, ay]) in ring.iter().enumerate() {
        let [bx, by] = ring[(at + 1) % ring.len()];
        if (*ay > y) != (by > y) && x < ax + (y - ay) / (by - ay) * (bx - ax) {
            inside = !inside;
        }
        let (dx, dy) = (bx - ax, by - ay);
        let along = (((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
        near = near.min((x - ax - along * dx).hypot(y - ay - along * dy));
    }
    (inside, near)
}

#[test]
fn points_are_in_small_polygons_as_a_ray_says() {
    let mut dice = Dice(0x1234_5678_9ABC_DEF1);
    for _ in 0..3_000 {
        let middle = [dice.below(300.0) - 150.0, dice.below(100.0) - 50.0];
        let ring = dice.star(middle, 0.5);
        let mut reversed = ring.clone();
        reversed.reverse();
        let point = [middle[0] + dice.below(1.2) - 0.6, middle[1] + dice.below(1.2) - 0.6];
        let (inside, near) = by_ray(point, &ring);
        // Lines on the globe are not those on the map, but nearly.
        if near < 0.01 {
            continue;
        }
        let point = Shape::Point(point);
        assert_eq!(related(within, &point, &area(&ring), true), inside, "{ring:?}");
        assert_eq!(related(within, &point, &area(&reversed), true), inside);
        assert_eq!(related(within, &point, &area(&ring), false), inside, "{ring:?} {point:?}");
        assert_eq!(related(within, &point, &area(&reversed), false), !inside, "{ring:?}");
    }
}

#[test]
fn relations_agree_with_each_other() {
    let mut dice = Dice(0xDEAD_BEEF_1234_5677);
    let (mut inside, mut meeting, mut apart) = (0, 0, 0);
    for round in 0..2_000 {
        let planar = round % 2 == 0;
        let middle = [dice.below(300.0) - 150.0, dice.below(100.0) - 50.0];
        let near = [middle[0] + dice.below(6.0) - 3.0, middle[1] + dice.below(6.0) - 3.0];
        let (a_size, b_size) = (dice.below(3.0) + 0.01, dice.below(6.0) + 0.01);
        let a = match round % 3 {
            0 => area(&dice.star(middle, a_size)),
            1 => Shape::Line(dice.star(middle, a_size)),
            _ => Shape::Point(middle),
        };
        let b = area(&dice.star(near, b_size));
        let [x, y] = figures(&a, &b, planar);
        let budget = Budget::default();
        let is_within = within(&budget, &x, &y).unwrap();
        let meets = intersect(&budget, &x, &y).unwrap();
        assert_eq!(meets, intersect(&budget, &y, &x).unwrap(), "{a:?} {b:?}");
        assert!(meets || !is_within, "{a:?} {b:?}");
        assert!(within(&budget, &x, &x).unwrap(), "{planar} {a:?}");
        assert!(intersect(&budget, &x, &x).unwrap());
        let distance = if planar {
            distance::on_plane(&budget, &a, &b).unwrap()
        } else {
            distance::on_globe(&budget, &x, &y).unwrap()
        };
        assert!(meets || distance > 0.0, "{a:?} {b:?}");
        inside += usize::from(is_within);
        meeting += usize::from(meets && !is_within);
        apart += usize::from(!meets);
    }
    assert!(inside > 100 && meeting > 100 && apart > 100, "{inside} {meeting} {apart}");
}

/// The least distance to many points of an edge, and then to many around the nearest.
fn least_by_steps(point: Position, edge: &Edge) -> f64 {
    let geodesic = Geodesic::wgs84();
    let metres = |along: f64| {
        let at = (edge.a * (1.0 - along) + edge.b * along).unit();
        let [x, y] = position(at);
        let metres: f64 = geodesic.inverse(point[1], point[0], y, x);
        metres
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..12 {
        let step = (high - low) / 20.0;
        let steps = (0..=20).map(|at| low + step * f64::from(at));
        let best = steps.min_by(|a, b| metres(*a).total_cmp(&metres(*b))).unwrap();
        (low, high) = (f64::max(best - step, 0.0), f64::min(best + step, 1.0));
    }
    metres(low / 2.0 + high / 2.0)
}

#[test]
fn distances_to_edges_are_the_least_there_are() {
    let mut dice = Dice(0x0BAD_CAFE_0BAD_CAFD);
    for _ in 0..150 {
        let (point, from) = (dice.place(), dice.place());
        let size = 10_f64.powf(dice.below(5.0) - 3.0);
        let to = [
            (from[0] + dice.below(size) - size / 2.0).clamp(-180.0, 180.0),
            (from[1] + dice.below(size) - size / 2.0).clamp(-89.0, 89.0),
        ];
        let (a, b) = (Shape::Point(point), Shape::Line(vec![from, to]));
        let [x, y] = figures(&a, &b, false);
        let got = distance::on_globe(&Budget::default(), &x, &y).unwrap();
        let edge = Edge::new(direction(from), direction(to), false);
        let expected = least_by_steps(point, &edge);
        assert!((got - expected).abs() < 1e-4, "{point:?} {from:?} {to:?}: {got} {expected}");
    }
}

fn holds(bounds: &Bounds, [x, y]: Position) -> bool {
    let sideways = if bounds.west <= bounds.east {
        (bounds.west..=bounds.east).contains(&x)
    } else {
        x >= bounds.west || x <= bounds.east
    };
    sideways && (bounds.south..=bounds.north).contains(&y)
}

fn polygon(ring: &[Position]) -> Value<'static> {
    let closed: Vec<Position> = ring.iter().chain(ring.first()).copied().collect();
    let tree = serde_json::json!({ "type": "Polygon", "coordinates": [closed] });
    Value::from_tree(&tree)
}

#[test]
fn boxes_hold_what_they_are_around() {
    let mut dice = Dice(0xFEED_FACE_FEED_FACD);
    let mut held = 0;
    for _ in 0..600 {
        // Over the date line and the poles too.
        let middle = [dice.below(360.0) - 180.0, dice.below(180.0) - 90.0];
        let size = dice.below(40.0) + 0.1;
        let ring: Vec<Position> = dice
            .star(middle, size)
            .into_iter()
            .map(|[x, y]| [(x + 540.0).rem_euclid(360.0) - 180.0, y.clamp(-90.0, 90.0)])
            .collect();
        let Some(bounds) = bounds(&polygon(&ring), false) else { continue };
        let shape = area(&ring);
        for _ in 0..40 {
            let near = [middle[0] + dice.below(3.0 * size) - 1.5 * size, middle[1]];
            let near = [near[0], near[1] + dice.below(3.0 * size) - 1.5 * size];
            let point = [(near[0] + 540.0).rem_euclid(360.0) - 180.0, near[1].clamp(-90.0, 90.0)];
            let [x, y] = figures(&Shape::Point(point), &shape, false);
            let budget = Budget::default();
            if intersect(&budget, &x, &y).unwrap() {
                held += 1;
                assert!(holds(&bounds, point), "{point:?} {bounds:?} {ring:?}");
            } else {
                let distance = distance::on_globe(&budget, &x, &y).unwrap();
                let wider = grown(bounds, distance, false);
                assert!(holds(&wider, point), "{point:?} {distance} {wider:?} {ring:?}");
            }
        }
    }
    assert!(held > 1_000, "{held}");
}

#[test]
fn a_box_on_the_plane_is_as_wide_as_its_shape() {
    let bounds = bounds(&polygon(&[[0.0, 0.0], [500.0, 0.0], [0.0, 700.0]]), true).unwrap();
    assert_eq!(bounds, Bounds { west: 0.0, south: 0.0, east: 500.0, north: 700.0 });
    let wider = grown(bounds, 10.0, true);
    assert_eq!(wider, Bounds { west: -10.0, south: -10.0, east: 510.0, north: 710.0 });
    assert!(super::bounds(&Value::int(5), true).is_none());
}
