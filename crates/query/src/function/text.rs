//! Words of texts: what full-text functions and indexes compare.
//!
//! A word is a run of letters and digits, in lower case.

use crate::world::Settings;

/// A language of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// English.
    English,
    /// Any other: words as they are.
    Other,
}

/// The language of the text at a path (`/a/b`).
pub fn language(path: Option<&str>, settings: &Settings) -> Language {
    let of_path = path.and_then(|path| settings.languages.iter().find(|(known, _)| known == path));
    let name = of_path.map(|(_, language)| language.as_str()).or(settings.language.as_deref());
    match name {
        None | Some("en-US") => Language::English,
        Some(_) => Language::Other,
    }
}

/// The words of a text, in order.
pub fn words(text: &str, _language: Language) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
