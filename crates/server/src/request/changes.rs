//! The headers of a feed read: which changes, from where, in which form, and how they are sent.

use std::time::Duration;

use engine::{ChangesFilter, ChangesMode, ChangesRead, ChangesStart};
use hyper::header::{ACCEPT, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use model::Result;
use model::token::Position;

use super::{Headers, wrong};
use crate::{date, header};

/// Longest wait for a change.
const WAIT_SECONDS_MAX: u64 = 60;

/// What a read of the change feed asks for.
#[derive(Debug, Clone)]
pub struct ChangesRequest {
    /// What the engine is asked.
    pub read: ChangesRead,
    /// Which of them are wanted, and what of them.
    pub filter: Option<ChangesFilter>,
    /// How changes are written.
    pub form: Form,
    /// How the answer is sent.
    pub delivery: Delivery,
}

/// How changes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The item itself, with its LSN; a delete as an envelope.
    Bare,
    /// `{"current": …, "metadata": …}`.
    Envelope,
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// At once, whatever there is.
    AtOnce,
    /// As soon as there is something, but after this time at the latest.
    Within(Duration),
    /// For as long as the client listens, as events.
    Events,
}

impl Headers<'_> {
    /// What a read of the change feed asks for.
    pub fn changes(self) -> Result<ChangesRequest> {
        let mode = self.changes_mode()?;
        let delivery = self.delivery()?;
        // Without a number, a page is short; with -1 it may be as long as pages get.
        let asked = self.text(&header::MAX_ITEM_COUNT)?.unwrap_or("");
        let items = if asked == "-1" { Some(usize::MAX) } else { self.page()?.items };
        let format = self.text(&header::FEED_FORMAT)?.unwrap_or("");
        let form = match mode {
            ChangesMode::Latest { .. } if format.is_empty() => Form::Bare,
            _ => Form::Envelope,
        };
        let start = self.changes_start(delivery == Delivery::Events)?;
        Ok(ChangesRequest {
            read: ChangesRead { scope: self.scope()?, start, mode, items },
            filter: None,
            form,
            delivery,
        })
    }

    /// The position that a request names, if it names one.
    pub fn position(self) -> Result<Option<Position>> {
        let text = self.text(&IF_NONE_MATCH)?.filter(|text| !text.is_empty());
        text.map(Position::parse).transpose()
    }

    fn changes_mode(self) -> Result<ChangesMode> {
        let deletes = self.flag(&header::FEED_DELETES)?;
        match self.text(&header::A_IM)?.unwrap_or("") {
            word if word.eq_ignore_ascii_case("Incremental feed") => {
                Ok(ChangesMode::Latest { deletes })
            }
            word if word.eq_ignore_ascii_case("Full-Fidelity Feed") => Ok(ChangesMode::AllVersions),
            word => Err(wrong(
                &header::A_IM,
                word,
                "must be 'Incremental feed' or 'Full-Fidelity Feed'",
            )),
        }
    }

    /// A position says more than a time; clients send both. What a listener has heard last says
    /// more than where it once began.
    fn changes_start(self, events: bool) -> Result<ChangesStart> {
        let heard = if events { self.text(&header::LAST_EVENT_ID)? } else { None };
        if let Some(heard) = heard.filter(|text| !text.is_empty()) {
            return Position::parse(heard).map(ChangesStart::After);
        }
        match self.text(&IF_NONE_MATCH)?.filter(|text| !text.is_empty()) {
            Some("*") => return Ok(ChangesStart::Now),
            Some(etag) => return Position::parse(etag).map(ChangesStart::After),
            None => {}
        }
        let Some(text) = self.text(&IF_MODIFIED_SINCE)?.filter(|text| !text.is_empty()) else {
            return Ok(ChangesStart::Beginning);
        };
        let seconds = date::parse(text).ok_or_else(|| {
            let why = "must be a date such as 'Thu, 27 Apr 2017 00:51:12 GMT'";
            wrong(&IF_MODIFIED_SINCE, text, why)
        })?;
        Ok(ChangesStart::Since(seconds * 1000))
    }

    fn delivery(self) -> Result<Delivery> {
        let wait = self.wait()?;
        let events = |kind: &&str| media_type(kind).eq_ignore_ascii_case("text/event-stream");
        if self.list(&ACCEPT)?.iter().any(events) {
            return Ok(Delivery::Events);
        }
        Ok(wait.map_or(Delivery::AtOnce, Delivery::Within))
    }

    /// `Prefer: wait=10`, alone or among others.
    fn wait(self) -> Result<Option<Duration>> {
        for preference in self.list(&header::PREFER)? {
            let (name, value) = media_type(preference).split_once('=').unwrap_or_default();
            if !name.trim().eq_ignore_ascii_case("wait") {
                continue;
            }
            let seconds = value.trim().trim_matches('"').parse();
            return match seconds {
                Ok(seconds @ 1..=WAIT_SECONDS_MAX) => Ok(Some(Duration::from_secs(seconds))),
                _ => {
                    let why = format!("must ask to wait for 1 to {WAIT_SECONDS_MAX} seconds");
                    Err(wrong(&header::PREFER, preference.trim(), &why))
                }
            };
        }
        Ok(None)
    }
}

