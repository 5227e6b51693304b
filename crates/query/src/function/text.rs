//! Words of texts: what full-text functions and indexes compare.
//!
//! A word is a run of letters and digits, in lower case and without its endings as its language
//! has them. Words that every text has (in English alone, as the service does) are left out, but
//! their places count, so that phrases stay phrases.

use rust_stemmers::{Algorithm, Stemmer};

use crate::limits;
use crate::world::Settings;

/// A language of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `en-US`
    English,
    /// `fr-FR`
    French,
    /// `de-DE`
    German,
    /// `it-IT`
    Italian,
    /// `pt-BR`, `pt-PT`
    Portuguese,
    /// `es-ES`
    Spanish,
    /// Any other: words as they are.
    Other,
}

/// A word and where it stands in its text, counted in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The word, in lower case and without endings.
    pub word: String,
    /// How many words stand before it.
    pub place: usize,
}

impl Language {
    /// The language of a code, which is spelled exactly so.
    pub fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "en-US" => Self::English,
            "fr-FR" => Self::French,
            "de-DE" => Self::German,
            "it-IT" => Self::Italian,
            "pt-BR" | "pt-PT" => Self::Portuguese,
            "es-ES" => Self::Spanish,
            _ => return None,
        })
    }

    fn stemmer(self) -> Option<Stemmer> {
        let algorithm = match self {
            Self::English => Algorithm::English,
            Self::French => Algorithm::French,
            Self::German => Algorithm::German,
            Self::Italian => Algorithm::Italian,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Spanish => Algorithm::Spanish,
            Self::Other => return None,
        };
        Some(Stemmer::create(algorithm))
    }
}

/// The language of the text at a path (`/a/b`).
pub fn language(path: Option<&str>, settings: &Settings) -> Language {
    let of_path = path.and_then(|path| settings.languages.iter().find(|(known, _)| known == path));
    let name = of_path.map(|(_, language)| language.as_str()).or(settings.language.as_deref());
    name.map_or(Language::English, |name| Language::of_code(name).unwrap_or(Language::Other))
}

/// How quickly the weight of a repeated word is used up.
const K1: f64 = 1.2;
/// How much long texts are held against them.
const B: f64 = 0.75;

/// How well a text fits (BM25). Of each term: how often the text has it, and how many texts do;
/// then the words of this text, the number of all texts, and that of all their words.
pub fn score(terms: impl Iterator<Item = (f64, f64)>, length: f64, texts: f64, words: f64) -> f64 {
    let average = (words / texts.max(1.0)).max(f64::MIN_POSITIVE);
    let weight = |(count, hits): (f64, f64)| {
        let rarity = (1.0 + (texts - hits + 0.5).max(0.0) / (hits + 0.5)).ln();
        rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / average))
    };
    terms.map(weight).sum()
}

/// The words of a text, in order.
pub fn words(text: &str, language: Language) -> impl Iterator<Item = String> {
    tokens(text, language).map(|token| token.word)
}

/// The words of a text with their places, in order.
pub fn tokens(text: &str, language: Language) -> impl Iterator<Item = Token> {
    let stemmer = language.stemmer();
    // In English an apostrophe belongs to its word (don't), elsewhere it parts two (l'eau).
    let joins = language == Language::English;
    let parts = text.split(move |c: char| !(c.is_alphanumeric() || joins && is_apostrophe(c)));
    let words = parts
        .map(|word| word.trim_matches(is_apostrophe))
        .filter(|word| !word.is_empty())
        .map(|word| cut(word).to_lowercase().replace('’', "'"));
    words
        .enumerate()
        .filter(move |(_, word)| language != Language::English || !is_common(word))
        .map(move |(place, word)| {
            let word = match &stemmer {
                Some(stemmer) => stemmer.stem(&word).into_owned(),
                None => word,
            };
            Token { word, place }
        })
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// Words are found by their beginning where they are longer than any word is.
fn cut(word: &str) -> &str {
    let mut end = word.len().min(limits::WORD_BYTES);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    &word[..end]
}

/// English words that say nothing about a text, sorted.
const COMMON: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

fn is_common(word: &str) -> bool {
    COMMON.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, language: Language, expected: &str) {
        let got: Vec<String> =
            tokens(text, language).map(|token| format!("{}@{}", token.word, token.place)).collect();
        assert_eq!(got.join(" "), expected);
    }

    #[test]
    fn words_lose_case_and_endings_and_keep_their_places() {
        check("The Dogs, running!", Language::English, "dog@1 run@2");
        check("it's the dog’s 'bone'", Language::English, "it@0 dog@2 bone@3");
        check("Die Häuser", Language::German, "die@0 haus@1");
        check("l'eau des maisons", Language::French, "l@0 eau@1 de@2 maison@3");
        check("Mäuse, 42x", Language::Other, "mäuse@0 42x@1");
        check(" .,- ' ", Language::English, "");
        check(&"é".repeat(1000), Language::Other, &format!("{}@0", "é".repeat(127)));
    }

    #[test]
    fn common_words_are_sorted() {
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn policies_choose_the_language() {
        let settings = Settings {
            language: Some("fr-FR".into()),
            languages: vec![("/a".into(), "de-DE".into()), ("/b".into(), "de-de".into())],
            ..Settings::default()
        };
        assert_eq!(language(Some("/a"), &settings), Language::German);
        assert_eq!(language(Some("/b"), &settings), Language::Other);
        assert_eq!(language(Some("/c"), &settings), Language::French);
        assert_eq!(language(None, &Settings::default()), Language::English);
    }

    /// Whatever a text is made of, no language fails on it.
    #[test]
    fn any_text_has_words() {
        const LETTERS: &[char] = &[
            'a', 'e', 'i', 'o', 'u', 'y', 'é', 'ü', 'ß', 'ã', 'ñ', 'ç', 's', 't', 'n', 'r', 'l',
            'g', 'h', 'd', 'm', 'q', 'v', '\'', '’', '1', 'İ', 'ſ', 'ﬁ', '語', '😀', '\u{301}',
        ];
        let all = [
            Language::English,
            Language::French,
            Language::German,
            Language::Italian,
            Language::Portuguese,
            Language::Spanish,
            Language::Other,
        ];
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        for _ in 0..3_000 {
            let mut text = String::new();
            for _ in 0..state % 14 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push(LETTERS[(state % LETTERS.len() as u64) as usize]);
            }
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            for language in all {
                assert!(words(&text, language).all(|word| word.len() <= 2 * limits::WORD_BYTES));
            }
        }
    }
}
