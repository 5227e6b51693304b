//! Places in a text, counted in UTF-16 units.

/// How many units a text has.
pub(super) fn count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The byte of the first character that begins at the unit or after it.
///
/// A place within a pair of units is moved behind it: half a pair is no text.
pub(super) fn byte_at_or_after(text: &str, unit: usize) -> usize {
    if text.is_ascii() {
        return unit.min(text.len());
    }
    let mut units = 0;
    for (byte, character) in text.char_indices() {
        if units >= unit {
            return byte;
        }
        units += character.len_utf16();
    }
    text.len()
}

/// The byte where the last character ends that ends at the unit or before it.
pub(super) fn byte_at_or_before(text: &str, unit: usize) -> usize {
    if text.is_ascii() {
        return unit.min(text.len());
    }
    let mut units = 0;
    for (byte, character) in text.char_indices() {
        units += character.len_utf16();
        if units > unit {
            return byte;
        }
    }
    text.len()
}
