//! What operators and clients ask of the server itself.

use hyper::StatusCode;
use model::{Error, Fault, Result, charge};

use super::Call;
use crate::reply::Reply;
use crate::wire;

pub fn ready() -> Reply {
    Reply::json(StatusCode::OK, r#"{"status":"ready"}"#)
}

pub fn metrics(call: &Call<'_>) -> Reply {
    let text = call.server.metrics.render(&call.server.engine.figures());
    Reply::text(StatusCode::OK, "text/plain; version=0.0.4", text)
}

pub fn certificate(call: &Call<'_>) -> Result<Reply> {
    let pem = call.server.certificate.clone();
    let pem = pem.ok_or_else(|| Error::new(Fault::NotFound, "this server has no certificate"))?;
    Ok(Reply::text(StatusCode::OK, "application/x-pem-file", pem))
}

pub fn account(call: &Call<'_>) -> Reply {
    let options = &call.server.options;
    let endpoint = match &options.advertise {
        Some(advertised) => advertised.clone(),
        None => format!("{}://{}/", if call.secure { "https" } else { "http" }, call.host),
    };
    let document = wire::account::document(&endpoint, options.consistency);
    let mut reply = Reply::json(StatusCode::OK, document.to_string());
    reply.set_charge(charge::metadata());
    reply
}
