//! Tests of binary JSON, by the vectors of the service's clients.

use super::*;

fn text(hex: &str) -> Result<String> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    let body: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    to_text(&body).map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn vectors_of_the_clients() {
    let lines = include_str!("../../testdata/binary_json.txt").lines();
    let vectors: Vec<_> = lines.filter_map(|line| line.split_once(' ')).collect();
    let vectors: Vec<_> = vectors.into_iter().filter(|(hex, _)| *hex != "#").collect();
    assert!(vectors.len() >= 60);
    for (hex, expected) in vectors {
        assert_eq!(text(hex).as_deref(), Ok(expected), "{hex}");
    }
}

#[test]
fn a_body_of_the_rust_client() {
    let hex = "80 ED 0D 03 82 69 64 81 61 82 70 6B 81 61 81 76 02";
    assert_eq!(text(hex).unwrap(), r#"{"id":"a","pk":"a","v":2}"#);
}

#[test]
fn strings_are_escaped_and_whole_doubles_are_whole() {
    assert_eq!(text("80 84 22 5C 0A C3").unwrap_err().fault, Fault::BadRequest);
    assert_eq!(text("80 83 22 5C 0A").unwrap(), r#""\"\\\n""#);
    assert_eq!(text("80 CC 00 00 00 00 00 00 08 40").unwrap(), "3");
    assert_eq!(text("80 CC 9C 75 00 88 3C E4 37 7E").unwrap(), "1e+300");
}

#[test]
fn malformed_bodies_are_refused() {
    for hex in [
        "",                                                            // nothing
        "7B7D",                                                        // text
        "80",                                                          // no value
        "80 D0 D0",                                                    // two values
        "80 40",                                                       // a user's string
        "80 60 01",                      // a user's string of two bytes
        "80 68",                         // no marker
        "80 CF 00 3C",                   // half a float
        "80 D4",                         // no marker
        "80 F4",                         // no marker
        "80 FF",                         // no marker
        "80 82 61",                      // a string cut short
        "80 C2 FF FF FF FF 61",          // a length that lies
        "80 81 FF",                      // not UTF-8
        "80 CC 00 00 00 00 00 00 F0 7F", // infinity
        "80 CD 00 00 C0 7F",             // not a number
        "80 E2 05 00",                   // an array cut short
        "80 E4 FF FF FF FF 00",          // a length that lies
        "80 E5 02 03 00 00",             // a wrong count
        "80 E2 01 81 61",                // a value across the end
        "80 E9 00 00",                   // a name that is a number
        "80 E9 D3 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F 00", // a name that is a GUID
        "80 E9 2C",                      // a member without a value
        "80 C3 01",                      // a reference to itself
        "80 C3 FF",                      // a reference beyond the end
        "80 E2 04 C3 05 C3 03",          // references to each other
        "80 E2 03 00 C3 03",             // a reference to a number
        "80 F0 C8 01 01",                // numbers of a form that arrays do not take
        "80 F2 F1 DA 01 01 00 00 00 00", // arrays of the wrong inner form
        "80 F1 DA FF FF 00",             // a count that lies
        "80 71 01 03",                   // a padding that cannot be
        "80 71 00 01",                   // more padding than text
        "80 78 01 1F",                   // something behind the end
        "80 7B 01 7F 0F",                // beyond ASCII
    ] {
        assert_eq!(text(hex).unwrap_err().fault, Fault::BadRequest, "{hex}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| [&[0x80], &vec![0xE1; levels][..], &[0xD0]].concat();
    let text = to_text(&nested(JSON_DEPTH)).unwrap();
    assert_eq!(json::check(&text).unwrap().len(), 2 * JSON_DEPTH + 4);
    assert!(to_text(&nested(JSON_DEPTH + 1)).is_err());
    assert!(to_text(&nested(1_000_000)).is_err());
}

#[test]
fn output_is_bounded() {
    // A string of 60,000 bytes, then references to it.
    let mut body = vec![0x80, 0xE4, 0, 0, 0, 0, 0xC1];
    body.extend_from_slice(&60_000_u16.to_le_bytes());
    body.resize(body.len() + 60_000, b'x');
    for _ in 0..100_000 {
        body.extend_from_slice(&[0xC3, 6]);
    }
    let length = (body.len() - 6) as u32;
    body[2..6].copy_from_slice(&length.to_le_bytes());
    assert_eq!(to_text(&body).unwrap_err().fault, Fault::TooLarge);
    // Arrays of 65,535 empty arrays, each of a few bytes.
    let arrays = [0xF3, 0xF1, 0xDA, 0, 0, 0xFF, 0xFF].repeat(1000);
    let mut body = vec![0x80, 0xE4];
    body.extend_from_slice(&(arrays.len() as u32).to_le_bytes());
    body.extend_from_slice(&arrays);
    assert_eq!(to_text(&body).unwrap_err().fault, Fault::TooLarge);
}
