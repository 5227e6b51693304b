//! Scripts that mean ill: each is ended, answered, and gone before the next.

use std::time::Duration;

use astrarium_script::{Error, ErrorKind, Pool, Settings, Task};

use crate::support::{Memory, procedure, run, settings};

/// What it is, the script, and how it ends. Empty where it may as well end well. Whatever takes long
/// may end with its time, too, on a machine that is busy.
const CASES: &[(&str, &str, &str)] = &[
    ("an endless loop", "for (;;);", "Timeout"),
    ("an endless loop that catches everything", "for (;;) try { for (;;); } catch {}", "Timeout"),
    ("an endless loop in finally", "try { for (;;); } finally { for (;;); }", "Timeout"),
    ("a loop inside the engine that cannot be interrupted", "new Array(1e9) + '';", "Timeout"),
    ("a string of 10 GB", "let s = 'x'; for (;;) s += s;", ""),
    ("repeated 10 GB", "'x'.repeat(1e10);", ""),
    ("objects without end", "const a = []; for (;;) a.push({});", "Memory"),
    ("a typed array of 10 GB", "new Uint8Array(1e10);", ""),
    ("typed arrays without end", "const a = []; for (;;) a.push(new Uint8Array(1e6));", "Memory"),
    ("BigInt without end", "let n = 2n; for (;;) n **= 2n;", ""),
    ("deep recursion", "const f = () => f() + 1; f();", "Thrown"),
    (
        "recursion that catches itself",
        "const f = () => { try { f(); } catch { f(); } }; f();",
        "Timeout",
    ),
    (
        "recursion through JSON",
        "let o = {}; for (let i = 0; i < 1e6; i++) o = {o}; JSON.stringify(o);",
        "",
    ),
    ("nested JSON", "JSON.parse('['.repeat(1e6));", "Thrown"),
    (
        "recursion through toString",
        "const o = {toString() { return '' + this; }}; '' + o;",
        "Thrown",
    ),
    (
        "recursion through a proxy",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x;",
        "Thrown",
    ),
    ("a regular expression that backtracks", "/^(a+)+$/.test('a'.repeat(40) + 'b');", "Timeout"),
    ("a regular expression that recurses", "new RegExp('('.repeat(1e5) + ')'.repeat(1e5));", ""),
    ("a sort that never ends", "[3, 1, 2].sort(() => { for (;;); });", "Timeout"),
    ("promises without end", "const f = () => Promise.resolve().then(f); f();", "Memory"),
    ("async functions without end", "(async () => { for (;;) await null; })();", "Timeout"),
    (
        "operations without end",
        "const f = () => { __.readDocuments(__.getSelfLink(), f); }; f();",
        "",
    ),
    ("a generator without end", "function* g() { for (;;) yield 1; } [...g()];", ""),
    ("a huge answer", "__.response.setBody('x'.repeat(5e6));", "Thrown"),
    (
        "a huge answer behind toJSON",
        "let n = 0; __.response.setBody({toJSON() { return n++ ? 'x'.repeat(5e6) : 1; }});",
        "TooLarge",
    ),
    ("a huge answer bit by bit", "for (;;) __.response.appendBody('x'.repeat(1e5));", "Thrown"),
    ("a huge operation", "__.createDocument(__.getSelfLink(), {id: 'x'.repeat(5e6)});", "Thrown"),
    ("a huge error", "throw new Error('x'.repeat(1e7));", "Thrown"),
    ("a throwing getter in an error", "throw {get number() { throw 1; }};", "Thrown"),
    ("an endless getter in an error", "throw {get number() { for (;;); }};", "Timeout"),
    ("null, thrown", "throw null;", "Memory"),
    ("an endless getter in an answer", "__.response.setBody({get a() { for (;;); }});", "Timeout"),
    (
        "an endless getter in an item",
        "__.createDocument(__.getSelfLink(), {get id() { for (;;); }});",
        "Timeout",
    ),
    (
        "an error that hides its stack",
        "const e = new Error('x'); Object.defineProperty(e, 'stack', {get() { for (;;); }}); throw e;",
        "Timeout",
    ),
    ("an abort that is caught", "for (;;) try { getContext().abort('x'); } catch {}", "Thrown"),
    ("a circular answer", "const o = {}; o.o = o; __.response.setBody(o);", "Thrown"),
    (
        "a replaced JSON",
        "JSON.stringify = JSON.parse = () => { throw 1; }; Array.prototype.map = String.prototype.split = null; __.response.setBody({}); __.readDocuments(__.getSelfLink(), (e, d) => { throw new Error(d.length); });",
        "Thrown",
    ),
    (
        "a replaced toWellFormed",
        "String.prototype.toWellFormed = () => 1; __.createDocument(__.getSelfLink(), '\\ud800');",
        "Thrown",
    ),
    (
        "setters on Object.prototype",
        "for (const n of ['value', 'query', 'native', 'status', '0', 'then', 'get']) Object.defineProperty(Object.prototype, n, {set() { throw 1; }, get() { throw 2; }}); __.readDocuments(__.getSelfLink(), () => {});",
        "",
    ),
    (
        "broken Array.prototype",
        "Object.defineProperty(Array.prototype, '0', {set() { for (;;); }}); __.readDocuments(__.getSelfLink(), () => {}); throw 1;",
        "",
    ),
    ("a replaced Error", "globalThis.Error = () => { for (;;); }; __.createDocument();", "Thrown"),
    (
        "prepareStackTrace",
        "Error.prepareStackTrace = () => { for (;;); }; throw new Error('x');",
        "",
    ),
    (
        "tampering with the API",
        "__.createDocument = null; Object.getPrototypeOf(__).createDocument = () => { throw 'mine'; }; getContext().getCollection().createDocument();",
        "Thrown",
    ),
    ("half a surrogate pair", "throw new Error('\\ud800');", "Thrown"),
    (
        "a weak reference and a finalizer",
        "const r = new FinalizationRegistry(() => { for (;;); }); for (let i = 0; i < 1e4; i++) r.register({}, 1); throw 1;",
        "",
    ),
    ("eval and Function", "new Function('for (;;);')();", "Timeout"),
    (
        "leaving globals behind",
        "globalThis.left = Object.prototype.left = 'behind'; throw 1;",
        "Thrown",
    ),
];

