//! The monitored and the lease container over HTTP, on any endpoint that speaks the protocol.

mod feed;
mod store;

use std::sync::Arc;
use std::time::Duration;

use client::{Account, Client, Container, Credential, Kind, Retry};
use serde_json::Value;

use crate::processor::{Builder, Subject};
use feed::HttpFeed;
pub use store::HttpStore;

/// A write to the lease container that has not been answered by then is looked after.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// A container of an account.
#[derive(Debug, Clone)]
pub struct Site {
    endpoint: String,
    account: Account,
    options: client::Options,
    database: String,
    container: String,
}

/// Why a container cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// It was not reached, or refused.
    #[error("{what}: {error}")]
    Client {
        /// Which container.
        what: String,
        /// What the client says.
        error: client::Error,
    },
    /// It is not fit for its purpose.
    #[error("{0}")]
    Unfit(String),
}

impl Site {
    /// A container by endpoint, credential and names.
    pub fn new(
        endpoint: &str,
        credential: Credential,
        options: client::Options,
        database: &str,
        container: &str,
    ) -> client::Result<Self> {
        Ok(Self {
            endpoint: endpoint.to_owned(),
            account: Account::new(endpoint, credential)?,
            options,
            database: database.to_owned(),
            container: container.to_owned(),
        })
    }

    /// Another container of the same account.
    pub fn beside(&self, database: &str, container: &str) -> Self {
        let (database, container) = (database.to_owned(), container.to_owned());
        Self { database, container, ..self.clone() }
    }

    /// A handle to it. The processor has its own idea of when to try again.
    fn open(&self, timeout: Option<Duration>) -> Result<Container, ConnectError> {
        let mut options = client::Options { retry: Retry::NONE, ..self.options.clone() };
        if let Some(timeout) = timeout {
            options.request_timeout = options.request_timeout.min(timeout);
        }
        let client = Client::new(self.account.clone(), options);
        let client = client.map_err(|error| self.wrong("the client", error))?;
        Ok(client.container(&self.database, &self.container))
    }

    /// A handle with the client's own retries, for commands.
    pub fn handle(&self) -> Result<Container, ConnectError> {
        let client = Client::new(self.account.clone(), self.options.clone());
        let client = client.map_err(|error| self.wrong("the client", error))?;
        Ok(client.container(&self.database, &self.container))
    }

    /// The host name of the endpoint, without its port: part of lease ids.
    fn host(&self) -> &str {
        let rest = self.endpoint.split_once("://").map_or(self.endpoint.as_str(), |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or(rest);
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.database, self.container)
    }

    fn wrong(&self, role: &str, error: client::Error) -> ConnectError {
        let what = match error.kind() {
            Kind::NotFound => format!("{role} {} does not exist", self.name()),
            _ => format!("{role} {}", self.name()),
        };
        ConnectError::Client { what, error }
    }

    /// The store in this container; refuses one that is partitioned by something else.
    pub async fn store(&self, role: &str) -> Result<HttpStore, ConnectError> {
        let container = self.open(Some(STORE_TIMEOUT))?;
        let definition = self.handle()?.read().await.map_err(|error| self.wrong(role, error))?;
        HttpStore::new(container, &definition.key_paths).ok_or_else(|| {
            ConnectError::Unfit(format!(
                "{role} {} is partitioned by {}; it must be by /id or /partitionKey",
                self.name(),
                definition.key_paths.join(", ")
            ))
        })
    }

    /// The feed of this container, and what leases are named after.
    pub async fn feed(&self) -> Result<(HttpFeed, Subject), ConnectError> {
        let role = "the monitored container";
        let handle = self.handle()?;
        let definition = handle.read().await.map_err(|error| self.wrong(role, error))?;
        let database = handle.client().database(&self.database).read().await;
        let database: Value = database
            .and_then(|answer| answer.parse())
            .map_err(|error| self.wrong("the database of", error))?;
        let subject = Subject {
            account_host: self.host().to_owned(),
            database_rid: database["_rid"].as_str().unwrap_or_default().to_owned(),
            container_rid: definition.rid.clone(),
        };
        let feed = HttpFeed::new(self.open(None)?, definition.rid, definition.key_paths);
        Ok((feed, subject))
    }
}

impl Builder {
    /// A processor over two containers that are reached over HTTP, of one account or of two.
    pub async fn connect(monitored: &Site, leases: &Site) -> Result<Self, ConnectError> {
        let (feed, subject) = monitored.feed().await?;
        let store = leases.store("the lease container").await?;
        Ok(Self::new(Arc::new(feed), Arc::new(store), subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_have_the_host_without_its_port() {
        for (endpoint, host) in [
            ("https://orders.documents.azure.com:443/", "orders.documents.azure.com"),
            ("http://127.0.0.1:8081", "127.0.0.1"),
            ("http://localhost/", "localhost"),
            ("http://[::1]:8081/", "[::1]"),
        ] {
            let key = Credential::key("c2VjcmV0").expect("a key");
            let site = Site::new(endpoint, key, client::Options::default(), "d", "c");
            assert_eq!(site.expect("a site").host(), host);
        }
    }
}
