//! What is sought: a word or a phrase, exactly or but for a few letters.

use std::collections::VecDeque;

use crate::function::text::{Language, Token, tokens};
use crate::limits;
use crate::value::Value;

/// Words at given places. Without any it is nowhere.
pub(super) struct Phrase {
    words: Vec<Token>,
    /// How many letters a word may differ by.
    distance: usize,
}

impl Phrase {
    /// A term as queries give it: a text, or `{"term": …, "distance": …}`.
    pub(super) fn of(term: &Value<'_>, language: Language) -> Option<Self> {
        let (text, distance) = match term.as_str() {
            Some(_) => (term.clone(), 0),
            None => {
                let distance = match term.member("distance") {
                    Value::Undefined => 0,
                    given => usize::try_from(given.as_int()?).ok()?,
                };
                (term.member("term"), distance)
            }
        };
        let words = tokens(text.as_str()?, language).collect();
        (distance <= limits::FUZZY_LETTERS).then_some(Self { words, distance })
    }

    /// How far its last word is from its first.
    pub(super) fn span(&self) -> usize {
        match (self.words.first(), self.words.last()) {
            (Some(first), Some(last)) => last.place - first.place,
            _ => 0,
        }
    }

    /// Whether the phrase ends where the window does, which covers it.
    pub(super) fn ends(&self, window: &VecDeque<Token>) -> bool {
        let (Some(last), Some(end)) = (self.words.last(), window.back()) else { return false };
        // From the last word to the first: most often the last one says no.
        let mut texts = window.iter().rev();
        self.words.iter().rev().all(|word| {
            let back = last.place - word.place;
            let text = texts.find(|text| text.place + back <= end.place);
            text.is_some_and(|text| text.place + back == end.place && self.fits(word, text))
        })
    }

    fn fits(&self, word: &Token, text: &Token) -> bool {
        word.word == text.word
            || self.distance > 0 && differ_by(&word.word, &text.word, self.distance)
    }
}

/// Whether one word becomes the other by at most so many letters put in, taken out or exchanged.
fn differ_by(a: &str, b: &str, most: usize) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most {
        return false;
    }
    // The distances of all beginnings of one word from the beginning of the other so far.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(diagonal + 1).min(row[j] + 1);
        }
        if row.iter().min().is_some_and(|least| *least > most) {
            return false;
        }
    }
    row[b.len()] <= most
}
