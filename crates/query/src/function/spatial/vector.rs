//! Vectors of three numbers.
//!
//! A position on the globe is the direction from the centre of the earth, of length 1. One on a
//! plane is `(x, y, 1)`: then the line through two points is the plane through two vectors there
//! too, and one arithmetic serves both.

use std::ops::{Add, Mul, Neg, Sub};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Vector(pub(super) [f64; 3]);

impl Vector {
    pub(super) fn dot(self, other: Self) -> f64 {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        a * x + b * y + c * z
    }

    pub(super) fn cross(self, other: Self) -> Self {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        Self([b * z - c * y, c * x - a * z, a * y - b * x])
    }

    pub(super) fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The same direction with length 1; no direction stays none.
    pub(super) fn unit(self) -> Self {
        let length = self.length();
        if length > 0.0 { self * (1.0 / length) } else { self }
    }

    /// The angle between two directions, exact for small ones too.
    pub(super) fn angle(self, other: Self) -> f64 {
        self.cross(other).length().atan2(self.dot(other))
    }
}

impl Add for Vector {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        Self([a + x, b + y, c + z])
    }
}

impl Sub for Vector {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Vector {
    type Output = Self;

    fn neg(self) -> Self {
        self * -1.0
    }
}

impl Mul<f64> for Vector {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        let [a, b, c] = self.0;
        Self([a * factor, b * factor, c * factor])
    }
}
