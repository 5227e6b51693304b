//! User-defined functions, many rows at a time.

use astrarium_script::Value::{Bool, Json, Null, Number, Text, Undefined};
use astrarium_script::{ErrorKind, Pool, Script, Value};

use crate::support::settings;

fn script(source: &str) -> Script<'_> {
    Script { id: "udf", source }
}

fn call(source: &str, arguments: &[Value]) -> Result<Value, String> {
    let pool = Pool::new(&settings());
    let mut functions = pool.functions(&[script(source)]).map_err(|e| e.message)?;
    let values = functions.call(0, 1, arguments).map_err(|e| e.message)?;
    Ok(values.into_iter().next().unwrap())
}

#[test]
fn values_of_every_kind_go_in_and_come_out() {
    let pool = Pool::new(&settings());
    let mut same = pool.functions(&[script("function same(x) { return x; }")]).unwrap();
    let json = |text: &str| Json(text.to_owned());
    let values = [
        Undefined,
        Null,
        Bool(true),
        Bool(false),
        Number(0.1),
        Number(-0.0),
        Number(9e99),
        Text(String::new()),
        Text("é\u{1F600}\0".to_owned()),
        json("[1,[]]"),
        json(r#"{"a":{"b":null}}"#),
    ];
    assert_eq!(same.call(0, values.len(), &values).unwrap(), values);
    assert_eq!(same.call(0, 0, &[]).unwrap(), []);
    let strange = "function f(n) { return [Symbol('s'), () => 1, new Date(0), NaN][n]; }";
    let mut strange = {
        drop(same);
        pool.functions(&[script(strange)]).unwrap()
    };
    let found = strange.call(0, 4, &[Number(0.0), Number(1.0), Number(2.0), Number(3.0)]).unwrap();
    assert_eq!(found[..3], [Undefined, Undefined, json(r#""1970-01-01T00:00:00.000Z""#)]);
    assert!(matches!(found[3], Number(n) if n.is_nan()));
}

#[test]
fn several_functions_are_called_by_their_place() {
    let pool = Pool::new(&settings());
    let scripts = [script("function add(a, b) { return a + b; }"), script("s => s.length")];
    let mut functions = pool.functions(&scripts).unwrap();
    let rows = [Number(1.0), Number(2.0), Number(3.0), Number(4.0)];
    assert_eq!(functions.call(0, 2, &rows).unwrap(), [Number(3.0), Number(7.0)]);
    assert_eq!(functions.call(1, 1, &[Text("four".to_owned())]).unwrap(), [Number(4.0)]);
    assert_eq!(functions.call(2, 1, &[]).unwrap_err().kind, ErrorKind::Worker);
}

#[test]
fn functions_see_no_database_and_can_fail() {
    let globals =
        "function f() { return [typeof getContext, typeof __, typeof console.log].join(); }";
    assert_eq!(call(globals, &[]), Ok(Text("undefined,undefined,function".to_owned())));
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
    assert!(fails.call(0, 1, &[Number(1.0)]).is_err());
    assert_eq!(fails.call(0, 1, &[Number(0.0)]).unwrap(), [Number(1.0)]);
    settings.limits.time = std::time::Duration::from_millis(100);
    let pool = Pool::new(&settings);
    let mut loops = pool.functions(&[script("function f() { for (;;); }")]).unwrap();
    assert_eq!(loops.call(0, 1, &[]).unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(loops.call(0, 1, &[]).unwrap_err().kind, ErrorKind::Worker);
    drop(loops);
    let mut next = pool.functions(&[script("function f() { return 1; }")]).unwrap();
    assert_eq!(next.call(0, 1, &[]).unwrap(), [Number(1.0)]);
}

#[test]
fn rows_and_values_of_many_bytes_travel_in_pieces() {
    let pool = Pool::new(&settings());
    let mut functions =
        pool.functions(&[script("s => s + s.length"), script("n => 'x'.repeat(n)")]).unwrap();
    let rows: Vec<Value> = (0..3000).map(|i| Text("é".repeat(i))).collect();
    let found = functions.call(0, rows.len(), &rows).unwrap();
    for (i, (row, found)) in rows.iter().zip(&found).enumerate() {
        let Text(row) = row else { unreachable!() };
        assert_eq!(found, &Text(format!("{row}{i}")));
    }
    assert_eq!(found.len(), rows.len());
    let much = vec![Number(1e6); 20];
    assert_eq!(functions.call(1, 20, &much).unwrap().len(), 20);
    // One value, or all together, can be too much; and it goes on after the first.
    assert_eq!(functions.call(1, 1, &[Number(5e6)]).unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(functions.call(1, 1, &[Number(1.0)]).unwrap(), [Text("x".to_owned())]);
    let too_much = vec![Number(1e6); 40];
    assert_eq!(functions.call(1, 40, &too_much).unwrap_err().kind, ErrorKind::TooLarge);
    let huge = [Text("x".repeat(5_000_000))];
    drop(functions);
    let mut functions = pool.functions(&[script("s => 1")]).unwrap();
    assert_eq!(functions.call(0, 1, &huge).unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(functions.call(0, 1, &[Null]).unwrap(), [Number(1.0)]);
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
    assert_eq!(functions.call(0, 1, &[]).unwrap(), [Number(1.0)]);
    assert_eq!(functions.call(1, 1, &[]).unwrap(), [Number(2.0)]);
}
