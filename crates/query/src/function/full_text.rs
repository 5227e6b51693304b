//! Full text: whether words and phrases stand in a text. How texts become words is in `text`.

use super::{Function, Param, Run};

mod contain;
mod phrase;

const fn rank(
    name: &'static str,
    params: &'static [Param],
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function {
        name,
        aliases: &[],
        params,
        optional: 0,
        repeats: true,
        sees_all: true,
        stable: true,
        run: Run::Rank,
        doc,
        example,
    }
}

pub(super) const TABLE: &[Function] = &[
    Function::scalar(
        "FULLTEXTCONTAINS",
        &[Param::String, Param::Any],
        contain::contains_all,
        "Whether the text has a word or phrase, or one that differs by a letter or two.",
        ("FULLTEXTCONTAINS('Dogs were running', 'run')", "true"),
    )
    .repeating(),
    Function::scalar(
        "FULLTEXTCONTAINSALL",
        &[Param::String, Param::Any],
        contain::contains_all,
        "Whether the text has all the words and phrases.",
        ("FULLTEXTCONTAINSALL('red bicycle', 'bicycles', 'blue')", "false"),
    )
    .repeating(),
    Function::scalar(
        "FULLTEXTCONTAINSANY",
        &[Param::String, Param::Any],
        contain::contains_any,
        "Whether the text has any of the words and phrases.",
        ("FULLTEXTCONTAINSANY('red bicycle', 'bicycles', 'blue')", "true"),
    )
    .repeating(),
    rank(
        "FULLTEXTSCORE",
        &[Param::String, Param::String],
        "How well a text fits the words (BM25); only in ORDER BY RANK.",
        ("", ""),
    ),
    rank(
        "RRF",
        &[Param::Any, Param::Any],
        "Scores fused by their ranks; only in ORDER BY RANK.",
        ("", ""),
    ),
    Function::scalar(
        "_FULLTEXTSCORE",
        &[Param::String, Param::Array, Param::Number, Param::Number, Param::Array],
        contain::score,
        "How well a text fits the words, given how many texts and words there are in all, and how \
         many texts have each word; what SDKs send that rank themselves.",
        ("_FULLTEXTSCORE('a red bicycle', ['blue'], 10, 20, [3])", "0"),
    ),
    Function::scalar(
        "_FULLTEXTWORDCOUNT",
        &[Param::String],
        contain::word_count,
        "How many words the text has; what SDKs ask for before they rank.",
        ("_FULLTEXTWORDCOUNT('the red bicycle')", "2"),
    ),
];
