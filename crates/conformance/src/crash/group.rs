//! Writers that change several items at once, by batches, procedures and bulk, and the check that
//! what belongs together is there together, or not at all.
//!
//! Each group owns the items of one partition key. A batch or a procedure changes all of them in one
//! transaction; a bulk request changes them too, but each for itself. Every body names the write
//! that made it, so that the change feed shows which items must stand together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Outcome, Report, fail, filling};
use crate::http::Response;
use crate::json::{Json, quoted};
use crate::random::Random;
use crate::wire::Wire;

/// The container of all groups, and the procedure in it.
pub const CONTAINER: &str = "groups";
/// What a container of groups is.
pub const DEFINITION: &str =
    r#"{"id":"groups","partitionKey":{"paths":["/a"],"kind":"Hash","version":2}}"#;
const PATH: &str = "/dbs/crash/colls/groups";
const PROCEDURE: &str = "function change(steps) { \
    var link = __.getSelfLink(), alt = __.getAltLink(), done = 0; \
    var next = function (error) { if (error) throw error; __.response.setBody(++done); }; \
    steps.forEach(function (step) { \
        var item = alt + '/docs/' + step.id; \
        var taken = step.kind === 'Create' ? __.createDocument(link, step.body, next) \
            : step.kind === 'Replace' ? __.replaceDocument(item, step.body, next) \
            : __.deleteDocument(item, next); \
        if (!taken) throw new Error('not accepted'); \
    }); }";

/// Items of one group.
const ITEMS: usize = 9;

/// How a group is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Batch,
    Procedure,
    Bulk,
}

/// What a group knows of one of its items: the number of the write that made it, none where there is
/// no such item; and the same for a write whose answer never came.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    stored: Option<u64>,
    pending: Option<Option<u64>>,
}

/// A client that changes the items of one partition key together, and remembers.
#[derive(Debug)]
pub struct Group {
    name: String,
    random: Random,
    items: [Known; ITEMS],
    /// The number of the last write.
    write: u64,
    /// How the write was sent whose answer never came.
    in_flight: Option<Way>,
    batches: u64,
    procedures: u64,
    bulks: u64,
    wrong: Vec<String>,
}

/// One item of a group, as the change feed shows it.
#[derive(Debug)]
struct Seen {
    id: String,
    write: u64,
    /// Whether the write was a transaction.
    atomic: bool,
    filling: String,
    lsn: String,
    page: usize,
}

impl Seen {
    fn of(body: &Json, page: usize) -> Option<Self> {
        let number = |name| match body.get(name) {
            Some(Json::Number(number)) => Some(number.clone()),
            _ => None,
        };
        Some(Self {
            id: body.get("id")?.text()?.to_owned(),
            write: number("write")?.parse().ok()?,
            atomic: body.get("atomic") == Some(&Json::Bool(true)),
            filling: body.get("filling")?.text()?.to_owned(),
            lsn: number("_lsn").unwrap_or_default(),
            page,
        })
    }
}

