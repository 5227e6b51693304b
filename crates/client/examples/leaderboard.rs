//! A leaderboard, kept from the scores of finished games.
//!
//! ```console
//! $ ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… \
//!     cargo run --example leaderboard -- arcade scores leaderboard ./leaderboard.checkpoint
//! ```
//!
//! A score is `{"id", "player", "score"}`; the leaderboard has one item for each player, with the
//! best score. A score that comes twice changes nothing, so it does not matter that the last page is
//! read again after a crash. Several of these may run at a time: writes are guarded by etags.

use std::error::Error;

use client::{ChangeFeedOptions, Changes, Container, ItemOptions, Kind, ReadOptions, Typed};
use serde::{Deserialize, Serialize};

#[path = "common/checkpoint.rs"]
mod checkpoint;
#[path = "common/settings.rs"]
mod settings;

pub use checkpoint::Checkpoint;

/// All entries are in one partition, so that they can be read together.
const BOARD: &str = "all";

/// The result of a game.
#[derive(Debug, Serialize, Deserialize)]
pub struct Score {
    /// Of the game.
    pub id: String,
    /// Who played.
    pub player: String,
    /// What was reached.
    pub score: u64,
}

/// A line of the leaderboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    id: String,
    board: String,
    /// The best score.
    pub best: u64,
    /// The game it was reached in.
    pub game: String,
}

impl Entry {
    /// Whose line it is.
    pub fn player(&self) -> &str {
        &self.id
    }
}

/// A reader that goes on where the checkpoint says.
pub fn reader(scores: &Container, checkpoint: &Checkpoint) -> Result<Changes, Box<dyn Error>> {
    let options = ChangeFeedOptions {
        start_from_beginning: true,
        request_continuation: checkpoint.load()?,
        ..ChangeFeedOptions::default()
    };
    Ok(scores.changes(options)?)
}

/// Takes in what is new, page by page, until nothing is.
pub async fn catch_up(
    scores: &mut Changes,
    board: &Container,
    checkpoint: &Checkpoint,
) -> Result<(), Box<dyn Error>> {
    loop {
        let page = scores.next_page().await?;
        for change in &page.changes {
            if let Some(score) = change.document::<Score>()? {
                enter(board, &score).await?;
            }
        }
        checkpoint.save(&page.continuation)?;
        if page.is_caught_up {
            return Ok(());
        }
    }
}

/// Enters a score if it is the player's best.
async fn enter(board: &Container, score: &Score) -> Result<(), Box<dyn Error>> {
    loop {
        let entry = Entry {
            id: score.player.clone(),
            board: BOARD.to_owned(),
            best: score.score,
            game: score.id.clone(),
        };
        let written = match board.read_item(BOARD, &score.player, ItemOptions::default()).await {
            Ok(found) => {
                if found.parse::<Entry>()?.best >= score.score {
                    return Ok(());
                }
                let unchanged = ItemOptions::if_match(found.etag().unwrap_or_default());
                board.replace_item(BOARD, &score.player, Typed(&entry), unchanged).await
            }
            Err(error) if error.kind() == Kind::NotFound => {
                board.create_item(BOARD, Typed(&entry), ItemOptions::default()).await
            }
            Err(error) => return Err(error.into()),
        };
        match written {
            Ok(_) => return Ok(()),
            // Somebody was quicker, or the answer was lost: look again.
            Err(error)
                if matches!(
                    error.kind(),
                    Kind::Conflict | Kind::PreconditionFailed | Kind::NotFound
                ) || error.may_have_been_applied() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The best players, best first.
pub async fn top(board: &Container, count: usize) -> Result<Vec<Entry>, Box<dyn Error>> {
    let options = ReadOptions { partition_key: Some(BOARD.into()), ..ReadOptions::default() };
    let mut documents = board.read_documents(options)?;
    let mut best: Vec<Entry> = Vec::new();
    while let Some(page) = documents.next_page().await? {
        best.extend(page.parse::<Entry>()?);
        best.sort_by(|a, b| b.best.cmp(&a.best).then(a.id.cmp(&b.id)));
        best.truncate(count);
    }
    Ok(best)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = settings::client()?.database(&settings::argument(1, "the database")?);
    let scores = database.container(&settings::argument(2, "the container of scores")?);
    let board = settings::argument(3, "the container of the leaderboard")?;
    let board = database.ensure_container(&board, "/board", Default::default()).await?;
    let checkpoint = Checkpoint::at(settings::argument(4, "the file of the checkpoint")?);
    let mut changes = reader(&scores, &checkpoint)?;
    loop {
        catch_up(&mut changes, &board, &checkpoint).await?;
        println!();
        for (place, entry) in top(&board, 10).await?.iter().enumerate() {
            println!("{:>3}. {:<20} {}", place + 1, entry.player(), entry.best);
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}
