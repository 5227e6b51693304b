//! All changes of a container, range by range, with a checkpoint for each range.
//!
//! Run it against a server: `ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… cargo run`

use std::collections::HashMap;
use std::error::Error;

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::{ContinuationToken, FeedScope};
use azure_data_cosmos::models::{
    ContainerProperties, PartitionKeyDefinition, ThroughputProperties,
};
use azure_data_cosmos::options::{
    ChangeFeedOptions, ChangeFeedStartFrom, CreateContainerOptions, MaxItemCountHint,
};
use azure_data_cosmos::{AccountReference, CosmosClient, RoutingStrategy};
use futures::StreamExt;
use serde_json::{Value, json};

/// How far a reader has come in each range.
pub type Checkpoints = HashMap<String, ContinuationToken>;

/// Reads what has changed since the checkpoints, moves them on, and gives the ids.
pub async fn get_changes(
    container: &ContainerClient,
    checkpoints: &mut Checkpoints,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut changed = Vec::new();
    for range in container.read_feed_ranges(None).await? {
        let name = range.to_string();
        let one = MaxItemCountHint::Limit(1.try_into()?);
        let mut options = ChangeFeedOptions::default().with_max_item_count(one);
        if let Some(checkpoint) = checkpoints.get(&name) {
            options = options.with_continuation_token(checkpoint.clone());
        }
        let (scope, start) = (FeedScope::range(range), ChangeFeedStartFrom::Beginning);
        let mut pages = container.query_change_feed::<Value>(scope, start, Some(options)).await?;
        // The stream never ends: an empty page means that nothing is new.
        while let Some(page) = pages.next().await {
            let page = page?;
            checkpoints.insert(name.clone(), pages.to_continuation_token()?);
            if page.items().is_empty() {
                break;
            }
            let documents = page.items().iter().filter_map(|change| change.current());
            changed
                .extend(documents.filter_map(|document| Some(document["id"].as_str()?.to_owned())));
        }
    }
    changed.sort();
    Ok(changed)
}

/// Fills a container, reads it, adds two documents, and reads those.
pub async fn run(endpoint: &str, key: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let account = AccountReference::with_authentication_key(endpoint.parse()?, key.to_owned());
    let client = CosmosClient::builder()
        .build(account, RoutingStrategy::ProximityTo("East US".into()))
        .await?;
    let name = format!("get-changes-{}", std::process::id());
    client.create_database(&name, None).await?;
    let database = client.database_client(&name);
    let readings = ContainerProperties::new("readings", PartitionKeyDefinition::from("/deviceId"));
    let throughput =
        CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(20_000));
    database.create_container(readings, Some(throughput)).await?;
    let container = database.container_client("readings", None).await?;
    for n in 0..5 {
        let (id, device) = (format!("old-{n}"), format!("device-{n}"));
        let reading = json!({"id": id, "deviceId": device, "metricValue": n});
        container.create_item(device, &id, &reading, None).await?;
    }

    // All documents of the container.
    let mut checkpoints = Checkpoints::new();
    println!("first: {}", get_changes(&container, &mut checkpoints).await?.join(" "));

    for (id, device) in [("new-1", "xsensr-201"), ("new-2", "xsensr-212")] {
        let reading = json!({"id": id, "deviceId": device, "metricValue": 1000});
        container.create_item(device, id, &reading, None).await?;
    }

    // Only the two created above.
    let changed = get_changes(&container, &mut checkpoints).await?;
    println!("second: {}", changed.join(" "));
    database.delete(None).await?;
    Ok(changed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name| std::env::var(name);
    run(&variable("ASTRARIUM_ENDPOINT")?, &variable("ASTRARIUM_KEY")?).await?;
    Ok(())
}
