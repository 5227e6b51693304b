//! Cases of functions as text: `call → answer` a line, with nothing after the arrow where the
//! answer is undefined, and `! words` where the call is refused with these words.

use crate::ast::{Expr, ExprKind, Literal, Output, UnaryOp};
use crate::function::{self, Call, FAMILIES, Memo, Run};
use crate::value::{Number, Value};
use crate::world::{Budget, Settings, World};

/// A world in which it is 2026-03-04T05:06:07.0080009Z, and chance is 0.25.
struct Still;

pub(super) const NOW_TICKS: i64 = 17_726_007_670_080_009;

impl World for Still {
    fn now_ticks(&self) -> i64 {
        NOW_TICKS
    }

    fn random(&self) -> f64 {
        0.25
    }
}

/// Runs every line of the cases.
#[track_caller]
pub(super) fn check(cases: &str) {
    check_in(&Settings::default(), cases);
}

/// Runs every line of the cases in a container with settings.
#[track_caller]
pub(super) fn check_in(settings: &Settings, cases: &str) {
    for line in cases.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (call, expect) = line.split_once('→').expect(line);
        // Cases write texts in single quotes, as queries may.
        let expect = match expect.trim().strip_prefix('\'').and_then(|e| e.strip_suffix('\'')) {
            Some(text) => format!("\"{text}\""),
            None => expect.trim().to_owned(),
        };
        match (answer(settings, call), expect.strip_prefix('!')) {
            (Ok(got), None) => assert_eq!(got, expect, "{line}"),
            (Err(message), Some(words)) => assert!(message.contains(words.trim()), "{message}"),
            (got, _) => panic!("{line}\ngot {got:?}"),
        }
    }
}

/// The answer of a call as JSON; empty where it is undefined.
pub(super) fn answer(settings: &Settings, call: &str) -> Result<String, String> {
    let query = crate::parse_text(&format!("SELECT VALUE {call}")).map_err(|e| e.message)?;
    let Output::Value(expr) = &query.output else { panic!("{call}") };
    eval(settings, expr).map(|value| value.to_json())
}

fn eval(settings: &Settings, expr: &Expr) -> Result<Value<'static>, String> {
    let all = |list: &[Expr]| list.iter().map(|e| eval(settings, e)).collect::<Result<Vec<_>, _>>();
    Ok(match &expr.kind {
        ExprKind::Literal(Literal::Undefined) => Value::Undefined,
        ExprKind::Literal(Literal::Null) => Value::Null,
        ExprKind::Literal(Literal::Bool(value)) => Value::Bool(*value),
        ExprKind::Literal(Literal::Number(text)) => {
            Number::from_spelling(text).map_or(Value::Undefined, Value::Number)
        }
        ExprKind::Literal(Literal::String(text)) => Value::text(text.as_str()),
        ExprKind::Unary(UnaryOp::Minus, e) => match eval(settings, e)? {
            Value::Number(Number::Int(value)) => Value::int(-value),
            other => Value::number(-other.as_f64().expect("a number")),
        },
        ExprKind::Array(list) => Value::array(all(list)?),
        ExprKind::Object(members) => Value::object(
            members
                .iter()
                .map(|(name, e)| Ok((name.clone().into(), eval(settings, e)?)))
                .collect::<Result<_, String>>()?,
        ),
        ExprKind::Call(name, arguments) => run(settings, &name.text, &all(arguments)?)?,
        ExprKind::Name(name) if name == "NaN" => Value::number(f64::NAN),
        ExprKind::Name(name) if name == "Infinity" => Value::number(f64::INFINITY),
        other => panic!("{other:?}"),
    })
}

fn run(
    settings: &Settings,
    name: &str,
    arguments: &[Value<'static>],
) -> Result<Value<'static>, String> {
    let function = function::find(name).ok_or_else(|| format!("no function {name}"))?;
    if !function.takes(arguments.len()) {
        return Err(function.arity());
    }
    let Run::Scalar(run) = function.run else { return Err("no scalar".to_owned()) };
    if !function.accepts(arguments) {
        return Ok(Value::Undefined);
    }
    let call = Call {
        world: &Still,
        started_ticks: NOW_TICKS,
        settings,
        budget: &Budget::default(),
        paths: &[],
        memo: &Memo::new(),
    };
    run(&call, arguments).map_err(|error| error.message)
}

#[test]
fn examples_hold() {
    let families = FAMILIES.iter().filter(|(name, _)| !["Aggregates", "Conditions"].contains(name));
    for function in families.flat_map(|(_, table)| *table) {
        let (call, expect) = function.example;
        if matches!(function.run, Run::Scalar(_)) && !call.contains("1/0") {
            let got = answer(&Settings::default(), call).unwrap_or_else(|e| panic!("{call}: {e}"));
            assert_eq!(got, expect, "{call}");
        }
    }
}

#[test]
fn names_are_unique_and_in_upper_case() {
    let all = || FAMILIES.iter().flat_map(|(_, table)| *table);
    let names = || all().flat_map(|f| std::iter::once(f.name).chain(f.aliases.iter().copied()));
    let mut seen = std::collections::HashSet::new();
    for name in names() {
        assert!(seen.insert(name), "{name} twice");
        assert_eq!(name, name.to_uppercase());
    }
    for function in all() {
        assert!(!function.doc.is_empty(), "{}", function.name);
        assert!(!function.example.0.is_empty(), "{}", function.name);
    }
}
