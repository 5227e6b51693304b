//! A server process of our own: started on a free port, killed when we are done with it.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::json::Json;

/// A server that has not said it is ready by then never will.
const READY_PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    binary: PathBuf,
    data: PathBuf,
    arguments: Vec<String>,
    /// `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// Its port.
    pub port: u16,
}

impl Server {
    /// Starts the binary on the data directory, on a port that is free.
    pub fn start(binary: &Path, data: &Path, arguments: &[&str]) -> io::Result<Self> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self::start_on(binary.to_owned(), data.to_owned(), arguments, 0)
    }

    fn start_on(
        binary: PathBuf,
        data: PathBuf,
        arguments: Vec<String>,
        port: u16,
    ) -> io::Result<Self> {
        let mut command = Command::new(&binary);
        command
            .arg("serve")
            .args(["--port", &port.to_string()])
            .arg("--data-dir")
            .arg(&data)
            .arg("--ready-json");
        command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| explain(&binary, error))?;
        match await_ready(&mut child) {
            Ok((endpoint, port)) => Ok(Self { child, binary, data, arguments, endpoint, port }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Ends the process without warning, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same data and the same port.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        *self = Self::start_on(
            self.binary.clone(),
            self.data.clone(),
            self.arguments.clone(),
            self.port,
        )?;
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Memory it holds, in KiB, where the system tells.
    pub fn resident_kib(&self) -> Option<u64> {
        resident_kib(self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Memory that a process holds, in KiB, where the system tells.
pub fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Seconds of processor time that a process and its children have used, where the system tells.
pub fn processor_seconds(pid: u32) -> Option<f64> {
    /// What the system counts in.
    const TICKS_PER_SECOND: f64 = 100.0;
    let mut ticks = 0;
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        // The name, which may hold anything, is in parentheses; its state and parent follow.
        let Some((id, rest)) = stat.split_once(' ') else { continue };
        let fields: Vec<&str> = rest.rsplit(')').next()?.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        if id.parse() == Ok(pid) || number(1) == Some(pid.into()) {
            ticks += number(11)? + number(12)?;
        }
    }
    (ticks > 0).then_some(ticks as f64 / TICKS_PER_SECOND)
}

/// Waits for the ready line; what the server prints afterwards is read and dropped.
fn await_ready(child: &mut Child) -> io::Result<(String, u16)> {
    let stdout = child.stdout.take().expect("stdout was asked for");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let _ = stdout.read_line(&mut line);
        let _ = sender.send(line);
        let _ = io::copy(&mut stdout.by_ref(), &mut io::sink());
    });
    let line = receiver
        .recv_timeout(READY_PATIENCE)
        .map_err(|_| io::Error::other("the server does not get ready"))?;
    parse_ready(&line).ok_or_else(|| io::Error::other(format!("not a ready line: {line:?}")))
}

fn parse_ready(line: &str) -> Option<(String, u16)> {
    let ready = Json::parse(line.trim()).ok()?;
    if ready.get("event")?.text()? != "ready" {
        return None;
    }
    let Json::Number(port) = ready.get("port")? else { return None };
    Some((ready.get("endpoint")?.text()?.to_owned(), port.parse().ok()?))
}

fn explain(binary: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot start {}: {error}", binary.display()))
}

/// The server's binary: `ASTRARIUM_BIN`, or the neighbour of our own.
pub fn binary() -> PathBuf {
    std::env::var_os("ASTRARIUM_BIN").map_or_else(|| beside("astrarium"), PathBuf::from)
}

/// A binary that lies where ours does.
pub fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the system tells where we are");
    own.with_file_name(name)
}

/// A directory that is gone when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new directory, under `ASTRARIUM_SCRATCH` or the system's own place.
    pub fn new(purpose: &str) -> io::Result<Self> {
        let base =
            std::env::var_os("ASTRARIUM_SCRATCH").map_or_else(std::env::temp_dir, PathBuf::from);
        Self::within(&base, purpose)
    }

    /// A new directory in another.
    pub fn within(base: &Path, purpose: &str) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("astrarium-{purpose}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::parse_ready;

    #[test]
    fn the_ready_line_tells_where_to_go() {
        let line = r#"{"event":"ready","endpoint":"http://127.0.0.1:8081","port":8081,"pid":7}"#;
        assert_eq!(parse_ready(line), Some(("http://127.0.0.1:8081".to_owned(), 8081)));
        assert_eq!(parse_ready("listening"), None);
    }
}
