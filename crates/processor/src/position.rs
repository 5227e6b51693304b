//! Where reading begins.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::lease::stamp;

/// A place in the feed. Etags are opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// The oldest change there is.
    Beginning,
    /// The first change after this time since 1970; the wire knows whole seconds.
    Time(Duration),
    /// What happens from now on. A lease never holds it: it is pinned to an etag first.
    Now,
    /// What follows this etag.
    After(String),
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("beginning"),
            Self::Time(at) => write!(f, "time {}", stamp::format(*at)),
            Self::Now => f.write_str("now"),
            Self::After(etag) => write!(f, "after {etag}"),
        }
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(' ') {
            None if text == "beginning" => Ok(Self::Beginning),
            None if text == "now" => Ok(Self::Now),
            Some(("time", at)) => {
                stamp::parse(at).map(Self::Time).ok_or_else(|| format!("'{at}' is not a time"))
            }
            Some(("after", etag)) => Ok(Self::After(etag.to_owned())),
            _ => Err(format!(
                "'{text}' is not a position: use 'beginning', 'now', 'time <2026-01-31T12:00:00Z>' or 'after <etag>'"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_their_text() {
        for start in [
            Start::Beginning,
            Start::Now,
            Start::Time(Duration::from_secs(1_700_000_000)),
            Start::After("\"42\"".into()),
        ] {
            assert_eq!(start.to_string().parse(), Ok(start));
        }
        assert!("sometime".parse::<Start>().is_err());
        assert!("time yesterday".parse::<Start>().is_err());
    }
}
