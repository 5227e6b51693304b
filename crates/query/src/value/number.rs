//! Numbers: doubles to compute and compare with, integers of 64 bits kept exact, and the spelling
//! of the document where it says more than either.

use std::borrow::Cow;

use model::json;

/// A number.
#[derive(Debug, Clone)]
pub enum Number<'a> {
    /// An integer, spelled as itself.
    Int(i64),
    /// A double that was computed.
    Float(f64),
    /// A double and how its document spells it.
    Spelled(f64, Cow<'a, str>),
}

/// 2^63, the first double above all integers of 64 bits.
const ABOVE_INT: f64 = 9_223_372_036_854_775_808.0;
/// 2^53: up to here every whole double is one integer.
const WHOLE: f64 = 9_007_199_254_740_992.0;

impl<'a> Number<'a> {
    /// The number that checked JSON text spells.
    pub fn from_raw(raw: &'a [u8]) -> Option<Self> {
        if let Some(int) = plain_int(raw) {
            return Some(Self::Int(int));
        }
        let value = json::number(raw)?;
        Some(Self::Spelled(value, Cow::Borrowed(std::str::from_utf8(raw).ok()?)))
    }

    /// The number that a text spells in JSON's grammar.
    pub fn from_spelling(text: &str) -> Option<Number<'static>> {
        let raw = json::check(text.as_bytes()).ok()?;
        (json::kind(raw) == json::Kind::Number)
            .then(|| Number::from_raw(raw))?
            .map(Number::into_owned)
    }

    /// A double that was computed, as an integer where it is one.
    pub fn computed(value: f64) -> Self {
        let negative_zero = value == 0.0 && value.is_sign_negative();
        if value.fract() == 0.0 && value.abs() <= WHOLE && !negative_zero {
            Self::Int(value as i64)
        } else {
            Self::Float(value)
        }
    }

    /// The nearest double.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Float(value) | Self::Spelled(value, _) => *value,
        }
    }

    /// The integer, if it is one of 64 bits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Float(value) | Self::Spelled(value, _) => {
                let whole = value.fract() == 0.0 && (-ABOVE_INT..ABOVE_INT).contains(value);
                whole.then_some(*value as i64)
            }
        }
    }

    /// The same without a copy.
    pub fn borrowed(&self) -> Number<'_> {
        match self {
            Self::Int(value) => Number::Int(*value),
            Self::Float(value) => Number::Float(*value),
            Self::Spelled(value, text) => Number::Spelled(*value, Cow::Borrowed(text)),
        }
    }

    /// The same on its own.
    pub fn into_owned(self) -> Number<'static> {
        match self {
            Self::Int(value) => Number::Int(value),
            Self::Float(value) => Number::Float(value),
            Self::Spelled(value, text) => Number::Spelled(value, Cow::Owned(text.into_owned())),
        }
    }

    /// Writes it as JSON; false for what JSON cannot spell.
    pub fn write_into(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Float(value) if !value.is_finite() => return false,
            Self::Float(value) => json::number_into(out, *value),
            Self::Spelled(_, text) => out.extend_from_slice(text.as_bytes()),
        }
        true
    }
}

/// An integer whose spelling is what we would write ourselves.
fn plain_int(raw: &[u8]) -> Option<i64> {
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    if digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) || raw == b"-0" {
        return None;
    }
    let negative = digits.len() < raw.len();
    digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = i64::from(digit - b'0');
        let sum = sum.checked_mul(10)?;
        if negative { sum.checked_sub(digit) } else { sum.checked_add(digit) }
    })
}
