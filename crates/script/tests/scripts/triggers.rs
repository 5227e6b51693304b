//! What triggers see and change.

use astrarium_script::{Pool, Task, Verb};
use serde_json::json;

use crate::support::{Memory, run, settings, shown};

const BODY: &str = r#"{"id":"a","n":1}"#;
const STORED: &str = r#"{"id":"a","n":1,"_etag":"e"}"#;

/// The role, the script, and what it leaves behind.
const CASES: &[(&str, &str, &str)] = &[
    (
        "before",
        "function f() { const r = getContext().getRequest(), b = r.getBody(); b.stamped = true; r.setBody(b); }",
        r#"{"id":"a","n":1,"stamped":true}"#,
    ),
    ("before", "function f() { __.request.setBody('{\"id\": \"z\"}'); }", r#"{"id": "z"}"#),
    ("before", "function f() { __.request.getBody().n = 5; }", "nothing"),
    (
        "before",
        "function f() { if (__.request.getOperationType() === 'Create') throw new Error(400, 'veto'); }",
        "throws 400 Error: veto",
    ),
    (
        "before",
        "function f() { __.request.setBody([typeof getContext().getResponse, __.response === undefined, __.request.getValue('OperationType')]); }",
        r#"["undefined",true,"Create"]"#,
    ),
    (
        "before",
        "function f() { __.request.setValue('OperationType', 'x'); }",
        r#"throws 403 Error: The value "OperationType" cannot be set here."#,
    ),
    (
        "before",
        "function f() { __.filter(x => true); }",
        "throws 400 Error: A callback must be given where there is no response, as in a trigger that runs before.",
    ),
    (
        "after",
        "function f() { __.response.setBody([__.response.getBody()._etag, __.request.getBody().n, __.response.getResourceQuotaCurrentUsage(), __.response.getMaxResourceQuota()]); }",
        r#"["e",1,"collectionSize=3072;","collectionSize=20971520;"]"#,
    ),
    (
        "after",
        "function f() { __.createDocument(__.getSelfLink(), {id: 'log'}, (e) => { if (e) throw e; }); }",
        "nothing",
    ),
    ("after", "function f() { __.response.setBody('plain'); }", r#""plain""#),
    ("after", "function f() { __.request.setBody({}); }", "throws TypeError: not a function"),
    (
        "delete",
        "function f() { __.request.setBody([__.request.getOperationType(), __.request.getBody() === undefined]); }",
        r#"["Delete",true]"#,
    ),
];

#[test]
fn each_trigger_leaves_what_it_should() {
    let pool = Pool::new(&settings());
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|(role, source, expected)| {
            let task = match *role {
                "before" => Task::Before { verb: Verb::Create, body: Some(BODY) },
                "delete" => Task::Before { verb: Verb::Delete, body: None },
                _ => Task::After { verb: Verb::Create, body: Some(BODY), stored: Some(STORED) },
            };
            let mut host = Memory::with([json!({"id": "a"})]);
            let found = shown(run(&pool, &mut host, source, task));
            (found != *expected).then(|| format!("{source}\n  gives {found}\n  not   {expected}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
