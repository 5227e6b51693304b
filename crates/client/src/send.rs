//! Sends a request until it has an answer that is no refusal, or there is no point in going on.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hyper::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, HeaderValue, USER_AGENT};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::account::{Account, Endpoint};
use crate::answer::Answer;
use crate::connector::Connector;
use crate::credential::Credential;
use crate::error::{Error, Kind, Result};
use crate::options::{Options, Retry};
use crate::regions::{AccountDocument, Regions};
use crate::request::Request;
use crate::retry::{Failed, Nature, Pauses, Verdict, maybe_applied, verdict};
use crate::session::Session;
use crate::transport::Transport;
use crate::{date, header};

/// The version of the protocol that we speak.
const PROTOCOL: &str = "2020-07-15";
/// We understand ranges that were merged.
const CAPABILITIES: &str = "1";
/// What a long poll has beyond its wait.
const WAIT_SLACK: Duration = Duration::from_secs(15);
/// An account that does not tell its regions by then is used as it was given.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest text of a refusal that is repeated to the caller.
const MESSAGE_CHARS_MAX: usize = 2000;

/// Everything that requests of one client share.
#[derive(Debug)]
pub struct Sender {
    credential: Credential,
    transport: Transport,
    regions: Regions,
    /// Held while the account is asked for its regions, so that it is asked once.
    asking: Mutex<()>,
    discovers: bool,
    pub retry: Retry,
    request_timeout: Duration,
    user_agent: HeaderValue,
    random: SystemRandom,
}

impl Sender {
    pub fn new(account: Account, options: Options) -> Result<Arc<Self>> {
        let connector = Connector::new(options.trust.clone(), options.connect_timeout);
        if account.endpoint.is_secure {
            connector.tls_config().map_err(Error::setting)?;
        }
        let user_agent =
            format!("astrarium-client/{} {}", env!("CARGO_PKG_VERSION"), options.user_agent);
        let user_agent = HeaderValue::from_str(user_agent.trim())
            .map_err(|_| Error::setting("user_agent cannot be sent in a header"))?;
        Ok(Arc::new(Self {
            credential: account.credential,
            transport: Transport::new(connector, &options),
            regions: Regions::new(account.endpoint, options.preferred_regions),
            asking: Mutex::new(()),
            discovers: options.region_discovery,
            retry: options.retry,
            request_timeout: options.request_timeout,
            user_agent,
            random: SystemRandom::new(),
        }))
    }

