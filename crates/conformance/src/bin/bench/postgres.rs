//! PostgreSQL for comparison, started from the system's package in a directory of its own.
//!
//! It gets every advantage that costs us nothing to give: integer keys, the document as a
//! constant of a prepared statement, and of two kinds of table the one that is faster.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use conformance::server::Scratch;

use crate::load::{self, Measure};

/// A running PostgreSQL.
pub struct Postgres {
    child: Child,
    programs: PathBuf,
    folder: Scratch,
    port: u16,
    documents: u64,
}

/// The kinds of column a document may be kept in.
const COLUMNS: [&str; 2] = ["jsonb", "bytea"];

impl Postgres {
    /// Starts it with so many documents of 1 KB, or says why it cannot.
    pub fn start(documents: u64) -> Result<Self, String> {
        let postgres = Self::empty(documents)?;
        postgres.load(documents)?;
        Ok(postgres)
    }

    /// Starts it with so many documents to be asked for, and the indexes that fit the questions.
    pub fn for_queries(documents: u64) -> Result<Self, String> {
        let postgres = Self::empty(documents)?;
        let body = document().replace('\'', "''");
        let insert = format!(
            "create table queried (id bigint primary key, body jsonb not null);\
             insert into queried select n, '{body}'::jsonb || jsonb_build_object(\
             'id', lpad(n::text, 12, '0'), 'number', n, 'tenth', n % 10, \
             'grp', 'group ' || lpad((n % 100)::text, 2, '0')) \
             from generate_series(0, {documents} - 1) n;\
             create index on queried (((body->>'number')::bigint));\
             create index on queried (((body->>'tenth')::bigint));\
             create index on queried ((body->>'grp'));"
        );
        postgres.psql(&insert)?;
        postgres.psql("vacuum analyze")?;
        Ok(postgres)
    }

    /// One client that asks for a number below the one given, prepared. How fast it is on the whole
    /// and how long single answers take is told by two runs, since the second writes all of them down.
    pub fn ask(&self, sql: &str, below: u64, seconds: u64) -> Result<Measure, String> {
        let script = format!("\\set n random(0, {})\n{sql}\n", below - 1);
        let found = self.pgbench(1, seconds, &script)?;
        let latencies = self.latencies(seconds, &script)?;
        Ok(Measure {
            per_second: found.per_second,
            ..load::measure(latencies, Duration::from_secs(1))
        })
    }

