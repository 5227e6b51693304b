//! The positions of a reader, without a server.

use std::time::Duration;

use hyper::HeaderMap;

use super::*;
use crate::changes::change::Change;
use crate::range::PartitionKeyRange;

fn layout(ranges: &[(&str, &str, &[&str])]) -> Layout {
    let ranges = ranges.iter().map(|(id, span, parents)| PartitionKeyRange {
        id: (*id).to_owned(),
        span: span.parse().unwrap(),
        parents: parents.iter().map(|parent| (*parent).to_owned()).collect(),
    });
    Layout::new("r".to_owned(), ranges.collect()).unwrap()
}

fn page(etag: &str, changes: usize, has_waited: bool) -> FeedPage {
    let documents = vec!["{}"; changes].join(",");
    let body = bytes::Bytes::from(format!("{{\"Documents\":[{documents}]}}"));
    FeedPage {
        changes: Change::page(&body, false).unwrap(),
        etag: etag.to_owned(),
        is_not_modified: changes == 0,
        has_waited,
        lsn: None,
        range_id: None,
        session_token: None,
        request_charge: None,
        headers: HeaderMap::new(),
    }
}

/// A reader of two ranges.
fn two(options: ChangeFeedOptions) -> Cursors {
    let (_, mut cursors) = Cursors::begin(&options, None).unwrap();
    cursors.place(&layout(&[("0", "-1F", &[]), ("1", "1F-FF", &[])])).unwrap();
    cursors
}

fn beginning() -> ChangeFeedOptions {
    ChangeFeedOptions { start_from_beginning: true, ..Default::default() }
}

fn shown(cursor: &Cursor) -> String {
    let scope = match &cursor.scope {
        FeedScope::Range(id) => id.clone(),
        FeedScope::Part { range_id, span } => format!("{range_id}[{span}]"),
        other => format!("{other:?}"),
    };
    let start = match &cursor.start {
        Start::After(etag) => etag.clone(),
        other => format!("{other:?}"),
    };
    let (waits, rests) = (cursor.waits, cursor.rests);
    let manner = [(waits, " waits"), (rests, " rests")];
    let manner: String = manner.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    format!("{scope} {start}{manner}")
}

#[tokio::test]
async fn ranges_take_turns_and_quiet_ones_are_asked_before_the_end() {
    let mut cursors = two(beginning());
    let call = Instant::now();
    let first = cursors.next_read(1, false).unwrap();
    assert_eq!(shown(&first), "0 Beginning");
    assert!(cursors.next_read(1, false).is_none(), "one at a time");
    cursors.advance(first.id, &page("a", 0, false), call);
    let second = cursors.next_read(1, false).unwrap();
    assert_eq!(shown(&second), "1 Beginning");
    cursors.advance(second.id, &page("b", 1, false), call);
    // The page was handed out; in the next call the first range's silence is old.
    let call = Instant::now() + Duration::from_secs(1);
    let second = cursors.next_read(1, false).unwrap();
    assert_eq!(shown(&second), "1 b");
    cursors.advance(second.id, &page("b", 0, false), call);
    assert!(!cursors.is_round_over(call));
    let first = cursors.next_read(1, false).unwrap();
    assert_eq!(shown(&first), "0 a");
    cursors.advance(first.id, &page("a", 0, false), call);
    assert!(cursors.is_round_over(call) && cursors.are_quiet(call));
}

#[tokio::test]
async fn a_quiet_range_is_not_starved_by_a_busy_one() {
    let mut cursors = two(beginning());
    let now = Instant::now();
    let first = cursors.next_read(1, false).unwrap();
    cursors.advance(first.id, &page("a", 0, false), now);
    let asked: Vec<String> = (0..6)
        .map(|n| {
            let cursor = cursors.next_read(1, false).unwrap();
            let is_busy = shown(&cursor).starts_with('1');
            cursors.advance(cursor.id, &page(&format!("e{n}"), usize::from(is_busy), false), now);
            shown(&cursor)
        })
        .collect();
    assert!(asked.iter().any(|read| read.starts_with('0')), "{asked:?}");
}

