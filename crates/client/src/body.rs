//! What can be sent as the body of an item.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// What can be sent as the body of an item: JSON text as it is, or a value that is written as such.
pub trait IntoBody {
    /// The JSON text.
    fn into_body(self) -> Result<Bytes>;
}

/// A value of a type of one's own, written by serde.
#[derive(Debug, Clone, Copy)]
pub struct Typed<T>(pub T);

impl<T: Serialize> IntoBody for Typed<T> {
    fn into_body(self) -> Result<Bytes> {
        serde_json::to_vec(&self.0)
            .map(Bytes::from)
            .map_err(|error| Error::setting(format!("the item cannot be written as JSON: {error}")))
    }
}

impl IntoBody for Bytes {
    fn into_body(self) -> Result<Bytes> {
        Ok(self)
    }
}

impl IntoBody for Vec<u8> {
    fn into_body(self) -> Result<Bytes> {
        Ok(self.into())
    }
}

impl IntoBody for String {
    fn into_body(self) -> Result<Bytes> {
        Ok(self.into())
    }
}

impl IntoBody for &str {
    fn into_body(self) -> Result<Bytes> {
        Ok(Bytes::copy_from_slice(self.as_bytes()))
    }
}

impl IntoBody for &Value {
    fn into_body(self) -> Result<Bytes> {
        Typed(self).into_body()
    }
}

impl IntoBody for Value {
    fn into_body(self) -> Result<Bytes> {
        Typed(self).into_body()
    }
}
