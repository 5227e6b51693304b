//! Chance from a seed, and JSON made of it.

use serde_json::{Map, Number, Value};

/// The splitmix64 generator.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A value with at most `depth` containers around each other.
    pub fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 | 3 => self.number(),
            4 | 5 => Value::String(self.text()),
            6 => {
                let length = self.below(5);
                (0..length).map(|_| self.value(depth - 1)).collect()
            }
            _ => Value::Object(self.object(depth - 1)),
        }
    }

    pub fn object(&mut self, depth: usize) -> Map<String, Value> {
        let length = self.below(6);
        (0..length).map(|_| (self.text(), self.value(depth))).collect()
    }

    pub fn number(&mut self) -> Value {
        match self.below(5) {
            0 => self.below(40).into(),
            1 => (self.next() as i64).into(),
            2 => self.next().into(),
            3 => ((self.next() as i16) as i64).into(),
            // Few digits: serde_json reads longer ones to the neighbour of the nearest double.
            _ => {
                let double =
                    f64::from(self.next() as i16) / 16.0 * 1e3_f64.powi(self.below(3) as i32);
                Number::from_f64(double).map_or(Value::Null, Value::Number)
            }
        }
    }

    /// Short texts, often the same ones, with all that needs escapes.
    pub fn text(&mut self) -> String {
        const PIECES: &[&str] = &[
            "a",
            "b",
            "id",
            "name",
            "_ts",
            "é",
            "😀",
            "\"",
            "\\",
            "/",
            "\n",
            "\t",
            "\u{1}",
            "\u{7f}",
            "]",
            "}",
            ",",
            ":",
            " ",
            "~",
            "0123456789",
            "_rid",
            "{",
        ];
        let length = self.below(4);
        (0..length).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }

    /// The text of a value with whitespace and escapes that another writer might choose.
    pub fn spell(&mut self, value: &Value, out: &mut String) {
        self.space(out);
        match value {
            Value::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.spell(element, out);
                }
                self.space(out);
                out.push(']');
            }
            Value::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.space(out);
                    self.spell_string(key, out);
                    self.space(out);
                    out.push(':');
                    self.spell(value, out);
                }
                self.space(out);
                out.push('}');
            }
            Value::String(text) => self.spell_string(text, out),
            scalar => out.push_str(&scalar.to_string()),
        }
        self.space(out);
    }

    fn spell_string(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            let special = character < ' ' || character == '"' || character == '\\';
            if special || self.below(8) == 0 {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            } else {
                out.push(character);
            }
        }
        out.push('"');
    }

    fn space(&mut self, out: &mut String) {
        if self.below(6) == 0 {
            out.push([' ', '\n', '\r', '\t'][self.below(4)]);
        }
    }

    /// Changes a few bytes, mostly to ones that mean something.
    pub fn mutate(&mut self, text: &mut Vec<u8>) {
        const BYTES: &[u8] = b"{}[]:,\"\\ue0123456789.-+tfn \xC3\xA9\xED\xA0\x80\x00\n";
        for _ in 0..=self.below(3) {
            let at = self.below(text.len() + 1);
            let byte = BYTES[self.below(BYTES.len())];
            match self.below(4) {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                2 if at < text.len() => drop(text.remove(at)),
                3 => text.truncate(at),
                _ => {}
            }
        }
    }
}
