//! Vectors in index rows: how they are kept, how alike two are, and on which side of things they
//! lie.
//!
//! The *side* of a vector is 16 bits, one for each of 16 planes through the origin: vectors that
//! point alike have most of them in common. The planes follow from their numbers alone, so rows
//! follow from bodies, and nothing has to be learnt from the data or kept in memory. Rows stand in
//! the order of sides; a search looks at as few leading bits as the number of vectors asks for, at
//! the nearest sides first.
//!
//! A flat index keeps single-precision numbers, the others a byte for each.

use bytes::{BufMut, Bytes, BytesMut};
use model::json::{self, Cursor, Kind};

/// Planes, and bits of a side.
pub(crate) const PLANES: u32 = 16;

const FLAT: u8 = 1;
const BYTES: u8 = 2;

/// How alike vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    Cosine,
    DotProduct,
    Euclidean,
}

impl Metric {
    /// By its name in a policy.
    pub fn named(name: &str) -> Self {
        match name {
            "euclidean" => Self::Euclidean,
            "dotproduct" => Self::DotProduct,
            _ => Self::Cosine,
        }
    }

    /// How far apart two vectors are: less is nearer.
    pub fn distance(self, a: &[f32], b: &[f32]) -> f32 {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        match self {
            Self::DotProduct => -dot(a, b),
            Self::Euclidean => a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum(),
            Self::Cosine => {
                let lengths = (dot(a, a) * dot(b, b)).sqrt();
                if lengths > 0.0 { -dot(a, b) / lengths } else { f32::INFINITY }
            }
        }
    }
}

/// The vector that a raw value is, if it has as many numbers as it should.
pub(crate) fn read(raw: &[u8], dimensions: usize) -> Option<Vec<f32>> {
    let mut cursor = Cursor::new(raw);
    if cursor.kind() != Kind::Array || dimensions == 0 {
        return None;
    }
    let mut vector = Vec::with_capacity(dimensions);
    cursor.enter();
    while cursor.element() {
        if vector.len() == dimensions {
            return None;
        }
        vector.push(json::number(cursor.take())? as f32);
    }
    (vector.len() == dimensions).then_some(vector)
}

/// How far a vector is on the one side of each plane, or, below zero, on the other.
pub(crate) fn margins(vector: &[f32]) -> [f32; PLANES as usize] {
    let mut margins = [0.0; PLANES as usize];
    for (at, number) in vector.iter().enumerate() {
        // The numbers of a plane are 1 and -1, one bit each.
        let bits = mixed(at as u64);
        for (plane, margin) in margins.iter_mut().enumerate() {
            *margin += if bits >> plane & 1 == 1 { *number } else { -*number };
        }
    }
    margins
}

/// The side of a vector.
pub(crate) fn side(vector: &[f32]) -> u16 {
    margins(vector).iter().fold(0, |side, margin| side << 1 | u16::from(*margin > 0.0))
}

/// Bits that look like chance but are always the same.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// The stored form.
pub(crate) fn encode(vector: &[f32], flat: bool) -> Bytes {
    if flat {
        let mut out = BytesMut::with_capacity(1 + 4 * vector.len());
        out.put_u8(FLAT);
        vector.iter().for_each(|number| out.put_f32(*number));
        return out.freeze();
    }
    let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let scale = if largest > 0.0 && largest.is_finite() { largest / 127.0 } else { 1.0 };
    let mut out = BytesMut::with_capacity(5 + vector.len());
    out.put_u8(BYTES);
    out.put_f32(scale);
    vector.iter().for_each(|number| out.put_i8((number / scale).round() as i8));
    out.freeze()
}

/// Reads the stored form into a vector that is used again and again; false where it is torn.
pub(crate) fn decode(stored: &[u8], vector: &mut Vec<f32>) -> bool {
    vector.clear();
    match stored.split_first() {
        Some((&FLAT, numbers)) => {
            let (numbers, rest) = numbers.as_chunks::<4>();
            vector.extend(numbers.iter().map(|number| f32::from_be_bytes(*number)));
            rest.is_empty()
        }
        Some((&BYTES, rest)) => match rest.split_first_chunk() {
            Some((scale, numbers)) => {
                let scale = f32::from_be_bytes(*scale);
                vector.extend(numbers.iter().map(|number| f32::from(*number as i8) * scale));
                true
            }
            None => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(seed: u64, dimensions: usize) -> Vec<f32> {
        (0..dimensions)
            .map(|at| (mixed(seed * 1_000_003 + at as u64) >> 40) as f32 / 8e6 - 1.0)
            .collect()
    }

    #[test]
    fn only_whole_vectors_of_the_right_length_are_vectors() {
        assert_eq!(read(b"[1, -2.5,3e0]", 3), Some(vec![1.0, -2.5, 3.0]));
        for raw in ["[1,2]", "[1,2,3,4]", "[1,2,\"3\"]", "[]", "7", "null", "[1,[2],3]"] {
            assert_eq!(read(raw.as_bytes(), 3), None, "{raw}");
        }
    }

    #[test]
    fn vectors_come_back_nearly_as_they_were() {
        let (vector, mut back) = (some(1, 100), Vec::new());
        assert!(decode(&encode(&vector, true), &mut back) && back == vector);
        assert!(decode(&encode(&vector, false), &mut back));
        assert!(vector.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.01));
        assert!(!decode(b"", &mut back) && !decode(&[BYTES, 1], &mut back));
        assert!(!decode(&[FLAT, 1, 2, 3], &mut back));
    }

    #[test]
    fn vectors_that_point_alike_lie_on_the_same_sides() {
        let apart = |a: &[f32], b: &[f32]| (side(a) ^ side(b)).count_ones();
        let (mut near, mut far) = (0, 0);
        for seed in 0..200 {
            let vector = some(seed, 64);
            let other = some(seed + 10_000, 64);
            let close: Vec<f32> = vector.iter().zip(&other).map(|(a, b)| a + b / 5.0).collect();
            near += apart(&vector, &close);
            far += apart(&vector, &other);
        }
        assert!(near * 3 < far, "{near} {far}");
    }
}
