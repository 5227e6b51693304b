//! Workers: shared, waited for, killed, replaced.

use std::sync::mpsc;
use std::time::Duration;

use astrarium_script::{ErrorKind, Pool, Program, Script, Settings, Task, Value};
use serde_json::json;

use crate::support::{Memory, call_all, procedure, run, settings};

const LISTS: &str =
    "function f() { __.readDocuments(__.getSelfLink(), (e, d) => __.response.setBody(d.length)); }";
const TASK: Task<'_> = Task::Procedure { arguments: "[]" };

#[test]
fn callers_wait_for_a_worker_and_too_many_are_sent_away() {
    let pool = Pool::new(&Settings { waiting: 0, ..settings() });
    let (asked, is_asked) = mpsc::channel();
    let (opens, open) = mpsc::channel();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| {
            let mut host = Memory::with([json!({"id": "a"})]);
            host.before = Some(Box::new(move || {
                asked.send(()).unwrap();
                open.recv().unwrap();
            }));
            procedure(&pool, &mut host, LISTS, "[]")
        });
        is_asked.recv().unwrap();
        // The only worker is taken, and nobody may wait.
        let error = run(&pool, &mut Memory::default(), LISTS, TASK).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        // Functions have workers of their own: a query inside a procedure can call them.
        assert!(pool.functions(&[Script { id: "u", source: "x => x" }]).is_ok());
        opens.send(()).unwrap();
        assert_eq!(first.join().unwrap(), "1");
    });
    assert_eq!(procedure(&pool, &mut Memory::default(), LISTS, "[]"), "0");
}

#[test]
fn many_callers_share_few_workers() {
    let pool = Pool::new(&Settings { workers: 2, waiting: 32, ..settings() });
    std::thread::scope(|threads| {
        let callers: Vec<_> = (0..16)
            .map(|i| {
                let pool = &pool;
                threads.spawn(move || {
                    let mut host = Memory::with((0..i).map(|n| json!({"id": n.to_string()})));
                    (0..5).all(|_| procedure(pool, &mut host, LISTS, "[]") == i.to_string())
                })
            })
            .collect();
        assert!(callers.into_iter().all(|caller| caller.join().unwrap()));
    });
}

#[test]
fn a_host_that_takes_too_long_costs_the_script_its_time() {
    let mut settings = settings();
    settings.limits.time = Duration::from_millis(50);
    let pool = Pool::new(&settings);
    let source = "function f() { for (let i = 0; i < 100; i++) __.createDocument(__.getSelfLink(), {id: '' + i}); }";
    // As long as it takes to be late: the deadline is a matter of the real clock.
    let slow = || std::thread::sleep(Duration::from_millis(100));
    let mut host = Memory { before: Some(Box::new(slow)), ..Memory::default() };
    assert_eq!(run(&pool, &mut host, source, TASK).unwrap_err().kind, ErrorKind::Timeout);
    assert!(host.items.len() < 100, "the pool gave up in between");
}

#[test]
fn a_program_that_is_no_worker_fails_and_does_not_hang() {
    for (path, command, kind) in [
        ("/nonexistent", "", ErrorKind::Worker),
        ("/bin/sh", "exit", ErrorKind::Worker),
        ("/bin/sh", "exec cat", ErrorKind::Worker),
        ("/bin/sh", "exec cat /dev/zero", ErrorKind::Worker),
        ("/bin/sh", "while echo nonsense; do :; done", ErrorKind::TooLarge),
        ("/bin/sh", "exec sleep 1000", ErrorKind::Timeout),
    ] {
        let mut settings = settings();
        settings.limits.time = Duration::from_millis(200);
        settings.program =
            Program { path: path.into(), arguments: vec!["-c".into(), command.into()] };
        let pool = Pool::new(&settings);
        // Where there is none to be had at once, the machine may need its time.
        let error = (0..20)
            .map(|_| run(&pool, &mut Memory::default(), LISTS, TASK).unwrap_err())
            .find(|error| error.kind == kind);
        assert!(error.is_some(), "{path} {command}");
    }
}

#[test]
fn scripts_are_checked_without_being_called() {
    let pool = Pool::new(&settings());
    let check = |source| pool.check(Script { id: "s", source }).map_err(|e| (e.kind, e.message));
    assert_eq!(check("function f() { throw 1; }"), Ok(()));
    let (kind, message) = check("function f() {\n  return 1 +;\n}").unwrap_err();
    assert_eq!(kind, ErrorKind::Compile);
    assert!(message.contains("line 2, column 13"), "{message}");
}

