//! `processor status`: who has what, and how far behind it is.

use std::fmt::Write as _;
use std::time::Duration;

use processor::lease::{Lease, Owner};
use processor::{Member, State, Status};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::{place, run};

const REFRESH: Duration = Duration::from_secs(2);
/// A host that has not written for so long is shown as silent.
const SILENT_SECONDS: u64 = 60;

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
        print!("\x1b[H\x1b[2J{text}\nevery {} s; ctrl-c ends\n", REFRESH.as_secs());
        tokio::select! {
            () = signals.wait() => return Ok(()),
            () = tokio::time::sleep(REFRESH) => {}
        }
    }
}

/// Leases of a host, by its instance name.
fn leases_of(status: &Status, instance: &str) -> usize {
    let is_theirs = |lease: &&Lease| {
        let owner = lease.owner.as_deref().and_then(|owner| owner.parse::<Owner>().ok());
        owner.is_some_and(|owner| owner.name == instance)
    };
    status.leases.iter().filter(is_theirs).count()
}

/// How often a lease has changed hands.
fn moves(status: &Status, token: &str) -> u64 {
    status.leases.iter().find(|lease| lease.token == token).map_or(0, Lease::epoch)
}

/// What a host says of itself, unless it has not said anything for long.
fn state(status: &Status, member: &Member) -> &'static str {
    let silent = status.silent.get(&member.instance).copied().unwrap_or(0);
    match member.state {
        State::Up | State::Leaving if silent > SILENT_SECONDS => "silent",
        State::Up => "up",
        State::Leaving => "leaving",
        State::Away => "away",
        State::Left => "left",
    }
}

fn as_json(status: &Status) -> Value {
    let leases: Vec<Value> = status
        .estimates
        .iter()
        .map(|each| {
            json!({
                "lease": each.lease, "owner": each.owner, "moves": moves(status, &each.lease),
                "commits": each.commits, "items": each.items, "seconds": each.seconds,
                "error": each.error,
            })
        })
        .collect();
    let hosts: Vec<Value> = status
        .members
        .iter()
        .map(|member| {
            json!({
                "instance": member.instance, "state": state(status, member), "beat": member.beat,
                "leases": leases_of(status, &member.instance),
                "silentSeconds": status.silent.get(&member.instance),
            })
        })
        .collect();
    json!({
        "paused": status.control.paused, "seeking": status.control.seek.is_some(),
        "hosts": hosts, "leases": leases, "deadLetters": status.letters,
    })
}

fn as_table(status: &Status) -> String {
    let mut text = String::new();
    let is_here = |member: &&Member| matches!(state(status, member), "up" | "leaving");
    let here: Vec<&Member> = status.members.iter().filter(is_here).collect();
    let paused = if status.control.paused { ", PAUSED" } else { "" };
    let seeking = if status.control.seek.is_some() { ", SEEKING" } else { "" };
    let _ = writeln!(
        text,
        "{}, {}, {}{paused}{seeking}",
        counted(status.leases.len(), "lease"),
        counted(here.len(), "host"),
        counted(status.letters, "dead letter"),
    );
    if status.leases.is_empty() {
        text.push_str("nothing was started under this name yet\n");
        return text;
    }
    let hosts = status.members.iter().filter(|member| member.state != State::Left).map(|member| {
        let silent = status.silent.get(&member.instance);
        vec![
            member.instance.clone(),
            state(status, member).to_owned(),
            leases_of(status, &member.instance).to_string(),
            silent.map_or("?".into(), |seconds| format!("{seconds} s ago")),
        ]
    });
    text.push('\n');
    text.push_str(&table(&["host", "<state", "leases", "seen"], hosts.collect()));
    let leases = status.estimates.iter().map(|each| {
        let owner = each.owner.as_deref().unwrap_or("-");
        let owner = owner.parse::<Owner>().map_or(owner.to_owned(), |owner| owner.name);
        vec![
            each.lease.clone(),
            owner,
            each.items.map_or("?".into(), |items| items.to_string()),
            each.seconds.map_or("?".into(), |seconds| format!("{seconds:.1}")),
            moves(status, &each.lease).to_string(),
            each.error.clone().unwrap_or_default(),
        ]
    });
    text.push('\n');
    let titles = ["lease", "<owner", "items", "seconds", "moves", "<"];
    text.push_str(&table(&titles, leases.collect()));
    text
}

/// Rows under titles. The first column, and those marked so, are flush left.
fn table(titles: &[&str], rows: Vec<Vec<String>>) -> String {
    let is_left = |n: usize| n == 0 || titles[n].starts_with('<');
    let title = |n: usize| titles[n].trim_start_matches('<').to_owned();
    let head: Vec<String> = (0..titles.len()).map(title).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..titles.len())
        .map(|n| all.iter().map(|row| row[n].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, &width))| {
            if is_left(n) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// `1 lease`, `2 leases`.
pub fn counted(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = vec![vec!["0".into(), "worker-1".into(), "12".into(), String::new()]];
        let shown = table(&["lease", "<owner", "items", "<"], rows);
        assert_eq!(shown, "lease  owner     items\n0      worker-1     12\n");
        assert_eq!((counted(1, "host"), counted(0, "host")), ("1 host".into(), "0 hosts".into()));
    }
}
