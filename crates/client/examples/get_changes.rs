//! All changes of a container, range by range, with a checkpoint for each range.
//!
//! ```console
//! $ ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… cargo run --example get_changes -- shop orders
//! ```
//!
//! Each range can be given to another thread or machine. A checkpoint belongs to a part of the key
//! space, not to the id of a range, so it holds when ranges are split or merged.

use std::collections::BTreeMap;
use std::error::Error;

use client::{ChangeFeedOptions, Container};
use serde::Deserialize;

#[path = "common/settings.rs"]
mod settings;

/// How far a reader has come in each part of the key space.
pub type Checkpoints = BTreeMap<String, String>;

#[derive(Deserialize)]
struct Reading {
    id: String,
}

/// Reads what has changed since the checkpoints, moves them on, and gives the ids.
pub async fn get_changes(
    container: &Container,
    checkpoints: &mut Checkpoints,
) -> Result<Vec<String>, Box<dyn Error>> {
    let ranges = match checkpoints.is_empty() {
        true => container.feed_ranges().await?.iter().map(ToString::to_string).collect(),
        false => checkpoints.keys().cloned().collect::<Vec<_>>(),
    };
    let mut changed = Vec::new();
    for range in ranges {
        let mut changes = container.changes(ChangeFeedOptions {
            feed_range: Some(range.parse()?),
            start_from_beginning: true,
            request_continuation: checkpoints.get(&range).cloned(),
            max_item_count: Some(100),
            ..ChangeFeedOptions::default()
        })?;
        loop {
            let page = changes.next_page().await?;
            for change in &page.changes {
                changed.extend(change.document::<Reading>()?.map(|reading| reading.id));
            }
            // Only now: whoever stops in between reads the page again.
            checkpoints.insert(range.clone(), page.continuation);
            if page.is_caught_up {
                break;
            }
        }
    }
    changed.sort();
    Ok(changed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = settings::argument(1, "the database")?;
    let container = settings::argument(2, "the container")?;
    let container = settings::client()?.container(&database, &container);
    let mut checkpoints = Checkpoints::new();
    println!("first: {}", get_changes(&container, &mut checkpoints).await?.join(" "));
    println!("since: {}", get_changes(&container, &mut checkpoints).await?.join(" "));
    Ok(())
}
