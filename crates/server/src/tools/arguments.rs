//! `--name value` and `--flag`, and words without dashes.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// What the command line said.
#[derive(Debug, Default)]
pub struct Arguments {
    values: BTreeMap<String, String>,
    flags: Vec<String>,
    /// Words that belong to no name.
    pub words: Vec<String>,
}

impl Arguments {
    /// Sorts words into what the flags and names allow; anything else is refused.
    pub fn parse(words: &[&str], flags: &[&str], names: &[&str]) -> Result<Self, String> {
        let mut found = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                found.words.push((*word).to_owned());
                continue;
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            if flags.contains(&name) && value.is_none() {
                found.flags.push(name.to_owned());
            } else if names.contains(&name) {
                let value = value.or_else(|| words.next().map(|word| (*word).to_owned()));
                let value = value.ok_or_else(|| format!("--{name} needs a value"))?;
                found.values.insert(name.to_owned(), value);
            } else {
                return Err(format!("--{name} is not known; see astrarium processor help"));
            }
        }
        Ok(found)
    }

    /// Whether a flag was given.
    pub fn flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    /// A value, if it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A value that has to be given.
    pub fn need(&self, name: &str) -> Result<&str, String> {
        self.get(name).ok_or_else(|| format!("--{name} is missing; see astrarium processor help"))
    }

    /// A number.
    pub fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, String> {
        let parse =
            |text: &str| text.parse().map_err(|_| format!("--{name}: '{text}' is no number"));
        self.get(name).map(parse).transpose()
    }

    /// Seconds, which may have a fraction.
    pub fn seconds(&self, name: &str) -> Result<Option<Duration>, String> {
        let seconds: Option<f64> = self.number(name)?;
        let time = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|_| format!("--{name}: no such time"))
        };
        seconds.map(time).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_or_refused() {
        let parse = |words: &[&str]| Arguments::parse(words, &["json"], &["name", "poll"]);
        let found = parse(&["--name", "a", "x", "--json", "--poll=1.5"]).expect("arguments");
        assert_eq!((found.get("name"), found.flag("json")), (Some("a"), true));
        assert_eq!(found.words, ["x"]);
        assert_eq!(found.seconds("poll"), Ok(Some(Duration::from_millis(1500))));
        assert!(found.need("absent").is_err());
        assert!(parse(&["--name"]).is_err());
        assert!(parse(&["--other", "1"]).is_err());
        assert!(parse(&["--json=1"]).is_err());
    }
}
