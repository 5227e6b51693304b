//! Every way a request can be refused: one table of status, sub-status and code.
//!
//! The message of an [`Error`] says what was wrong with this request and what to do; the
//! [`Fault`] says what kind of refusal it is, and is all that programs look at.

use std::fmt;

/// Result of anything a request may be refused for.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal: its kind, and what to tell the person who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of refusal.
    pub fault: Fault,
    /// What was wrong, and what to do about it.
    pub message: String,
    /// A sub-status other than that of the kind: scripts give their own.
    pub own_substatus: Option<u32>,
}

impl Error {
    /// A refusal of the kind given.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), own_substatus: None }
    }

    /// The sub-status, 0 where there is none.
    pub fn substatus(&self) -> u32 {
        self.own_substatus.unwrap_or(self.fault.substatus())
    }

    /// Shorthand for the commonest refusal.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Fault::BadRequest, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident = $status:literal, $substatus:literal, $code:literal;)+) => {
        /// The kinds of refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault { $($(#[doc = $doc])+ $name,)+ }

        impl Fault {
            /// All kinds, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The HTTP status.
            pub fn status(self) -> u16 { match self { $(Self::$name => $status,)+ } }

            /// The sub-status, 0 where there is none.
            pub fn substatus(self) -> u32 { match self { $(Self::$name => $substatus,)+ } }

            /// The word in the `code` member of the error body.
            pub fn code(self) -> &'static str { match self { $(Self::$name => $code,)+ } }
        }
    };
}

faults! {
    /// The request is malformed or contradicts itself.
    BadRequest = 400, 0, "BadRequest";
    /// The partition key of the header is not the one in the body.
    PartitionKeyMismatch = 400, 1001, "BadRequest";
    /// A query over several partitions that only the client can put together.
    CrossPartitionQuery = 400, 1004, "BadRequest";
    /// The container was recreated: the rid that the client has in mind is another one's.
    ContainerRidMismatch = 400, 1024, "BadRequest";
    /// No, or a wrong, signature.
    Unauthorized = 401, 0, "Unauthorized";
    /// Known, but not allowed to.
    Forbidden = 403, 0, "Forbidden";
    /// A token or date that is too old or from the future.
    Expired = 403, 0, "Forbidden";
    /// A logical partition is full.
    PartitionFull = 403, 1014, "Forbidden";
    /// As many containers share the throughput of a database as may.
    TooManySharers = 403, 1019, "Forbidden";
    /// There is no such thing.
    NotFound = 404, 0, "NotFound";
    /// The session token is ahead of what this server has.
    SessionNotAvailable = 404, 1002, "NotFound";
    /// The database or container that should hold the thing does not exist.
    OwnerNotFound = 404, 1003, "NotFound";
    /// The path exists, but not with this verb.
    MethodNotAllowed = 405, 0, "MethodNotAllowed";
    /// The request took too long to arrive.
    RequestTimeout = 408, 0, "RequestTimeout";
    /// A thing with this id, or unique key, exists.
    Conflict = 409, 0, "Conflict";
    /// The named range has been split or merged.
    RangeGone = 410, 1002, "Gone";
    /// An etag condition does not hold.
    PreconditionFailed = 412, 0, "PreconditionFailed";
    /// Changes after the position asked for are no longer kept.
    HistoryPurged = 412, 2015, "PreconditionFailed";
    /// The body, or what would be stored, is too large.
    TooLarge = 413, 0, "RequestEntityTooLarge";
    /// A throughput change is under way.
    Locked = 423, 0, "Locked";
    /// Another operation of the same batch failed.
    FailedDependency = 424, 0, "FailedDependency";
    /// More request units than provisioned.
    TooManyRequests = 429, 3200, "TooManyRequests";
    /// A conflicting transaction; the same request may succeed at once.
    RetryWith = 449, 0, "RetryWith";
    /// A mistake of ours.
    Internal = 500, 0, "InternalServerError";
    /// A part of the protocol that this server does not serve.
    NotImplemented = 501, 0, "NotImplemented";
    /// The storage refuses, or the server is stopping.
    Unavailable = 503, 0, "ServiceUnavailable";
}
