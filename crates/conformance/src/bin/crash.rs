//! Kills a server under load, again and again, and looks for what it lost:
//! `crash [--cycles N] [--seed S] [--writers N]`.
//!
//! Each writer owns its items, so that it knows what each must be: what was acknowledged, or
//! what was under way when the server died. After every restart all items are read, alone and
//! as a feed, and compared. Groups of items that are changed by one batch or procedure must be there
//! as a whole or not at all, and stand in the change feed under one LSN, on one page.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use conformance::crash::group::{self, Group};
use conformance::crash::{Item, Outcome, Report, Writer, feed};
use conformance::random::Random;
use conformance::server::{Scratch, Server, binary};
use conformance::wire::Wire;

/// The containers: one of a single range, one of several, one with hierarchical keys.
const CONTAINERS: [(&str, &str, &str); 3] = [
    ("one", r#"{"id":"one","partitionKey":{"paths":["/a"],"kind":"Hash","version":2}}"#, "400"),
    ("many", r#"{"id":"many","partitionKey":{"paths":["/a"],"kind":"Hash","version":2}}"#, "30000"),
    (
        "levels",
        r#"{"id":"levels","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}"#,
        "400",
    ),
];

/// Groups of items that are changed together.
const GROUPS: usize = 16;

struct Arguments {
    cycles: u64,
    seed: u64,
    writers: usize,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let scratch = Scratch::new("crash").expect("a place for the server's data");
    let report = run(&arguments, scratch.path());
    for wrong in report.wrong.iter().take(20) {
        println!("FAILED {wrong}");
    }
    println!(
        "{} cycles, acknowledged {} single writes, {} batches, {} procedures, {} bulk requests; \
         {} in flight, {} lost, {} torn, {} LSNs not growing (seed {})",
        report.cycles,
        report.acknowledged,
        report.batches,
        report.procedures,
        report.bulks,
        report.in_flight,
        report.lost,
        report.torn,
        report.lsn,
        arguments.seed
    );
    let failed = u64::from(!report.wrong.is_empty());
    println!("{} passed, {failed} failed", 1 - failed);
    ExitCode::from(failed as u8)
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments { cycles: 20, seed: 1, writers: 64 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .and_then(|value| value.parse().ok())
            .ok_or(format!("{word} needs a number"))?;
        match word.as_str() {
            "--cycles" => out.cycles = value,
            "--seed" => out.seed = value,
            "--writers" => out.writers = value as usize,
            _ => return Err(format!("no such option: {word}")),
        }
    }
    Ok(out)
}

fn run(arguments: &Arguments, data: &Path) -> Report {
    let mut random = Random::new(arguments.seed);
    let mut server =
        Server::start(&binary(), data, &["--log-level", "warn"]).expect("the server starts");
    prepare(&server.endpoint);
    let containers: Vec<&'static str> = CONTAINERS.iter().map(|(name, ..)| *name).collect();
    let mut writers: Vec<Writer> =
        (0..arguments.writers).map(|n| Writer::new(n, &containers, arguments.seed)).collect();
    let mut groups: Vec<Group> = (0..GROUPS).map(|n| Group::new(n, arguments.seed)).collect();
    let mut report = Report::default();
    for cycle in 0..arguments.cycles {
        let time = Duration::from_millis(100 + random.below(900));
        (writers, groups) = write_until_killed(&mut server, writers, groups, time);
        let start = Instant::now();
        server.restart().expect("the server starts again on its data");
        let reopened = start.elapsed().as_millis();
        report.cycles += 1;
        check(&server.endpoint, &mut writers, &containers, &mut report);
        group::check(&mut Wire::new(&server.endpoint), &mut groups, &mut report);
        if arguments.cycles <= 50 || cycle % 50 == 49 {
            let checked = start.elapsed().as_millis() - reopened;
            println!(
                "cycle {}: {} acknowledged so far, reopened in {reopened} ms, checked in {checked} ms",
                cycle + 1,
                report.acknowledged
            );
        }
        if !report.wrong.is_empty() {
            // What follows a loss is noise; the data directory of the first one is what counts.
            break;
        }
    }
    report
}

fn prepare(endpoint: &str) {
    let mut wire = Wire::new(endpoint);
    let made = wire.send("POST", "/dbs", &[], br#"{"id":"crash"}"#).expect("the server answers");
    assert_eq!(made.status, 201, "{}", made.text());
    for (_, definition, throughput) in CONTAINERS {
        let headers = [("x-ms-offer-throughput", throughput)];
        let made = wire
            .send("POST", "/dbs/crash/colls", &headers, definition.as_bytes())
            .expect("the server answers");
        assert_eq!(made.status, 201, "{}", made.text());
    }
    group::prepare(&mut wire);
}

/// Lets the writers write for a while, then kills the server under them.
fn write_until_killed(
    server: &mut Server,
    writers: Vec<Writer>,
    groups: Vec<Group>,
    time: Duration,
) -> (Vec<Writer>, Vec<Group>) {
    let stop = Arc::new(AtomicBool::new(false));
    let writers = started(writers, &server.endpoint, &stop, Writer::write);
    let groups = started(groups, &server.endpoint, &stop, Group::write);
    thread::sleep(time);
    server.kill();
    stop.store(true, Ordering::Relaxed);
    (ended(writers), ended(groups))
}

fn started<T: Send + 'static>(
    all: Vec<T>,
    endpoint: &str,
    stop: &Arc<AtomicBool>,
    write: fn(&mut T, &str, &AtomicBool),
) -> Vec<JoinHandle<T>> {
    let start = |mut one: T| {
        let (stop, endpoint) = (Arc::clone(stop), endpoint.to_owned());
        thread::spawn(move || {
            write(&mut one, &endpoint, &stop);
            one
        })
    };
    all.into_iter().map(start).collect()
}

fn ended<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().expect("a writer does not panic")).collect()
}

/// Compares all that is stored with what the writers know.
fn check(endpoint: &str, writers: &mut [Writer], containers: &[&'static str], report: &mut Report) {
    let mut wire = Wire::new(endpoint);
    let mut listed: HashMap<(String, String), Item> = HashMap::new();
    for container in containers {
        match feed(&mut wire, container) {
            Ok(items) => listed.extend(
                items.into_iter().map(|item| (((*container).to_owned(), item.id.clone()), item)),
            ),
            Err(error) => report.wrong.push(format!("the feed of {container}: {error}")),
        }
    }
    Writer::share_lsns(writers);
    let known: usize =
        writers.iter_mut().map(|writer| writer.check(&mut wire, &mut listed, report)).sum();
    if report.wrong.is_empty() && !listed.is_empty() {
        let strangers: Vec<_> = listed.keys().take(3).collect();
        report
            .wrong
            .push(format!("{} items in feeds that nobody wrote: {strangers:?}", listed.len()));
    }
    if report.wrong.is_empty() && known == 0 && report.cycles > 3 {
        report.wrong.push(format!("nothing was written: {:?}", Outcome::Refused));
    }
}
