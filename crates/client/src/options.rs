//! How a client behaves.

use std::time::Duration;

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose certificates are believed.
    pub trust: Trust,
    /// Regions by name, the best first. Without any, the order of the account.
    pub preferred_regions: Vec<String>,
    /// Whether to ask the account for its regions. Without that, everything goes to the endpoint
    /// that was given: right for a server behind a tunnel or a port that was mapped.
    pub region_discovery: bool,
    /// Time to connect, with the handshake.
    pub connect_timeout: Duration,
    /// Time for one attempt, from sending to the last byte of the answer. A long poll has 15
    /// seconds beyond its wait, if that is more.
    pub request_timeout: Duration,
    /// When a request is sent again.
    pub retry: Retry,
    /// Longest answer that is read.
    pub answer_bytes_max: usize,
    /// Put behind our own name in `User-Agent`.
    pub user_agent: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            preferred_regions: Vec::new(),
            region_discovery: true,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(65),
            retry: Retry::default(),
            answer_bytes_max: 64 << 20,
            user_agent: String::new(),
        }
    }
}

/// When a request is sent again.
///
/// Reads are repeated after anything that may pass. Writes are repeated only where the server has
/// said that nothing was done (429, 449, 410, a region that does not write) or where it was never
/// reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Most repetitions of one request.
    pub attempts: u32,
    /// Most time spent on waiting between them, together.
    pub waiting: Duration,
    /// The first pause where the server names none; it doubles up to 5 seconds.
    pub pause: Duration,
}

impl Retry {
    /// Every failure is told at once.
    pub const NONE: Self = Self { attempts: 0, waiting: Duration::ZERO, pause: Duration::ZERO };
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 9, waiting: Duration::from_secs(30), pause: Duration::from_millis(100) }
    }
}

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those that the operating system believes.
    System,
    /// Only those signed by these (PEM): an authority of one's own, or the server's certificate.
    Certificates(Vec<u8>),
    /// Any, on a loopback address; on others none. For servers that made their own certificate.
    AnyOnLoopback,
}
