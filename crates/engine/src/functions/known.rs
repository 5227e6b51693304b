//! What calls of functions gave, by the bytes that say all about a call.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::Result;
use query::value::Value;

/// What came of a call.
pub(super) type Answer = Result<Value<'static>>;

/// Bytes of calls and answers that are remembered.
const KNOWN_BYTES: usize = 32 * 1024 * 1024;
/// About what a call takes beside its bytes and its answer.
const CALL_BYTES: usize = 128;

/// How a call stands.
enum Standing {
    /// It waits to be made.
    Noted,
    /// It was noted, and not made.
    Open,
    Answered(Answer),
}

/// Calls and their answers, and those that wait for one.
#[derive(Default)]
pub(super) struct Known {
    places: HashMap<Arc<[u8]>, usize, RandomState>,
    standings: Vec<Standing>,
    noted: Vec<Noted>,
    noted_bytes: usize,
    /// What all of this takes.
    bytes: usize,
}

/// A call that waits to be made.
pub(super) struct Noted {
    pub call: Arc<[u8]>,
    place: usize,
}

impl Known {
    /// The answer to a call.
    pub(super) fn find(&self, call: &[u8]) -> Option<&Answer> {
        match self.standings.get(*self.places.get(call)?) {
            Some(Standing::Answered(answer)) => Some(answer),
            _ => None,
        }
    }

    /// Notes a call that has no answer.
    pub(super) fn note(&mut self, call: &[u8]) {
        let (call, place) = match self.places.get_key_value(call) {
            Some((call, place)) => (call.clone(), *place),
            None => self.add(call),
        };
        if matches!(self.standings[place], Standing::Open) {
            self.standings[place] = Standing::Noted;
            self.noted_bytes += call.len();
            self.noted.push(Noted { call, place });
        }
    }

    fn add(&mut self, call: &[u8]) -> (Arc<[u8]>, usize) {
        let (call, place): (Arc<[u8]>, _) = (call.into(), self.standings.len());
        self.bytes += call.len() + CALL_BYTES;
        self.places.insert(call.clone(), place);
        self.standings.push(Standing::Open);
        (call, place)
    }

    /// Remembers an answer, if there is room.
    pub(super) fn put(&mut self, call: &[u8], answer: &Answer) {
        if !self.is_full() {
            let place = self.places.get(call).copied().unwrap_or_else(|| self.add(call).1);
            self.answer(place, answer.clone());
        }
    }

    /// Remembers the answer to a call that was noted.
    pub(super) fn answer_noted(&mut self, noted: &Noted, answer: Answer) {
        self.answer(noted.place, answer);
    }

    fn answer(&mut self, place: usize, answer: Answer) {
        self.bytes += answer.as_ref().map_or(0, Value::weight);
        self.standings[place] = Standing::Answered(answer);
    }

    /// How many calls are noted.
    pub(super) fn noted(&self) -> usize {
        self.noted.len()
    }

    /// How many bytes they have.
    pub(super) fn noted_bytes(&self) -> usize {
        self.noted_bytes
    }

    /// The calls noted, in their order; none is any more.
    pub(super) fn take_noted(&mut self) -> Vec<Noted> {
        self.noted_bytes = 0;
        for noted in &self.noted {
            self.standings[noted.place] = Standing::Open;
        }
        std::mem::take(&mut self.noted)
    }

    /// Whether nothing more should be remembered.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= KNOWN_BYTES
    }

    /// Forgets everything, if it is much.
    pub(super) fn make_room(&mut self) {
        if self.bytes >= KNOWN_BYTES / 2 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_noted_once_and_again_when_it_was_not_made() {
        let mut known = Known::default();
        for call in [b"a", b"b", b"a"] {
            known.note(call);
        }
        assert_eq!((known.noted(), known.noted_bytes()), (2, 2));
        let noted = known.take_noted();
        known.answer_noted(&noted[0], Ok(Value::int(1)));
        known.note(b"b");
        assert_eq!((known.noted(), known.find(b"b").is_none()), (1, true));
        assert!(matches!(known.find(b"a"), Some(Ok(value)) if value.as_int() == Some(1)));
        // What is noted twice is one call, and an answer is not asked for again.
        known.note(b"a");
        assert_eq!(known.noted(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = Known::default();
        let text = "x".repeat(1024 * 1024);
        let mut calls = 0_u32;
        while !known.is_full() {
            known.put(&calls.to_le_bytes(), &Ok(Value::text(text.as_str())));
            calls += 1;
        }
        assert!((16..=33).contains(&calls), "{calls}");
        known.put(b"more", &Ok(Value::Null));
        assert!(known.find(b"more").is_none());
        known.make_room();
        assert!(!known.is_full() && known.find(&0_u32.to_le_bytes()).is_none());
    }
}
