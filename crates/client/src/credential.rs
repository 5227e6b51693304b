//! By which right requests are made, and the header that proves it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use ring::hmac;
use tokio::sync::Mutex;

use crate::error::{Error, Kind, Result};
use crate::request::percent_encoded;

/// A token is asked for anew this long before it ends.
const RENEW_BEFORE: Duration = Duration::from_secs(300);

/// A key, a resource token, or a source of bearer tokens.
#[derive(Clone)]
pub struct Credential(Form);

#[derive(Clone)]
enum Form {
    Key(hmac::Key),
    /// Ready for the header.
    Resource(String),
    Bearer(Arc<Bearer>),
}

/// A token of Entra ID.
#[derive(Clone)]
pub struct BearerToken {
    /// The token.
    pub text: String,
    /// For how long it is good.
    pub valid_for: Duration,
}

type Asking = Pin<Box<dyn Future<Output = Result<BearerToken, String>> + Send>>;

struct Bearer {
    ask: Box<dyn Fn() -> Asking + Send + Sync>,
    /// The token that was given last, and until when it is used.
    held: Mutex<Option<(String, Instant)>>,
}

impl Credential {
    /// The account's key, as base64.
    pub fn key(base64: &str) -> Result<Self> {
        let key = STANDARD
            .decode(base64.trim())
            .map_err(|_| Error::setting("the account key is not base64"))?;
        if key.is_empty() {
            return Err(Error::setting("the account key is empty"));
        }
        Ok(Self(Form::Key(hmac::Key::new(hmac::HMAC_SHA256, &key))))
    }

    /// A resource token, `type=resource&ver=1&sig=…`, as permissions carry it.
    pub fn resource_token(token: &str) -> Result<Self> {
        if !token.starts_with("type=") {
            return Err(Error::setting("a resource token begins with type="));
        }
        Ok(Self(Form::Resource(percent_encoded(token))))
    }

    /// Bearer tokens of Entra ID, from a function that is called when one is needed.
    pub fn bearer<F, A>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<BearerToken, String>> + Send + 'static,
    {
        let ask = Box::new(move || Box::pin(ask()) as Asking);
        Self(Form::Bearer(Arc::new(Bearer { ask, held: Mutex::new(None) })))
    }

    pub(crate) fn is_bearer(&self) -> bool {
        matches!(self.0, Form::Bearer(_))
    }

    /// The value of the header for a request.
    pub(crate) async fn authorization(
        &self,
        method: &Method,
        kind: &str,
        link: &str,
        date: &str,
    ) -> Result<String> {
        match &self.0 {
            Form::Key(key) => {
                let signature = sign(key, method, kind, link, date);
                Ok(percent_encoded(&format!("type=master&ver=1.0&sig={signature}")))
            }
            Form::Resource(token) => Ok(token.clone()),
            Form::Bearer(bearer) => {
                let token = bearer.token().await?;
                Ok(percent_encoded(&format!("type=aad&ver=1.0&sig={token}")))
            }
        }
    }

    /// Forgets a token that was refused. Whether another can be asked for.
    pub(crate) async fn renew(&self) -> bool {
        let Form::Bearer(bearer) = &self.0 else { return false };
        *bearer.held.lock().await = None;
        true
    }
}

impl Bearer {
    async fn token(&self) -> Result<String> {
        // The lock is held while asking, so that many requests ask once.
        let mut held = self.held.lock().await;
        if let Some((token, until)) = &*held
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        let BearerToken { text, valid_for } = (self.ask)().await.map_err(|why| {
            Error::new(Kind::Unauthorized, format!("no bearer token could be had: {why}"))
        })?;
        let used_for = valid_for.saturating_sub(RENEW_BEFORE.min(valid_for / 2));
        *held = Instant::now().checked_add(used_for).map(|until| (text.clone(), until));
        Ok(text)
    }
}

fn sign(key: &hmac::Key, method: &Method, kind: &str, link: &str, date: &str) -> String {
    let method = method.as_str().to_ascii_lowercase();
    let text = format!("{method}\n{kind}\n{link}\n{}\n\n", date.to_ascii_lowercase());
    STANDARD.encode(hmac::sign(key, text.as_bytes()))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Form::Key(_) => "Credential(key)",
            Form::Resource(_) => "Credential(resource token)",
            Form::Bearer(_) => "Credential(bearer)",
        })
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BearerToken(valid for {:?})", self.valid_for)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// The worked example of the public REST documentation.
    #[tokio::test]
    async fn documented_signature() {
        let key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
        let date = "Thu, 27 Apr 2017 00:51:12 GMT";
        let credential = Credential::key(key).unwrap();
        let header = credential.authorization(&Method::GET, "dbs", "dbs/ToDoList", date).await;
        assert_eq!(
            header.unwrap(),
            "type%3Dmaster%26ver%3D1.0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"
        );
    }

    #[tokio::test]
    async fn a_bearer_token_is_asked_for_once_until_it_is_refused_or_old() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let credential = Credential::bearer(move || {
            let n = count.fetch_add(1, Ordering::SeqCst);
            let valid_for = if n == 1 { Duration::ZERO } else { Duration::from_secs(3600) };
            async move { Ok(BearerToken { text: format!("t{n}"), valid_for }) }
        });
        let header = async || credential.authorization(&Method::GET, "", "", "").await.unwrap();
        assert_eq!(header().await, "type%3Daad%26ver%3D1.0%26sig%3Dt0");
        assert_eq!(header().await, "type%3Daad%26ver%3D1.0%26sig%3Dt0");
        assert!(credential.renew().await);
        assert_eq!(header().await, "type%3Daad%26ver%3D1.0%26sig%3Dt1");
        assert_eq!(header().await, "type%3Daad%26ver%3D1.0%26sig%3Dt2");
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn secrets_are_not_printed() {
        let key = Credential::key("c2VjcmV0").unwrap();
        let token = Credential::resource_token("type=resource&ver=1&sig=secret").unwrap();
        assert!(!format!("{key:?} {token:?}").contains("secret"));
        assert!(Credential::key("").is_err());
        assert!(Credential::resource_token("secret").is_err());
    }
}
