//! Where an account is, and by which right it is used.

use hyper::Uri;

use crate::credential::Credential;
use crate::error::{Error, Result};

/// An endpoint and a credential.
#[derive(Debug, Clone)]
pub struct Account {
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: Credential,
}

impl Account {
    /// The account at `http://host:port/` or `https://host/`.
    pub fn new(endpoint: &str, credential: Credential) -> Result<Self> {
        let endpoint = Endpoint::parse(endpoint)?;
        if credential.is_bearer() && !endpoint.is_secure {
            return Err(Error::setting(
                "a bearer token is only sent over https: it would be readable on the way",
            ));
        }
        Ok(Self { endpoint, credential })
    }

    /// The account of `AccountEndpoint=…;AccountKey=…;`, as portals show it.
    pub fn from_connection_string(text: &str) -> Result<Self> {
        let (mut endpoint, mut key) = (None, None);
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Error::setting("a connection string is made of name=value; parts")
            })?;
            if name.trim().eq_ignore_ascii_case("AccountEndpoint") {
                endpoint = Some(value.trim());
            } else if name.trim().eq_ignore_ascii_case("AccountKey") {
                key = Some(value.trim());
            }
        }
        match (endpoint, key) {
            (Some(endpoint), Some(key)) => Self::new(endpoint, Credential::key(key)?),
            _ => Err(Error::setting(
                "a connection string needs AccountEndpoint=…; and AccountKey=…;",
            )),
        }
    }
}

/// An address to send requests to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub is_secure: bool,
    /// `host` or `host:port`.
    pub authority: String,
}

impl Endpoint {
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::setting(format!("'{text}' is not an endpoint: {why}"));
        let uri: Uri = text.trim().parse().map_err(|_| wrong("it must look like https://host/"))?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it must begin with https:// or http://")),
        };
        let Some(authority) = uri.authority() else { return Err(wrong("it has no host")) };
        if authority.as_str().contains('@') {
            return Err(wrong("it must not carry a user name"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("it must have no path"));
        }
        Ok(Self { is_secure, authority: authority.as_str().to_owned() })
    }

    /// The address of a path, which begins with a slash.
    pub fn uri(&self, path: &str) -> Result<Uri> {
        let scheme = if self.is_secure { "https" } else { "http" };
        Uri::builder()
            .scheme(scheme)
            .authority(self.authority.as_str())
            .path_and_query(path)
            .build()
            .map_err(|error| Error::setting(format!("the path '{path}' cannot be sent: {error}")))
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http{}://{}/", if self.is_secure { "s" } else { "" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let got = match Account::from_connection_string(text) {
            Ok(account) => account.endpoint.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(got.contains(expect), "{text}: {got}");
    }

    #[test]
    fn connection_strings() {
        check(
            "AccountEndpoint=https://a.example:443/;AccountKey=c2VjcmV0;",
            "https://a.example:443/",
        );
        check("accountkey = c2VjcmV0 ; accountendpoint = http://[::1]:8081", "http://[::1]:8081/");
        check("AccountEndpoint=https://a/;AccountKey=a==;Database=x", "not base64");
        check("AccountKey=c2VjcmV0", "needs AccountEndpoint");
        check("https://a.example", "name=value");
        check("", "needs AccountEndpoint");
        check("AccountEndpoint=ftp://a/;AccountKey=c2VjcmV0", "must begin with");
        check("AccountEndpoint=a.example;AccountKey=c2VjcmV0", "must begin with");
        check("AccountEndpoint=https://a/b;AccountKey=c2VjcmV0", "no path");
        check("AccountEndpoint=https://u:p@a/;AccountKey=c2VjcmV0", "user name");
        check("AccountEndpoint=https://;AccountKey=c2VjcmV0", "is not an endpoint");
    }

    #[test]
    fn bearer_tokens_need_tls() {
        let bearer = || Credential::bearer(|| async { Err("never asked".into()) });
        assert!(Account::new("http://127.0.0.1:8081", bearer()).is_err());
        assert!(Account::new("https://a.example", bearer()).is_ok());
    }
}
