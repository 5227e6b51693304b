//! Strings, and what they turn into. Places and lengths count UTF-16 units, as clients do.

use super::{Function, Param};

mod build;
mod case;
mod convert;
mod cut;
mod pattern;
mod search;
mod unit;

use Param::{Any, Array, Bool, Integer, Number, String};

pub(super) const TABLE: &[Function] = &[
    Function::scalar(
        "CONCAT",
        &[String, String],
        build::concat,
        "The strings one after the other.",
        ("CONCAT('a', 'b', 'c')", "\"abc\""),
    )
    .repeating(),
    Function::scalar(
        "CONTAINS",
        &[String, String, Bool],
        search::contains,
        "Whether the first string has the second in it; the third says whether case is ignored.",
        ("CONTAINS('Strasse', 'ass')", "true"),
    )
    .optional(1),
    Function::scalar(
        "CONTAINS_ALL_CI",
        &[String, String],
        search::contains_all_ci,
        "Whether the first string has all the others in it, whatever their case.",
        ("CONTAINS_ALL_CI('One Two', 'two', 'ONE')", "true"),
    )
    .also(&["CONTAINSALLCI"])
    .repeating()
    .seeing_all(),
    Function::scalar(
        "CONTAINS_ALL_CS",
        &[String, String],
        search::contains_all_cs,
        "Whether the first string has all the others in it.",
        ("CONTAINS_ALL_CS('One Two', 'two', 'One')", "false"),
    )
    .also(&["CONTAINSALLCS"])
    .repeating()
    .seeing_all(),
    Function::scalar(
        "CONTAINS_ANY_CI",
        &[String, String],
        search::contains_any_ci,
        "Whether the first string has any of the others in it, whatever their case.",
        ("CONTAINS_ANY_CI('One Two', 'two', 'three')", "true"),
    )
    .also(&["CONTAINSANYCI"])
    .repeating()
    .seeing_all(),
    Function::scalar(
        "CONTAINS_ANY_CS",
        &[String, String],
        search::contains_any_cs,
        "Whether the first string has any of the others in it.",
        ("CONTAINS_ANY_CS('One Two', 'two', 'three')", "false"),
    )
    .also(&["CONTAINSANYCS"])
    .repeating()
    .seeing_all(),
    Function::scalar(
        "ENDSWITH",
        &[String, String, Bool],
        search::ends_with,
        "Whether the first string ends with the second; the third says whether case is ignored.",
        ("ENDSWITH('abc', 'BC', true)", "true"),
    )
    .optional(1),
    Function::scalar(
        "INDEX_OF",
        &[String, String, Integer],
        search::index_of,
        "Where the second string first stands in the first, from a place on; -1 for nowhere.",
        ("INDEX_OF('abcabc', 'c', 3)", "5"),
    )
    .optional(1),
    Function::scalar(
        "LASTINDEXOF",
        &[String, String, Integer],
        search::last_index_of,
        "Where the second string last stands in the first, up to a place; -1 for nowhere.",
        ("LASTINDEXOF('abcabc', 'b')", "4"),
    )
    .optional(1),
    Function::scalar(
        "LASTSUBSTRINGAFTER",
        &[String, String],
        cut::after_last,
        "What comes after the last of the second string in the first.",
        ("LASTSUBSTRINGAFTER('a/b/c', '/')", "\"c\""),
    ),
    Function::scalar(
        "LASTSUBSTRINGBEFORE",
        &[String, String],
        cut::before_last,
        "What comes before the last of the second string in the first.",
        ("LASTSUBSTRINGBEFORE('a/b/c', '/')", "\"a/b\""),
    ),
    Function::scalar(
        "LEFT",
        &[String, Integer],
        cut::left,
        "So much of the string from its left.",
        ("LEFT('abc', 2)", "\"ab\""),
    ),
    Function::scalar(
        "LENGTH",
        &[String],
        search::length,
        "How long the string is, in UTF-16 units.",
        ("LENGTH('abc')", "3"),
    ),
    Function::scalar(
        "LOWER",
        &[String],
        case::lower,
        "The string in lower case.",
        ("LOWER('ABC')", "\"abc\""),
    ),
    Function::scalar(
        "LTRIM",
        &[String, String],
        cut::trim_left,
        "The string without whitespace, or the characters of the second, on its left.",
        ("LTRIM('  a ')", "\"a \""),
    )
    .optional(1),
    Function::scalar(
        "REGEXEXTRACT",
        &[String, String, String, Integer],
        pattern::regex_extract,
        "The first match of a regular expression, or a group of it; the third holds modifiers.",
        ("REGEXEXTRACT('a12-b34', '([a-z])[0-9]+', '', 1)", "\"a\""),
    )
    .optional(2),
    Function::scalar(
        "REGEXEXTRACTALL",
        &[String, String, String, Integer],
        pattern::regex_extract_all,
        "All matches of a regular expression, or a group of each; the third holds modifiers.",
        ("REGEXEXTRACTALL('a12-b34', '[0-9]+')", "[\"12\",\"34\"]"),
    )
    .optional(2),
    Function::scalar(
        "REGEXMATCH",
        &[String, String, String],
        pattern::regex_match,
        "Whether a regular expression matches somewhere; the third holds modifiers of `imsx`.",
        ("REGEXMATCH('abcd', 'B.D$', 'i')", "true"),
    )
    .optional(1),
    Function::scalar(
        "REGEXREPLACE",
        &[String, String, String, String],
        pattern::regex_replace,
        "The string with the third in place of the first match; the fourth holds modifiers.",
        ("REGEXREPLACE('a12-b34', '[0-9]+', '#')", "\"a#-b34\""),
    )
    .optional(1),
    Function::scalar(
        "REGEXREPLACEALL",
        &[String, String, String, String],
        pattern::regex_replace_all,
        "The string with the third in place of all matches; the fourth holds modifiers.",
        ("REGEXREPLACEALL('a12-b34', '[0-9]+', '#')", "\"a#-b#\""),
    )
    .optional(1),
    Function::scalar(
        "REPLACE",
        &[String, String, String],
        build::replace,
        "The string with the third in place of every second.",
        ("REPLACE('banana', 'an', 'o')", "\"booa\""),
    ),
    Function::scalar(
        "REPLICATE",
        &[String, Number],
        build::replicate,
        "The string so many times, up to 10,000 units long.",
        ("REPLICATE('ab', 3)", "\"ababab\""),
    ),
    Function::scalar(
        "REVERSE",
        &[String],
        build::reverse,
        "The string from its end to its start.",
        ("REVERSE('abc')", "\"cba\""),
    ),
    Function::scalar(
        "RIGHT",
        &[String, Integer],
        cut::right,
        "So much of the string from its right.",
        ("RIGHT('abc', 2)", "\"bc\""),
    ),
    Function::scalar(
        "RTRIM",
        &[String, String],
        cut::trim_right,
        "The string without whitespace, or the characters of the second, on its right.",
        ("RTRIM(' a  ')", "\" a\""),
    )
    .optional(1),
    Function::scalar(
        "STARTSWITH",
        &[String, String, Bool],
        search::starts_with,
        "Whether the first string starts with the second; the third says whether case is ignored.",
        ("STARTSWITH('abc', 'ab')", "true"),
    )
    .optional(1),
    Function::scalar(
        "STRINGEQUALS",
        &[String, String, Bool],
        search::equals,
        "Whether the strings are the same; the third says whether case is ignored.",
        ("STRINGEQUALS('abc', 'ABC', true)", "true"),
    )
    .optional(1),
    Function::scalar(
        "STRINGJOIN",
        &[Array, String],
        build::join,
        "The strings of the array one after the other, with the second between them.",
        ("STRINGJOIN(['a', 'b'], '-')", "\"a-b\""),
    ),
    Function::scalar(
        "STRINGSPLIT",
        &[String, String],
        build::split,
        "The pieces of the string between the separators.",
        ("STRINGSPLIT('a-b', '-')", "[\"a\",\"b\"]"),
    ),
    Function::scalar(
        "STRINGTOARRAY",
        &[String],
        convert::to_array,
        "The array that the string spells in JSON.",
        ("STRINGTOARRAY('[1, \"a\"]')", "[1,\"a\"]"),
    ),
    Function::scalar(
        "STRINGTOBOOLEAN",
        &[String],
        convert::to_boolean,
        "The boolean that the string spells in JSON.",
        ("STRINGTOBOOLEAN(' true')", "true"),
    ),
    Function::scalar(
        "STRINGTONULL",
        &[String],
        convert::to_null,
        "Null, where the string spells it in JSON.",
        ("STRINGTONULL('null')", "null"),
    ),
    Function::scalar(
        "STRINGTONUMBER",
        &[String],
        convert::to_number,
        "The number that the string spells in JSON.",
        ("STRINGTONUMBER('1.50')", "1.5"),
    ),
    Function::scalar(
        "STRINGTOOBJECT",
        &[String],
        convert::to_object,
        "The object that the string spells in JSON.",
        ("STRINGTOOBJECT('{\"a\": 1}')", "{\"a\":1}"),
    ),
    Function::scalar(
        "SUBSTRING",
        &[String, Integer, Integer],
        cut::substring,
        "The string from a place on, at most so long as the third says.",
        ("SUBSTRING('abcd', 1, 2)", "\"bc\""),
    )
    .optional(1),
    Function::scalar(
        "SUBSTRINGAFTER",
        &[String, String],
        cut::after_first,
        "What comes after the first of the second string in the first.",
        ("SUBSTRINGAFTER('a/b/c', '/')", "\"b/c\""),
    ),
    Function::scalar(
        "SUBSTRINGBEFORE",
        &[String, String],
        cut::before_first,
        "What comes before the first of the second string in the first.",
        ("SUBSTRINGBEFORE('a/b/c', '/')", "\"a\""),
    ),
    Function::scalar(
        "TOSTRING",
        &[Any],
        convert::to_string,
        "The value as a string: strings as they are, all else in JSON.",
        ("TOSTRING([1, 'a'])", "\"[1,\\\"a\\\"]\""),
    ),
    Function::scalar(
        "TRIM",
        &[String, String],
        cut::trim,
        "The string without whitespace, or the characters of the second, on both sides.",
        ("TRIM('--a--', '-')", "\"a\""),
    )
    .optional(1),
    Function::scalar(
        "UPPER",
        &[String],
        case::upper,
        "The string in upper case.",
        ("UPPER('abc')", "\"ABC\""),
    ),
];
