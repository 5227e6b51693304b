//! Values as JSON text. What came from a document is written as it came.

use model::json;

use super::Value;

pub(super) fn value(value: &Value<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Undefined => return false,
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => return number.write_into(out),
        Value::String(text) => json::escape_into(out, text),
        Value::Raw(raw) => out.extend_from_slice(raw),
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements.iter() {
                separated(out, b'[', |out| self::value(element, out));
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (name, member) in members.iter() {
                separated(out, b'{', |out| {
                    json::escape_into(out, name);
                    out.push(b':');
                    value_of_member(member, out)
                });
            }
            out.push(b'}');
        }
    }
    true
}

fn value_of_member(member: &Value<'_>, out: &mut Vec<u8>) -> bool {
    self::value(member, out)
}

/// Writes one part after a comma where it needs one, and takes both back where it wrote nothing.
fn separated(out: &mut Vec<u8>, open: u8, write: impl FnOnce(&mut Vec<u8>) -> bool) {
    let before = out.len();
    if out.last() != Some(&open) {
        out.push(b',');
    }
    if !write(out) {
        out.truncate(before);
    }
}
