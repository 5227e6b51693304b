//! Our parser and serde_json take the same texts and find the same things in them.

use astrarium_model::json::{self, Document};
use serde_json::Value;

use crate::chance::Chance;

const ROUNDS: usize = 20_000;

/// What serde_json makes of a text. The two differ in three documented ways: ours refuses what
/// is not an object, counts nesting from 1 to 128, and leaves numbers alone unless they are
/// beyond a double. Texts here are shallow, so only the first shows.
fn expected(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok().filter(Value::is_object)
}

fn agree(text: &[u8]) {
    let ours = Document::parse(text);
    let theirs = expected(text);
    let shown = String::from_utf8_lossy(text);
    assert_eq!(ours.is_ok(), theirs.is_some(), "{shown:?}: {:?}", ours.err());
    assert_eq!(
        json::check(text).is_ok(),
        serde_json::from_slice::<Value>(text).is_ok(),
        "{shown:?}"
    );
    if let (Ok(ours), Some(theirs)) = (ours, theirs) {
        let object = json::object(text).expect("it was parsed");
        assert_eq!(Value::Object(object), theirs, "{shown:?}");
        same_places(&ours, &theirs);
    }
}

/// Every path through objects leads to the same value in both.
fn same_places(document: &Document<'_>, tree: &Value) {
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let pointer: String =
            path.iter().map(|name: &String| format!("/{}", escaped(name))).collect();
        let there = tree.pointer(&pointer).expect("a path of the tree");
        let raw = document.at_path(&path).expect("a path of the text");
        let here: Value = serde_json::from_slice(raw).expect("a slice of JSON");
        assert_eq!(&here, there);
        if let Value::Object(members) = there {
            paths.extend(members.keys().map(|key| [&path[..], std::slice::from_ref(key)].concat()));
            let missing = [&path[..], &["no such name".to_owned()]].concat();
            assert_eq!(document.at_path(&missing), None);
        }
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[test]
fn texts_of_any_spelling() {
    let mut chance = Chance(11);
    for _ in 0..ROUNDS {
        let value = Value::Object(chance.object(4));
        let mut text = String::new();
        chance.spell(&value, &mut text);
        assert!(Document::parse(text.as_bytes()).is_ok(), "{text:?}");
        agree(text.as_bytes());
    }
}

#[test]
fn texts_that_were_damaged() {
    let mut chance = Chance(12);
    for _ in 0..ROUNDS {
        let value = Value::Object(chance.object(3));
        let mut text = String::new();
        chance.spell(&value, &mut text);
        let mut text = text.into_bytes();
        chance.mutate(&mut text);
        agree(&text);
    }
}

#[test]
fn texts_of_chance() {
    const BYTES: &[u8] = b"{}[]:,\"\"\\u0019e.-+truefalsn \xC3\xA9\xED\x00\n";
    let mut chance = Chance(13);
    for _ in 0..ROUNDS {
        let length = chance.below(24);
        let mut text = b"{\"a\":".to_vec();
        text.extend((0..length).map(|_| BYTES[chance.below(BYTES.len())]));
        text.push(b'}');
        agree(&text);
        let _ = json::at_path(&text[5..], &["a", "b"]);
        let _ = (json::elements(&text[5..]).count(), json::members(&text[5..]).count());
        let _ = (json::unescape(&text[5..]), json::number(&text[5..]), json::kind(&text[5..]));
    }
}

#[test]
fn numbers_are_the_nearest_doubles() {
    let mut chance = Chance(14);
    for _ in 0..ROUNDS {
        let double = f64::from_bits(chance.next());
        if double.is_finite() {
            let mut text = Vec::new();
            json::number_into(&mut text, double);
            assert_eq!(json::number(&text).map(f64::to_bits), Some(double.to_bits()));
        }
    }
}
