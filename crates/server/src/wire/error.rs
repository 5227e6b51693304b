//! A refusal as clients get it. Which status, sub-status and code is said in [`model::Fault`].

use hyper::StatusCode;
use model::{Error, Fault};
use serde_json::json;

use crate::header;
use crate::reply::Reply;

/// How long to wait when too much is asked at once; some clients look at nothing else.
const RETRY_AFTER_MS: u64 = 100;

/// Status, sub-status and a body that is never empty: one SDK fails on an empty one.
pub fn reply(error: &Error) -> Reply {
    let status =
        StatusCode::from_u16(error.fault.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = json!({ "code": error.fault.code(), "message": error.message });
    let mut reply = Reply::json(status, body.to_string());
    if error.substatus() != 0 {
        reply.set_number(&header::SUBSTATUS, error.substatus().into());
    }
    if error.fault == Fault::TooManyRequests {
        // Who knows better (the throughput that was exceeded) writes over it.
        reply.set_number(&header::RETRY_AFTER_MS, RETRY_AFTER_MS);
    }
    reply
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;

    use super::*;

    #[test]
    fn every_fault_has_a_status_a_code_and_a_message() {
        for &fault in Fault::ALL {
            let reply = reply(&Error::new(fault, "a \"quoted\" reason"));
            assert_eq!(reply.status.as_u16(), fault.status());
            let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!(body["code"], fault.code());
            assert_eq!(body["message"], "a \"quoted\" reason");
            let response = reply.into_response(HeaderMap::new());
            let substatus = response.headers().get(&header::SUBSTATUS);
            let substatus = substatus.map_or("0", |value| value.to_str().unwrap());
            assert_eq!(substatus, fault.substatus().to_string());
        }
    }
}
