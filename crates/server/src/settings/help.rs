//! The settings as people read them: help, documentation, and what is in effect.

use std::fmt::Write as _;

use super::load::{Loaded, Source};
use super::table::SETTINGS;

const WIDTH: usize = 92;
const INDENT: usize = 36;

/// The text of `--help`.
pub fn help() -> String {
    let mut text = format!(
        "Astrarium {}, a document database that speaks the protocol of Azure Cosmos DB for NoSQL.\n\n\
         Usage:\n\
         \x20 astrarium [serve] [options]   start the server\n\
         \x20 astrarium config [options]    show the settings in effect and where they come from\n\
         \x20 astrarium config --markdown   show all settings as a table for documentation\n\
         \x20 astrarium key                 make a key and print it\n\
         \x20 astrarium query [options] DATABASE CONTAINER TEXT\n\
         \x20                               ask a running server; --explain says how it finds rows\n\
         \x20 astrarium processor …         share a change feed among processes (see processor help)\n\
         \x20 astrarium replicate …         copy a container into another one and keep it up to date\n\
         \x20 astrarium ranges …            list, split and merge partition key ranges\n\
         \x20 astrarium --version\n\n\
         Each option can also be set as a variable (--data-dir as ASTRARIUM_DATA_DIR) or in a\n\
         TOML file (data-dir = \"…\") named by --config FILE. Flags win over variables, variables\n\
         over the file.\n\n\
         Options:\n",
        env!("CARGO_PKG_VERSION")
    );
    for setting in SETTINGS {
        let flag = format!("  --{} {}", setting.name, setting.value);
        let mut doc = setting.doc.to_owned();
        if !setting.default.is_empty() && !setting.is_switch() {
            let _ = write!(doc, " [{}]", setting.default);
        }
        let _ = writeln!(text, "{:<INDENT$}{}", flag.trim_end(), wrapped(&doc));
    }
    text
}

/// The table of settings as Markdown.
pub fn markdown() -> String {
    let mut text =
        "| setting | variable | default | what it does |\n|---|---|---|---|\n".to_owned();
    for setting in SETTINGS {
        let value = if setting.is_switch() { String::new() } else { format!(" {}", setting.value) };
        let default =
            if setting.default.is_empty() { "" } else { &format!("`{}`", setting.default) };
        let _ = writeln!(
            text,
            "| `--{}{value}` | `{}` | {default} | {} |",
            setting.name,
            setting.env(),
            setting.doc
        );
    }
    text
}

/// The settings in effect and their sources, keys masked.
pub fn effective(loaded: &Loaded) -> String {
    let mut text = String::new();
    for (setting, (value, source)) in SETTINGS.iter().zip(&loaded.values) {
        let value = match (setting.secret, value.as_str()) {
            (_, "") => "-",
            (true, _) => "********",
            (false, value) => value,
        };
        let source = match source {
            Source::Default => "default",
            Source::File => "file",
            Source::Environment(variable) => variable,
            Source::Flag => "flag",
        };
        let _ = writeln!(text, "{:<26}{value:<28}{source}", setting.name);
    }
    text
}

fn wrapped(doc: &str) -> String {
    let mut text = String::new();
    let mut column = INDENT;
    for word in doc.split(' ') {
        if column + 1 + word.chars().count() > WIDTH && column > INDENT {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', INDENT));
            column = INDENT;
        } else if column > INDENT {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.chars().count();
    }
    text
}
