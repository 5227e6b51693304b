//! Cross-origin requests: refused by browsers unless the operator names the origin.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderValue, ORIGIN, VARY,
};
use hyper::{HeaderMap, Method, StatusCode};

use crate::header;
use crate::reply::Reply;

/// The answer to a browser that asks before it sends, if it may.
pub fn preflight(method: &Method, headers: &HeaderMap, origins: &[String]) -> Option<Reply> {
    if *method != Method::OPTIONS || allowed(headers, origins).is_none() {
        return None;
    }
    let mut reply = Reply::empty(StatusCode::NO_CONTENT);
    reply.set_text(&ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE");
    // Browsers name the headers they mean to send; all are harmless, for all must be signed.
    let asked = headers.get(hyper::header::ACCESS_CONTROL_REQUEST_HEADERS);
    reply.set_text(&ACCESS_CONTROL_ALLOW_HEADERS, asked.map_or(&b"*"[..], HeaderValue::as_bytes));
    reply.set_number(&ACCESS_CONTROL_MAX_AGE, 3600);
    Some(reply)
}

/// Lets the page of an allowed origin read an answer.
pub fn expose(reply: &mut Reply, headers: &HeaderMap, origins: &[String]) {
    if origins.is_empty() {
        return;
    }
    reply.set_text(&VARY, "origin");
    if let Some(origin) = allowed(headers, origins) {
        reply.set_text(&ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        reply.set_text(&ACCESS_CONTROL_EXPOSE_HEADERS, format!("etag, {}", header::ALL.join(", ")));
    }
}

fn allowed<'a>(headers: &'a HeaderMap, origins: &[String]) -> Option<&'a HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    origins.iter().any(|allowed| allowed == "*" || origin == allowed.as_str()).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(origin: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))])
    }

    #[test]
    fn only_named_origins() {
        let named = ["https://a.example".to_owned()];
        let preflight =
            |origin, origins: &[String]| preflight(&Method::OPTIONS, &asked(origin), origins);
        assert!(preflight("https://a.example", &named).is_some());
        assert!(preflight("https://b.example", &named).is_none());
        assert!(preflight("https://b.example", &["*".to_owned()]).is_some());
        assert!(preflight("https://a.example", &[]).is_none());
        let exposed = |origin| {
            let mut reply = Reply::empty(StatusCode::OK);
            expose(&mut reply, &asked(origin), &named);
            let response = reply.into_response(HeaderMap::new());
            response.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).cloned()
        };
        assert_eq!(exposed("https://b.example"), None);
        assert_eq!(exposed("https://a.example").unwrap(), "https://a.example");
    }
}
