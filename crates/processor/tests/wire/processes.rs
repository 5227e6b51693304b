//! Hosts as processes of their own: killed, stopped and continued, restarted one after another.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use conformance::WELL_KNOWN_KEY;
use serde_json::Value;

use crate::support::{Home, binary, eventually};

/// A host that writes what it is given to a file.
struct Process {
    child: Child,
}

impl Process {
    fn start(home: &Home, name: &str) -> Self {
        let file = file(home.scratch.path(), name);
        let command = format!("cat >> {}", file.display());
        let child = Command::new(binary())
            .args([
                "processor",
                "run",
                "--endpoint",
                &home.server.endpoint,
                "--key",
                WELL_KNOWN_KEY,
            ])
            .args(["--database", "d", "--container", "c", "--name", "test", "--instance", name])
            .args(["--from", "beginning", "--max-items", "5", "--exec", &command])
            .args(["--renew", "0.5", "--expire", "3", "--acquire", "0.5", "--poll", "0.2"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Self { child };
        process.await_start();
        process
    }

    /// Waits until it says that it works; what it says later is read and forgotten.
    fn await_start(&mut self) {
        let mut said = BufReader::new(self.child.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("processing")), "it did not start");
        std::thread::spawn(move || said.for_each(drop));
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Asks it to stop, and waits until it has.
    fn stop(mut self) {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.jsonl"))
}

/// How often each item was handed over, by any of the hosts.
fn handed(home: &Home, names: &[&str]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for name in names {
        let text = std::fs::read_to_string(file(home.scratch.path(), name)).unwrap_or_default();
        for line in text.lines() {
            // The last line may be half written.
            if let Ok(item) = serde_json::from_str::<Value>(line) {
                *counts.entry(item["id"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    counts
}

/// 41: killed without warning: another host goes on, what comes twice is what was in hand.
#[tokio::test]
async fn kill_9_loses_nothing() {
    let home = Home::new(2).await;
    let mut first = Process::start(&home, "a");
    home.fill("x", 60).await;
    eventually("the first works", || async { handed(&home, &["a"]).len() >= 20 }).await;
    first.child.kill().unwrap();
    let second = Process::start(&home, "b");
    home.fill("y", 20).await;
    eventually("all was handed over", || async { handed(&home, &["a", "b"]).len() == 80 }).await;
    let twice = handed(&home, &["a", "b"]).values().filter(|times| **times > 1).count();
    // Two ranges, at most three pages of five read ahead and one not yet saved.
    assert!(twice <= 2 * 4 * 5, "{twice} items came twice");
    second.stop();
}

/// A fleet whose hosts were all killed can be reset, once they count as dead.
#[tokio::test]
async fn a_fleet_that_was_killed_can_be_reset() {
    let home = Home::new(2).await;
    let mut host = Process::start(&home, "a");
    home.fill("x", 20).await;
    eventually("it works", || async { handed(&home, &["a"]).len() == 20 }).await;
    let fleet = home.fleet().await;
    let refused = fleet.reset().await.unwrap_err().to_string();
    assert!(refused.contains("stop the fleet first"), "{refused}");
    host.child.kill().unwrap();
    assert_eq!(fleet.reset().await.unwrap(), 2);
}

/// 30: stopped for longer than its leases last, then continued: it does not take them back, and
/// what it had in hand does not land.
#[tokio::test]
async fn sigstop_beyond_the_lease() {
    let home = Home::new(1).await;
    let first = Process::start(&home, "a");
    home.fill("x", 20).await;
    eventually("the first works", || async { handed(&home, &["a"]).len() == 20 }).await;
    first.signal("STOP");
    let second = Process::start(&home, "b");
    home.fill("y", 20).await;
    eventually("the second has taken over", || async { handed(&home, &["a", "b"]).len() == 40 })
        .await;
    let saved = || async {
        let lease = home.lease_documents().await.remove(0);
        lease["ContinuationToken"].as_str().unwrap().trim_matches('"').parse::<u64>().unwrap()
    };
    eventually("it has saved", || async { saved().await > 0 }).await;
    let before = saved().await;
    first.signal("CONT");
    home.fill("z", 20).await;
    eventually("all was handed over", || async { handed(&home, &["a", "b"]).len() == 60 }).await;
    assert!(saved().await >= before, "a position went back");
    let twice = handed(&home, &["a", "b"]).values().filter(|times| **times > 1).count();
    assert!(twice <= 20, "{twice} items came twice");
    second.stop();
    first.stop();
}

/// Four hosts, restarted one after another in good order, under load: nothing is lost and nothing
/// comes twice.
#[tokio::test]
async fn rolling_restart_of_four() {
    let home = Home::new(4).await;
    let names = ["a", "b", "c", "d"];
    let mut hosts: Vec<Process> = names.iter().map(|name| Process::start(&home, name)).collect();
    home.fill("start", 20).await;
    eventually("they work", || async { handed(&home, &names).len() == 20 }).await;
    for (place, name) in names.iter().enumerate() {
        home.fill(&format!("before-{name}-"), 10).await;
        hosts.remove(0).stop();
        home.fill(&format!("after-{name}-"), 10).await;
        hosts.push(Process::start(&home, names[place]));
    }
    eventually("all was handed over", || async { handed(&home, &names).len() == 100 }).await;
    hosts.into_iter().for_each(Process::stop);
    let twice: Vec<String> = handed(&home, &names)
        .into_iter()
        .filter(|(_, times)| *times > 1)
        .map(|(id, _)| id)
        .collect();
    assert_eq!(twice, Vec::<String>::new(), "planned moves repeat nothing");
}