/// Makes the container and the procedure of all groups.
pub fn prepare(wire: &mut Wire) {
    let mut make = |path: &str, body: &str| {
        let made = wire.send("POST", path, &[], body.as_bytes()).expect("the server answers");
        assert_eq!(made.status, 201, "{}", made.text());
    };
    make("/dbs/crash/colls", DEFINITION);
    let procedure = format!(r#"{{"id":"change","body":{}}}"#, quoted(PROCEDURE));
    make(&format!("{PATH}/sprocs"), &procedure);
}

impl Group {
    /// The group of that number.
    pub fn new(number: usize, seed: u64) -> Self {
        Self {
            name: format!("g{number}"),
            random: Random::new(seed.wrapping_mul(7919).wrapping_add(number as u64)),
            items: [Known::default(); ITEMS],
            write: 0,
            in_flight: None,
            batches: 0,
            procedures: 0,
            bulks: 0,
            wrong: Vec::new(),
        }
    }

    /// Writes until told to stop or until the server is gone.
    pub fn write(&mut self, endpoint: &str, stop: &AtomicBool) {
        let mut wire = Wire::new(endpoint);
        while !stop.load(Ordering::Relaxed) && self.change(&mut wire) != Outcome::Unknown {}
    }

    /// One write of the whole group.
    fn change(&mut self, wire: &mut Wire) -> Outcome {
        let way = [Way::Batch, Way::Procedure, Way::Bulk][self.random.below(3) as usize];
        self.write += 1;
        let mut steps = Vec::with_capacity(ITEMS);
        for n in 0..ITEMS {
            let exists = self.items[n].stored.is_some();
            let deletes = exists && self.random.below(5) == 0;
            let kind = match (exists, deletes) {
                (_, true) => "Delete",
                (true, false) => "Replace",
                (false, false) => "Create",
            };
            self.items[n].pending = Some((!deletes).then_some(self.write));
            steps.push(self.step(way, kind, n));
        }
        let body = format!("[{}]", steps.join(","));
        let key = format!(r#"["{}"]"#, self.name);
        let answer = match way {
            Way::Procedure => {
                let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
                let arguments = format!("[{body}]");
                wire.send("POST", &format!("{PATH}/sprocs/change"), &headers, arguments.as_bytes())
            }
            Way::Batch => {
                let headers = [
                    ("x-ms-documentdb-partitionkey", key.as_str()),
                    ("x-ms-cosmos-is-batch-request", "True"),
                    ("x-ms-cosmos-batch-atomic", "True"),
                ];
                wire.send("POST", &format!("{PATH}/docs"), &headers, body.as_bytes())
            }
            Way::Bulk => {
                let headers = [
                    ("x-ms-documentdb-partitionkeyrangeid", "0"),
                    ("x-ms-cosmos-is-batch-request", "True"),
                    ("x-ms-cosmos-batch-atomic", "False"),
                    ("x-ms-cosmos-batch-continue-on-error", "True"),
                ];
                wire.send("POST", &format!("{PATH}/docs"), &headers, body.as_bytes())
            }
        };
        self.in_flight = Some(way);
        let Ok(answer) = answer else { return Outcome::Unknown };
        self.in_flight = None;
        self.learn(way, &answer)
    }

    fn step(&self, way: Way, kind: &str, n: usize) -> String {
        let (id, write) = (self.id(n), self.write);
        let filling = filling(&id, write);
        let body = format!(
            r#"{{"id":"{id}","a":"{}","write":{write},"atomic":{},"filling":"{filling}"}}"#,
            self.name,
            way != Way::Bulk,
        );
        let with_body = if kind == "Delete" { String::new() } else { body };
        let part = |name: &str| match with_body.as_str() {
            "" => String::new(),
            body => format!(r#","{name}":{body}"#),
        };
        let id = if kind == "Create" { String::new() } else { format!(r#","id":"{id}""#) };
        match way {
            Way::Procedure => format!(r#"{{"kind":"{kind}"{id}{}}}"#, part("body")),
            Way::Batch => format!(r#"{{"operationType":"{kind}"{id}{}}}"#, part("resourceBody")),
            Way::Bulk => format!(
                r#"{{"operationType":"{kind}","partitionKey":"[\"{}\"]"{id}{}}}"#,
                self.name,
                part("resourceBody")
            ),
        }
    }

    fn learn(&mut self, way: Way, answer: &Response) -> Outcome {
        if way == Way::Bulk && matches!(answer.status, 200 | 207) {
            return self.learn_each(answer);
        }
        let done = answer.status == 200;
        for item in &mut self.items {
            let pending = item.pending.take();
            item.stored = pending.filter(|_| done).unwrap_or(item.stored);
        }
        if !done {
            self.complain(way, answer.status, &answer.text());
            return Outcome::Refused;
        }
        match way {
            Way::Batch => self.batches += 1,
            Way::Procedure => self.procedures += 1,
            Way::Bulk => self.bulks += 1,
        }
        Outcome::Acknowledged
    }

    /// What became of each operation of a bulk request.
    fn learn_each(&mut self, answer: &Response) -> Outcome {
        let results = Json::parse(&answer.text()).unwrap_or(Json::Null);
        let results = results.items().unwrap_or_default();
        for n in 0..ITEMS {
            let status = match results.get(n).and_then(|result| result.get("statusCode")) {
                Some(Json::Number(status)) => status.parse().unwrap_or(0),
                _ => 0,
            };
            let pending = self.items[n].pending.take();
            if (200..300).contains(&status) {
                self.items[n].stored = pending.flatten();
            } else {
                self.complain(Way::Bulk, status, &format!("of {}", self.id(n)));
            }
        }
        self.bulks += 1;
        Outcome::Acknowledged
    }

    /// A busy server may refuse; anything else means that it does not know what we know.
    fn complain(&mut self, way: Way, status: u16, text: &str) {
        if !matches!(status, 408 | 429 | 449 | 503) {
            self.wrong.push(format!("{way:?} of {}: {status} {text}", self.name));
        }
    }

    fn owns(&self, id: &str) -> bool {
        (0..ITEMS).any(|n| self.id(n) == id)
    }

    fn id(&self, n: usize) -> String {
        format!("{}-{n}", self.name)
    }

    /// Compares what the change feed shows of the group with what it knows.
    fn check(&mut self, seen: &HashMap<String, Seen>, report: &mut Report) {
        report.batches += std::mem::take(&mut self.batches);
        report.procedures += std::mem::take(&mut self.procedures);
        report.bulks += std::mem::take(&mut self.bulks);
        report.wrong.append(&mut self.wrong);
        let way = self.in_flight.take();
        report.in_flight += u64::from(way.is_some());
        let found: Vec<Option<&Seen>> = (0..ITEMS).map(|n| seen.get(&self.id(n))).collect();
        let there: Vec<Option<u64>> =
            found.iter().map(|seen| seen.map(|seen| seen.write)).collect();
        if let Err((lost, what)) = self.settle(&there, way) {
            let count = if lost { &mut report.lost } else { &mut report.torn };
            fail(count, &mut report.wrong, format!("{}: {what}", self.name));
        }
        for seen in
            found.into_iter().flatten().filter(|seen| seen.filling != filling(&seen.id, seen.write))
        {
            fail(&mut report.torn, &mut report.wrong, format!("{} is half-written", seen.id));
        }
    }

    /// What is there is from now on what should be there. Wrong is what is neither what was
    /// acknowledged nor what was under way (true), or a part of a transaction (false).
    fn settle(&mut self, there: &[Option<u64>], way: Option<Way>) -> Result<(), (bool, String)> {
        let mut sides = (0, 0);
        for (n, (item, found)) in self.items.iter_mut().zip(there).enumerate() {
            let pending = item.pending.take();
            let (old, new) = (*found == item.stored, pending == Some(*found));
            if !old && !new {
                let what = format!(
                    "write {:?} of item {n} was acknowledged, {pending:?} in flight, {found:?} is there",
                    item.stored
                );
                return Err((true, what));
            }
            // An item that a write leaves as it was says nothing of it.
            sides.0 += u32::from(old && !new && pending.is_some());
            sides.1 += u32::from(new && !old);
            item.stored = *found;
        }
        if way.is_some_and(|way| way != Way::Bulk) && sides.0 > 0 && sides.1 > 0 {
            return Err((false, format!("half of a {way:?} is there: {there:?}")));
        }
        Ok(())
    }
}

/// Compares the groups with the change feed, read with pages as small as they get.
pub fn check(wire: &mut Wire, groups: &mut [Group], report: &mut Report) {
    let seen = match changes(wire) {
        Ok(seen) => seen,
        Err(error) => return report.wrong.push(format!("the change feed of groups: {error}")),
    };
    // One LSN and one page for every transaction, and no more than one transaction in either.
    let mut writes: HashMap<(&str, u64), (&str, usize)> = HashMap::new();
    for one in seen.values().filter(|one| one.atomic) {
        let owner = one.id.split('-').next().unwrap_or_default();
        let place = (one.lsn.as_str(), one.page);
        let first = *writes.entry((owner, one.write)).or_insert(place);
        if first != place {
            let what = format!("write {} of {owner} is at {first:?} and {place:?}", one.write);
            fail(&mut report.torn, &mut report.wrong, what);
        }
    }
    groups.iter_mut().for_each(|group| group.check(&seen, report));
    if let Err(error) = compare(wire, &seen) {
        fail(&mut report.torn, &mut report.wrong, error);
    }
    let strange = seen.values().find(|one| !groups.iter().any(|group| group.owns(&one.id)));
    if let Some(strange) = strange.filter(|_| report.wrong.is_empty()) {
        report.wrong.push(format!("{} is in the change feed, and nobody wrote it", strange.id));
    }
    let idle = [report.batches, report.procedures, report.bulks].contains(&0);
    if report.wrong.is_empty() && idle && report.cycles > 10 {
        report.wrong.push("nothing was written by batches, procedures or bulk".to_owned());
    }
}

/// Every item of the container as its change feed shows it. A page holds one item, or one
/// transaction.
fn changes(wire: &mut Wire) -> Result<HashMap<String, Seen>, String> {
    let mut seen = HashMap::new();
    let mut position: Option<String> = None;
    for page in 0.. {
        let mut headers = vec![
            ("a-im", "Incremental feed"),
            ("x-ms-max-item-count", "1"),
            ("x-ms-documentdb-partitionkeyrangeid", "0"),
        ];
        if let Some(position) = &position {
            headers.push(("if-none-match", position));
        }
        let answer = send(wire, &headers)?;
        if answer.status == 304 {
            break;
        }
        position = answer.header("etag").map(str::to_owned);
        for one in documents(&answer)? {
            let one = Seen::of(&one, page).ok_or_else(|| format!("not an item of ours: {one}"))?;
            seen.insert(one.id.clone(), one);
        }
    }
    Ok(seen)
}

/// The list of items must show what the change feed shows.
fn compare(wire: &mut Wire, seen: &HashMap<String, Seen>) -> Result<(), String> {
    let mut listed = 0;
    let mut continuation: Option<String> = None;
    loop {
        let mut headers = vec![("x-ms-max-item-count", "500")];
        if let Some(token) = &continuation {
            headers.push(("x-ms-continuation", token));
        }
        let answer = send(wire, &headers)?;
        for one in documents(&answer)? {
            let one = Seen::of(&one, 0).ok_or_else(|| format!("not an item of ours: {one}"))?;
            let in_feed = seen.get(&one.id).map(|seen| seen.write);
            if in_feed != Some(one.write) {
                return Err(format!(
                    "{}: the feed shows {in_feed:?}, a list {}",
                    one.id, one.write
                ));
            }
            listed += 1;
        }
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            break;
        }
    }
    if listed != seen.len() {
        return Err(format!("{listed} items are listed, {} in the change feed", seen.len()));
    }
    Ok(())
}

fn send(wire: &mut Wire, headers: &[(&str, &str)]) -> Result<Response, String> {
    let answer = wire.send("GET", &format!("{PATH}/docs"), headers, &[]);
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status {
        200 | 304 => Ok(answer),
        status => Err(format!("{status} {}", answer.text())),
    }
}

fn documents(answer: &Response) -> Result<Vec<Json>, String> {
    let body = Json::parse(&answer.text())?;
    Ok(body.get("Documents").and_then(Json::items).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group whose first items are as told: stored, and under way.
    fn group(items: &[(Option<u64>, Option<Option<u64>>)]) -> Group {
        let mut group = Group::new(0, 1);
        for (known, (stored, pending)) in group.items.iter_mut().zip(items) {
            *known = Known { stored: *stored, pending: *pending };
        }
        group
    }

    fn there(first: Option<u64>, second: Option<u64>) -> Vec<Option<u64>> {
        let mut all = vec![None; ITEMS];
        (all[0], all[1]) = (first, second);
        all
    }

    #[test]
    fn a_transaction_is_there_or_not() {
        let start = [(Some(1), Some(Some(2))), (None, Some(Some(2)))];
        let batch = Some(Way::Batch);
        assert!(group(&start).settle(&there(Some(1), None), batch).is_ok());
        assert!(group(&start).settle(&there(Some(2), Some(2)), batch).is_ok());
        assert!(matches!(group(&start).settle(&there(Some(2), None), batch), Err((false, _))));
        assert!(matches!(group(&start).settle(&there(Some(1), Some(2)), batch), Err((false, _))));
        // Each operation of a bulk request stands for itself.
        assert!(group(&start).settle(&there(Some(2), None), Some(Way::Bulk)).is_ok());
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let start = [(Some(3), None), (Some(2), Some(None))];
        assert!(group(&start).settle(&there(Some(3), None), Some(Way::Procedure)).is_ok());
        assert!(group(&start).settle(&there(Some(3), Some(2)), Some(Way::Procedure)).is_ok());
        assert!(matches!(group(&start).settle(&there(None, None), None), Err((true, _))));
        assert!(matches!(group(&start).settle(&there(Some(2), None), None), Err((true, _))));
    }
}