    /// Sends a request; refusals are errors. With a session, tokens are sent and taken in.
    pub async fn send(&self, request: &Request, session: Option<&Session>) -> Result<Answer> {
        let mut pauses = Pauses::new(self.retry);
        let nature = Nature {
            is_read: request.is_read,
            names_range: request.names_range,
            waits: !request.wait.is_zero(),
        };
        let (mut attempts, mut renewed) = (0, false);
        loop {
            self.locate().await;
            let endpoint = self.regions.endpoint(request.is_read, Instant::now());
            attempts += 1;
            let error = match self.attempt(request, session, &endpoint).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let failed = Failed {
                kind: error.kind(),
                status: error.status().unwrap_or(0),
                substatus: error.substatus(),
                retry_after: error.retry_after(),
            };
            let verdict = verdict(failed, nature);
            let give_up = match verdict {
                Verdict::GiveUp => true,
                Verdict::Renew => renewed || !self.credential.renew().await,
                _ => false,
            };
            let pause =
                if give_up { None } else { pauses.next(error.retry_after(), self.chance()) };
            let Some(pause) = pause else {
                let maybe = maybe_applied(&error, request.is_read);
                return Err(error.with_attempts(attempts).with_maybe_applied(maybe));
            };
            tracing::debug!(%error, ?pause, ?verdict, link = request.link, "trying again");
            match verdict {
                Verdict::Elsewhere => self.regions.mark_down(&endpoint, Instant::now()),
                Verdict::Relocated => {
                    self.regions.mark_down(&endpoint, Instant::now());
                    self.regions.forget();
                }
                Verdict::Renew => renewed = true,
                Verdict::Again | Verdict::GiveUp => {}
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The account document, as it is.
    pub async fn account(&self) -> Result<Answer> {
        self.send(&Request::account(), None).await
    }

    /// Makes sure that the regions are known, as far as they can be. An account that does not
    /// tell (a resource token may not be enough) is used by the address that was given.
    async fn locate(&self) {
        if !self.discovers || !self.regions.are_stale(Instant::now()) {
            return;
        }
        let _one_asks = match self.asking.try_lock() {
            Ok(guard) => guard,
            // What was known before is good enough while somebody asks.
            Err(_) if self.regions.are_known() => return,
            Err(_) => self.asking.lock().await,
        };
        if !self.regions.are_stale(Instant::now()) {
            return;
        }
        let endpoint = self.regions.endpoint(true, Instant::now());
        let request = Request::account();
        let asking = self.attempt(&request, None, &endpoint);
        let document = match tokio::time::timeout(ACCOUNT_TIMEOUT, asking).await {
            Ok(Ok(answer)) => answer.parse::<AccountDocument>().ok(),
            Ok(Err(error)) => {
                tracing::debug!(%error, %endpoint, "the account does not tell its regions");
                None
            }
            Err(_) => None,
        };
        self.regions.learn(document, Instant::now());
    }

    async fn attempt(
        &self,
        request: &Request,
        session: Option<&Session>,
        endpoint: &Endpoint,
    ) -> Result<Answer> {
        let activity_id = self.activity_id();
        let uri = endpoint.uri(&request.path)?;
        let headers = self.headers(request, session, &activity_id).await?;
        let timeout = attempt_timeout(self.request_timeout, request.wait);
        let target = (request.method.clone(), uri);
        let answer = self.transport.attempt(target, headers, request.body.clone(), timeout).await;
        let answer = answer.map_err(|failure| {
            let error = Error::from(failure);
            let message = format!("{endpoint}: {}", error.message());
            Error::new(error.kind(), message).with_activity(Some(activity_id))
        })?;
        if let Some(session) = session {
            session.learn(&answer);
        }
        if answer.status < 400 { Ok(answer) } else { Err(refusal(&answer)) }
    }

    async fn headers(
        &self,
        request: &Request,
        session: Option<&Session>,
        activity_id: &str,
    ) -> Result<hyper::HeaderMap> {
        let mut signed = Request {
            headers: request.headers.clone(),
            body: Default::default(),
            ..request.clone()
        };
        let date = date::format(date::seconds(SystemTime::now()));
        let authorization = self
            .credential
            .authorization(&request.method, request.kind, &request.link, &date)
            .await?;
        signed.set_text(AUTHORIZATION, &authorization)?;
        signed.set_text(header::MS_DATE, &date)?;
        signed.set_text(header::ACTIVITY_ID, activity_id)?;
        signed.set(header::MS_VERSION, PROTOCOL);
        signed.set(header::CAPABILITIES, CAPABILITIES);
        signed.set(ACCEPT, "application/json");
        signed.set(CACHE_CONTROL, "no-cache");
        if request.is_read && !signed.headers.contains_key(header::SESSION_TOKEN) {
            let range = signed.headers.get(header::RANGE_ID).and_then(|id| id.to_str().ok());
            if let Some(token) = session.and_then(|session| session.token(range)) {
                signed.set_text(header::SESSION_TOKEN, &token)?;
            }
        }
        signed.headers.insert(USER_AGENT, self.user_agent.clone());
        Ok(signed.headers)
    }

    fn activity_id(&self) -> String {
        let mut bytes = [0; 16];
        // Without chance the id is of less use, and nothing else depends on it.
        let _ = self.random.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    fn chance(&self) -> f64 {
        let mut byte = [0; 1];
        let _ = self.random.fill(&mut byte);
        f64::from(byte[0]) / 255.0
    }
}

/// How long one attempt may take.
fn attempt_timeout(usual: Duration, wait: Duration) -> Duration {
    if wait.is_zero() { usual } else { usual.max(wait + WAIT_SLACK) }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RefusalBody {
    #[serde(default)]
    message: String,
    additional_error_info: Option<String>,
}

/// The error that a refusal is.
fn refusal(answer: &Answer) -> Error {
    let body: RefusalBody = serde_json::from_slice(&answer.body).unwrap_or_default();
    let mut message = match body.message.is_empty() {
        false => body.message,
        true => String::from_utf8_lossy(&answer.body).trim().to_owned(),
    };
    if message.is_empty() {
        "the server gave no reason".clone_into(&mut message);
    }
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(end);
    }
    let millis = answer.text(&header::RETRY_AFTER_MS).and_then(|text| text.parse::<f64>().ok());
    let retry_after = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok());
    Error::refusal(answer.status, answer.substatus(), message)
        .with_detail(body.additional_error_info)
        .with_activity(answer.activity_id().map(str::to_owned))
        .with_retry_after(retry_after)
}

impl Error {
    /// Whether a query cannot be answered by the gateway as a whole.
    pub(crate) fn asks_for_ranges(&self) -> bool {
        self.kind() == Kind::BadRequest && self.substatus() == 1004
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_given_its_time() {
        let (short, usual) = (Duration::from_millis(300), Duration::from_secs(65));
        assert_eq!(attempt_timeout(short, Duration::ZERO), short);
        assert_eq!(attempt_timeout(short, Duration::from_secs(10)), Duration::from_secs(25));
        assert_eq!(attempt_timeout(usual, Duration::from_secs(10)), usual);
        assert_eq!(attempt_timeout(usual, Duration::from_secs(60)), Duration::from_secs(75));
    }

    #[test]
    fn refusals_say_what_the_server_said() {
        let answer = |body: &str, millis: &str| {
            let mut headers = hyper::HeaderMap::new();
            headers.insert(header::RETRY_AFTER_MS, millis.parse().expect("a header"));
            headers.insert(header::SUBSTATUS, "3200".parse().expect("a header"));
            refusal(&Answer { status: 429, headers, body: body.to_owned().into() })
        };
        let error =
            answer(r#"{"code":"x","message":"slow down","additionalErrorInfo":"{}"}"#, "12.5");
        assert_eq!(
            (error.message(), error.detail(), error.substatus()),
            ("slow down", Some("{}"), 3200)
        );
        assert_eq!(error.retry_after(), Some(Duration::from_micros(12_500)));
        assert_eq!(answer("plain text", "-1").message(), "plain text");
        for odd in ["-1", "NaN", "inf", "1e300", ""] {
            assert_eq!(answer("", odd).retry_after(), None, "{odd}");
        }
        assert_eq!(answer(&"é".repeat(5000), "1").message().chars().count(), MESSAGE_CHARS_MAX);
    }
}
