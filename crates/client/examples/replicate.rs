//! Copies a container into another one with a different partition key, while writes go on.
//!
//! ```console
//! $ ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… \
//!     cargo run --example replicate -- shop orders orders-by-city /city ./copy.checkpoint
//! ```
//!
//! It reads the feed of latest versions with deletes from the beginning, so the first pass copies
//! what is there and all later ones follow. To cut over: stop the writers, let [`Copy::catch_up`]
//! return once more, and point readers and writers to the copy.
//!
//! An item whose new key changes moves: its copy under the old key is removed. Two items that would
//! become one in the copy (ids are unique per partition key, and the key is another) are an error
//! that names them; nothing is overwritten.

use std::error::Error;

use client::{
    ChangeFeedOptions, Changes, Container, ItemOptions, Kind, Mode, PartitionKey, Query,
    QueryOptions,
};
use serde_json::{Map, Value};

#[path = "common/checkpoint.rs"]
mod checkpoint;
#[path = "common/settings.rs"]
mod settings;

pub use checkpoint::Checkpoint;

/// Copies of an item, under whatever keys, are few; more would be somebody else's.
const COPIES_MAX: usize = 1000;

/// A copy in the making.
pub struct Copy {
    changes: Changes,
    target: Container,
    /// Names of the properties that are the partition keys.
    source_key: String,
    target_key: String,
    checkpoint: Checkpoint,
}

impl Copy {
    /// Begins, or goes on where the checkpoint says.
    pub async fn new(
        source: &Container,
        target: &Container,
        checkpoint: Checkpoint,
    ) -> Result<Self, Box<dyn Error>> {
        let options = ChangeFeedOptions {
            mode: Mode::LatestWithDeletes,
            start_from_beginning: true,
            request_continuation: checkpoint.load()?,
            ..ChangeFeedOptions::default()
        };
        Ok(Self {
            changes: source.changes(options)?,
            target: target.clone(),
            source_key: key_property(source).await?,
            target_key: key_property(target).await?,
            checkpoint,
        })
    }

    /// Copies what has changed, until nothing has. How many changes that were.
    pub async fn catch_up(&mut self) -> Result<usize, Box<dyn Error>> {
        let mut copied = 0;
        loop {
            let page = self.changes.next_page().await?;
            for change in &page.changes {
                match change.document::<Map<String, Value>>()? {
                    Some(item) => self.put(item).await?,
                    None => {
                        let metadata = change.metadata()?;
                        let key = metadata.partition_key.unwrap_or_default();
                        let id = metadata.id.unwrap_or_default();
                        self.remove(&id, key.get(&self.source_key), None).await?;
                    }
                }
            }
            copied += page.changes.len();
            self.checkpoint.save(&page.continuation)?;
            if page.is_caught_up {
                return Ok(copied);
            }
        }
    }

    async fn put(&self, mut item: Map<String, Value>) -> Result<(), Box<dyn Error>> {
        // What the server adds belongs to the item it came from.
        item.retain(|name, _| {
            !["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"].contains(&name.as_str())
        });
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let new_key = item.get(&self.target_key).cloned();
        self.remove(&id, item.get(&self.source_key), Some(&new_key)).await?;
        let key = partition_key(new_key);
        self.target.upsert_item(key, Value::Object(item), ItemOptions::default()).await?;
        Ok(())
    }

    /// Removes the copies of a source item, but for the one under a key that stays.
    async fn remove(
        &self,
        id: &str,
        source_key: Option<&Value>,
        stays: Option<&Option<Value>>,
    ) -> Result<(), Box<dyn Error>> {
        let query = Query::new("SELECT * FROM c WHERE c.id = @id").with("@id", id);
        let copies = self.target.query(query, QueryOptions::default())?;
        for copy in copies.collect::<Map<String, Value>>(COPIES_MAX).await? {
            let key = copy.get(&self.target_key).cloned();
            let is_ours = copy.get(&self.source_key) == source_key;
            let is_in_place = stays == Some(&key);
            if is_in_place && !is_ours {
                let (name, other) = (&self.source_key, copy.get(&self.source_key));
                return Err(format!(
                    "two items would become one: id {id:?} with {name} {source_key:?} and {other:?}"
                )
                .into());
            }
            if !is_ours || is_in_place {
                continue;
            }
            match self.target.delete_item(partition_key(key), id, ItemOptions::default()).await {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn partition_key(value: Option<Value>) -> PartitionKey {
    value.map_or_else(PartitionKey::missing, PartitionKey::from)
}

/// The property that a container is partitioned by.
async fn key_property(container: &Container) -> Result<String, Box<dyn Error>> {
    let paths = container.read().await?.key_paths;
    match paths.as_slice() {
        [path] if path.matches('/').count() == 1 => Ok(path.trim_start_matches('/').to_owned()),
        _ => Err(format!("this example knows one key path of one level, not {paths:?}").into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = settings::client()?.database(&settings::argument(1, "the database")?);
    let source = database.container(&settings::argument(2, "the container to copy")?);
    let target = settings::argument(3, "the container to make")?;
    let path = settings::argument(4, "its partition key path")?;
    let target = database.ensure_container(&target, &path, Default::default()).await?;
    let checkpoint = Checkpoint::at(settings::argument(5, "the file of the checkpoint")?);
    let mut copy = Copy::new(&source, &target, checkpoint).await?;
    loop {
        let copied = copy.catch_up().await?;
        if copied > 0 {
            println!("{copied} changes copied");
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}
