//! The client of one account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::Account;
use crate::answer::{self, Answer};
use crate::body::{IntoBody as _, Typed};
use crate::container::{Container, Remembered};
use crate::database::{Database, Throughput};
use crate::error::{Error, Kind, Result};
use crate::options::Options;
use crate::request::{Link, Request};
use crate::send::Sender;

/// Containers whose sessions and ranges are shared between handles. Handles beyond have their own.
const REMEMBERED_MAX: usize = 1024;

/// Pages of a list that are read. A server that never comes to an end is not listened to for ever.
pub(crate) const LIST_PAGES_MAX: usize = 10_000;

/// The client of one account. Clones share connections and everything else.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) sender: Arc<Sender>,
    remembered: Arc<Mutex<HashMap<Link, Arc<Remembered>>>>,
}

impl Client {
    /// A client. Nothing is sent yet.
    pub fn new(account: Account, options: Options) -> Result<Self> {
        Ok(Self { sender: Sender::new(account, options)?, remembered: Arc::default() })
    }

    /// The account document: regions, consistency.
    pub async fn account(&self) -> Result<Value> {
        self.sender.account().await?.parse()
    }

    /// A database, whether it is there or not.
    pub fn database(&self, name: &str) -> Database {
        Database::new(self.clone(), name)
    }

    /// A container, whether it is there or not.
    pub fn container(&self, database: &str, name: &str) -> Container {
        self.database(database).container(name)
    }

    /// Creates a database; throughput given here is shared by its containers.
    pub async fn create_database(&self, name: &str, throughput: Throughput) -> Result<Answer> {
        let body = Typed(json!({ "id": name })).into_body()?;
        let mut request = Request::list(Method::POST, &Link::root(), "dbs").json(body);
        throughput.set(&mut request)?;
        self.sender.send(&request, None).await
    }

    /// Creates a database where there is none of the name. True if there was none.
    pub async fn ensure_database(&self, name: &str, throughput: Throughput) -> Result<bool> {
        match self.create_database(name, throughput).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == Kind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The names of all databases.
    pub async fn databases(&self) -> Result<Vec<String>> {
        self.names(&Link::root(), "dbs").await
    }

    /// The ids of all entries of a list.
    pub(crate) async fn names(&self, owner: &Link, kind: &'static str) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct List {
            #[serde(alias = "Databases", alias = "DocumentCollections")]
            entries: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            id: String,
        }
        let (mut names, mut continuation) = (Vec::new(), None::<String>);
        for _ in 0..LIST_PAGES_MAX {
            let mut request = Request::list(Method::GET, owner, kind);
            request.set_page(None, continuation.as_deref())?;
            let answer = self.sender.send(&request, None).await?;
            let list: List = answer::parse(&answer.body)?;
            names.extend(list.entries.into_iter().map(|entry| entry.id));
            continuation = answer.continuation().map(str::to_owned);
            if continuation.is_none() {
                return Ok(names);
            }
        }
        Err(Error::new(Kind::Answer, format!("the list {kind} does not come to an end")))
    }

    pub(crate) fn remembered(&self, link: &Link) -> Arc<Remembered> {
        let mut all = self.remembered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(remembered) = all.get(link) {
            return remembered.clone();
        }
        let remembered = Arc::<Remembered>::default();
        if all.len() < REMEMBERED_MAX {
            all.insert(link.clone(), remembered.clone());
        }
        remembered
    }
}
