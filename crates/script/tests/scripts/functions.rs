//! User-defined functions, many rows at a time.

use astrarium_script::Value::{Bool, Json, Null, Number, Text, Undefined};
use astrarium_script::{Calls, Error, ErrorKind, Pool, Script, Value};

use crate::support::{call_all, settings};

fn script(source: &str) -> Script<'_> {
    Script { id: "udf", source }
}

fn call(source: &str, arguments: &[Value<'_>]) -> Result<Value<'static>, String> {
    let pool = Pool::new(&settings());
    let mut functions = pool.functions(&[script(source)]).map_err(|e| e.message)?;
    let values = call_all(&mut functions, 0, &[arguments]).map_err(|e| e.message)?;
    Ok(values.into_iter().next().unwrap())
}

/// Rows of one argument each.
fn rows<'v>(values: &'v [Value<'v>]) -> Vec<&'v [Value<'v>]> {
    values.chunks(1).collect()
}

#[test]
fn values_of_every_kind_go_in_and_come_out() {
    let pool = Pool::new(&settings());
    let mut same = pool.functions(&[script("function same(x) { return x; }")]).unwrap();
    let json = |text: &str| Json(text.to_owned().into());
    let values = [
        Undefined,
        Null,
        Bool(true),
        Bool(false),
        Number(0.1),
        Number(-0.0),
        Number(9e99),
        Text("".into()),
        Text("é\u{1F600}\0".into()),
        json("[1,[]]"),
        json(r#"{"a":{"b":null}}"#),
    ];
    assert_eq!(call_all(&mut same, 0, &rows(&values)).unwrap(), values);
    assert_eq!(call_all(&mut same, 0, &[]).unwrap(), []);
    let strange = "function f(n) { return [Symbol('s'), () => 1, new Date(0), NaN][n]; }";
    let mut strange = {
        drop(same);
        pool.functions(&[script(strange)]).unwrap()
    };
    let numbers = [Number(0.0), Number(1.0), Number(2.0), Number(3.0)];
    let found = call_all(&mut strange, 0, &rows(&numbers)).unwrap();
    assert_eq!(found[..3], [Undefined, Undefined, json(r#""1970-01-01T00:00:00.000Z""#)]);
    assert!(matches!(found[3], Number(n) if n.is_nan()));
}

#[test]
fn several_functions_are_called_by_their_place() {
    let pool = Pool::new(&settings());
    let scripts = [script("function add(a, b) { return a + b; }"), script("s => s.length")];
    let mut functions = pool.functions(&scripts).unwrap();
    let pairs: [&[Value<'_>]; 2] = [&[Number(1.0), Number(2.0)], &[Number(3.0), Number(4.0)]];
    assert_eq!(call_all(&mut functions, 0, &pairs).unwrap(), [Number(3.0), Number(7.0)]);
    assert_eq!(call_all(&mut functions, 1, &[&[Text("four".into())]]).unwrap(), [Number(4.0)]);
    assert_eq!(call_all(&mut functions, 2, &[&[]]).unwrap_err().kind, ErrorKind::Worker);
}

#[test]
fn functions_see_no_database_and_can_fail() {
    let globals =
        "function f() { return [typeof getContext, typeof __, typeof console.log].join(); }";
    assert_eq!(call(globals, &[]), Ok(Text("undefined,undefined,function".into())));
    let failure = call("function f() {\n throw new Error('no'); }", &[]).unwrap_err();
    assert!(failure.contains("Exception = Error: no") && failure.contains("udf.js:2"), "{failure}");
    let broken = call("function f( {}", &[]).unwrap_err();
    assert!(broken.starts_with("The script udf does not compile"), "{broken}");
    assert!(call("function f(n) { return n; }", &[Number(1.0)]).is_ok());
}

#[test]
fn a_function_that_fails_can_be_called_again_and_one_that_loops_cannot() {
    let mut settings = settings();
    let pool = Pool::new(&settings);
    let mut fails =
        pool.functions(&[script("function f(n) { if (n) throw n; return 1; }")]).unwrap();
    assert!(call_all(&mut fails, 0, &[&[Number(1.0)]]).is_err());
    assert_eq!(call_all(&mut fails, 0, &[&[Number(0.0)]]).unwrap(), [Number(1.0)]);
    settings.limits.time = std::time::Duration::from_millis(100);
    let pool = Pool::new(&settings);
    let mut loops = pool.functions(&[script("function f() { for (;;); }")]).unwrap();
    assert_eq!(call_all(&mut loops, 0, &[&[]]).unwrap_err().kind, ErrorKind::Timeout);
    assert!(!loops.are_loaded());
    assert_eq!(call_all(&mut loops, 0, &[&[]]).unwrap_err().kind, ErrorKind::Worker);
    drop(loops);
    let mut next = pool.functions(&[script("function f() { return 1; }")]).unwrap();
    assert_eq!(call_all(&mut next, 0, &[&[]]).unwrap(), [Number(1.0)]);
}

/// Of calls that travel together, those before one that fails have their values, and the failure
/// says nothing of those after it.
#[test]
fn a_failure_is_that_of_its_own_call() {
    let pool = Pool::new(&settings());
    let source = "function f(n) { if (n === 3) throw new Error('three'); return n; }";
    let mut functions = pool.functions(&[script(source)]).unwrap();
    let mut calls = Calls::default();
    for n in 0..6 {
        let mut call = Vec::new();
        Calls::encode(&mut call, 0, &[Number(f64::from(n))]);
        calls.add(&call);
    }
    let answers = functions.call(&calls).unwrap();
    assert_eq!(answers.values, [Number(0.0), Number(1.0), Number(2.0)]);
    let failed: Error = answers.failed.unwrap();
    assert!(failed.message.contains("three"), "{}", failed.message);
    assert!(functions.are_loaded());
}

/// Calls that take long are not all made at once: each has the time of a script.
#[test]
fn slow_calls_are_left_for_another_time() {
    let pool = Pool::new(&settings());
    let source = "function f() { const until = Date.now() + 150; while (Date.now() < until); }";
    let mut functions = pool.functions(&[script(source)]).unwrap();
    let mut call = Vec::new();
    Calls::encode(&mut call, 0, &[]);
    let mut calls = Calls::default();
    (0..20).for_each(|_| calls.add(&call));
    let answers = functions.call(&calls).unwrap();
    assert!(answers.failed.is_none(), "{:?}", answers.failed);
    assert_eq!(answers.values, [Undefined]);
    assert!(functions.are_loaded());
}

#[test]
fn rows_and_values_of_many_bytes_travel_in_pieces() {
    let pool = Pool::new(&settings());
    let mut functions =
        pool.functions(&[script("s => s + s.length"), script("n => 'x'.repeat(n)")]).unwrap();
    let texts: Vec<Value<'_>> = (0..3000).map(|i| Text("é".repeat(i).into())).collect();
    let found = call_all(&mut functions, 0, &rows(&texts)).unwrap();
    for (i, (row, found)) in texts.iter().zip(&found).enumerate() {
        let Text(row) = row else { unreachable!() };
        assert_eq!(found, &Text(format!("{row}{i}").into()));
    }
    assert_eq!(found.len(), texts.len());
    let much = vec![Number(1e6); 20];
    assert_eq!(call_all(&mut functions, 1, &rows(&much)).unwrap().len(), 20);
    // One value, or all together, can be too much; and it goes on after the first.
    let mut one = |n| call_all(&mut functions, 1, &[&[Number(n)]]);
    assert_eq!(one(5e6).unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(one(1.0).unwrap(), [Text("x".into())]);
    let mut calls = Calls::default();
    let mut call = Vec::new();
    Calls::encode(&mut call, 1, &[Number(1e6)]);
    (0..40).for_each(|_| calls.add(&call));
    // They are too much together, unless some are left for another time.
    match functions.call(&calls) {
        Ok(answers) => assert!(answers.values.len() <= 33, "{}", answers.values.len()),
        Err(refused) => assert_eq!(refused.kind, ErrorKind::TooLarge),
    }
    let huge = [Text("x".repeat(5_000_000).into())];
    drop(functions);
    let mut functions = pool.functions(&[script("s => 1")]).unwrap();
    assert_eq!(call_all(&mut functions, 0, &[&huge]).unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(call_all(&mut functions, 0, &[&[Null]]).unwrap(), [Number(1.0)]);
}

#[test]
fn functions_of_one_query_do_not_see_each_others_helpers() {
    let pool = Pool::new(&settings());
    let scripts = [
        script("'use strict'; function f() { return help(); } function help() { return 1; }"),
        script(
            "// a function in a comment\nfunction f() { return help(); } function help() { return 2; }",
        ),
    ];
    let mut functions = pool.functions(&scripts).unwrap();
    assert_eq!(call_all(&mut functions, 0, &[&[]]).unwrap(), [Number(1.0)]);
    assert_eq!(call_all(&mut functions, 1, &[&[]]).unwrap(), [Number(2.0)]);
}
