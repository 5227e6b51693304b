//! A straight line between two positions.

use super::vector::Vector;

/// What lies this close together is one place: on the globe, a twentieth of a millimetre.
pub(super) const NEAR: f64 = 8e-12;

/// A line from one position to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) a: Vector,
    pub(super) b: Vector,
    /// Points to the left of the line, with length 1 on the globe, and such that its product with
    /// a position is the distance from the line on the plane.
    pub(super) left: Vector,
    planar: bool,
}

impl Edge {
    pub(super) fn new(a: Vector, b: Vector, planar: bool) -> Self {
        let normal = a.cross(b);
        let scale = if planar { (b - a).length() } else { normal.length() };
        let left = if scale > 0.0 { normal * (1.0 / scale) } else { Vector([0.0; 3]) };
        Self { a, b, left, planar }
    }

    pub(super) fn is_planar(&self) -> bool {
        self.planar
    }

    /// How far to the left of the whole line a position is.
    pub(super) fn side(&self, p: Vector) -> f64 {
        self.left.dot(p)
    }

    /// The position in the middle.
    pub(super) fn middle(&self) -> Vector {
        between(self.a, self.b, self.planar)
    }

    /// Whether a position on the line lies between its ends, or next to them.
    pub(super) fn spans(&self, p: Vector) -> bool {
        if self.planar {
            let along = (self.b - self.a).unit();
            along.dot(p - self.a) >= -NEAR && along.dot(self.b - p) >= -NEAR
        } else {
            self.left.cross(self.a).dot(p) >= -NEAR && self.b.cross(self.left).dot(p) >= -NEAR
        }
    }

    /// Whether a position is on it.
    pub(super) fn has(&self, p: Vector) -> bool {
        let near = |q: Vector| (q - p).length() <= NEAR;
        near(self.a) || near(self.b) || self.side(p).abs() <= NEAR && self.spans(p)
    }

    /// Whether they have a position in common.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (c, d) = (self.side(other.a), self.side(other.b));
        if c > NEAR && d > NEAR || c < -NEAR && d < -NEAR {
            return false;
        }
        self.crosses(other)
            || self.has(other.a)
            || self.has(other.b)
            || other.has(self.a)
            || other.has(self.b)
    }

    /// Whether they cross, neither beginning nor ending on the other. The last condition tells
    /// lines that cross from those that cross on the other side of the globe.
    pub(super) fn crosses(&self, other: &Self) -> bool {
        let (c, d) = (self.side(other.a), self.side(other.b));
        let (a, b) = (other.side(self.a), other.side(self.b));
        c * d < 0.0 && a * b < 0.0 && (d > 0.0) == (a > 0.0)
    }

    /// Where two lines that cross do so.
    pub(super) fn crossing(&self, other: &Self) -> Vector {
        let at = self.left.cross(other.left);
        if self.planar {
            return if at.0[2] == 0.0 { self.middle() } else { at * (1.0 / at.0[2]) };
        }
        let at = at.unit();
        if at.dot(self.a + self.b) < 0.0 { -at } else { at }
    }

    /// A position just to the left of the middle.
    pub(super) fn beside(&self) -> Vector {
        let step = (self.b - self.a).length().min(1.0) * 1e-6;
        let middle = self.middle();
        if self.planar {
            let [x, y, _] = self.left.0;
            middle + Vector([x, y, 0.0]).unit() * step
        } else {
            (middle + self.left * step).unit()
        }
    }
}

/// The position between two.
pub(super) fn between(a: Vector, b: Vector, planar: bool) -> Vector {
    if planar { (a + b) * 0.5 } else { (a + b).unit() }
}
