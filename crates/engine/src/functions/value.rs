//! From values of the query language to those of functions, and back.

use std::borrow::Cow;

use model::{Error, Result};
use query::value::Value;
use script::Calls;
use serde_json::Value as Tree;

/// Writes the call of a function as it travels.
pub(super) fn given(out: &mut Vec<u8>, function: usize, arguments: &[Value<'_>]) {
    // Most functions have few arguments, and no list is made for one.
    match arguments {
        [one] => Calls::encode(out, function, &[argument(one)]),
        many => {
            let all: Vec<script::Value<'_>> = many.iter().map(argument).collect();
            Calls::encode(out, function, &all);
        }
    }
}

fn argument<'v>(value: &'v Value<'_>) -> script::Value<'v> {
    match value {
        Value::Undefined => script::Value::Undefined,
        Value::Null => script::Value::Null,
        Value::Bool(flag) => script::Value::Bool(*flag),
        Value::Number(number) => script::Value::Number(number.as_f64()),
        Value::String(text) => script::Value::Text(Cow::Borrowed(text)),
        Value::Raw(raw) => script::Value::Json(String::from_utf8_lossy(raw)),
        Value::Array(_) | Value::Object(_) => script::Value::Json(value.to_json().into()),
    }
}

/// What a function gave.
pub(super) fn returned(value: script::Value<'static>) -> Result<Value<'static>> {
    Ok(match value {
        script::Value::Undefined => Value::Undefined,
        script::Value::Null => Value::Null,
        script::Value::Bool(flag) => Value::Bool(flag),
        script::Value::Number(number) => Value::number(number),
        script::Value::Text(text) => Value::String(text),
        script::Value::Json(text) => {
            // What is nested too deeply is refused before anything walks into it.
            model::json::check(text.as_bytes()).map_err(|error| unfit(&error.message))?;
            let tree: Tree =
                serde_json::from_str(&text).map_err(|error| unfit(&error.to_string()))?;
            Value::from_tree(&tree)
        }
    })
}

fn unfit(why: &str) -> Error {
    Error::bad_request(format!("a user-defined function gave a value that is none here: {why}"))
}
