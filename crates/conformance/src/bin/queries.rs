//! Random queries over HTTP: the same rows by index and by scan, evaluated on the server and by a
//! client that fans out, over one, two and seven partitions: `queries [--seed S | --runs N]`.

use std::process::ExitCode;

use conformance::fan_out::{self, Answer, Certainty};
use conformance::json::{Json, quoted};
use conformance::queries::Chance;
use conformance::server::{Scratch, Server, binary};
use conformance::wire::Wire;

/// Each run has items and queries of its own.
const RUNS: u64 = 4;
const QUERIES: usize = 60;
const ITEMS: usize = 60;
/// All rows on one page.
const ALL: usize = 1_000;
/// Containers by their number of partitions, and one without indexes.
const PARTITIONS: [usize; 3] = [1, 2, 7];
const SCANNED: &str = "scanned";

fn main() -> ExitCode {
    let seeds = match seeds() {
        Ok(seeds) => seeds,
        Err(error) => {
            eprintln!("{error}\nusage: queries [--seed S | --runs N]");
            return ExitCode::from(2);
        }
    };
    let scratch = Scratch::new("queries").expect("a place for the server's data");
    let server = Server::start(&binary(), scratch.path(), &[]).expect("the server starts");
    for seed in seeds {
        let mut run = Run { wire: Wire::new(&server.endpoint), seed, compared: 0 };
        match run.all() {
            Ok(()) => println!("ok seed {seed} ({} answers compared)", run.compared),
            Err(error) => {
                println!("FAILED seed {seed}: {error}\nreplay: cargo xtask queries --seed {seed}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn seeds() -> Result<std::ops::Range<u64>, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("no number: {text}"));
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(0..RUNS),
        ["--seed", seed] => number(seed).map(|seed| seed..seed + 1),
        ["--runs", runs] => number(runs).map(|runs| 0..runs),
        _ => Err("no such arguments".to_owned()),
    }
}

struct Run {
    wire: Wire,
    seed: u64,
    compared: usize,
}

impl Run {
    fn all(&mut self) -> Result<(), String> {
        let mut chance = Chance::new(self.seed);
        self.fill(&mut chance)?;
        for _ in 0..QUERIES {
            let text = chance.query();
            let per_page = 1 + chance.below(12);
            self.query(&text, per_page).map_err(|error| format!("{text}\n    {error}"))?;
        }
        self.post("DELETE", &format!("/dbs/queries-{}", self.seed), &[], "", 204)
    }

    fn fill(&mut self, chance: &mut Chance) -> Result<(), String> {
        let database = format!("queries-{}", self.seed);
        self.post("POST", "/dbs", &[], &format!(r#"{{"id":"{database}"}}"#), 201)?;
        let path = format!("/dbs/{database}/colls");
        for partitions in PARTITIONS {
            let body = format!(
                r#"{{"id":"p{partitions}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
                "indexingPolicy":{{"compositeIndexes":[[{{"path":"/a"}},{{"path":"/b","order":"descending"}}],
                [{{"path":"/n"}},{{"path":"/id"}}]]}}}}"#
            );
            let throughput = (partitions * 10_000).to_string();
            self.post("POST", &path, &[("x-ms-offer-throughput", &throughput)], &body, 201)?;
            let ranges = self.ranges(&format!("p{partitions}"))?;
            if ranges.len() != partitions {
                return Err(format!("{} ranges instead of {partitions}", ranges.len()));
            }
        }
        let body = format!(
            r#"{{"id":"{SCANNED}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
            "indexingPolicy":{{"indexingMode":"none","automatic":false}}}}"#
        );
        self.post("POST", &path, &[], &body, 201)?;
        for id in 0..chance.below(ITEMS) {
            let (item, key) = chance.item(id);
            let key = format!(r#"["{key}"]"#);
            for container in containers() {
                let path = format!("{path}/{container}/docs");
                self.post("POST", &path, &[("x-ms-documentdb-partitionkey", &key)], &item, 201)?;
            }
        }
        Ok(())
    }

    /// One query by every way.
    fn query(&mut self, text: &str, per_page: usize) -> Result<(), String> {
        let expected = self.rows("p1", text, ALL)?;
        let mut certainty = Certainty::Count;
        for partitions in PARTITIONS {
            let name = format!("p{partitions}");
            let ranges = self.ranges(&name)?;
            let path = self.docs(&name);
            let wire = &mut self.wire;
            let mut ask = |headers: &[(&str, &str)], body: &str| {
                wire.send("POST", &path, headers, body.as_bytes()).map_err(|e| e.to_string())
            };
            let answer = fan_out::rows(&mut ask, &ranges, text, "[]", per_page)?;
            let Answer::Rows(rows, found) = answer else { return Err(format!("{answer:?}")) };
            certainty = found;
            self.same(&format!("fan-out over {name}"), certainty, &expected, &rows)?;
            for per_page in [per_page, ALL] {
                let rows = self.rows(&name, text, per_page)?;
                let way = format!("{name} in pages of {per_page}");
                self.same(&way, certainty, &expected, &rows)?;
            }
        }
        // Without an index no order is served: the rows are the same in any.
        let plain = text.split(" ORDER BY ").next().unwrap_or(text);
        if plain != text && (text.contains("TOP ") || text.contains("OFFSET ")) {
            return Ok(());
        }
        let certainty = if certainty == Certainty::Order { Certainty::Set } else { certainty };
        let rows = self.rows(SCANNED, plain, per_page)?;
        self.same("the scan", certainty, &expected, &rows)
    }

    fn same(
        &mut self,
        way: &str,
        certainty: Certainty,
        expected: &[Json],
        rows: &[Json],
    ) -> Result<(), String> {
        self.compared += 1;
        match certainty.difference(expected, rows) {
            Some(difference) => Err(format!("{way} differs {difference}")),
            None => Ok(()),
        }
    }

    /// The rows as the server gives them, over all partitions.
    fn rows(&mut self, container: &str, text: &str, per_page: usize) -> Result<Vec<Json>, String> {
        let path = self.docs(container);
        let wire = &mut self.wire;
        let mut ask = |headers: &[(&str, &str)], body: &str| {
            wire.send("POST", &path, headers, body.as_bytes()).map_err(|e| e.to_string())
        };
        let body = format!(r#"{{"query":{},"parameters":[]}}"#, quoted(text));
        fan_out::all_pages(&mut ask, &[], &body, &per_page.to_string())
    }

    fn docs(&self, container: &str) -> String {
        format!("/dbs/queries-{}/colls/{container}/docs", self.seed)
    }

    fn ranges(&mut self, container: &str) -> Result<Vec<String>, String> {
        let path = format!("/dbs/queries-{}/colls/{container}/pkranges", self.seed);
        let response = self.wire.send("GET", &path, &[], b"").map_err(|e| e.to_string())?;
        fan_out::range_ids(&response.text())
    }

    fn post(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        status: u16,
    ) -> Result<(), String> {
        let response =
            self.wire.send(method, path, headers, body.as_bytes()).map_err(|e| e.to_string())?;
        if response.status == status {
            return Ok(());
        }
        Err(format!("{method} {path}: {} {}", response.status, response.text()))
    }
}

fn containers() -> Vec<String> {
    let indexed = PARTITIONS.iter().map(|partitions| format!("p{partitions}"));
    indexed.chain([SCANNED.to_owned()]).collect()
}
