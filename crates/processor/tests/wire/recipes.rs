//! The recipes of the documents, as people would run them.

#[path = "../../examples/leaderboard.rs"]
mod leaderboard;

use std::process::Command;
use std::time::Duration;

use client::Throughput;
use conformance::WELL_KNOWN_KEY;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::support::{Home, Sink, binary, eventually, from_beginning};

const STOP: Duration = Duration::from_secs(20);

fn astrarium(home: &Home, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(words).args(["--endpoint", &home.server.endpoint, "--key", WELL_KNOWN_KEY]);
    command.args(["--database", "d", "--container", "c"]);
    command.args(["--renew", "0.5", "--expire", "3", "--acquire", "0.5", "--poll", "0.2"]);
    command
}

/// 1: a copy with another partition key, made while writes go on; interrupted and continued.
#[tokio::test]
async fn replicate_into_another_partition_key() {
    let home = Home::new(2).await;
    let database = home.container.client().database("d");
    let copy = database.ensure_container("copy", "/id", Throughput::Manual(10_000)).await.unwrap();
    home.fill("before", 30).await;
    let replicate = |home: &Home| {
        let mut command =
            astrarium(home, &["replicate", "--to-container", "copy", "--until-caught-up"]);
        command.output().unwrap()
    };
    let done = replicate(&home);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(home.all_documents(&copy).await.len(), 30);
    home.fill("after", 30).await;
    let done = replicate(&home);
    assert!(String::from_utf8_lossy(&done.stdout).contains("30 changes copied"), "{done:?}");
    assert_eq!(home.all_documents(&copy).await.len(), 60);
}

/// 2: an HTTP API is called for each change; what it refuses comes again.
#[tokio::test]
async fn call_an_http_api_on_each_change() {
    let home = Home::new(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/changes", listener.local_addr().unwrap());
    let (given, mut taken) = mpsc::unbounded_channel();
    let api = tokio::spawn(async move {
        for call in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = Vec::new();
            let body = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.unwrap();
                text.extend_from_slice(&part[..read]);
                let all = String::from_utf8_lossy(&text).into_owned();
                let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
                let length = head.to_lowercase();
                let length = length.split("content-length: ").nth(1).unwrap();
                if body.len() == length.lines().next().unwrap().trim().parse::<usize>().unwrap() {
                    break body.to_owned();
                }
            };
            let status = if call == 0 { "503 Busy" } else { "204 Done" };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            let ids = body.lines().map(|line| {
                let item: Value = serde_json::from_str(line).unwrap();
                item["id"].as_str().unwrap().to_owned()
            });
            let _ = given.send((call > 0, ids.collect::<Vec<String>>()));
        }
    });
    home.put("x", "k").await;
    let words = ["processor", "run", "--post", &url, "--instance", "a", "--from", "beginning"];
    let mut host = astrarium(&home, &words).stderr(std::process::Stdio::null()).spawn().unwrap();
    let first = tokio::time::timeout(STOP, taken.recv()).await.unwrap();
    assert_eq!(first, Some((false, vec!["x".to_owned()])));
    let second = tokio::time::timeout(STOP, taken.recv()).await.unwrap();
    assert_eq!(second, Some((true, vec!["x".to_owned()])), "the same batch again");
    host.kill().unwrap();
    host.wait().unwrap();
    api.abort();
}

/// 3: a leaderboard kept from game scores.
#[tokio::test]
async fn leaderboard_kept_from_scores() {
    let home = Home::new(1).await;
    let database = home.container.client().database("d");
    let leaders = database.ensure_container("leaders", "/id", Throughput::Unsaid).await.unwrap();
    let leases = home.site.beside("d", "leases");
    let mut processor = leaderboard::keep(&home.site, leaders.clone(), &leases).await.unwrap();
    for (n, (player, points)) in [("ada", 3), ("bob", 9), ("ada", 7), ("bob", 2)].iter().enumerate()
    {
        let score = json!({"id": n.to_string(), "pk": "s", "player": player, "points": points});
        home.container.create_item("s", score, Default::default()).await.unwrap();
    }
    eventually("both have their best", || async {
        let mut best: Vec<(String, u64)> = home
            .all_documents(&leaders)
            .await
            .iter()
            .map(|leader| {
                (leader["id"].as_str().unwrap().to_owned(), leader["best"].as_u64().unwrap())
            })
            .collect();
        best.sort();
        best == [("ada".to_owned(), 7), ("bob".to_owned(), 9)]
    })
    .await;
    processor.stop(STOP).await;
}

