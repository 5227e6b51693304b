//! Session tokens: what this client has seen of a container, and what it therefore asks for.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::answer::Answer;
use crate::header;

/// Most ranges whose tokens are kept: more would not fit into a header.
const RANGES_MAX: usize = 256;

/// The newest token of each range of a container.
#[derive(Debug, Default)]
pub struct Session(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    rid: String,
    tokens: BTreeMap<String, String>,
}

impl Session {
    /// The tokens to send: of one range, if it is known which one answers, or of all.
    pub fn token(&self, range: Option<&str>) -> Option<String> {
        let seen = self.seen();
        match range.and_then(|range| seen.tokens.get_key_value(range)) {
            Some((range, token)) => Some(format!("{range}:{token}")),
            None if range.is_some() || seen.tokens.is_empty() => None,
            None => {
                let pairs = seen.tokens.iter().map(|(range, token)| format!("{range}:{token}"));
                Some(pairs.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Takes in what an answer says. A container of another rid has nothing in common with the
    /// one whose tokens were kept.
    pub fn learn(&self, answer: &Answer) {
        let mut seen = self.seen();
        if let Some(rid) = answer.text(&header::CONTENT_PATH).filter(|rid| !rid.is_empty())
            && rid != seen.rid
        {
            if !seen.rid.is_empty() {
                seen.tokens.clear();
            }
            rid.clone_into(&mut seen.rid);
        }
        let Some(text) = answer.session_token() else { return };
        for (range, token) in text.split(',').filter_map(|pair| pair.split_once(':')) {
            seen.keep(range, token);
        }
    }

    /// Forgets ranges that are no more.
    pub fn retain(&self, is_live: impl Fn(&str) -> bool) {
        self.seen().tokens.retain(|range, _| is_live(range));
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Seen {
    fn keep(&mut self, range: &str, token: &str) {
        if let Some(held) = self.tokens.get_mut(range) {
            // Answers overtake each other; what was seen once stays seen.
            if order(token) >= order(held) {
                token.clone_into(held);
            }
        } else if self.tokens.len() < RANGES_MAX {
            self.tokens.insert(range.to_owned(), token.to_owned());
        }
    }
}

/// Version and LSN of `version#lsn#…`; what has another form comes before everything.
fn order(token: &str) -> Option<(i64, i64)> {
    let mut parts = token.split('#');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::HeaderMap;

    use super::*;

    fn learn(session: &Session, rid: &str, token: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_PATH, rid.parse().unwrap());
        headers.insert(header::SESSION_TOKEN, token.parse().unwrap());
        session.learn(&Answer { status: 200, headers, body: Bytes::new() });
    }

    #[test]
    fn the_newest_token_of_each_range_is_kept() {
        let session = Session::default();
        assert_eq!(session.token(None), None);
        learn(&session, "r", "0:-1#5");
        learn(&session, "r", "1:-1#7");
        learn(&session, "r", "0:-1#4");
        learn(&session, "r", "1:1#2#1=3");
        assert_eq!(session.token(None).as_deref(), Some("0:-1#5,1:1#2#1=3"));
        assert_eq!(session.token(Some("1")).as_deref(), Some("1:1#2#1=3"));
        assert_eq!(session.token(Some("2")), None);
        session.retain(|range| range == "1");
        assert_eq!(session.token(None).as_deref(), Some("1:1#2#1=3"));
    }

    #[test]
    fn a_recreated_container_begins_anew() {
        let session = Session::default();
        learn(&session, "old", "0:-1#500");
        learn(&session, "new", "0:-1#1");
        assert_eq!(session.token(None).as_deref(), Some("0:-1#1"));
    }

    #[test]
    fn there_are_not_more_tokens_than_fit() {
        let session = Session::default();
        for range in 0..2 * RANGES_MAX {
            learn(&session, "r", &format!("{range}:-1#1"));
        }
        assert_eq!(session.token(None).unwrap().split(',').count(), RANGES_MAX);
    }
}
