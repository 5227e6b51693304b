//! Numbers in decimal, many of which go into every answer.

/// Appends a number.
pub fn push(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number that has two decimals, without zeros at its end.
pub fn push_cents(out: &mut Vec<u8>, number: f64) {
    let cents = (number * 100.0).round() as u64;
    push(out, cents / 100);
    let (tenths, hundredths) = ((cents / 10 % 10) as u8, (cents % 10) as u8);
    match (tenths, hundredths) {
        (0, 0) => {}
        (_, 0) => out.extend_from_slice(&[b'.', b'0' + tenths]),
        _ => out.extend_from_slice(&[b'.', b'0' + tenths, b'0' + hundredths]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled_as_ever() {
        for number in [0, 7, 10, 99, 1_000, u64::MAX] {
            let mut out = Vec::new();
            push(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
        for cents in (0..30_000_u64).chain([123_456_789, 999_999_999_999]) {
            let (number, mut out) = (cents as f64 / 100.0, Vec::new());
            push_cents(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
