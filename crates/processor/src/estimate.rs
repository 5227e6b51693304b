//! How far behind each lease is: in commits, in items and in time.

use crate::cut::{KeyRange, holder};
use crate::feed::{Ask, Feed, FeedError};
use crate::lease::{Kind, Lease, Mode, extra};
use crate::position::Start;

/// How far behind one lease is. Never negative, and never a guess that looks like a number: what
/// is not known is nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The lease's token.
    pub lease: String,
    /// Who has it.
    pub owner: Option<String>,
    /// Commits since its position.
    pub commits: Option<u64>,
    /// Items changed since its position; an estimate where the service does not count them.
    pub items: Option<u64>,
    /// Age of the oldest unprocessed change, in seconds; 0 if there is none.
    pub seconds: Option<f64>,
    /// Why nothing is known.
    pub error: Option<String>,
}

/// Estimates one lease.
pub async fn estimate(feed: &dyn Feed, lease: &Lease, ranges: &[KeyRange], wall: u64) -> Estimate {
    let mut found = Estimate {
        lease: lease.token.clone(),
        owner: lease.owner.clone(),
        commits: None,
        items: None,
        seconds: None,
        error: None,
    };
    // A lease that was never touched begins where it was made to.
    let start = lease.position().unwrap_or(Start::Beginning);
    // After a split its children have not been made yet: each of them begins at its position.
    let span = lease.span.clone();
    let parts: Vec<&KeyRange> = match holder(lease, ranges) {
        Some(range) => vec![range],
        None => ranges
            .iter()
            .filter(|range| span.as_ref().is_some_and(|span| range.span.overlaps(span)))
            .collect(),
    };
    if parts.is_empty() {
        found.error = Some("no partition key range holds what it covers".into());
    }
    for range in parts {
        let inner = span.as_ref().and_then(|span| span.intersection(&range.span));
        let whole =
            lease.kind == Kind::Range && inner.as_ref().is_none_or(|part| *part == range.span);
        let ask = Ask {
            range: range.id.clone(),
            span: if whole { None } else { inner },
            start: start.clone(),
            max_item_count: Some(1),
            wait: None,
            mode: lease.mode.unwrap_or(Mode::Latest),
            session_token: None,
        };
        match measure(feed, ask, lease, wall).await {
            Ok((commits, items, seconds)) => {
                found.commits = Some(found.commits.unwrap_or(0) + commits);
                found.items = Some(found.items.unwrap_or(0) + items);
                found.seconds = Some(found.seconds.unwrap_or(0.0).max(seconds));
            }
            Err(wrong) => found.error = Some(wrong.to_string()),
        }
    }
    found
}

async fn measure(
    feed: &dyn Feed,
    ask: Ask,
    lease: &Lease,
    wall: u64,
) -> Result<(u64, u64, f64), FeedError> {
    if let Some(lag) = feed.lag(ask.clone()).await? {
        return Ok((lag.newest.saturating_sub(lag.position), lag.items, lag.seconds));
    }
    let page = feed.read(ask).await?;
    let Some(first) = page.items.into_iter().next() else { return Ok((0, 0, 0.0)) };
    let first = crate::change::Change::new(first, &[]);
    let newest = page.newest.unwrap_or(first.lsn());
    let commits = newest.saturating_sub(first.lsn().saturating_sub(1)).max(1);
    let per_commit = lease.measure(extra::ITEMS_PER_COMMIT).max(1.0);
    let age = wall.saturating_sub(u64::try_from(first.at()).unwrap_or(0));
    Ok((commits, (commits as f64 * per_commit).round() as u64, age as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Later;
    use crate::feed::{FeedPage, Lag};
    use crate::span::Span;

    /// A feed that has one page, or an error, and may or may not know lags.
    struct Fixed {
        page: Result<FeedPage, FeedError>,
        lag: Option<Lag>,
    }

    impl Feed for Fixed {
        fn ranges(&self) -> Later<'_, Result<Vec<KeyRange>, FeedError>> {
            Box::pin(async { Ok(Vec::new()) })
        }
        fn read(&self, _: Ask) -> Later<'_, Result<FeedPage, FeedError>> {
            Box::pin(async { self.page.clone() })
        }
        fn lag(&self, _: Ask) -> Later<'_, Result<Option<Lag>, FeedError>> {
            Box::pin(async { Ok(self.lag) })
        }
        fn key_paths(&self) -> &[String] {
            &[]
        }
    }

    fn page(item: Option<&str>, newest: u64) -> Result<FeedPage, FeedError> {
        let items = item.map(|text| bytes::Bytes::copy_from_slice(text.as_bytes()));
        Ok(FeedPage {
            items: items.into_iter().collect(),
            newest: Some(newest),
            ..FeedPage::default()
        })
    }

    async fn check(feed: Fixed, per_commit: &str, ranges: &[KeyRange], expected: &str) {
        let text = r#"{"id":"P..0","LeaseToken":"0","FeedRange":{"Range":{"min":"","max":"FF"}},"ContinuationToken":"\"5\""}"#;
        let body = serde_json::from_str(text).expect("json");
        let mut lease = crate::lease::document::read(&body, None).expect("a lease");
        lease.set(extra::ITEMS_PER_COMMIT, per_commit);
        let found = estimate(&feed, &lease, ranges, 1060).await;
        let text = format!(
            "{:?} {:?} {:?} {}",
            found.commits,
            found.items,
            found.seconds,
            found.error.is_some()
        );
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn estimator_zero_and_sentinel() {
        let whole = [KeyRange { id: "0".into(), span: Span::whole(), parents: vec![] }];
        let item = r#"{"id":"1","_ts":1000,"_lsn":6}"#;
        let fixed = |page| Fixed { page, lag: None };
        check(fixed(page(None, 5)), "1", &whole, "Some(0) Some(0) Some(0.0) false").await;
        check(fixed(page(Some(item), 9)), "1", &whole, "Some(4) Some(4) Some(60.0) false").await;
        // Bulks of a hundred items per commit.
        check(fixed(page(Some(item), 9)), "100", &whole, "Some(4) Some(400) Some(60.0) false")
            .await;
        // A service whose newest commit is older than what it has just returned.
        check(fixed(page(Some(item), 3)), "1", &whole, "Some(1) Some(1) Some(60.0) false").await;
        check(fixed(Err(FeedError::Gone)), "1", &whole, "None None None true").await;
        check(fixed(page(None, 5)), "1", &[], "None None None true").await;
        let lag = Some(Lag { newest: 90, position: 41, items: 12, seconds: 3.2 });
        check(Fixed { page: page(None, 0), lag }, "1", &whole, "Some(49) Some(12) Some(3.2) false")
            .await;
        // Split, but nobody has noticed yet: the sum of the children.
        let halves: Vec<KeyRange> = Span::whole()
            .pieces(2)
            .into_iter()
            .map(|span| KeyRange { id: span.token(), span, parents: vec!["0".into()] })
            .collect();
        check(fixed(page(Some(item), 9)), "1", &halves, "Some(8) Some(8) Some(60.0) false").await;
    }
}