#[test]
fn chance_comes_from_the_seed() {
    let pool = Pool::new(&settings());
    let source = "function f() { __.createDocument(__.getSelfLink(), {}, (e, d) => __.response.setBody([d.id, Math.random()])); }";
    let first = procedure(&pool, &mut Memory::default(), source, "[]");
    assert_eq!(procedure(&pool, &mut Memory::default(), source, "[]"), first);
}

#[test]
fn a_host_that_panics_leaves_no_worker_in_the_middle_of_something() {
    let pool = Pool::new(&settings());
    let mut host = Memory { before: Some(Box::new(|| panic!("the host"))), ..Memory::default() };
    let run = std::panic::AssertUnwindSafe(|| procedure(&pool, &mut host, LISTS, "[]"));
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(procedure(&pool, &mut Memory::default(), LISTS, "[]"), "0");
}

/// Callers with dice: good scripts and bad ones, procedures and functions, on few workers. Each
/// gets its own answer, whatever befalls the others.
#[test]
fn whatever_others_run_each_caller_gets_its_own_answer() {
    for seed in [1, 2, 3] {
        let mut settings = Settings { workers: 2, function_workers: 2, waiting: 64, ..settings() };
        settings.limits.time = Duration::from_secs(10);
        settings.limits.memory_bytes = 16 * 1024 * 1024;
        let pool = Pool::new(&settings);
        std::thread::scope(|threads| {
            for caller in 0..6 {
                let pool = &pool;
                threads.spawn(move || (0..25).for_each(|turn| play(pool, seed, caller, turn)));
            }
        });
    }
}

fn play(pool: &Pool, seed: u64, caller: u64, turn: u64) {
    let dice =
        (seed * 1_000_003 + caller * 7919 + turn * 104_729).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mark = format!("{seed}-{caller}-{turn}");
    let mut host = Memory::default();
    let arguments = json!([mark, dice >> 58]).to_string();
    let mut run = |source| procedure(pool, &mut host, source, &arguments);
    match dice >> 32 & 7 {
        0..3 => {
            let source = "function f(mark, n) { let left = n; const next = (e) => { if (e) throw e; \
                if (left-- === 0) return __.response.setBody(mark); \
                __.createDocument(__.getSelfLink(), {id: mark + left}, next); }; next(); }";
            assert_eq!(run(source), format!("\"{mark}\""));
            assert_eq!(host.items.len() as u64, dice >> 58);
        }
        3 => assert_eq!(
            run("function f(mark) { throw new Error(mark); }"),
            format!("throws Error: {mark}")
        ),
        4 => assert!(
            run("function f() { const a = []; for (;;) a.push([]); }").starts_with("Memory")
        ),
        5 => assert!(run("function f() { return f(); }").starts_with("throws RangeError")),
        6 => assert!(run("function f( {").starts_with("Compile")),
        _ => {
            let script = Script { id: "u", source: "function f(s, n) { return s + n; }" };
            let mut functions = pool.functions(&[script]).unwrap();
            let row = [Value::Text((&mark).into()), Value::Number(7.0)];
            let given = call_all(&mut functions, 0, &[&row]).unwrap();
            assert_eq!(given, [Value::Text(format!("{mark}7").into())]);
        }
    }
}

/// Should the engine not hold what it promises: a worker can open no file, and start no process.
#[cfg(target_os = "linux")]
#[test]
fn the_system_denies_a_worker_what_it_does_not_need() {
    let pool = Pool::new(&settings());
    assert_eq!(procedure(&pool, &mut Memory::default(), LISTS, "[]"), "0");
    let own = std::process::id().to_string();
    let is_ours = |status: &str| {
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|id| id.trim() == own))
    };
    let folders = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let workers = folders.filter(|folder| {
        std::fs::read_to_string(folder.join("status")).is_ok_and(|status| is_ours(&status))
    });
    // Workers of other tests may not have come that far.
    let confined = workers.filter_map(|worker| std::fs::read_to_string(worker.join("limits")).ok());
    let mut confined = confined.filter(|limits| {
        let hard = |name: &str| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned)
        };
        hard("Max open files").as_deref() == Some("5")
            && hard("Max processes").as_deref() == Some("0")
            && hard("Max core file size").as_deref() == Some("0")
            && hard("Max address space").is_some_and(|bytes| bytes.parse::<u64>().is_ok())
    });
    assert!(confined.next().is_some());
}
