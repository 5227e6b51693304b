//! What a stored procedure can do, line by line.

use astrarium_script::{ErrorKind, Pool, Task};
use serde_json::json;

use crate::support::{ALT, Memory, SELF, procedure, run, settings};

/// Scripts, their arguments, and what they answer over two items.
const CASES: &[(&str, &str, &str)] = &[
    // Arguments and answers.
    ("function hello() { getContext().getResponse().setBody('hi'); }", "[]", r#""hi""#),
    ("function (a, b) { __.response.setBody(a + b); }", "[1,2]", "3"),
    ("(a) => { __.response.setBody(a); }", r#"[{"x":[null]}]"#, r#"{"x":[null]}"#),
    ("function f() {}", "[]", r#""""#),
    ("function f() { __.response.setBody(null); }", "[]", "null"),
    ("function f() { return 7; }", "[]", r#""""#),
    (
        "function f() { for (let i = 0; i < 10; i++) __.response.appendBody(i); }",
        "[]",
        r#""0123456789""#,
    ),
    (
        "function f() { let r = __.response; r.setBody(1); r.appendBody(2); r.appendValue('Body', 4); r.setValue('Body', r.getValue('Body') + r.getBody()); }",
        "[]",
        "14",
    ),
    (
        "function f() { __.response.setValue('x-mine', 1); }",
        "[]",
        r#"throws 400 Error: There is no value "x-mine" to set here."#,
    ),
    ("function f() { __.response.setBody(__.request.getBody()); }", "[1,[2]]", "[1,[2]]"),
    ("function f() { __.response.setBody(typeof __.request.setBody); }", "[]", r#""undefined""#),
    // Forms of a body.
    (
        "function f() { __.response.setBody(g()); } function g() { return 'both'; }",
        "[]",
        r#""both""#,
    ),
    (
        "'use strict'; // a comment\nfunction f() { __.response.setBody(this === undefined); };",
        "[]",
        "true",
    ),
    ("async function f() { await null; __.response.setBody('later'); }", "[]", r#""later""#),
    ("function f() { __.response.setBody(this === globalThis); }", "[]", "true"),
    ("3", "[]", "Compile: The script test is not a function."),
    (
        "function f() {\n  let = ;\n}",
        "[]",
        "Compile: The script test does not compile: SyntaxError: unexpected token in expression: ';' at line 2, column 9.",
    ),
    // Errors.
    ("function f() { throw new Error('no'); }", "[]", "throws Error: no"),
    ("function f() { throw new Error(409, 'no'); }", "[]", "throws 409 Error: no"),
    ("function f() { throw Error(1234, 'no'); }", "[]", "throws 1234 Error: no"),
    ("function f() { throw 'text'; }", "[]", "throws text"),
    ("function f() { throw {number: 5, a: 1}; }", "[]", r#"throws 5 {"number":5,"a":1}"#),
    ("function f() { throw undefined; }", "[]", "throws undefined"),
    ("function f() { missing(); }", "[]", "throws ReferenceError: missing is not defined"),
    (
        "function f() { class Mine extends Error {}; const e = new Mine(7, 'm'); __.response.setBody([e instanceof Mine, e instanceof Error, e.number, e.message, e.constructor === Mine, new TypeError('t') instanceof Error, Error('x', {cause: 1}).cause]); }",
        "[]",
        r#"[true,true,7,"m",true,true,1]"#,
    ),
    (
        "function f() { getContext().abort(new Error(77, 'stop')); }",
        "[]",
        "Thrown(Some(77)): The script was aborted. Exception = Error: stop\nStack trace: Error: stop\n   at f (test.js:1:39)",
    ),
    (
        "function f() { try { getContext().abort('why'); } catch {} __.response.setBody('went on'); }",
        "[]",
        "Thrown(None): The script was aborted. Exception = why\nStack trace: why",
    ),
    (
        "async function f() { await 1; getContext().abort('late'); }",
        "[]",
        "Thrown(None): The script was aborted. Exception = late\nStack trace: late",
    ),
    ("async function f() { throw new Error('nobody hears'); }", "[]", r#""""#),
    ("function f() { new Promise(() => {}); __.response.setBody('done'); }", "[]", r#""done""#),
    // Items.
    (
        "function f() { __.createDocument(__.getSelfLink(), {id: 'c', n: 3}, (e, d, o) => __.response.setBody([e, d.id, d._etag, o.statusCode, o.currentCollectionSizeInMB, o.maxCollectionSizeInMB])); }",
        "[]",
        r#"[null,"c","\"3\"",201,3,20480]"#,
    ),
    (
        "function f() { const c = getContext().getCollection(); __.response.setBody(c.createDocument(c.getAltLink(), '{\"id\":\"c\"}')); }",
        "[]",
        "true",
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {id: 'a'}); }",
        "[]",
        "throws 409 Error: it exists",
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {id: 'a'}, (e) => __.response.setBody([e.number, e.body, e.message])); }",
        "[]",
        r#"[409,"it exists","it exists"]"#,
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {id: 'a'}, (e) => { if (e) throw e; }); }",
        "[]",
        "throws 409 Error: it exists",
    ),
    (
        "function f() { const mine = {n: 1}; __.createDocument(__.getSelfLink(), mine, (e, d) => __.response.setBody([d.id.length, d.n, mine.id === undefined])); }",
        "[]",
        "[36,1,true]",
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {n: 1}, {disableAutomaticIdGeneration: true}, (e) => __.response.setBody(e.number)); }",
        "[]",
        "400",
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), null); }",
        "[]",
        "throws 400 Error: The document body must be an object or a string representing a JSON-serialized object.",
    ),
    (
        "function f() { __.createDocument(__.getSelfLink()); }",
        "[]",
        r#"throws 400 Error: The function "createDocument" requires at least 2 argument(s) but was called with 1."#,
    ),
    (
        "function f() { __.createDocument('dbs/other/colls/x', {}); }",
        "[]",
        r#"throws 400 Error: A script works on the items of its own collection only, and the link "dbs/other/colls/x" leads elsewhere."#,
    ),
    (
        "function f() { __.createDocument('x', {}); }",
        "[]",
        r#"throws 400 Error: Invalid collection link: "x"."#,
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {}, 3); }",
        "[]",
        r#"throws 400 Error: The "options" parameter must be of type "object". Actual type is: "number"."#,
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {}, {}, 3); }",
        "[]",
        r#"throws 400 Error: The "callback" parameter must be of type "function". Actual type is: "number"."#,
    ),
    (
        "function f() { __.createDocument(__.getSelfLink(), {id: 'x'}, {indexAction: 'maybe'}); }",
        "[]",
        r#"throws 400 Error: "maybe" is none of the index actions default, include, exclude."#,
    ),
    (
        "function f() { __.upsertDocument(__.getAltLink(), {id: 'a', n: 9}, (e, d, o) => { __.upsertDocument(__.getAltLink(), {id: 'z'}, (e2, d2, o2) => __.response.setBody([d.n, o.statusCode, o2.statusCode])); }); }",
        "[]",
        "[9,200,201]",
    ),
    (
        "function f() { __.readDocument(__.getAltLink() + '/docs/a', (e, d) => { d.n++; __.replaceDocument(d._self, d, {etag: d._etag}, (e, d) => __.response.setBody(d.n)); }); }",
        "[]",
        "2",
    ),
    (
        "function f() { __.replaceDocument(__.getAltLink() + '/docs/a', {id: 'a'}, {etag: 'old'}, (e) => __.response.setBody(e.number)); }",
        "[]",
        "412",
    ),
    (
        "function f() { __.readDocument(__.getAltLink() + '/docs/a/', {ifNoneMatch: '\"1\"'}, (e, d, o) => __.response.setBody([e, d, o.notModified, o.statusCode])); }",
        "[]",
        "[null,null,true,304]",
    ),
    (
        "function f() { __.readDocument(__.getAltLink() + '/docs/q', (e) => __.response.setBody(e.number)); }",
        "[]",
        "404",
    ),
    (
        "function f() { __.readDocument('DBS/shop/Colls/orders/DOCS/a', (e, d) => __.response.setBody(d.id)); }",
        "[]",
        r#""a""#,
    ),
    (
        "function f() { __.readDocument(__.getAltLink() + '/docs/a/x', () => 0); }",
        "[]",
        r#"throws 400 Error: Invalid document link: "dbs/shop/colls/orders/docs/a/x"."#,
    ),
    (
        "function f() { __.deleteDocument(__.getAltLink() + '/docs/a', function (e, o) { __.response.setBody([arguments.length, e, o.statusCode]); }); }",
        "[]",
        "[2,null,204]",
    ),
    (
        "function f() { __.deleteDocument(__.getSelfLink() + 'docs/rid2/', (e) => __.readDocuments(__.getSelfLink(), (e, d) => __.response.setBody(d.map(x => x.id)))); }",
        "[]",
        r#"["a"]"#,
    ),
    (
        "function f() { __.readDocuments(__.getSelfLink(), {pageSize: 1}, (e, d, o) => __.readDocuments(__.getSelfLink(), {pageSize: 1, continuation: o.continuation}, (e, d2, o2) => __.response.setBody([d[0].id, d2[0].id, o.continuation, o2.continuation === undefined]))); }",
        "[]",
        r#"["a","b","1",true]"#,
    ),
    (
        "function f() { __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', (e, d) => __.response.setBody(d.length)); }",
        "[]",
        "2",
    ),
    (
        "function f() { __.queryDocuments(__.getSelfLink(), {query: 'SELECT * FROM c', parameters: [{name: '@a', value: 1}]}, (e, d) => __.response.setBody(d.length)); }",
        "[]",
        "2",
    ),
    (
        "function f() { __.queryDocuments(__.getSelfLink(), 'SELEC', (e, d) => __.response.setBody(e.message)); }",
        "[]",
        r#""Syntax error""#,
    ),
    (
        "function f() { __.queryDocuments(__.getSelfLink(), 3); }",
        "[]",
        r#"throws 400 Error: The "filterQuery" parameter must be of type "string", or an object with the member "query". Actual type is: "number"."#,
    ),
    (
        "function f() { __.readAttachments('x'); }",
        "[]",
        r#"throws 400 Error: The function "readAttachments" is not supported: items have no attachments."#,
    ),
    (
        "function f() { __.response.setBody(__.spatial.distance({type: 'Point'}, {type: 'Point'})); }",
        "[]",
        "7.5",
    ),
    (
        "function f() { __.spatial.within(1, 2); }",
        "[]",
        r#"throws 400 Error: The arguments of "within" must be GeoJSON objects."#,
    ),
    // Answers come after the turn, in order; promises may wait for them.
    (
        "function f() { const seen = []; __.readDocument(__.getAltLink() + '/docs/a', () => seen.push('a')); __.readDocument(__.getAltLink() + '/docs/b', () => { seen.push('b'); __.response.setBody(seen); }); Promise.resolve().then(() => seen.push('promise')); seen.push('turn'); }",
        "[]",
        r#"["turn","promise","a","b"]"#,
    ),
    (
        "async function f() { const read = (id) => new Promise((y, n) => __.readDocument(__.getAltLink() + '/docs/' + id, (e, d) => e ? n(e) : y(d))); const a = await read('a'); try { await read('q'); } catch (e) { __.response.setBody([a.n, e.number]); } }",
        "[]",
        "[1,404]",
    ),
    // What is there, and what is not.
    (
        "function f() { __.response.setBody([typeof setTimeout, typeof require, typeof process, typeof fetch, typeof performance, typeof std, typeof os, typeof WebAssembly, typeof print]); }",
        "[]",
        r#"["undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined"]"#,
    ),
    (
        "async function f() { try { await import('std'); } catch (e) { __.response.setBody('no modules'); } }",
        "[]",
        r#""no modules""#,
    ),
    (
        "function f() { __.response.setBody([ErrorCodes.RetryWith, Object.isFrozen(ErrorCodes), typeof Date.now(), Math.random() < 1]); }",
        "[]",
        r#"[449,true,"number",true]"#,
    ),
    (
        "function f() { const x = {a: {b: null}}; __.response.setBody([x?.a?.b ?? 'es2020', 10n ** 20n > 5n, [1, [2]].flat(), [...'añ'.matchAll(/./gu)].length]); }",
        "[]",
        r#"["es2020",true,[1,2],2]"#,
    ),
    (
        "function f() { __.response.setBody([__.getSelfLink(), __.getAltLink(), Object.getPrototypeOf(__) === getContext().getCollection()]); }",
        "[]",
        r#"["dbs/AAAAAA==/colls/AAAAAAAAAAA=/","dbs/shop/colls/orders",true]"#,
    ),
];

