//! Partition keys, as the wire carries them.

use std::fmt;

use serde_json::Value;

/// The value of a partition key: one or several levels. It is sent, never hashed.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionKey(Vec<Value>);

impl PartitionKey {
    /// A key of several levels, outermost first.
    pub fn levels<V: Into<Value>>(levels: impl IntoIterator<Item = V>) -> Self {
        Self(levels.into_iter().map(Into::into).collect())
    }

    /// The key of items that do not have the property.
    pub fn missing() -> Self {
        Self(vec![Value::Object(serde_json::Map::new())])
    }

    /// The levels.
    pub fn values(&self) -> &[Value] {
        &self.0
    }
}

impl<V: Into<Value>> From<V> for PartitionKey {
    fn from(value: V) -> Self {
        Self(vec![value.into()])
    }
}

/// A JSON array in ASCII: headers carry nothing else safely.
impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        for c in text.chars() {
            if matches!(c, ' '..='~') {
                write!(f, "{c}")?;
                continue;
            }
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(f, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: PartitionKey, expect: &str) {
        assert_eq!(key.to_string(), expect);
    }

    #[test]
    fn keys_as_headers() {
        check("a".into(), r#"["a"]"#);
        check(5.into(), "[5]");
        check(1.5.into(), "[1.5]");
        check(true.into(), "[true]");
        check(Value::Null.into(), "[null]");
        check(PartitionKey::missing(), "[{}]");
        check(PartitionKey::levels(["t1", "u1"]), r#"["t1","u1"]"#);
        check("é😀\"\n".into(), r#"["\u00e9\ud83d\ude00\"\n"]"#);
        check("\u{7f}".into(), "[\"\\u007f\"]");
    }
}
