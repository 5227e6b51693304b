//! Tests of tokens: that they read back, and that nothing else is read.

use super::*;

/// A small generator, so that a seed replays a failure.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn etags_have_the_form_of_the_service() {
    let etag = Etag::new(0x0102_0304_0506_0708, 0x0A0B_0C0D, 0x1112, 0xAAAA_BEEF);
    assert_eq!(etag.to_string(), "\"01020304-0506-0708-0a0b-0c0d1112beef\"");
    assert_eq!(Etag::parse(&etag.to_string()), Some(etag));
    assert_eq!(Etag::parse("01020304-0506-0708-0a0b-0c0d1112beef"), Some(etag));
    let mut json = Vec::new();
    etag.write_json_into(&mut json);
    assert_eq!(json, b"\"\\\"01020304-0506-0708-0a0b-0c0d1112beef\\\"\"");
}

#[test]
fn conditions_hold_of_versions() {
    let (one, other) = (Etag([1; 16]), Etag([2; 16]));
    assert_eq!(Match::parse("*"), Match::Any);
    assert_eq!(Match::parse(&one.to_string()), Match::Etag(one));
    for foreign in
        ["", "x", "W/\"1\"", "\"", "\"*\"", "é", "0102030405060708-0a0b-0c0d1112beef-----"]
    {
        assert_eq!(Match::parse(foreign), Match::Foreign, "{foreign}");
    }
    assert!(Match::Any.matches(Some(one)) && !Match::Any.matches(None));
    assert!(Match::Etag(one).matches(Some(one)) && !Match::Etag(one).matches(Some(other)));
    assert!(!Match::Etag(one).matches(None) && !Match::Foreign.matches(Some(one)));
}

#[test]
fn session_tokens_of_all_forms_are_read() {
    let session = Session::parse("0:-1#123,1:1#5#1=4#2=-1, 2:77,1:-1#9").unwrap();
    assert_eq!(session.lsn_of("0"), Some(123));
    assert_eq!(session.lsn_of("1"), Some(9));
    assert_eq!(session.lsn_of("2"), Some(77));
    assert_eq!(session.lsn_of("3"), None);
    assert_eq!(session_token("7", 8), "7:-1#8");
    assert_eq!(Session::parse(&session.to_string()).unwrap(), session);
    assert_eq!(Session::parse("").unwrap(), Session::default());
}

#[test]
fn malformed_session_tokens_are_refused() {
    for text in [
        "x",
        "0",
        ":5",
        "0:",
        "0:x",
        "0:-1#",
        "0:-1#x",
        "0:x#5",
        "0:-1#5#",
        "0:-1#5#1",
        "0:-1#5#1=x",
        "0:-1#5,",
        ",",
        "0:+5",
        "0:-5",
        "0:99999999999999999999",
        "a b:5",
    ] {
        assert_eq!(Session::parse(text).unwrap_err().fault.status(), 400, "{text}");
    }
}

#[test]
fn continuations_read_back_for_their_own_request_only() {
    let token = Continuation { kind: 3, scope: 99, position: Bytes::from_static(b"\x00\xFFplace") };
    let text = token.encode();
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
    assert_eq!(Continuation::decode(&text, 3, 99), Ok(token));
    let refusal = |text: &str, kind, scope| {
        let error = Continuation::decode(text, kind, scope).unwrap_err();
        assert_eq!(error.fault.status(), 400);
        error.message
    };
    assert!(refusal(&text, 4, 99).contains("another kind"));
    assert!(refusal(&text, 3, 98).contains("another container"));
    assert!(refusal(&text[..text.len() - 3], 3, 99).contains("damaged"));
    assert!(refusal("", 3, 99).contains("damaged"));
    let mut other = vec![2, 3, 0, 0, 0, 0, 0, 0, 0, 99];
    other.extend_from_slice(&crc32fast::hash(&other).to_be_bytes());
    assert!(refusal(&URL_SAFE_NO_PAD.encode(other), 3, 99).contains("version"));
}

#[test]
fn changed_continuations_are_refused() {
    let mut chance = Chance(1);
    for _ in 0..2000 {
        let length = chance.below(60);
        let position = chance.bytes(length).into();
        let text = Continuation { kind: 1, scope: chance.next() % 4, position }.encode();
        let mut changed = text.clone().into_bytes();
        let at = chance.below(changed.len());
        match chance.below(3) {
            0 => changed[at] = b' ' + (chance.next() % 95) as u8,
            1 => changed.truncate(at),
            _ => changed.insert(at, b'A' + (chance.next() % 26) as u8),
        }
        let changed = String::from_utf8(changed).unwrap();
        if changed.trim() != text {
            for scope in 0..4 {
                assert!(Continuation::decode(&changed, 1, scope).is_err(), "{text} {changed}");
            }
        }
    }
}

#[test]
fn nothing_panics_on_chance() {
    const ALPHABET: &[u8] = b"0123456789abcdefABz:#=,-\"*+ _\xC3\xA9";
    let mut chance = Chance(2);
    for _ in 0..20_000 {
        let length = chance.below(48);
        let mut bytes = chance.bytes(length);
        if chance.below(2) == 0 {
            bytes.iter_mut().for_each(|byte| *byte = ALPHABET[usize::from(*byte) % ALPHABET.len()]);
        }
        let text = String::from_utf8_lossy(&bytes);
        let etag = Etag::parse(&text).map(|etag| etag.to_string());
        assert!(etag.is_none_or(|etag| etag.contains(text.trim_matches('"'))));
        let _ = Match::parse(&text);
        if let Ok(session) = Session::parse(&text) {
            assert_eq!(Session::parse(&session.to_string()), Ok(session));
        }
        assert!(Continuation::decode(&text, 0, 0).is_err());
    }
}