fn two() -> Memory {
    Memory::with([json!({"id": "a", "n": 1}), json!({"id": "b", "n": 2})])
}

#[test]
fn each_script_answers_as_it_should() {
    assert_eq!((SELF, ALT), ("dbs/AAAAAA==/colls/AAAAAAAAAAA=/", "dbs/shop/colls/orders"));
    let pool = Pool::new(&settings());
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|(source, arguments, expected)| {
            let found = procedure(&pool, &mut two(), source, arguments);
            (found != *expected).then(|| format!("{source}\n  gives {found}\n  not   {expected}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_thrown_error_says_where() {
    let pool = Pool::new(&settings());
    let source = "function outer() {\n  inner();\n  function inner() {\n    throw new Error('here');\n  }\n}";
    let error = run(&pool, &mut two(), source, Task::Procedure { arguments: "[]" }).unwrap_err();
    assert_eq!(
        error.message,
        "Encountered exception while executing function. Exception = Error: here\n\
         Stack trace: Error: here\n   at inner (test.js:4:15)\n   at outer (test.js:2:3)"
    );
    assert_eq!((error.fault().status(), error.substatus()), (400, 0));
}

#[test]
fn errors_have_the_status_of_their_kind() {
    let status = |kind| {
        let error = astrarium_script::Error::new(kind, "");
        (error.fault().status(), error.substatus())
    };
    assert_eq!(status(ErrorKind::Compile), (400, 0xFFFF));
    assert_eq!(status(ErrorKind::Thrown(Some(404))), (400, 404));
    assert_eq!(status(ErrorKind::Timeout), (408, 0));
    assert_eq!(status(ErrorKind::TooLarge), (413, 0));
    assert_eq!(status(ErrorKind::Busy), (429, 3200));
}

#[test]
fn what_was_logged_comes_with_success_and_with_failure() {
    let pool = Pool::new(&settings());
    let task = Task::Procedure { arguments: "[]" };
    let source = "function f() { console.log('a'); console.log('%s is 100%% %s', 'b', 3); }";
    assert_eq!(run(&pool, &mut two(), source, task).unwrap().log, "ab is 100% 3");
    let source = "function f() { console.log({}); throw 1; }";
    assert_eq!(run(&pool, &mut two(), source, task).unwrap_err().log, "[object Object]");
    let fails = |source| procedure(&pool, &mut two(), source, "[]");
    assert_eq!(
        fails("function f() { console.log(1, 2); }"),
        "throws 400 Error: The first of several arguments to console.log must be a string."
    );
    assert!(fails("function f() { console.log(); }").starts_with("throws 400"));
    let much = "function f() { for (;;) console.log('0123456789'); }";
    let error = run(&pool, &mut two(), much, task).unwrap_err();
    assert_eq!((error.kind, error.log.len()), (ErrorKind::Thrown(Some(413)), 8190));
}

#[test]
fn an_import_goes_on_where_the_time_or_the_host_ended_it() {
    let pool = Pool::new(&settings());
    let source = "function bulkImport(docs) {
        const response = getContext().getResponse();
        let count = 0;
        next();
        function next() {
            if (count === docs.length) return response.setBody(count);
            if (!__.createDocument(__.getSelfLink(), docs[count], done)) response.setBody(count);
        }
        function done(error) { if (error) throw error; count++; next(); }
    }";
    let documents: Vec<_> = (0..300).map(|i| json!({"id": format!("{i:03}")})).collect();
    let arguments = json!([documents]).to_string();
    let mut host = Memory::default();
    assert_eq!(procedure(&pool, &mut host, source, &arguments), "300");
    assert_eq!(host.items.len(), 300);
    // A host that accepts nothing more is asked once, and says so with its answer.
    let mut host = Memory { closed: true, ..Memory::default() };
    assert_eq!(procedure(&pool, &mut host, source, &arguments), "1");
}

#[test]
fn operations_of_one_turn_are_done_in_order_and_all_are_answered() {
    let pool = Pool::new(&settings());
    let source = "function f(n) {
        let answers = 0;
        for (let i = 0; i < n; i++) {
            const body = {id: String(i).padStart(5, '0'), text: 'x'.repeat(1000)};
            __.createDocument(__.getSelfLink(), body, (e, d) => {
                if (e || d.id !== body.id) throw new Error('mixed up');
                __.response.setBody(++answers);
            });
        }
    }";
    let mut host = Memory::default();
    assert_eq!(procedure(&pool, &mut host, source, "[5000]"), "5000");
    assert!(host.items.keys().is_sorted() && host.items.len() == 5000);
    // More than may be under way is not accepted, and the rest is done.
    assert_eq!(procedure(&pool, &mut Memory::default(), source, "[20000]"), "10000");
}

#[test]
fn options_reach_the_host() {
    let pool = Pool::new(&settings());
    let source = "function f() {
        const self = __.getSelfLink(), ignore = () => {};
        __.createDocument(self, {id: 'x'}, {indexAction: 'Exclude'}, ignore);
        __.upsertDocument(self, {id: 'x'}, {etag: 'e1'}, ignore);
        __.deleteDocument(__.getAltLink() + '/docs/x', {etag: 'e2'}, ignore);
        __.readDocument(__.getAltLink() + '/docs/x', {ifNoneMatch: 'e3'}, ignore);
        __.readDocuments(self, {pageSize: 1e9, continuation: 'here'}, ignore);
        __.queryDocuments(self, {query: 'Q', parameters: [{name: '@a', value: [1]}]}, {pageSize: -1}, ignore);
        __.readDocuments(self, {pageSize: 0}, ignore);
    }";
    let mut host = Memory::default();
    let ended = procedure(&pool, &mut host, source, "[]");
    assert_eq!(
        ended,
        "throws 400 Error: The page size must be a whole number above 0, and is \"0\"."
    );
    // Nothing leaves before the turn is over, so a turn that throws asks for nothing.
    assert_eq!(host.asked, Vec::<String>::new());
    let source = source.replace("{pageSize: 0}", "{pageSize: 3}");
    procedure(&pool, &mut host, &source, "[]");
    assert_eq!(
        host.asked,
        [
            r#"create {"id":"x"} Exclude"#,
            r#"upsert {"id":"x"} Some("e1")"#,
            r#"delete Id("x") Some("e2")"#,
            r#"read Id("x") Some("e3")"#,
            r#"list 1000 from "here""#,
            r#"query Q with [{"name":"@a","value":[1]}]"#,
            r#"list 3 from """#,
        ]
    );
}

