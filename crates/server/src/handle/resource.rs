//! Databases, containers, users, permissions, scripts and offers: one path for all kinds.

use engine::{Kind, Resource, ResourcePage};
use hyper::StatusCode;
use model::{Result, charge};
use serde_json::Value;

use super::Call;
use crate::auth::Principal;
use crate::reply::Reply;
use crate::request::QueryBody;
use crate::{date, header, wire};

pub async fn create(call: &Call<'_>, kind: Kind, upsert: bool) -> Result<Reply> {
    let body = model::json::object(&call.body)?;
    let options = call.headers.create_options(upsert)?;
    let minting = Minting::of(call)?;
    let made = call.server.engine.create(&call.path.link(), kind, body, options).await?;
    let status = if made.created { StatusCode::CREATED } else { StatusCode::OK };
    written(call, status, &made.resource, &minting)
}

pub fn read(call: &Call<'_>, kind: Kind) -> Result<Reply> {
    let resource = call.server.engine.read(&call.path.link())?;
    if kind == Kind::Container {
        call.headers.check_intended_rid(&resource.rid)?;
    }
    let seen = call.headers.if_none_match()?;
    if seen.is_some_and(|seen| seen.matches(Some(resource.etag))) {
        let mut reply = Reply::empty(StatusCode::NOT_MODIFIED);
        reply.set_etag(&resource.etag);
        reply.set_charge(charge::metadata());
        return Ok(reply);
    }
    let mut reply = one(call, StatusCode::OK, &resource, &Minting::of(call)?);
    if kind == Kind::Container {
        reply.set_number(&header::INDEX_PROGRESS, call.container()?.index_progress().into());
    }
    Ok(reply)
}

pub async fn replace(call: &Call<'_>) -> Result<Reply> {
    let body = model::json::object(&call.body)?;
    let options = call.headers.replace_options()?;
    let minting = Minting::of(call)?;
    let resource = call.server.engine.replace(&call.path.link(), body, options).await?;
    written(call, StatusCode::OK, &resource, &minting)
}

pub async fn delete(call: &Call<'_>) -> Result<Reply> {
    call.server.engine.delete(&call.path.link(), call.headers.conditions()?).await?;
    let mut reply = Reply::empty(StatusCode::NO_CONTENT);
    reply.set_charge(charge::metadata());
    Ok(reply)
}

pub fn list(call: &Call<'_>, kind: Kind) -> Result<Reply> {
    let page = call.server.engine.list(&call.path.link(), kind, &call.headers.page()?)?;
    many(call, kind, &page)
}

pub fn query(call: &Call<'_>, kind: Kind) -> Result<Reply> {
    let query = QueryBody::parse(&call.body)?;
    let page = call.headers.page()?;
    let link = call.path.link();
    let page = call.server.engine.query(&link, kind, &query.text, &query.parameters, &page)?;
    many(call, kind, &page)
}

fn written(
    call: &Call<'_>,
    status: StatusCode,
    resource: &Resource,
    minting: &Minting<'_>,
) -> Result<Reply> {
    if !call.headers.wants_minimal()? {
        return Ok(one(call, status, resource, minting));
    }
    let mut reply = Reply::empty(status);
    reply.set_etag(&resource.etag);
    reply.set_charge(charge::metadata());
    Ok(reply)
}

fn one(call: &Call<'_>, status: StatusCode, resource: &Resource, minting: &Minting<'_>) -> Reply {
    let object = wire::resource::object(resource, minting.token(resource));
    let mut reply = Reply::json(status, Value::Object(object).to_string());
    reply.set_etag(&resource.etag);
    reply.set_charge(charge::metadata());
    if resource.kind == Kind::Offer {
        let minimum = call.server.engine.offer_minimum(resource);
        reply.set_number(&header::MIN_THROUGHPUT, minimum.into());
        reply.set_text(&header::OFFER_PENDING, "false");
    }
    reply
}

fn many(call: &Call<'_>, kind: Kind, page: &ResourcePage) -> Result<Reply> {
    let minting = Minting::of(call)?;
    let body = wire::resource::list(kind, page, |resource| minting.token(resource));
    let mut reply = Reply::json(StatusCode::OK, body);
    reply.set_number(&header::ITEM_COUNT, page.resources.len() as u64);
    reply.set_charge(charge::metadata());
    if let Some(continuation) = &page.continuation {
        reply.set_text(&header::CONTINUATION, continuation);
    }
    Ok(reply)
}

/// Makes the tokens of permissions. Whoever may only read gets none: a token may allow more.
struct Minting<'a> {
    call: &'a Call<'a>,
    expires: u64,
}

impl<'a> Minting<'a> {
    fn of(call: &'a Call<'a>) -> Result<Self> {
        Ok(Self { call, expires: date::now() + call.headers.expiry_seconds()? })
    }

    fn token(&self, resource: &Resource) -> Option<String> {
        let wanted = resource.kind == Kind::Permission && self.call.principal == Principal::Owner;
        let mint = &self.call.server.tokens;
        wanted.then(|| mint.make(&resource.rid, &resource.etag.to_string(), self.expires))
    }
}