/// 4: two processors share one lease container: each sees every change.
#[tokio::test]
async fn two_functions_one_feed() {
    let home = Home::new(2).await;
    let (mail, audit) = (Sink::new(), Sink::new());
    let named = |prefix: &str| {
        let options = from_beginning("host");
        processor::Options { lease_prefix: prefix.into(), ..options }
    };
    let mut first = home.start(named("mail"), &mail).await;
    let mut second = home.start(named("audit"), &audit).await;
    home.fill("x", 20).await;
    mail.until_count(20).await;
    audit.until_count(20).await;
    first.stop(STOP).await;
    second.stop(STOP).await;
    assert_eq!((mail.ids().len(), audit.ids().len()), (20, 20));
}

/// The commands that look at a fleet and tell it what to do.
#[tokio::test]
async fn a_fleet_is_managed_from_the_terminal() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.fill("x", 10).await;
    sink.until_count(10).await;
    let say = |words: &[&str]| {
        let words = [&["processor"], words, &["--name", "test"]].concat();
        let done = astrarium(&home, &words).output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        (done.status.success(), format!("{out}{err}"))
    };
    let (worked, text) = say(&["status", "--json"]);
    assert!(worked, "{text}");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["leases"].as_array().unwrap().len(), 2);
    assert!(say(&["status"]).1.contains("2 leases, 1 hosts"));
    assert!(say(&["pause"]).0);
    assert!(say(&["status"]).1.contains("paused"));
    assert!(say(&["resume"]).0);
    let (worked, text) = say(&["seek", "--to", "beginning"]);
    assert!(worked && text.contains("2 leases now begin at: beginning"), "{text}");
    sink.until("everything comes again", |seen| seen.len() == 20).await;
    let (worked, text) = say(&["leases", "export"]);
    let exported: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(worked && exported.len() == 2);
    assert!(say(&["reset"]).1.contains("stop the fleet first"));
    processor.stop(STOP).await;
    assert!(say(&["reset"]).1.contains("2 leases were removed"));
    let file = home.scratch.path().join("leases.json");
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    assert!(say(&["leases", "import", path, "--dry-run"]).1.contains("would be imported"));
    assert!(say(&["leases", "import", path]).1.contains("2 leases were imported"));
    for (words, wrong) in [
        (&["seek", "--to", "sometime"][..], "is not a position"),
        (&["juggle"][..], "no command of the processor"),
        (&["run"][..], "--exec COMMAND or --post URL"),
        (&["status", "--wrong"][..], "--wrong is not known"),
        (&["leases", "import", "/nowhere.json"][..], "/nowhere.json"),
    ] {
        let (worked, text) = say(words);
        assert!(!worked && text.contains(wrong), "{text}");
    }
}

/// Ranges are split and merged from the command line, and listed as they are then.
#[tokio::test]
async fn ranges_are_split_and_merged_by_hand() {
    let home = Home::new(1).await;
    home.fill("item", 30).await;
    let ids = |words: &[&str]| {
        let done = astrarium(&home, words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let shown = String::from_utf8_lossy(&done.stdout).into_owned();
        let ids = shown.lines().filter_map(|line| line.split('\t').next().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&["ranges", "list"]), ["0"]);
    assert_eq!(ids(&["ranges", "split", "0"]), ["1", "2"]);
    assert_eq!(ids(&["ranges", "merge", "1", "2"]), ["3"]);
    assert_eq!(home.all_documents(&home.container).await.len(), 30);
    let wrong = astrarium(&home, &["ranges", "split", "0"]).output().unwrap();
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("range"), "{wrong:?}");
}