#[tokio::test]
async fn all_positions_are_asked_for_before_anything_is_read_from_now_on() {
    let mut cursors = two(ChangeFeedOptions::default());
    let first = cursors.next_read(1, true).unwrap();
    assert_eq!(shown(&first), "0 Now");
    cursors.advance(first.id, &page("a", 0, false), Instant::now());
    assert!(cursors.are_starting_now());
    let second = cursors.next_read(1, true).unwrap();
    assert_eq!(shown(&second), "1 Now");
    cursors.failed(second.id);
    assert_eq!(shown(&cursors.next_read(1, true).unwrap()), "1 Now");
    cursors.advance(second.id, &page("b", 0, false), Instant::now());
    assert!(!cursors.are_starting_now());
    let positions: Vec<Start> = cursors.positions().into_iter().map(|(_, start)| start).collect();
    assert_eq!(positions, [Start::After("a".into()), Start::After("b".into())]);
}

#[tokio::test]
async fn servers_are_asked_to_wait_only_where_nothing_is_new() {
    let mut cursors = two(beginning());
    let now = Instant::now();
    let read = cursors.next_read(1, true).unwrap();
    assert_eq!(shown(&read), "0 Beginning");
    cursors.advance(read.id, &page("a", 0, false), now);
    // Watching does not count against what is read at once.
    let other = cursors.next_read(1, true).unwrap();
    assert_eq!(shown(&other), "1 Beginning");
    let watch = cursors.next_read(1, true).unwrap();
    assert_eq!(shown(&watch), "0 a waits");
    assert!(!cursors.are_quiet(now));
    cursors.advance(other.id, &page("b", 0, false), now);
    assert!(cursors.are_quiet(now));
    // One that does not wait is asked after a rest, and what it said is soon old.
    cursors.advance(watch.id, &page("a", 0, false), now);
    assert_eq!(shown(&cursors.next_read(1, true).unwrap()), "1 b waits");
    assert_eq!(shown(&cursors.next_read(1, true).unwrap()), "0 a waits rests");
    assert!(!cursors.are_quiet(now + Duration::from_secs(1)));
    // One that does may take its time.
    cursors.advance(watch.id, &page("a", 0, true), now);
    assert_eq!(shown(&cursors.next_read(1, true).unwrap()), "0 a waits");
    assert!(cursors.are_quiet(now + Duration::from_secs(1)));
}

#[tokio::test]
async fn heirs_go_on_where_their_parent_was() {
    let mut cursors = two(beginning());
    let read = cursors.next_read(1, false).unwrap();
    cursors.advance(read.id, &page("a", 1, false), Instant::now());
    let after = layout(&[("2", "-0F", &["0"]), ("3", "0F-1F", &["0"]), ("1", "1F-FF", &[])]);
    cursors.cut(read.id, &after);
    let reads: Vec<String> =
        std::iter::from_fn(|| cursors.next_read(9, false)).map(|read| shown(&read)).collect();
    assert_eq!(reads, ["1 Beginning", "2 a", "3 a"]);
    // After a merge, parts keep to themselves.
    let merged = layout(&[("4", "-FF", &["1", "2", "3"])]);
    for id in 0..4 {
        cursors.cut(id, &merged);
    }
    let reads: Vec<String> =
        std::iter::from_fn(|| cursors.next_read(9, false)).map(|read| shown(&read)).collect();
    assert_eq!(reads, ["4[1F-FF] Beginning", "4[-0F] a", "4[0F-1F] a"]);
}

