//! How fast scripts are, apart from the database: the host here only remembers.
//!
//! `cargo run --release -p astrarium-script --example bench`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use astrarium_script::{
    Call, Calls, Container, Host, Item, Limits, Page, PageRequest, Pool, Program, Query, Script,
    Settings, Task, Value, WriteOptions, worker,
};
use bytes::Bytes;
use model::{Error, Result};

const WORKER: &str = "worker";
const TRIVIAL: &str = "function f(a) { getContext().getResponse().setBody(a); }";
const AT_ONCE: &str = "function f(docs) {
    let count = 0;
    for (const doc of docs) {
        __.createDocument(__.getSelfLink(), doc, (error) => {
            if (error) throw error;
            __.response.setBody(++count);
        });
    }
}";
const ONE_BY_ONE: &str = "function f(docs) {
    const collection = getContext().getCollection(), link = collection.getSelfLink();
    let count = 0;
    next();
    function next() {
        if (count === docs.length) getContext().getResponse().setBody(count);
        else if (!collection.createDocument(link, docs[count], done)) throw new Error('refused');
    }
    function done(error) { if (error) throw error; count++; next(); }
}";
const DOCUMENTS: usize = 1000;
const CALLS: usize = 2000;
const ROWS: usize = 1000;

/// Appends what the database would append, and remembers nothing else.
#[derive(Default)]
struct Echo {
    created: usize,
}

impl Host for Echo {
    fn create(&mut self, body: &str, _: &WriteOptions) -> Result<Bytes> {
        self.created += 1;
        let open = body.strip_suffix('}').unwrap_or(body);
        let rid = self.created;
        Ok(Bytes::from(format!(
            r#"{open},"_rid":"AAAAAAAAAAA{rid:08}==","_self":"dbs/a/colls/b/docs/{rid:08}/","_etag":"\"{rid:032}\"","_attachments":"attachments/","_ts":1700000000}}"#
        )))
    }

    fn upsert(&mut self, body: &str, options: &WriteOptions) -> Result<(Bytes, bool)> {
        self.create(body, options).map(|body| (body, true))
    }

    fn replace(&mut self, _: &Item, body: &str, options: &WriteOptions) -> Result<Bytes> {
        self.create(body, options)
    }

    fn delete(&mut self, _: &Item, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, _: &Item, _: Option<&str>) -> Result<Option<Bytes>> {
        Ok(None)
    }

    fn list(&mut self, _: &PageRequest) -> Result<Page> {
        Ok(Page::default())
    }

    fn query(&mut self, _: &Query, _: &PageRequest) -> Result<Page> {
        Err(Error::bad_request("no queries here"))
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == WORKER) {
        return worker::main();
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> std::result::Result<(), String> {
    let path = std::env::current_exe().map_err(|e| e.to_string())?;
    let pool = Pool::new(&Settings {
        program: Program { path, arguments: vec![WORKER.into()] },
        workers: 1,
        function_workers: 1,
        ahead: 1,
        waiting: 1,
        limits: Limits::default(),
    });
    let mut spans = procedure(&pool, TRIVIAL, "[1]", CALLS)?;
    spans.sort();
    let (median, slow) = (spans[CALLS / 2], spans[CALLS * 99 / 100]);
    println!("trivial procedure, back to back      p50 {median:>8.0?}  p99 {slow:>8.0?}");
    let mut spans = paused(&pool)?;
    spans.sort();
    let median = spans[spans.len() / 2];
    println!("trivial procedure, worker at rest    p50 {median:>8.0?}");

    let documents: Vec<String> = (0..DOCUMENTS).map(document).collect();
    let arguments = format!("[[{}]]", documents.join(","));
    for (name, source) in [("at once", AT_ONCE), ("one by one", ONE_BY_ONE)] {
        let mut spans = procedure(&pool, source, &arguments, 20)?;
        spans.sort();
        let each_second = DOCUMENTS as f64 / spans[spans.len() / 2].as_secs_f64();
        println!("{DOCUMENTS} inserts, {name:<12}             {each_second:>9.0} documents/s");
    }
    for (name, source, argument) in [
        ("number", "function tax(n) { return n * 1.2; }", Value::Number(17.5)),
        ("text", "function lower(s) { return s.toLowerCase(); }", Value::Text("Seattle".into())),
        ("object", "function f(d) { return d.n; }", Value::Json(r#"{"id":"a","n":7}"#.into())),
    ] {
        println!(
            "function of a {name:<7}                  {:>9.0} calls/s",
            calls(&pool, source, &argument)?
        );
    }
    Ok(())
}

fn document(i: usize) -> String {
    format!(
        r#"{{"id":"doc-{i:06}","customer":"c1","name":"a name of some length","price":{i}.25,"tags":["a","b","c"],"address":{{"city":"Seattle","zip":"98101"}}}}"#
    )
}

fn procedure(
    pool: &Pool,
    source: &str,
    arguments: &str,
    times: usize,
) -> std::result::Result<Vec<Duration>, String> {
    let container = Container {
        self_link: "dbs/a/colls/b/".into(),
        alt_link: "dbs/shop/colls/orders".into(),
        ..Container::default()
    };
    let script = Script { id: "bench", source };
    let task = Task::Procedure { arguments };
    let call = Call { script, container: &container, task, log: false, seed: 1 };
    (0..times)
        .map(|_| {
            let start = Instant::now();
            pool.run(&call, &mut Echo::default()).map_err(|e| e.message)?;
            Ok(start.elapsed())
        })
        .collect()
}

/// With time in between for the worker to prepare for the next call, as it mostly has.
fn paused(pool: &Pool) -> std::result::Result<Vec<Duration>, String> {
    let one = || {
        std::thread::sleep(Duration::from_millis(2));
        procedure(pool, TRIVIAL, "[1]", 1)
    };
    Ok((0..500).map(|_| one()).collect::<std::result::Result<Vec<_>, _>>()?.concat())
}

fn calls(pool: &Pool, source: &str, argument: &Value<'_>) -> std::result::Result<f64, String> {
    let scripts = [Script { id: "bench", source }];
    let mut functions = pool.functions(&scripts).map_err(|e| e.message)?;
    let mut call = Vec::new();
    Calls::encode(&mut call, 0, std::slice::from_ref(argument));
    let mut calls = Calls::default();
    (0..ROWS).for_each(|_| calls.add(&call));
    let start = Instant::now();
    let rounds = 500;
    for _ in 0..rounds {
        let answers = functions.call(&calls).map_err(|e| e.message)?;
        if answers.values.len() != ROWS {
            return Err(format!("{} of {ROWS} calls were made", answers.values.len()));
        }
    }
    Ok((rounds * ROWS) as f64 / start.elapsed().as_secs_f64())
}
