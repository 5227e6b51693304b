//! Texts of queries that have been read, so that who asks again need not wait for that.
//!
//! Clients ask the same text over and over, with other parameters: what the text says does not
//! depend on those, nor on policies. Of texts that do not fit, those go that were not asked again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::HashMap;
use model::Result;
use query::ast::Query;

/// Bytes of all texts that are kept of a container's queries.
const TEXTS_BYTES: usize = 64 << 10;
/// Bytes of the longest one.
const TEXT_BYTES: usize = 8 << 10;

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Texts {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    texts: HashMap<Box<str>, Read>,
    bytes: usize,
}

struct Read {
    query: Arc<Query>,
    /// Since room was last needed.
    again: AtomicBool,
}

impl Texts {
    /// What a text says.
    pub fn read(&self, text: &str) -> Result<Arc<Query>> {
        if let Some(read) =
            self.known.read().unwrap_or_else(PoisonError::into_inner).texts.get(text)
        {
            read.again.store(true, Relaxed);
            return Ok(read.query.clone());
        }
        let query = Arc::new(query::parse(text)?);
        if text.len() <= TEXT_BYTES {
            self.known.write().unwrap_or_else(PoisonError::into_inner).put(text, &query);
        }
        Ok(query)
    }
}

impl Known {
    fn put(&mut self, text: &str, query: &Arc<Query>) {
        if self.bytes + text.len() > TEXTS_BYTES {
            self.texts.retain(|_, read| read.again.swap(false, Relaxed));
            self.bytes = self.texts.keys().map(|text| text.len()).sum();
        }
        if self.bytes + text.len() > TEXTS_BYTES {
            (self.texts, self.bytes) = Default::default();
        }
        let read = Read { query: query.clone(), again: AtomicBool::new(false) };
        if self.texts.insert(text.into(), read).is_none() {
            self.bytes += text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(n: usize) -> String {
        format!("SELECT * FROM c WHERE c.n = {n} AND c.text = '{}'", "x".repeat(100))
    }

    fn bytes(texts: &Texts) -> usize {
        let known = texts.known.read().unwrap();
        assert_eq!(known.bytes, known.texts.keys().map(|text| text.len()).sum::<usize>());
        known.bytes
    }

    #[test]
    fn a_text_is_read_once_and_a_wrong_one_every_time() {
        let texts = Texts::default();
        let once = texts.read(&text(1)).unwrap();
        assert!(Arc::ptr_eq(&once, &texts.read(&text(1)).unwrap()));
        assert!(!Arc::ptr_eq(&once, &texts.read(&text(2)).unwrap()));
        for _ in 0..2 {
            assert!(texts.read("SELECT FROM WHERE").is_err());
        }
        assert_eq!(bytes(&texts), text(1).len() + text(2).len());
    }

    #[test]
    fn texts_are_bounded_and_those_asked_again_stay() {
        let texts = Texts::default();
        let once = texts.read(&text(0)).unwrap();
        for n in 1..10_000 {
            texts.read(&text(n)).unwrap();
            assert!(Arc::ptr_eq(&once, &texts.read(&text(0)).unwrap()), "{n}");
            assert!(bytes(&texts) <= TEXTS_BYTES);
        }
        let long = format!("SELECT '{}'", "x".repeat(TEXT_BYTES));
        let before = bytes(&texts);
        texts.read(&long).unwrap();
        assert_eq!(bytes(&texts), before);
    }
}
