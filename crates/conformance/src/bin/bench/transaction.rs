//! Batches beside single creates, and what stored procedures cost.

use std::io;
use std::sync::Arc;

use conformance::json;
use conformance::wire::Wire;

use crate::load::{BATCH_DOCUMENTS, Measure, Work, run};
use crate::table::{Line, Target};
use crate::{Arguments, DOCUMENTS, Ours, line, memory, path};

/// Documents that one call of the procedure inserts.
const INSERTED: u64 = 1_000;

/// Inserts documents whose ids begin with its argument.
const INSERT: &str = "function (start) { \
    for (var n = 0; n < 1000; n++) { \
        var item = { id: start + '-' + n, pk: '0000', kind: 'order', total: n, paid: true }; \
        if (!__.createDocument(__.getSelfLink(), item)) throw new Error('not accepted'); \
    } \
    __.response.setBody(1000); }";

const TRIVIAL: &str = "function (word) { __.response.setBody(word); }";

/// Batches of a hundred creates beside as many single ones, on a server of their own: what others have
/// written would be merged meanwhile.
pub fn batches(arguments: &Arguments) -> io::Result<Vec<Line>> {
    let ours = Ours::start(DOCUMENTS)?;
    let next = Arc::default();
    // Numbers far from those of the single creates.
    std::sync::atomic::AtomicU64::store(&next, 1 << 30, std::sync::atomic::Ordering::Relaxed);
    let batch = Work::Batch { container: path("c"), next };
    let (mut best, mut single) = (Measure::default(), Measure::default());
    for round in 1..=arguments.rounds {
        memory::touch()?;
        let batches = run(ours.address, &batch, 64, arguments.round())?;
        memory::touch()?;
        let singles = run(ours.address, &ours.creates(0), 64, arguments.round())?;
        eprintln!("round {round}: {:.0} and {:.0}/s", batches.per_second, singles.per_second);
        (best, single) = (better(best, batches), better(single, singles));
    }
    best.per_second *= BATCH_DOCUMENTS as f64;
    let name = "documents by batches, beside single creates";
    Ok(vec![line(name, 64, best, single, Target::Share(5.0))])
}

/// What a procedure adds to a request, and how fast one inserts.
pub fn scripts(arguments: &Arguments, ours: &Ours) -> io::Result<Vec<Line>> {
    for (id, body) in [("insert", INSERT), ("trivial", TRIVIAL)] {
        let body = format!(r#"{{"id":"{id}","body":{}}}"#, json::quoted(body));
        let path = format!("{}/sprocs", path("c"));
        let made = Wire::new(&ours.server.endpoint).send("POST", &path, &[], body.as_bytes())?;
        if made.status != 201 {
            return Err(io::Error::other(format!("{path}: {} {}", made.status, made.text())));
        }
    }
    let execute = |id: &str| Work::Execute {
        procedure: format!("{}/sprocs/{id}", path("c")),
        next: Arc::default(),
    };
    let (insert, trivial) = (execute("insert"), execute("trivial"));
    let (mut inserts, mut trivials, mut reads) = Default::default();
    for _ in 0..arguments.rounds {
        inserts = better(inserts, run(ours.address, &insert, 1, arguments.round())?);
        trivials = better(trivials, run(ours.address, &trivial, 1, arguments.round())?);
        reads = better(reads, run(ours.address, &ours.reads(0), 1, arguments.round())?);
    }
    let inserted = INSERTED as f64 * inserts.per_second;
    let added = (trivials.p50 - reads.p50) / 1000.0;
    Ok(vec![
        Line {
            name: "documents inserted by a procedure".to_owned(),
            ours: inserted,
            other: Some(50_000.0),
            unit: "/s",
            target: Target::Share(1.0),
            note: format!(" p50 {:.0} µs for {INSERTED}", inserts.p50),
        },
        Line {
            name: "what a procedure adds to a request".to_owned(),
            ours: added,
            other: None,
            unit: "ms",
            target: Target::AtMost(1.0),
            note: format!(" p50 {:.0} µs, a read {:.0} µs", trivials.p50, reads.p50),
        },
    ])
}

fn better(a: Measure, b: Measure) -> Measure {
    if b.per_second > a.per_second { b } else { a }
}
