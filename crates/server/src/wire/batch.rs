//! The results of a batch, as clients read them.

use bytes::Bytes;
use engine::{BatchItem, BatchResult};
use hyper::StatusCode;
use model::token::Etag;
use model::{digits, json};

/// Whether all operations did what they were asked to; a read that found nothing new did not.
pub fn status(results: &[BatchResult]) -> StatusCode {
    let full = |one: &BatchResult| match &one.result {
        Ok(item) => !matches!(item, BatchItem::NotModified(_)),
        Err(_) => false,
    };
    if results.iter().all(full) { StatusCode::OK } else { StatusCode::MULTI_STATUS }
}

/// The results as JSON. `minimal` leaves the items out that were written, but not those read.
pub fn results(results: &[BatchResult], minimal: bool) -> Bytes {
    let mut out = Vec::with_capacity(64 + results.iter().map(room).sum::<usize>());
    out.push(b'[');
    for (n, result) in results.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write(result, minimal, &mut out);
    }
    out.push(b']');
    Bytes::from(out)
}

fn room(result: &BatchResult) -> usize {
    128 + match &result.result {
        Ok(BatchItem::Written(item) | BatchItem::Read(item)) => item.body.len(),
        _ => 128,
    }
}

fn write(result: &BatchResult, minimal: bool, out: &mut Vec<u8>) {
    let (status, substatus) = match &result.result {
        Ok(BatchItem::Written(item)) if item.created => (201, 0),
        Ok(BatchItem::Written(_) | BatchItem::Read(_)) => (200, 0),
        Ok(BatchItem::NotModified(_)) => (304, 0),
        Ok(BatchItem::Deleted) => (204, 0),
        Err(error) => (error.fault.status(), error.substatus()),
    };
    out.extend_from_slice(b"{\"statusCode\":");
    digits::push(out, status.into());
    if substatus != 0 {
        out.extend_from_slice(b",\"subStatusCode\":");
        digits::push(out, substatus.into());
    }
    out.extend_from_slice(b",\"requestCharge\":");
    digits::push_cents(out, result.charge);
    if let Some(wait) = result.retry_after_ms {
        out.extend_from_slice(b",\"retryAfterMilliseconds\":");
        digits::push(out, wait);
    }
    match &result.result {
        Ok(BatchItem::Written(item)) => {
            let body = if minimal { b"" } else { &item.body[..] };
            write_item(&item.etag, body, out);
        }
        Ok(BatchItem::Read(item)) => write_item(&item.etag, &item.body, out),
        Ok(BatchItem::NotModified(etag)) => write_item(etag, b"", out),
        Ok(BatchItem::Deleted) => {}
        Err(error) => {
            out.extend_from_slice(b",\"message\":");
            json::escape_into(out, &error.message);
        }
    }
    out.push(b'}');
}

fn write_item(etag: &Etag, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"eTag\":");
    etag.write_json_into(out);
    if !body.is_empty() {
        out.extend_from_slice(b",\"resourceBody\":");
        out.extend_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use engine::ItemWrite;
    use model::{Error, Fault};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn results_are_json_in_order() {
        let etag = Etag([1; 16]);
        let item = |created| {
            Ok(BatchItem::Written(ItemWrite {
                body: Bytes::from_static(b"{\"n\": 1.0}"),
                etag,
                created,
            }))
        };
        let done = |result| BatchResult { charge: 1.5, retry_after_ms: None, result };
        let throttled = Err(Error::new(Fault::TooManyRequests, "\"slow\""));
        let list = [
            done(item(true)),
            done(Ok(BatchItem::NotModified(etag))),
            done(Ok(BatchItem::Deleted)),
            BatchResult { retry_after_ms: Some(7), ..done(throttled) },
        ];
        assert_eq!(status(&list), 207);
        assert_eq!(status(&list[..1]), 200);
        let text = results(&list, false);
        assert!(text.windows(3).any(|bytes| bytes == b"1.0"), "bodies go as they are");
        let value: Value = serde_json::from_slice(&text).unwrap();
        let tag = etag.to_string();
        assert_eq!(
            value,
            json!([
                {"statusCode": 201, "requestCharge": 1.5, "eTag": tag, "resourceBody": {"n": 1.0}},
                {"statusCode": 304, "requestCharge": 1.5, "eTag": tag},
                {"statusCode": 204, "requestCharge": 1.5},
                {"statusCode": 429, "subStatusCode": 3200, "requestCharge": 1.5, "retryAfterMilliseconds": 7, "message": "\"slow\""},
            ])
        );
        let minimal: Value = serde_json::from_slice(&results(&[done(item(false))], true)).unwrap();
        assert_eq!(minimal, json!([{"statusCode": 200, "requestCharge": 1.5, "eTag": tag}]));
    }
}