#[tokio::test]
async fn more_ranges_than_can_be_watched_are_asked_in_turns() {
    let bounds: Vec<String> = (1..=100).map(|n| format!("{n:02X}")).collect();
    let mut ranges = Vec::new();
    let mut min = String::new();
    for (n, max) in bounds.iter().chain([&"FF".to_owned()]).enumerate() {
        let span = format!("{min}-{max}").parse().unwrap();
        ranges.push(PartitionKeyRange { id: n.to_string(), span, parents: Vec::new() });
        min.clone_from(max);
    }
    let layout = Layout::new("r".into(), ranges).unwrap();
    let (_, mut cursors) = Cursors::begin(&beginning(), None).unwrap();
    cursors.place(&layout).unwrap();
    let now = Instant::now();
    while let Some(read) = cursors.next_read(1, true).filter(|read| read.start == Start::Beginning)
    {
        cursors.advance(read.id, &page("a", 0, false), now);
    }
    let mut watched = 1;
    while let Some(read) = cursors.next_read(1, true) {
        assert!(read.rests && !read.waits);
        watched += 1;
    }
    assert_eq!(watched, WATCHED_MAX);
}

#[tokio::test]
async fn an_answer_that_leads_nowhere_ends_the_round() {
    let mut cursors = two(beginning());
    let now = Instant::now();
    let empty = |etag: &str| FeedPage { is_not_modified: false, ..page(etag, 0, false) };
    for etag in ["a", "b", "b"] {
        for _ in 0..2 {
            assert!(!cursors.is_round_over(now));
            let read = cursors.next_read(1, false).unwrap();
            cursors.advance(read.id, &empty(etag), now);
        }
    }
    assert!(cursors.is_round_over(now));
}

fn reads(options: &ChangeFeedOptions, layout: &Layout) -> Result<Vec<String>> {
    let continuation = match &options.request_continuation {
        Some(text) => Continuation::parse(text)?,
        None => None,
    };
    let (_, mut cursors) = Cursors::begin(options, continuation)?;
    cursors.place(layout)?;
    Ok(std::iter::from_fn(|| cursors.next_read(9, false)).map(|read| shown(&read)).collect())
}

#[tokio::test]
async fn an_etag_belongs_to_one_range() {
    let etag =
        || ChangeFeedOptions { request_continuation: Some("e".into()), ..Default::default() };
    let one = layout(&[("0", "-FF", &[])]);
    let two = layout(&[("1", "-1F", &["0"]), ("2", "1F-FF", &["0"])]);
    assert_eq!(reads(&etag(), &one).unwrap(), ["0 e"]);
    assert!(reads(&etag(), &two).unwrap_err().message().contains("there are 2"));
    let named = |id: &str| ChangeFeedOptions { partition_key_range_id: Some(id.into()), ..etag() };
    assert_eq!(reads(&named("2"), &two).unwrap(), ["2 e"]);
    assert_eq!(reads(&named("0"), &two).unwrap(), ["1 e", "2 e"]);
    let part = ChangeFeedOptions { feed_range: Some("10-20".parse().unwrap()), ..etag() };
    assert_eq!(reads(&part, &two).unwrap(), ["1[10-1F] e", "2[1F-20] e"]);
}

#[tokio::test]
async fn a_range_of_which_only_the_id_is_known_is_kept_by_its_id() {
    let text = r#"{"feed":1,"rid":"r","mode":"latest","range":"2","ranges":[{"min":"","max":"FF","etag":"e"}]}"#;
    let kept =
        || ChangeFeedOptions { request_continuation: Some(text.into()), ..Default::default() };
    let two = layout(&[("1", "-1F", &["0"]), ("2", "1F-FF", &["0"])]);
    assert_eq!(reads(&kept(), &two).unwrap(), ["2 e"]);
    let same = ChangeFeedOptions { partition_key_range_id: Some("2".into()), ..kept() };
    assert_eq!(reads(&same, &two).unwrap(), ["2 e"]);
    let other = ChangeFeedOptions { partition_key_range_id: Some("1".into()), ..kept() };
    assert!(reads(&other, &two).is_err());
    let part = ChangeFeedOptions { feed_range: Some(FeedRange::full()), ..kept() };
    assert!(reads(&part, &two).is_err());
}
