//! Items: create, read, replace, upsert, delete.

use hyper::Method;

use crate::answer::Answer;
use crate::body::IntoBody;
use crate::container::Container;
use crate::error::Result;
use crate::header;
use crate::partition_key::PartitionKey;
use crate::request::Request;

/// Under which condition a request is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// In any case.
    #[default]
    Always,
    /// If the item has this etag; otherwise [`Kind::PreconditionFailed`](crate::Kind).
    IfMatch(String),
    /// If the item has another etag; a read answers 304 otherwise.
    IfNoneMatch(String),
}

/// What a request about an item may bring along.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemOptions {
    /// Under which condition it is carried out.
    pub condition: Condition,
    /// How new the answer must be at least; without one, what this client has seen itself.
    pub session_token: Option<String>,
    /// Whether a write answers without the item.
    pub without_content: bool,
}

impl ItemOptions {
    /// Only if the item still has this etag.
    pub fn if_match(etag: impl Into<String>) -> Self {
        Self { condition: Condition::IfMatch(etag.into()), ..Self::default() }
    }
}

impl Container {
    /// Creates an item. One that is there already is a [`Kind::Conflict`](crate::Kind).
    pub async fn create_item(
        &self,
        key: impl Into<PartitionKey>,
        body: impl IntoBody,
        options: ItemOptions,
    ) -> Result<Answer> {
        let request = Request::list(Method::POST, self.link(), "docs").json(body.into_body()?);
        self.item_request(request, key.into(), options).await
    }

    /// Creates an item, or replaces the one of its id.
    pub async fn upsert_item(
        &self,
        key: impl Into<PartitionKey>,
        body: impl IntoBody,
        options: ItemOptions,
    ) -> Result<Answer> {
        let mut request = Request::list(Method::POST, self.link(), "docs").json(body.into_body()?);
        request.set(header::IS_UPSERT, "True");
        self.item_request(request, key.into(), options).await
    }

    /// Reads an item. With [`Condition::IfNoneMatch`] the answer may be 304, without a body.
    pub async fn read_item(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        options: ItemOptions,
    ) -> Result<Answer> {
        let request = Request::one(Method::GET, &self.item_link(id)?);
        self.item_request(request, key.into(), options).await
    }

    /// Replaces an item.
    pub async fn replace_item(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        body: impl IntoBody,
        options: ItemOptions,
    ) -> Result<Answer> {
        let request = Request::one(Method::PUT, &self.item_link(id)?).json(body.into_body()?);
        self.item_request(request, key.into(), options).await
    }

    /// Deletes an item.
    pub async fn delete_item(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        options: ItemOptions,
    ) -> Result<Answer> {
        let request = Request::one(Method::DELETE, &self.item_link(id)?);
        self.item_request(request, key.into(), options).await
    }

    async fn item_request(
        &self,
        mut request: Request,
        key: PartitionKey,
        options: ItemOptions,
    ) -> Result<Answer> {
        request.set_text(header::PARTITION_KEY, &key.to_string())?;
        request.set_condition(&options.condition)?;
        if let Some(token) = &options.session_token {
            request.set_text(header::SESSION_TOKEN, token)?;
        }
        if options.without_content && !request.is_read {
            request.set(header::PREFER, "return=minimal");
        }
        self.send(&request).await
    }
}
