//! Resource tokens: what a permission hands out so that others need no key.
//!
//! A token names its permission by rid and version, so that a permission which is deleted or
//! replaced takes its tokens with it, and says when it ends. The account's secret, which is
//! kept with the data, seals it; a token survives a restart.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Error, Fault, Result};
use ring::hmac;

/// Makes tokens and opens them.
pub struct Mint(hmac::Key);

/// What an unbroken token says.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// The permission's rid.
    pub rid: String,
    /// The permission's etag when the token was made.
    pub etag: String,
}

impl Mint {
    /// A mint with the account's secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The token of a permission, as `_token` shows it.
    pub fn make(&self, rid: &str, etag: &str, expires: u64) -> String {
        let payload = format!("{rid}\n{etag}\n{expires}");
        let seal = hmac::sign(&self.0, payload.as_bytes());
        format!(
            "type=resource&ver=1&sig={}.{}",
            URL_SAFE_NO_PAD.encode(payload),
            URL_SAFE_NO_PAD.encode(seal)
        )
    }

    /// What the `sig` part of a token says, if it is ours and not past its end.
    pub fn open(&self, signature: &str, now: u64) -> Result<Token> {
        let payload = self.unseal(signature).ok_or_else(|| {
            Error::new(Fault::Unauthorized, "this is not a resource token of this server")
        })?;
        let mut parts = payload.split('\n');
        let (rid, etag) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let expires: u64 = parts.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        if expires <= now {
            return Err(Error::new(
                Fault::Expired,
                "the resource token has expired: read the permission for a new one",
            ));
        }
        Ok(Token { rid: rid.to_owned(), etag: etag.to_owned() })
    }

    fn unseal(&self, signature: &str) -> Option<String> {
        let (payload, seal) = signature.split_once('.')?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        hmac::verify(&self.0, &payload, &seal).ok()?;
        String::from_utf8(payload).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(token: &str) -> &str {
        token.strip_prefix("type=resource&ver=1&sig=").unwrap()
    }

    #[test]
    fn a_token_comes_back_until_it_expires() {
        let mint = Mint::new(&[7; 32]);
        let token = mint.make("rid=", "\"e\"", 100);
        let expect = Token { rid: "rid=".into(), etag: "\"e\"".into() };
        assert_eq!(mint.open(signature(&token), 99), Ok(expect));
        assert_eq!(mint.open(signature(&token), 100).unwrap_err().fault, Fault::Expired);
    }

    #[test]
    fn a_token_of_others_is_refused() {
        let token = Mint::new(&[7; 32]).make("rid=", "\"e\"", 100);
        let refused = |signature: &str| Mint::new(&[8; 32]).open(signature, 1).unwrap_err().fault;
        assert_eq!(refused(signature(&token)), Fault::Unauthorized);
        for wrong in ["", ".", "a.b", "é.é"] {
            assert_eq!(refused(wrong), Fault::Unauthorized);
        }
    }
}