/// A word of a list without its parameters.
fn media_type(entry: &str) -> &str {
    entry.split(';').next().unwrap_or("").trim()
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    /// Headers as `name: value` lines against what they ask for, or the refusal.
    #[track_caller]
    fn check(headers: &str, expect: &str) {
        let mut map = HeaderMap::new();
        for line in headers.lines() {
            let (name, value) = line.trim().split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let got = match Headers::of(&map).changes() {
            Ok(ChangesRequest { read, form, delivery, .. }) => {
                format!("{:?} {:?} {form:?} {delivery:?}", read.mode, read.start)
            }
            Err(error) => error.message,
        };
        assert!(got.contains(expect), "{headers}: {got}");
    }

    #[test]
    fn modes_and_forms() {
        check("a-im: incremental FEED", "Latest { deletes: false } Beginning Bare AtOnce");
        check("a-im: Full-Fidelity Feed", "AllVersions Beginning Envelope AtOnce");
        check(
            "a-im: Incremental Feed\nx-ms-cosmos-changefeed-wire-format-version: 2021-09-15",
            "Beginning Envelope",
        );
        check(
            "a-im: Incremental Feed\nx-astrarium-feed-deletes: true",
            "Latest { deletes: true } Beginning Bare",
        );
        check("a-im: Everything", "must be 'Incremental feed' or");
        check("a-im: Incremental Feed\nx-astrarium-feed-deletes: 2", "True or False");
    }

    #[test]
    fn starts() {
        let check =
            |headers: &str, expect| check(&format!("a-im: Incremental Feed\n{headers}"), expect);
        check("if-none-match: *", " Now ");
        check("if-none-match: \"7\"", "After(Lsn(7))");
        check("if-none-match: banana", "is not the etag of a change feed");
        check("if-none-match: \"7\"\nif-none-match: \"7\"", "After(Lsn(7))");
        check("if-none-match: \"7\"\nif-none-match: \"9\"", "if-none-match is sent more than once");
        check("if-modified-since: Thu, 27 Apr 2017 00:51:12 GMT", "Since(1493254272000)");
        check("if-modified-since: yesterday", "must be a date");
        check(
            "if-modified-since: Thu, 27 Apr 2017 00:51:12 GMT\nif-none-match: 9",
            "After(Lsn(9))",
        );
        check("last-event-id: \"8\"", "Beginning");
        check("last-event-id: \"8\"\naccept: text/event-stream\nif-none-match: *", "After(Lsn(8))");
    }

    #[test]
    fn deliveries() {
        let check =
            |headers: &str, expect| check(&format!("a-im: Incremental Feed\n{headers}"), expect);
        check("prefer: wait=1", "Within(1s)");
        check("accept: application/json\naccept: text/event-stream", "Events");
        check("prefer: return=minimal, Wait=60", "Within(60s)");
        check("prefer: return=minimal\nprefer: wait=\"5\"; x=y", "Within(5s)");
        check("prefer: respond-async", "AtOnce");
        check("accept: application/json, Text/Event-Stream;q=1", "Events");
        for wrong in ["0", "61", "-1", "1.5", "soon", ""] {
            check(&format!("prefer: wait={wrong}"), "must ask to wait");
        }
    }
}
