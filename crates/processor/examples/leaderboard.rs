//! A leaderboard kept from game scores: a container of scores in, one document per player out.
//!
//! The handler reads a player's best, and writes a better one under the etag it has read, so that
//! a change that comes twice, or two hosts at once, cannot spoil it.
//!
//! ```text
//! cargo run -p astrarium-processor --example leaderboard -- http://127.0.0.1:8081 <key> games scores leaders leases
//! ```

use client::{Condition, Container, Credential, ItemOptions, Kind};
use processor::{Builder, Change, HandlerError, Options, Processor, Site};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct Score {
    player: String,
    points: u64,
}

/// A running processor that keeps `leaders` (partitioned by `/id`, the player) from `scores`.
pub async fn keep(
    scores: &Site,
    leaders: Container,
    leases: &Site,
) -> Result<Processor, HandlerError> {
    let options = Options {
        instance_name: format!("leaderboard-{}", std::process::id()),
        lease_prefix: "leaderboard".into(),
        start_from_beginning: true,
        lanes: 16,
        ..Options::brisk()
    };
    let mut processor = Builder::connect(scores, leases)
        .await?
        .options(options)
        .handler(move |_, changes| {
            let leaders = leaders.clone();
            async move {
                for change in &changes {
                    count(&leaders, change).await?;
                }
                Ok(())
            }
        })
        .build()?;
    processor.start().await?;
    Ok(processor)
}

async fn count(leaders: &Container, change: &Change) -> Result<(), HandlerError> {
    let score: Score = change.parse()?;
    loop {
        let found = leaders.read_item(&*score.player, &score.player, ItemOptions::default()).await;
        let (best, condition) = match &found {
            Ok(answer) => {
                let leader: Value = answer.parse()?;
                let etag = answer.etag().unwrap_or_default().to_owned();
                (leader["best"].as_u64().unwrap_or(0), Condition::IfMatch(etag))
            }
            Err(error) if error.kind() == Kind::NotFound => (0, Condition::Always),
            Err(error) => return Err(error.clone().into()),
        };
        if found.is_ok() && best >= score.points {
            return Ok(());
        }
        let leader = json!({"id": score.player, "best": score.points});
        let options = ItemOptions { condition, ..ItemOptions::default() };
        let written = if found.is_ok() {
            leaders.replace_item(&*score.player, &score.player, leader, options).await
        } else {
            leaders.create_item(&*score.player, leader, options).await
        };
        match written {
            Ok(_) => return Ok(()),
            // Somebody else was faster; perhaps theirs is better.
            Err(error) if matches!(error.kind(), Kind::PreconditionFailed | Kind::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[tokio::main]
#[allow(dead_code, reason = "the tests call `keep` alone")]
async fn main() -> Result<(), HandlerError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, key, database, scores, leaders, leases] = words.as_slice() else {
        return Err("leaderboard ENDPOINT KEY DATABASE SCORES LEADERS LEASES".into());
    };
    let scores = Site::new(endpoint, Credential::key(key)?, Default::default(), database, scores)?;
    let leaders = scores.beside(database, leaders).handle()?;
    let processor = keep(&scores, leaders, &scores.beside(database, leases)).await?;
    let report = processor.ended().await;
    report.error.map_or(Ok(()), |error| Err(error.into()))
}
