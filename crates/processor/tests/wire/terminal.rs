//! The commands as a person uses them: dead letters, what status shows, and what is said of mistakes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use conformance::WELL_KNOWN_KEY;
use serde_json::Value;

use crate::recipes::astrarium;
use crate::support::{Home, Sink, binary, eventually, from_beginning};

const STOP: Duration = Duration::from_secs(20);

/// A command's success, and what it says.
fn said(mut command: Command) -> (bool, String) {
    let done = command.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A command fails for one item; that is set aside, shown, and handled again when it works.
#[tokio::test]
async fn dead_letters_are_shown_and_redriven() {
    let home = Home::new(1).await;
    let cured = home.scratch.path().join("cured");
    let line = format!("test -e {} || ! grep -q poison", cured.display());
    let common = ["--name", "letters", "--dead-letters", "dead"];
    let words = ["processor", "run", "--exec", &line, "--on-failure", "dead-letter"];
    let mut run = astrarium(&home, &words);
    run.args(common).args(["--attempts", "1", "--from", "beginning"]);
    let mut host = run.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(host.stderr.take().unwrap()).lines();
    assert!(told.any(|line| line.unwrap().contains("processing")));
    let draining = std::thread::spawn(move || told.map_while(Result::ok).collect::<Vec<_>>());
    home.put("good", "k").await;
    home.put("poison", "k").await;
    home.put("better", "k").await;
    eventually("a letter", || async { home.all_documents(&home.dead).await.len() == 1 }).await;
    let letters = |words: &[&str]| {
        let words = [&["processor", "deadletter"], words, &common].concat();
        said(astrarium(&home, &words))
    };
    let (worked, text) = letters(&["list"]);
    assert!(worked && text.contains("the command ended with"), "{text}");
    assert!(
        said(astrarium(&home, &[&["processor", "status"][..], &common].concat()))
            .1
            .contains("1 dead letter")
    );
    std::fs::write(&cured, "").unwrap();
    let (worked, text) = letters(&["redrive"]);
    assert!(worked && text.contains("1 letter"), "{text}");
    eventually("no letter", || async { home.all_documents(&home.dead).await.is_empty() }).await;
    assert!(letters(&["list"]).1.contains("no dead letters"));
    let unnamed = ["processor", "deadletter", "list", "--name", "letters"];
    let (worked, text) = said(astrarium(&home, &unnamed));
    assert!(!worked && text.contains("--dead-letters is missing"), "{text}");
    let (worked, text) = said(astrarium(&home, &["processor", "deadletter"]));
    assert!(!worked && text.contains("deadletter list, or"), "{text}");
    Command::new("kill").args(["-TERM", &host.id().to_string()]).status().unwrap();
    assert!(host.wait().unwrap().success());
    let told = draining.join().unwrap();
    assert!(told.iter().any(|line| line.contains("set aside")), "{told:?}");
}

/// An endpoint that nobody listens at is spoken of long before it is given up.
#[test]
fn an_endpoint_that_does_not_answer_is_spoken_of() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut command = Command::new(binary());
    command.args(["processor", "status", "--database", "d", "--container", "c"]);
    command.args(["--endpoint", &endpoint, "--key", WELL_KNOWN_KEY]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = told.next().unwrap().unwrap();
    let has_ended = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first.contains(&endpoint) && first.contains("does not answer"), "{first}");
    assert!(!has_ended, "it was given up");
}

/// Status shows hosts, who has which lease, how often it moved, and how far behind it is; again and
/// again if asked to.
#[tokio::test]
async fn status_shows_ranges_owners_lag_and_moves() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("worker-1"), &sink).await;
    home.fill("x", 10).await;
    sink.until_count(10).await;
    let (worked, text) = said(astrarium(&home, &["processor", "status", "--name", "test"]));
    assert!(worked && text.contains("2 leases, 1 host, 0 dead letters"), "{text}");
    for word in ["lease", "owner", "items", "seconds", "moves", "worker-1"] {
        assert!(text.contains(word), "no '{word}' in {text}");
    }
    let words = ["processor", "status", "--name", "test", "--json"];
    let json: Value = serde_json::from_str(&said(astrarium(&home, &words)).1).unwrap();
    assert_eq!(json["hosts"][0]["leases"], 2);
    assert!(json["leases"][0]["moves"].as_u64().unwrap() >= 1, "{json}");
    let words = ["processor", "status", "--name", "test", "--watch"];
    let mut live = astrarium(&home, &words).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = live.stdout.take().unwrap();
    let (mut all, mut part) = (String::new(), [0; 4096]);
    while all.matches("2 leases").count() < 2 {
        let length = shown.read(&mut part).unwrap();
        assert!(length > 0, "it ended: {all}");
        all.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    Command::new("kill").args(["-INT", &live.id().to_string()]).status().unwrap();
    assert!(live.wait().unwrap().success());
    processor.stop(STOP).await;
}

/// What is wrong is said in one line, and the command fails.
#[tokio::test]
async fn mistakes_are_told_in_a_line() {
    let home = Home::new(1).await;
    let status = |endpoint: &str, key: &str, container: &str, leases: &str| {
        let mut command = Command::new(binary());
        command.args(["processor", "status", "--endpoint", endpoint, "--key", key]);
        command.args(["--database", "d", "--container", container, "--leases", leases]);
        said(command)
    };
    let endpoint = home.server.endpoint.as_str();
    for (place, expected) in [
        ((endpoint, WELL_KNOWN_KEY, "nowhere", "leases"), "d/nowhere does not exist"),
        (
            (endpoint, WELL_KNOWN_KEY, "c", "nowhere"),
            "the lease container d/nowhere does not exist",
        ),
        ((endpoint, WELL_KNOWN_KEY, "c", "c"), "it must be by /id or /partitionKey"),
        ((endpoint, "d3Jvbmc=", "c", "leases"), "401"),
        ((endpoint, "not a key", "c", "leases"), "key"),
        (("http://127.0.0.1:1", WELL_KNOWN_KEY, "c", "leases"), "127.0.0.1:1"),
        (("127.0.0.1", WELL_KNOWN_KEY, "c", "leases"), "http"),
    ] {
        let (worked, text) = status(place.0, place.1, place.2, place.3);
        assert!(!worked && text.contains(expected), "{place:?}: {text}");
        // But for what is said while an endpoint is silent.
        let lines = text.trim().lines().filter(|line| !line.contains("it is tried again"));
        assert!(lines.count() == 1 && text.len() < 600, "{text}");
    }
}
