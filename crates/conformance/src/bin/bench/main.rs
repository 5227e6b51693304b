//! How fast the server is, beside what the machine can do at best and beside PostgreSQL:
//! `bench [--json] [--rounds N] [--seconds S] [--grow N] [--documents N] [filter…]`; queries are
//! measured only where the filter is `query`, since a million documents have to be there first.
//! What grows has the default index, or none where the filter is `plain`.
//!
//! Client and server share the machine. Sides take turns and the best round of each counts, so
//! that a noisy neighbour hurts neither; where the system allows it, all run at real-time priority.
//! Many writers at once are measured at the usual priority too: see [`usual_priority`].

mod feed;
mod function;
mod load;
mod memory;
mod postgres;
mod query;
mod side;
mod table;
mod transaction;

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conformance::random::Random;
use conformance::server::{Scratch, Server, beside, processor_seconds};
use conformance::wire::Wire;
use load::{Measure, Work, fill, run};
use postgres::Postgres;
use side::{Ceiling, prepare};
use table::{Line, Target};

/// Documents that are there when reading is measured.
const DOCUMENTS: u64 = 10_000;

/// Different requests of a reading run.
const READS: u64 = 10_000;

/// Tells the program that it has been started again at real-time priority.
const REAL_TIME: &str = "ASTRARIUM_BENCH_REAL_TIME";

