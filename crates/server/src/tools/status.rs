//! `processor status`: who has what, and how far behind it is.

use std::fmt::Write as _;
use std::time::Duration;

use processor::{State, Status};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::{place, run};

const REFRESH: Duration = Duration::from_secs(2);

/// Prints once, or again and again until a signal.
pub async fn status(arguments: &Arguments) -> Result<(), String> {
    let site = place::site(arguments)?;
    let fleet = place::builder(arguments, &site).await?.fleet();
    let mut signals = run::Signals::listen();
    loop {
        let status = fleet.status().await.map_err(|error| error.to_string())?;
        let text = if arguments.flag("json") {
            format!("{}\n", as_json(&status))
        } else {
            as_table(&status)
        };
        if !arguments.flag("watch") {
            print!("{text}");
            return Ok(());
        }
        // Home, then clear what is left below.
        print!("\x1b[H\x1b[2J{text}");
        tokio::select! {
            () = signals.wait() => return Ok(()),
            () = tokio::time::sleep(REFRESH) => {}
        }
    }
}

fn as_json(status: &Status) -> Value {
    let leases: Vec<Value> = status
        .estimates
        .iter()
        .map(|each| {
            json!({
                "lease": each.lease, "owner": each.owner, "commits": each.commits,
                "items": each.items, "seconds": each.seconds, "error": each.error,
            })
        })
        .collect();
    let hosts: Vec<Value> = status
        .members
        .iter()
        .map(|member| json!({"instance": member.instance, "state": member.state, "beat": member.beat}))
        .collect();
    json!({
        "paused": status.control.paused, "seeking": status.control.seek.is_some(),
        "hosts": hosts, "leases": leases, "deadLetters": status.letters,
    })
}

fn as_table(status: &Status) -> String {
    let mut text = String::new();
    let up = status.members.iter().filter(|member| member.state == State::Up).count();
    let paused = if status.control.paused { ", paused" } else { "" };
    let seeking = if status.control.seek.is_some() { ", seeking" } else { "" };
    let _ = writeln!(
        text,
        "{} leases, {up} hosts, {} dead letters{paused}{seeking}",
        status.leases.len(),
        status.letters
    );
    let width = |column: fn(&processor::estimate::Estimate) -> usize, title: &str| {
        status.estimates.iter().map(column).max().unwrap_or(0).max(title.len())
    };
    let (first, second) = (
        width(|each| each.lease.len(), "lease"),
        width(|each| each.owner.as_deref().unwrap_or("-").len(), "owner"),
    );
    let _ = writeln!(
        text,
        "{:first$}  {:second$}  {:>10}  {:>10}",
        "lease", "owner", "items", "seconds"
    );
    for each in &status.estimates {
        let owner = each.owner.as_deref().unwrap_or("-");
        let items = each.items.map_or("?".into(), |items| items.to_string());
        let seconds = each.seconds.map_or("?".into(), |seconds| format!("{seconds:.1}"));
        let error = each.error.as_deref().unwrap_or("");
        let _ = writeln!(
            text,
            "{:first$}  {owner:second$}  {items:>10}  {seconds:>10}  {error}",
            each.lease
        );
    }
    text
}
