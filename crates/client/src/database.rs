//! Databases, and the containers in them.

use hyper::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::body::IntoBody;
use crate::client::Client;
use crate::container::Container;
use crate::error::{Error, Kind, Result};
use crate::header;
use crate::request::{Link, Request};

/// A database, whether it is there or not.
#[derive(Debug, Clone)]
pub struct Database {
    client: Client,
    link: Link,
}

/// The throughput that something is created with, in request units per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Throughput {
    /// What the account gives by itself.
    #[default]
    Unsaid,
    /// Always the same.
    Manual(u32),
    /// Up to so much.
    Autoscale(u32),
}

impl Throughput {
    pub(crate) fn set(self, request: &mut Request) -> Result<()> {
        match self {
            Self::Unsaid => Ok(()),
            Self::Manual(units) => request.set_text(header::THROUGHPUT, &units.to_string()),
            Self::Autoscale(units) => {
                let settings = json!({ "maxThroughput": units }).to_string();
                request.set_text(header::AUTOPILOT, &settings)
            }
        }
    }
}

impl Database {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, link: Link::root().child("dbs", name) }
    }

    /// Reads its definition.
    pub async fn read(&self) -> Result<Answer> {
        self.send(Request::one(Method::GET, &self.link)).await
    }

    /// Deletes it with everything in it.
    pub async fn delete(&self) -> Result<Answer> {
        self.send(Request::one(Method::DELETE, &self.link)).await
    }

    /// A container in it, whether it is there or not.
    pub fn container(&self, name: &str) -> Container {
        Container::new(self.client.clone(), self.link.child("colls", name))
    }

    /// The names of all containers.
    pub async fn containers(&self) -> Result<Vec<String>> {
        self.link.check()?;
        self.client.names(&self.link, "colls").await
    }

    /// Creates a container from its whole definition.
    pub async fn create_container(
        &self,
        definition: impl IntoBody,
        throughput: Throughput,
    ) -> Result<Answer> {
        let body = definition.into_body()?;
        let mut request = Request::list(Method::POST, &self.link, "colls").json(body);
        throughput.set(&mut request)?;
        self.send(request).await
    }

    /// Creates a container with one partition key path (`/customer`) where there is none of the
    /// name. One that is there with another path is an error.
    pub async fn ensure_container(
        &self,
        name: &str,
        key_path: &str,
        throughput: Throughput,
    ) -> Result<Container> {
        let definition: Value = json!({
            "id": name,
            "partitionKey": { "paths": [key_path], "kind": "Hash", "version": 2 },
        });
        let container = self.container(name);
        match self.create_container(definition, throughput).await {
            Ok(_) => return Ok(container),
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
        let found = container.read().await?.key_paths;
        if found == [key_path] {
            return Ok(container);
        }
        let found = found.join(", ");
        Err(Error::setting(format!(
            "the container {name} is partitioned by {found}, not by {key_path}"
        )))
    }

    async fn send(&self, request: Request) -> Result<Answer> {
        self.link.check()?;
        self.client.sender.send(&request, None).await
    }
}
