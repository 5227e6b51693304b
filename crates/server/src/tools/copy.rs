//! What `replicate` does with each change: the copy of an item is where its new key says, and
//! nowhere else; the copy of a deleted item is gone.

use client::{Container, ItemOptions, Kind, PartitionKey, Query, QueryOptions};
use processor::{Change, HandlerError};
use serde_json::{Map, Value};

/// Copies of an item, under whatever keys, are few; more would be somebody else's.
const COPIES_MAX: usize = 1000;
/// What a service adds to an item belongs to the item it came from.
const SYSTEM: [&str; 6] = ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

/// The values of a key, level by level; nothing where the item has none.
type Key = Vec<Option<Value>>;

/// Keeps a container as another one is.
#[derive(Debug)]
pub struct Copier {
    target: Container,
    /// The partition key paths of both.
    source_paths: Vec<String>,
    target_paths: Vec<String>,
}

impl Copier {
    pub fn new(target: Container, source_paths: Vec<String>, target_paths: Vec<String>) -> Self {
        Self { target, source_paths, target_paths }
    }

    /// Makes one change in the copy.
    pub async fn copy(&self, change: &Change) -> Result<(), HandlerError> {
        let mut body: Map<String, Value> = change.parse()?;
        if change.is_delete() {
            let metadata = body.get("metadata").cloned().unwrap_or_default();
            let id = metadata["id"].as_str().unwrap_or_default();
            let named = |path: &String| metadata["partitionKey"].get(path.trim_start_matches('/'));
            let key: Key = self.source_paths.iter().map(|path| named(path).cloned()).collect();
            return self.remove(id, &key, None).await;
        }
        if !body.contains_key("_lsn")
            && let Some(Value::Object(current)) = body.remove("current")
        {
            body = current;
        }
        body.retain(|name, _| !SYSTEM.contains(&name.as_str()));
        let id = body.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (source, target) = (key(&body, &self.source_paths), key(&body, &self.target_paths));
        if !self.is_fixed() {
            self.remove(&id, &source, Some(&target)).await?;
        }
        self.target
            .upsert_item(partition_key(&target), Value::Object(body), ItemOptions::default())
            .await?;
        Ok(())
    }

    /// Whether id and old key decide the new key, and no two items can meet: then a copy never
    /// moves, and nobody has to look for it.
    fn is_fixed(&self) -> bool {
        let is_known = |path: &String| path == "/id" || self.source_paths.contains(path);
        let is_kept = |path: &String| self.target_paths.contains(path);
        self.target_paths.iter().all(is_known) && self.source_paths.iter().all(is_kept)
    }

    /// Removes the copies of a source item, but for the one under a key that stays.
    async fn remove(
        &self,
        id: &str,
        source: &Key,
        stays: Option<&Key>,
    ) -> Result<(), HandlerError> {
        let query = Query::new("SELECT * FROM c WHERE c.id = @id").with("@id", id);
        let copies = self.target.query(query, QueryOptions::default())?;
        for copy in copies.collect::<Map<String, Value>>(COPIES_MAX).await? {
            let place = key(&copy, &self.target_paths);
            let is_ours = key(&copy, &self.source_paths) == *source;
            let is_in_place = stays == Some(&place);
            if is_in_place && !is_ours {
                return Err(format!(
                    "two items would become one in the copy: id '{id}' with the keys {} and {}",
                    partition_key(source),
                    partition_key(&key(&copy, &self.source_paths))
                )
                .into());
            }
            if !is_ours || is_in_place {
                continue;
            }
            let place = partition_key(&place);
            match self.target.delete_item(place, id, ItemOptions::default()).await {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn key(item: &Map<String, Value>, paths: &[String]) -> Key {
    let value = |path: &String| {
        let mut parts = path.trim_start_matches('/').split('/').map(|part| part.trim_matches('"'));
        let first = item.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part)).cloned()
    };
    paths.iter().map(value).collect()
}

/// What an item does not have is an empty object on the wire.
fn partition_key(key: &Key) -> PartitionKey {
    let empty = || Value::Object(Map::new());
    PartitionKey::levels(key.iter().map(|value| value.clone().unwrap_or_else(empty)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_paths() {
        let item = serde_json::json!({"id": "1", "a": {"b": 2}, "c d": null});
        let item = item.as_object().expect("an object");
        let paths = ["/a/b", "/id", "/\"c d\"", "/none/x"].map(str::to_owned);
        let found = key(item, &paths);
        let expected = [Some(2.into()), Some("1".into()), Some(Value::Null), None];
        assert_eq!(found, expected);
        assert_eq!(partition_key(&found).to_string(), r#"[2,"1",null,{}]"#);
    }
}
