//! The program in its other role: a worker for scripts.

use std::time::Duration;

use script::{Calls, ErrorKind, Limits, Pool, Program, Script, Settings, Value};

/// What the worker is told that it may take holds in this program too, whose allocator is another.
#[test]
fn the_server_serves_scripts_when_asked_to() {
    let path = env!("CARGO_BIN_EXE_astrarium").into();
    let pool = Pool::new(&Settings {
        program: Program { path, arguments: vec!["script-worker".into()] },
        workers: 1,
        function_workers: 1,
        ahead: 1,
        waiting: 0,
        limits: Limits { time: Duration::from_secs(60), ..Limits::default() },
    });
    let call = |source| {
        let mut functions = pool.functions(&[Script { id: "f", source }])?;
        let (mut calls, mut one) = (Calls::default(), Vec::new());
        Calls::encode(&mut one, 0, &[Value::Number(20.0)]);
        calls.add(&one);
        let answers = functions.call(&calls)?;
        answers.failed.map_or(Ok(answers.values), Err)
    };
    assert_eq!(call("n => n + 1").unwrap(), [Value::Number(21.0)]);
    // Most of what it may have, and then more.
    let fill = "n => { const a = []; for (let i = 0; i < n; i++) a.push('x'.repeat(5e6 + i)); return a.length; }";
    assert_eq!(call(fill).unwrap(), [Value::Number(20.0)]);
    let error =
        call("n => { const a = []; for (;;) a.push('x'.repeat(5e6 + a.length)); }").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Memory, "{}", error.message);
    assert_eq!(call("n => n").unwrap(), [Value::Number(20.0)]);
}