#[test]
fn an_item_named_by_its_rid_comes_with_the_id_it_was_seen_under() {
    let pool = Pool::new(&settings());
    let source = "function f(link) {
        __.deleteDocument(link, () => __.readDocuments(__.getSelfLink(), (e, d) => __.deleteDocument(d[0]._self)));
    }";
    let mut host = two();
    let link = format!("[\"{SELF}docs/rid1/\"]");
    assert_eq!(procedure(&pool, &mut host, source, &link), "\"\"");
    assert_eq!(
        host.asked,
        [
            r#"delete Rid { rid: "rid1", id: None } None"#,
            r#"list 100 from """#,
            r#"delete Rid { rid: "rid2", id: Some("b") } None"#,
        ]
    );
    assert!(host.items.is_empty());
}

/// With so much that operations leave, and answers come, while the script has its turn.
#[test]
fn a_turn_may_end_in_any_way_while_answers_are_on_their_way() {
    let mut settings = settings();
    let create = "let answers = 0; for (let i = 0; i < 2000; i++) \
        __.createDocument(__.getSelfLink(), {id: 'd' + i, text: 'x'.repeat(500)}, (e) => { if (e) throw e; answers++; });";
    let run = |pool: &Pool, rest: &str| {
        let mut host = Memory::default();
        let ended =
            procedure(pool, &mut host, &format!("function f() {{ {create} {rest} }}"), "[]");
        (ended, host.items.len())
    };
    let pool = Pool::new(&settings);
    let (ended, asked) = run(&pool, "throw new Error('enough');");
    assert_eq!(ended, "throws Error: enough");
    assert!(asked > 0, "some had been sent");
    let (ended, asked) = run(&pool, "getContext().abort('enough');");
    assert!(ended.starts_with("Thrown(None)") && asked > 0, "{ended}");
    // The answer that is waited for is the right one, and the others keep theirs.
    let distance = "const d = __.spatial.distance({}, {}); \
        __.readDocuments(__.getSelfLink(), (e, docs) => __.response.setBody([d, answers, docs.length]));";
    assert_eq!(run(&pool, distance), ("[7.5,2000,100]".to_owned(), 2000));
    settings.limits.time = std::time::Duration::from_millis(300);
    let pool = Pool::new(&settings);
    assert!(run(&pool, "for (;;);").0.starts_with("Timeout"));
}