struct Arguments {
    json: bool,
    rounds: usize,
    seconds: f64,
    grow: Option<u64>,
    documents: Option<u64>,
    filters: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    run_at_real_time();
    let lines = match arguments.grow {
        Some(documents) => grow(&arguments, documents),
        None if arguments.filters == ["query"] => query::lines(&arguments),
        None => compare(&arguments),
    };
    match lines {
        Ok(lines) => {
            table::print(&lines, arguments.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments {
        json: false,
        rounds: 5,
        seconds: 3.0,
        grow: None,
        documents: None,
        filters: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            words
                .next()
                .and_then(|value| value.parse::<f64>().ok())
                .ok_or(format!("{word} needs a number"))
        };
        match word.as_str() {
            "--json" => out.json = true,
            "--rounds" => out.rounds = number()? as usize,
            "--seconds" => out.seconds = number()?,
            "--grow" => out.grow = Some(number()? as u64),
            "--documents" => out.documents = Some(number()? as u64),
            flag if flag.starts_with("--") => return Err(format!("no such option: {flag}")),
            _ => out.filters.push(word),
        }
    }
    Ok(out)
}

/// Starts again at real-time priority, which children inherit; goes on as it is where that is not allowed.
fn run_at_real_time() {
    if std::env::var_os(REAL_TIME).is_some() {
        return;
    }
    let allowed = Command::new("chrt")
        .args(["-r", "1", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("real-time priority is not allowed here: other programs may disturb the figures");
        return;
    }
    let own = std::env::current_exe().expect("the system tells where we are");
    let mut command = Command::new("chrt");
    command.args(["-r", "1"]).arg(own).args(std::env::args().skip(1)).env(REAL_TIME, "1");
    eprintln!("cannot start again at real-time priority: {}", command.exec());
}

/// A directory on the disk that all sides write to. `/tmp` may be memory, where syncing costs nothing.
fn scratch(purpose: &str) -> io::Result<Scratch> {
    let disk = Path::new("/var/tmp");
    if std::env::var_os("ASTRARIUM_SCRATCH").is_none() && disk.is_dir() {
        return Scratch::within(disk, purpose);
    }
    Scratch::new(purpose)
}

/// Our server, prepared and filled.
struct Ours {
    server: Server,
    address: SocketAddr,
    next: [Arc<AtomicU64>; 2],
    _data: Scratch,
}

impl Ours {
    fn start(documents: u64) -> io::Result<Self> {
        let data = scratch("bench")?;
        let server = Server::start(&beside("astrarium"), data.path(), &["--log-level", "warn"])?;
        prepare(&server.endpoint)?;
        let address = ([127, 0, 0, 1], server.port).into();
        let ours = Self { server, address, next: Default::default(), _data: data };
        for (container, next) in ["c", "d"].iter().zip(&ours.next) {
            fill(address, &path(container), next, documents)?;
        }
        Ok(ours)
    }

    fn reads(&self, container: usize) -> Work {
        let most = self.next[container].load(Ordering::Relaxed);
        let mut random = Random::new(7);
        let numbers = (0..READS).map(|_| random.below(most)).collect();
        Work::Read { container: path(["c", "d"][container]), numbers }
    }

    fn creates(&self, container: usize) -> Work {
        Work::Create {
            container: path(["c", "d"][container]),
            next: Arc::clone(&self.next[container]),
        }
    }
}

fn path(container: &str) -> String {
    format!("/dbs/b/colls/{container}")
}

fn compare(arguments: &Arguments) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    if arguments.wants("start") {
        lines.extend(small_figures()?);
    }
    let ours = Ours::start(DOCUMENTS)?;
    for connections in [64, 1] {
        if arguments.wants("read") {
            let ceiling = Ceiling::read()?;
            let (best, other) =
                duel(arguments, &ours, &ours.reads(1), ceiling.address, connections)?;
            lines.push(line("point read", connections, best, other, Target::Share(0.8)));
        }
        for (container, index) in [(0, "no index"), (1, "default index")] {
            if arguments.wants("create") {
                lines.extend(creates(arguments, &ours, (container, index), connections)?);
            }
        }
    }
    lines.extend(feed::lines(arguments, &ours)?);
    if arguments.wants("batch") {
        lines.extend(transaction::batches(arguments)?);
    }
    if arguments.wants("script") {
        lines.extend(transaction::scripts(arguments, &ours)?);
        lines.extend(function::functions(arguments, &ours)?);
    }
    if arguments.wants("postgres") {
        lines.extend(beside_postgres(arguments, &ours));
    }
    Ok(lines)
}

/// Creates beside a log, at both priorities where there are many writers.
fn creates(
    arguments: &Arguments,
    ours: &Ours,
    (container, index): (usize, &str),
    connections: usize,
) -> io::Result<Vec<Line>> {
    let folder = scratch("ceiling")?;
    let ceiling = Ceiling::log(folder.path())?;
    let measure = || duel(arguments, ours, &ours.creates(container), ceiling.address, connections);
    let name = format!("create, {index}");
    let (best, other) = measure()?;
    // What indexes cost many writers at once is told, not asked for.
    let target = if connections > 1 && container == 1 { Target::Told } else { Target::Share(0.8) };
    if connections == 1 || std::env::var_os(REAL_TIME).is_none() {
        return Ok(vec![line(&name, connections, best, other, target)]);
    }
    let real_time = line(&format!("{name}, real-time"), connections, best, other, Target::Told);
    let (best, other) =
        usual_priority(&[std::process::id(), ours.server.pid(), ceiling.pid()], measure)?;
    Ok(vec![line(&name, connections, best, other, target), real_time])
}

/// Does something while programs run at the usual priority. A sync ends with a flush of the disk, which a
/// thread of the kernel asks for that is not of real time: before its turn comes, all others have to be
/// idle. No server runs like that; so what many writers get is asked for here, and told of real time.
fn usual_priority<T>(programs: &[u32], work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let set = |rank: &[&str]| {
        for program in programs {
            let status = Command::new("chrt").args(rank).arg(program.to_string()).status()?;
            if !status.success() {
                return Err(io::Error::other("chrt does not change a priority"));
            }
        }
        Ok(())
    };
    set(&["--all-tasks", "--other", "--pid", "0"])?;
    let done = work();
    set(&["--all-tasks", "--rr", "--pid", "1"])?;
    done
}

impl Arguments {
    fn wants(&self, topic: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter == topic)
    }

    fn round(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn line(name: &str, connections: usize, best: Measure, other: Measure, target: Target) -> Line {
    let note = format!(
        " p50 {:.0} p99 {:.0} µs (other {:.0} {:.0})",
        best.p50, best.p99, other.p50, other.p99
    );
    let name =
        format!("{name}, {connections} connection{}", if connections == 1 { "" } else { "s" });
    Line { name, ours: best.per_second, other: Some(other.per_second), unit: "/s", target, note }
}

/// Both sides in turn; the best round of each.
fn duel(
    arguments: &Arguments,
    ours: &Ours,
    work: &Work,
    other: SocketAddr,
    connections: usize,
) -> io::Result<(Measure, Measure)> {
    let theirs = work.apart();
    let mut best = [Measure::default(); 2];
    for round in 0..arguments.rounds {
        for (best, (address, work)) in best.iter_mut().zip([(ours.address, work), (other, &theirs)])
        {
            if !matches!(work, Work::Read { .. }) {
                memory::touch()?;
            }
            let found = run(address, work, connections, arguments.round())?;
            eprintln!("round {}: {address} {:.0}/s", round + 1, found.per_second);
            if found.per_second > best.per_second {
                *best = found;
            }
        }
    }
    Ok((best[0], best[1]))
}

/// Reads and creates of both; left out where PostgreSQL is absent or does not work.
fn beside_postgres(arguments: &Arguments, ours: &Ours) -> Vec<Line> {
    match Postgres::start(DOCUMENTS).and_then(|postgres| postgres_lines(arguments, ours, &postgres))
    {
        Ok(lines) => lines,
        Err(why) => {
            eprintln!("PostgreSQL is left out: {why}");
            Vec::new()
        }
    }
}

fn postgres_lines(
    arguments: &Arguments,
    ours: &Ours,
    postgres: &Postgres,
) -> Result<Vec<Line>, String> {
    let seconds = (arguments.seconds.round() as u64).max(1);
    let run = |work: &Work| {
        run(ours.address, work, 64, arguments.round()).map_err(|error| error.to_string())
    };
    let mut best = [Measure::default(); 6];
    for _ in 0..arguments.rounds.min(3) {
        let found = [
            run(&ours.reads(1))?,
            postgres.read(64, seconds)?,
            run(&ours.creates(0))?,
            postgres.create(64, seconds)?,
            run(&ours.creates(1))?,
            postgres.create_indexed(64, seconds)?,
        ];
        for (best, found) in best.iter_mut().zip(found) {
            if found.per_second > best.per_second {
                *best = found;
            }
        }
    }
    Ok(vec![
        line("point read beside PostgreSQL", 64, best[0], best[1], Target::Share(1.0)),
        line("create, no index, beside PostgreSQL", 64, best[2], best[3], Target::Share(1.0)),
        line(
            "create, all paths indexed, beside a GIN index",
            64,
            best[4],
            best[5],
            Target::Share(1.0),
        ),
        line("create, all paths indexed, beside no index", 64, best[4], best[3], Target::Told),
    ])
}

/// What an empty server costs: time to the first answer, memory, size of the binary.
fn small_figures() -> io::Result<Vec<Line>> {
    let binary = beside("astrarium");
    let (mut first, mut again, mut resident) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..5 {
        let data = scratch("start")?;
        first = first.min(first_answer(&binary, &data)?.0);
        let (took, kib) = first_answer(&binary, &data)?;
        again = again.min(took);
        resident = resident.min(kib / 1024.0);
    }
    let size = std::fs::metadata(&binary)?.len() as f64 / 1e6;
    let told = |name: &str, ours, unit, target| Line {
        name: name.to_owned(),
        ours,
        other: None,
        unit,
        target,
        note: String::new(),
    };
    Ok(vec![
        told("start to first answer, new data", first, "ms", Target::Told),
        told("start to first answer", again, "ms", Target::AtMost(50.0)),
        told("memory after the first request", resident, "MB", Target::AtMost(25.0)),
        told("stripped binary", size, "MB", Target::AtMost(40.0)),
    ])
}

/// Milliseconds to the first answer, and KiB held after it.
fn first_answer(binary: &Path, data: &Scratch) -> io::Result<(f64, f64)> {
    let start = Instant::now();
    let server = Server::start(binary, data.path(), &["--log-level", "warn"])?;
    let answer = Wire::new(&server.endpoint).send("GET", "/dbs", &[], &[])?;
    let took = start.elapsed().as_secs_f64() * 1000.0;
    if answer.status != 200 {
        return Err(io::Error::other(format!("{} {}", answer.status, answer.text())));
    }
    Ok((took, server.resident_kib().unwrap_or(0) as f64))
}

/// Waits until the server has brought into order what it was given, so that rates are those of the
/// documents that are there, not of the last ones that came.
fn rest(server: &Server) {
    const LOOK: Duration = Duration::from_secs(1);
    /// Of a processor, where nothing is asked of the server.
    const AT_REST: f64 = 0.05;
    const PATIENCE: Duration = Duration::from_secs(180);
    let start = Instant::now();
    let mut used = processor_seconds(server.pid());
    while start.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
        let now = processor_seconds(server.pid());
        let (Some(before), Some(after)) = (used, now) else { return };
        if after - before < AT_REST {
            return eprintln!("at rest after {:.0} s", start.elapsed().as_secs_f64());
        }
        used = now;
    }
    eprintln!("not at rest after {:.0} s", start.elapsed().as_secs_f64());
}

/// How often a server is killed to see how long it takes to come back.
const KILLS: u64 = 10;

/// Milliseconds from a kill while documents are created to the first answer: the most that it took.
fn reopen(ours: &mut Ours, which: usize) -> io::Result<f64> {
    let mut random = Random::new(KILLS);
    let mut longest = 0.0_f64;
    for _ in 0..KILLS {
        let (address, work) = (ours.address, ours.creates(which));
        let writers =
            std::thread::spawn(move || run(address, &work, 64, Duration::from_secs(60)).is_ok());
        std::thread::sleep(Duration::from_millis(500 + random.below(3000)));
        let killed = Instant::now();
        ours.server.restart()?;
        Wire::new(&ours.server.endpoint).send("GET", "/dbs", &[], &[])?;
        let took = killed.elapsed().as_secs_f64() * 1000.0;
        eprintln!("reopened in {took:.0} ms");
        longest = longest.max(took);
        if writers.join().is_ok_and(|ended| ended) {
            return Err(io::Error::other("the server was to be killed before the writers end"));
        }
    }
    Ok(longest)
}

/// The same rates before and after so many documents were loaded.
fn grow(arguments: &Arguments, documents: u64) -> io::Result<Vec<Line>> {
    let mut ours = Ours::start(DOCUMENTS)?;
    let which = usize::from(arguments.filters != ["plain"]);
    let name = ["c", "d"][which];
    let index = ["no index", "default index"][which];
    let measure = |ours: &Ours, work: &Work| -> io::Result<Measure> {
        let mut best = Measure::default();
        for _ in 0..arguments.rounds {
            let found = run(ours.address, work, 64, arguments.round())?;
            if found.per_second > best.per_second {
                best = found;
            }
        }
        Ok(best)
    };
    let small = [measure(&ours, &ours.reads(which))?, measure(&ours, &ours.creates(which))?];
    let small_tail = feed::tail(&ours, name)?;
    let start = Instant::now();
    let mut step = DOCUMENTS;
    while step < documents {
        step = (step + 500_000).min(documents);
        fill(ours.address, &path(name), &ours.next[which], step)?;
        let rate = step as f64 / start.elapsed().as_secs_f64();
        let held = ours.server.resident_kib().unwrap_or(0) / 1024;
        eprintln!(
            "{step} documents after {:.0} s, {rate:.0}/s, {held} MB held",
            start.elapsed().as_secs_f64()
        );
    }
    let behind_load = measure(&ours, &ours.reads(which))?;
    rest(&ours.server);
    let large = [measure(&ours, &ours.reads(which))?, measure(&ours, &ours.creates(which))?];
    let large_tail = feed::tail(&ours, name)?;
    let resident = ours.server.resident_kib().unwrap_or(0) as f64 / 1024.0;
    let reopen = reopen(&mut ours, which)?;
    let told = |name: String, ours, unit, target| Line {
        name,
        ours,
        other: None,
        unit,
        target,
        note: String::new(),
    };
    Ok(vec![
        line(
            &format!("point read at {documents}, beside {DOCUMENTS}, {index}"),
            64,
            large[0],
            small[0],
            Target::Share(1.0 / 1.5),
        ),
        line("the same, right behind the load", 64, behind_load, small[0], Target::Told),
        line(
            &format!("create at {documents}, beside {DOCUMENTS}, {index}"),
            64,
            large[1],
            small[1],
            Target::Share(1.0 / 1.5),
        ),
        line(
            &format!("read of the feed's end at {documents}, beside {DOCUMENTS}"),
            1,
            large_tail,
            small_tail,
            Target::Share(1.0 / 1.5),
        ),
        told(format!("memory at {documents} documents"), resident, "MB", Target::AtMost(512.0)),
        told(
            format!("kill and reopen at {documents} documents, longest of {KILLS}"),
            reopen,
            "ms",
            Target::AtMost(2000.0),
        ),
    ])
}