#[test]
fn each_is_ended_and_the_next_script_runs() {
    let mut settings = settings();
    settings.limits.time = Duration::from_millis(700);
    settings.limits.memory_bytes = 32 * 1024 * 1024;
    // A worker for each quarter of the table, and the same for what runs in between.
    let quarters = CASES.chunks(CASES.len().div_ceil(4));
    let wrong: Vec<String> = std::thread::scope(|threads| {
        let settings = &settings;
        let quarters: Vec<_> =
            quarters.map(|quarter| threads.spawn(|| all(quarter, settings))).collect();
        quarters.into_iter().flat_map(|quarter| quarter.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn all(cases: &[(&str, &str, &str)], settings: &Settings) -> Vec<String> {
    let pool = Pool::new(settings);
    let mut wrong = Vec::new();
    for (name, body, expected) in cases {
        let source = format!("function f() {{ {body} }}");
        match run(&pool, &mut Memory::default(), &source, Task::Procedure { arguments: "[]" }) {
            Ok(_) if expected.is_empty() => {}
            Ok(outcome) => wrong.push(format!("{name}: ended well with {outcome:?}")),
            Err(Error { kind, message, .. }) => {
                let shown = format!("{kind:?}");
                let expected_kind = shown.starts_with(expected) || kind == ErrorKind::Timeout;
                if !expected_kind || matches!(kind, ErrorKind::Busy | ErrorKind::Worker) {
                    wrong.push(format!("{name}: {shown} and not {expected}: {message}"));
                }
                if message.len() > 20_000 {
                    wrong.push(format!("{name}: the message itself is too large"));
                }
            }
        }
        let after = untouched(&pool);
        if after != r#"["undefined","number",[2]]"# {
            wrong.push(format!("after {name}: {after}"));
        }
    }
    wrong
}

/// What a script finds that comes next: the worker is another, or as good as new. It is asked again
/// where a busy machine left it no time.
fn untouched(pool: &Pool) -> String {
    let next = "function f() { \
                __.response.setBody([typeof left, typeof Error(1, 'x').number, [1].map(x => x + 1)]); }";
    let mut found = String::new();
    for _ in 0..20 {
        found = procedure(pool, &mut Memory::default(), next, "[]");
        if !found.starts_with("Timeout") {
            break;
        }
    }
    found
}

#[test]
fn hostile_text_is_refused_as_text() {
    let pool = Pool::new(&settings());
    let check = |source: &str| procedure(&pool, &mut Memory::default(), source, "[]");
    for (source, expected) in [
        (String::new(), "Compile"),
        ("\0".to_owned(), "Compile"),
        ("function f() {}\0".to_owned(), "Compile"),
        (")(".to_owned(), "Compile"),
        ("}".repeat(10_000), "Compile"),
        ("(".repeat(1_000_000), "Compile"),
        ("[".repeat(1_000_000), "Compile"),
        ("!".repeat(1_000_000) + "1", "Compile"),
        ("x".repeat(5_000_000), "TooLarge"),
        ("function f() {} throw new Error('at once')".to_owned(), "Compile"),
        (
            "/* \u{2028} */ function f() { __.response.setBody('\u{2028}\u{FEFF}'.length); }"
                .to_owned(),
            "2",
        ),
    ] {
        let found = check(&source);
        let start: String = source.chars().take(40).collect();
        assert!(found.starts_with(expected), "{start:?} gives {found}");
    }
    for arguments in ["", "{}", "[", "7", "[1,]", "null"] {
        let found = procedure(&pool, &mut Memory::default(), "function f() {}", arguments);
        assert!(found.contains("must be a JSON array"), "{arguments}: {found}");
    }
}
