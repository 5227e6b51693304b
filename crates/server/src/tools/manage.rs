//! Commands to a fleet: pause, resume, seek, reset, dead letters, leases.

use std::time::Duration;

use processor::{AdminError, Start};
use serde_json::Value;

use super::arguments::Arguments;
use super::place;
use super::status::counted;

/// How long a fleet has to let go of its leases.
const SEEK_PATIENCE: Duration = Duration::from_secs(120);

/// Carries one of them out.
pub async fn manage(command: &str, arguments: &Arguments) -> Result<(), String> {
    let site = place::site(arguments)?;
    let fleet = place::builder(arguments, &site).await?.fleet();
    let said = |error: AdminError| error.to_string();
    match command {
        "pause" => {
            fleet.pause().await.map_err(said)?;
            println!("paused: no host calls its handler; leases and positions are kept");
        }
        "resume" => {
            fleet.resume().await.map_err(said)?;
            println!("resumed");
        }
        "seek" => {
            let start: Start = arguments.need("to")?.parse()?;
            let tokens = arguments.get("lease").map(|token| vec![token.to_owned()]);
            let moved = fleet.seek(&start, tokens, SEEK_PATIENCE).await.map_err(said)?;
            println!("{} now begin at: {start}", counted(moved, "lease"));
        }
        "reset" => {
            let removed = fleet.reset().await.map_err(said)?;
            println!("{} removed; the next start makes them anew", counted(removed, "lease"));
        }
        "deadletter list" => {
            arguments.need("dead-letters")?;
            let letters = fleet.letters().await.map_err(said)?;
            for (letter, _) in &letters {
                let error = letter.error.as_deref().unwrap_or("waits behind another of its key");
                println!("{}\t{}\t{}\t{error}", letter.id, letter.key, letter.attempts);
            }
            if letters.is_empty() {
                eprintln!("no dead letters");
            }
        }
        "deadletter redrive" => {
            arguments.need("dead-letters")?;
            let flagged = fleet.redrive(&arguments.words).await.map_err(said)?;
            let letters = counted(flagged, "letter");
            println!("{letters} will be handled again by the hosts that own their ranges");
        }
        "leases export" => {
            let leases = fleet.export().await.map_err(said)?;
            println!("{}", serde_json::to_string_pretty(&leases).unwrap_or_default());
        }
        "leases import" => import(arguments, &fleet).await?,
        other => return Err(format!("'{other}' is no command of the processor")),
    }
    Ok(())
}

async fn import(arguments: &Arguments, fleet: &processor::Fleet) -> Result<(), String> {
    let [path] = arguments.words.as_slice() else {
        return Err("leases import needs one file: a JSON list of lease documents".into());
    };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let leases: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| format!("{path} is not a JSON list of documents: {error}"))?;
    let dry = arguments.flag("dry-run");
    let imported = fleet.import(&leases, dry).await.map_err(|error| error.to_string())?;
    for lease in &imported {
        let position = lease.position().map_or("no position".into(), |start| start.to_string());
        println!("{}\t{position}", lease.token);
    }
    let done = if dry { "would be" } else { "were" };
    println!("{} {done} imported", counted(imported.len(), "lease"));
    Ok(())
}
