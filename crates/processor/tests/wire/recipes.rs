//! The recipes of the documents, as people would run them.

#[path = "../../examples/leaderboard.rs"]
mod leaderboard;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use client::Throughput;
use conformance::WELL_KNOWN_KEY;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::support::{Home, Sink, binary, eventually, from_beginning};

const STOP: Duration = Duration::from_secs(20);

pub fn astrarium(home: &Home, words: &[&str]) -> Command {
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

/// Items are written, changed and deleted while they are copied, some move to another key of the
/// copy, and the copy is interrupted; after the cut-over both containers have the same items.
#[tokio::test]
async fn replicate_while_items_change_and_go() {
    let home = Home::new(2).await;
    let database = home.container.client().database("d");
    let copy =
        database.ensure_container("copy", "/city", Throughput::Manual(10_000)).await.unwrap();
    let put = async |n: u64, round: u64| {
        let (id, key) = (format!("i{n}"), format!("key-{}", n % 8));
        // The key of the copy changes with the rounds for a third of the items.
        let city = if n.is_multiple_of(3) { format!("city-{round}") } else { "city".into() };
        let item = json!({"id": id, "pk": key, "city": city, "round": round});
        home.container.upsert_item(key, item, Default::default()).await.unwrap();
    };
    let remove = async |n: u64| {
        let (id, key) = (format!("i{n}"), format!("key-{}", n % 8));
        home.container.delete_item(key, &id, Default::default()).await.unwrap();
    };
    for n in 0..60 {
        put(n, 0).await;
    }
    let words = ["replicate", "--to-container", "copy", "--from", "beginning"];
    let mut copying = astrarium(&home, &words).stderr(std::process::Stdio::null()).spawn().unwrap();
    for round in 1..4 {
        for n in 0..60 {
            put(n, round).await;
        }
        for n in (round..60).step_by(7) {
            remove(n).await;
        }
        if round == 2 {
            // Interrupted without warning, begun again.
            copying.kill().unwrap();
            copying.wait().unwrap();
            copying = astrarium(&home, &words).stderr(std::process::Stdio::null()).spawn().unwrap();
        }
    }
    copying.kill().unwrap();
    copying.wait().unwrap();
    // The writers have stopped; the last thing they did was a delete.
    remove(0).await;
    let words = ["replicate", "--to-container", "copy", "--until-caught-up"];
    let done = astrarium(&home, &words).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let facts = async |container| {
        let mut facts: Vec<String> = home
            .all_documents(container)
            .await
            .iter()
            .map(|item| format!("{} {} {} {}", item["id"], item["pk"], item["city"], item["round"]))
            .collect();
        facts.sort();
        facts
    };
    assert_eq!(facts(&copy).await, facts(&home.container).await);
}

/// The copy of a container into itself, and items that would become one, are refused.
#[tokio::test]
async fn replicate_overwrites_nothing() {
    let home = Home::new(1).await;
    let itself = astrarium(&home, &["replicate", "--to-container", "c"]).output().unwrap();
    assert!(String::from_utf8_lossy(&itself.stderr).contains("cannot be the container itself"));
    let database = home.container.client().database("d");
    let copy = database.ensure_container("copy", "/id", Throughput::Unsaid).await.unwrap();
    home.put("same", "one").await;
    home.put("same", "two").await;
    let words = ["replicate", "--to-container", "copy", "--on-failure", "stop", "--attempts", "1"];
    let done = astrarium(&home, &words).output().unwrap();
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("two items would become one"), "{said}");
    assert_eq!(home.all_documents(&copy).await.len(), 1);
}

/// Answers one POST, and tells the ids it was given.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, status: &str) -> Vec<String> {
    let mut text = Vec::new();
    let body = loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the request ends early");
        text.extend_from_slice(&part[..read]);
        let all = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap();
        if body.len() == length.lines().next().unwrap().trim().parse::<usize>().unwrap() {
            break body.to_owned();
        }
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    let _ = stream.shutdown().await;
    let id = |line: &str| {
        let item: Value = serde_json::from_str(line).unwrap();
        item["id"].as_str().unwrap().to_owned()
    };
    body.lines().map(id).collect()
}

/// Starts a host that posts to an API, which refuses the first call. Both calls bring the same item.
async fn check_post(home: &Home, url: &str, more: &[&str], api: impl AsyncFn(&str) -> Vec<String>) {
    home.put("x", "k").await;
    let words = ["processor", "run", "--post", url, "--instance", "a", "--from", "beginning"];
    let mut host = astrarium(home, &[&words[..], more].concat());
    let mut host = host.stderr(std::process::Stdio::null()).spawn().unwrap();
    for status in ["503 Busy", "204 Done"] {
        let called = tokio::time::timeout(STOP, api(status)).await.unwrap();
        assert_eq!(called, ["x"], "the same batch again");
    }
    host.kill().unwrap();
    host.wait().unwrap();
}

/// 2: an HTTP API is called for each change; what it refuses comes again.
#[tokio::test]
async fn call_an_http_api_on_each_change() {
    let home = Home::new(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/changes", listener.local_addr().unwrap());
    let api = async |status: &str| answer(listener.accept().await.unwrap().0, status).await;
    check_post(&home, &url, &[], api).await;
}

/// The same over https, with an authority of one's own; a certificate that nobody vouches for is
/// refused, and the change comes again until somebody does.
#[tokio::test]
async fn call_an_https_api_on_each_change() {
    let home = Home::new(1).await;
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/changes", listener.local_addr().unwrap().port());
    let pem = home.scratch.path().join("authority.pem");
    std::fs::write(&pem, own.cert.pem()).unwrap();
    let api = async |status: &str| {
        let tcp = listener.accept().await.unwrap().0;
        answer(acceptor.accept(tcp).await.unwrap(), status).await
    };
    check_post(&home, &url, &["--trust", pem.to_str().unwrap()], api).await;

    let words = ["processor", "run", "--post", &url, "--name", "wary", "--from", "beginning"];
    let stops = ["--on-failure", "stop", "--attempts", "1"];
    let wary = astrarium(&home, &[&words[..], &stops].concat());
    let mut wary = tokio::process::Command::from(wary);
    let wary = wary.stderr(std::process::Stdio::piped()).output();
    let refused = async { acceptor.accept(listener.accept().await.unwrap().0).await.is_err() };
    let (said, refused) = tokio::join!(wary, refused);
    let said = String::from_utf8_lossy(&said.unwrap().stderr).into_owned();
    assert!(refused && said.contains("certificate"), "{said}");
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
// Commands block this thread, and the host must go on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    assert!(say(&["status"]).1.contains("2 leases, 1 host,"));
    assert!(say(&["pause"]).0);
    assert!(say(&["status"]).1.contains("PAUSED"));
    assert!(say(&["resume"]).0);
    let (worked, text) = say(&["seek", "--to", "beginning"]);
    assert!(worked && text.contains("2 leases now begin at: beginning"), "{text}");
    sink.until("everything comes again", |seen| seen.len() == 20).await;
    let (worked, text) = say(&["leases", "export"]);
    let exported: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(worked && exported.len() == 2);
    assert!(say(&["reset"]).1.contains("stop the fleet first"));
    processor.stop(STOP).await;
    let (_, removed) = say(&["reset"]);
    assert!(removed.contains("2 leases removed"), "{removed}");
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