    /// How long each answer took, in nanoseconds.
    fn latencies(&self, seconds: u64, script: &str) -> Result<Vec<u32>, String> {
        let prefix = self.folder.path().join("latencies");
        let log = format!("--log-prefix={}", prefix.display());
        self.pgbench_with(1, seconds, script, &["-l", &log])?;
        let files = std::fs::read_dir(self.folder.path()).map_err(|error| error.to_string())?;
        let mut latencies = Vec::new();
        for file in files.flatten().map(|entry| entry.path()) {
            if !file.to_string_lossy().starts_with(&*prefix.to_string_lossy()) {
                continue;
            }
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            // The third word of a line is the time that one transaction took, in microseconds.
            let times = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<u32>().ok());
            latencies.extend(times.map(|time| time.saturating_mul(1000)));
            std::fs::remove_file(&file).map_err(|error| error.to_string())?;
        }
        Ok(latencies)
    }

    fn empty(documents: u64) -> Result<Self, String> {
        let programs = programs().ok_or("no PostgreSQL in /usr/lib/postgresql")?;
        let folder = crate::scratch("postgres").map_err(|error| error.to_string())?;
        let probe =
            std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = probe.local_addr().map_err(|error| error.to_string())?.port();
        drop(probe);
        let data = folder.path().join("data");
        if is_root() {
            finish(Command::new("chown").arg("postgres").arg(folder.path()))?;
        }
        finish(
            unprivileged(&programs.join("initdb"))
                .args(["--auth=trust", "--username=bench", "-D"])
                .arg(&data),
        )?;
        let mut command = unprivileged(&programs.join("postgres"));
        command
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"])
            .arg(folder.path());
        command.args([
            "-c",
            "synchronous_commit=on",
            "-c",
            "fsync=on",
            "-c",
            "max_connections=100",
        ]);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let postgres = Self { child, programs, folder, port, documents };
        postgres.await_ready()?;
        Ok(postgres)
    }

    /// Point reads, prepared; the better of the two kinds of table.
    pub fn read(&self, connections: usize, seconds: u64) -> Result<Measure, String> {
        self.best(connections, seconds, |table, documents| {
            format!("\\set n random(1, {documents})\nselect body from {table} where id = :n;\n")
        })
    }

    /// Durable inserts, prepared; the better of the two kinds of table.
    pub fn create(&self, connections: usize, seconds: u64) -> Result<Measure, String> {
        self.best(connections, seconds, |table, _| {
            let body = document();
            let value = if table == "jsonb_docs" { format!("'{body}'") } else { format!("convert_to('{body}', 'UTF8')") };
            // Random keys from a space so large that none comes twice.
            format!("\\set n random(1000000000, 9000000000000000000)\ninsert into {table} values (:n, {value});\n")
        })
    }

    /// Durable inserts into a table that indexes all paths of a document, as our containers do
    /// unless they are told otherwise.
    pub fn create_indexed(&self, connections: usize, seconds: u64) -> Result<Measure, String> {
        self.psql(
            "create table if not exists gin_docs (id bigint primary key, body jsonb not null);\
             create index if not exists gin_paths on gin_docs using gin (body);",
        )?;
        let body = document();
        self.pgbench(
            connections,
            seconds,
            &format!(
                "\\set n random(1000000000, 9000000000000000000)\n\
                 insert into gin_docs values \
                 (:n, '{body}'::jsonb || jsonb_build_object('number', :n::bigint, 'tenth', :n::bigint % 10));\n"
            ),
        )
    }

    fn best(
        &self,
        connections: usize,
        seconds: u64,
        script: impl Fn(&str, u64) -> String,
    ) -> Result<Measure, String> {
        let mut best = Measure::default();
        for column in COLUMNS {
            let found = self.pgbench(
                connections,
                seconds,
                &script(&format!("{column}_docs"), self.documents),
            )?;
            if found.per_second > best.per_second {
                best = found;
            }
        }
        Ok(best)
    }

    fn pgbench(&self, connections: usize, seconds: u64, script: &str) -> Result<Measure, String> {
        self.pgbench_with(connections, seconds, script, &[])
    }

    fn pgbench_with(
        &self,
        connections: usize,
        seconds: u64,
        script: &str,
        more: &[&str],
    ) -> Result<Measure, String> {
        let file = self.folder.path().join("script.sql");
        std::fs::write(&file, script).map_err(|error| error.to_string())?;
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args([
            "-n",
            "-M",
            "prepared",
            "-j",
            "1",
            "-c",
            &connections.to_string(),
            "-T",
            &seconds.to_string(),
        ]);
        command.args(more);
        command
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "bench", "-f"])
            .arg(&file)
            .arg("postgres");
        let output = finish(&mut command)?;
        let per_second = output
            .lines()
            .find(|line| line.starts_with("tps = ") && !line.contains("including"))
            .and_then(|line| line.split_whitespace().nth(2)?.parse().ok())
            .ok_or_else(|| format!("pgbench said nothing of tps: {output}"))?;
        let average = output.lines().find_map(|line| {
            line.strip_prefix("latency average = ")?.split(' ').next()?.parse::<f64>().ok()
        });
        Ok(Measure { per_second, p50: average.unwrap_or(0.0) * 1000.0, p99: 0.0 })
    }

    fn load(&self, documents: u64) -> Result<(), String> {
        let body = document();
        let mut sql = String::new();
        for column in COLUMNS {
            let value = if column == "jsonb" {
                format!("'{body}'::jsonb")
            } else {
                format!("convert_to('{body}', 'UTF8')")
            };
            sql.push_str(&format!(
                "create table {column}_docs (id bigint primary key, body {column} not null);"
            ));
            sql.push_str(&format!("insert into {column}_docs select n, {value} from generate_series(1, {documents}) n;"));
        }
        self.psql(&sql)?;
        self.psql("vacuum analyze").map(|_| ())
    }

    fn psql(&self, sql: &str) -> Result<String, String> {
        let mut command = Command::new(self.programs.join("psql"));
        command.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "bench",
            "-v",
            "ON_ERROR_STOP=1",
            "-qc",
            sql,
            "postgres",
        ]);
        finish(&mut command)
    }

    fn await_ready(&self) -> Result<(), String> {
        for _ in 0..300 {
            if self.psql("select 1").is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("PostgreSQL does not get ready".to_owned())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own shutdown ends the processes it started; ours would leave them.
        let data = self.folder.path().join("data");
        let _ = finish(
            unprivileged(&self.programs.join("pg_ctl"))
                .args(["stop", "-m", "immediate", "-D"])
                .arg(data),
        );
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The newest version installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists());
    folders.max()
}

/// PostgreSQL refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

fn is_root() -> bool {
    finish(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn finish(command: &mut Command) -> Result<String, String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error: io::Error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A document of 1 KB, as the load generator makes them. Spaces follow the colons, since pgbench
/// would take a colon before a letter for a variable.
fn document() -> String {
    let head = concat!(
        r#"{"id": "000000000001", "pk": "0001", "kind": "order", "#,
        r#""customer": {"name": "Ann Example", "city": "Zurich", "since": 2019}, "total": 1000001.25, "paid": true, "#,
        r#""lines": [{"sku": "A-100", "count": 2}, {"sku": "B-200", "count": 1}], "note": ""#
    );
    format!("{head}{}\"}}", "n".repeat(1024 - head.len() - 2))
}
