//! Settings: one table, from which flags, environment, file, help and documentation come.

mod help;
mod load;
mod table;

pub use help::{effective, help, markdown};
pub use load::{Loaded, Source, Verb, load};
pub use table::{SETTINGS, Setting, Settings};

use crate::auth::Keys;

/// The key that everybody knows: that of Microsoft's emulator. Good on loopback only.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

impl Settings {
    /// The keys of the account, decoded.
    pub fn keys(&self) -> Result<Keys, String> {
        let primary = match (self.key.as_str(), self.key_file.as_str()) {
            ("", "") => WELL_KNOWN_KEY.to_owned(),
            (key, "") => key.to_owned(),
            ("", file) => {
                std::fs::read_to_string(file).map_err(|e| format!("key-file {file}: {e}"))?
            }
            _ => return Err("set key or key-file, not both".into()),
        };
        let full = [("key", &primary), ("secondary-key", &self.secondary_key)];
        let read_only = [
            ("read-only-key", &self.read_only_key),
            ("read-only-secondary-key", &self.read_only_secondary_key),
        ];
        Ok(Keys::new(&decoded_keys(&full)?, &decoded_keys(&read_only)?))
    }

    /// Whether the operator has chosen the primary key.
    pub fn has_own_key(&self) -> bool {
        !(self.key.is_empty() && self.key_file.is_empty())
    }

    /// The endpoint to advertise, made whole: a bare host gets scheme, and port if it has none.
    pub fn advertised(&self, port: u16) -> Option<String> {
        let text = self.advertise.trim_end_matches('/');
        if text.is_empty() {
            return None;
        }
        if text.contains("://") {
            return Some(format!("{text}/"));
        }
        let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
            !port.is_empty()
                && port.bytes().all(|b| b.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']'))
        });
        Some(if has_port { format!("https://{text}/") } else { format!("https://{text}:{port}/") })
    }
}

/// Keys are at least as long as half of what they sign with.
const KEY_BYTES_MIN: usize = 16;

fn decoded_keys(keys: &[(&str, &String)]) -> Result<Vec<Vec<u8>>, String> {
    let given = keys.iter().filter(|(_, key)| !key.is_empty());
    given.map(|(name, key)| decoded_key(name, key)).collect()
}

fn decoded_key(name: &str, key: &str) -> Result<Vec<u8>, String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(key.trim());
    let bytes =
        bytes.map_err(|_| format!("{name} is not base64; make one with `astrarium key`"))?;
    if bytes.len() < KEY_BYTES_MIN {
        return Err(format!("{name} is too short; make one with `astrarium key`"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
