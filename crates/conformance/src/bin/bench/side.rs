//! The two sides of a comparison: our server and a ceiling, each a process of its own.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use conformance::json::Json;
use conformance::server::beside;
use conformance::wire::Wire;

/// A ceiling that runs.
pub struct Ceiling {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Ceiling {
    /// The one that verifies and answers.
    pub fn read() -> io::Result<Self> {
        Self::start(Command::new(beside("ceiling")).arg("read"))
    }

    /// The one that verifies and answers with a page of so many bytes.
    pub fn page(bytes: usize) -> io::Result<Self> {
        Self::start(Command::new(beside("ceiling")).arg("page").arg(bytes.to_string()))
    }

    /// The one that verifies, logs and answers.
    pub fn log(folder: &Path) -> io::Result<Self> {
        Self::start(Command::new(beside("ceiling")).arg("log").arg(folder))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout was asked for");
        BufReader::new(stdout).read_line(&mut line)?;
        match address_of(&line) {
            Some(address) => Ok(Self { child, address }),
            None => {
                let _ = child.kill();
                Err(io::Error::other(format!("not a ready line: {line:?}")))
            }
        }
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address_of(line: &str) -> Option<SocketAddr> {
    let Json::Number(port) = Json::parse(line.trim()).ok()?.get("port")?.clone() else {
        return None;
    };
    Some(([127, 0, 0, 1], port.parse().ok()?).into())
}

/// Makes the database `b` with its containers: `c` has no index, `d` the default one.
pub fn prepare(endpoint: &str) -> io::Result<()> {
    let mut wire = Wire::new(endpoint);
    let key = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;
    let bodies = [
        ("/dbs", r#"{"id":"b"}"#.to_owned()),
        (
            "/dbs/b/colls",
            format!(
                r#"{{"id":"c",{key},"indexingPolicy":{{"indexingMode":"none","automatic":false}}}}"#
            ),
        ),
        ("/dbs/b/colls", format!(r#"{{"id":"d",{key}}}"#)),
    ];
    for (path, body) in bodies {
        let made = wire.send("POST", path, &[], body.as_bytes())?;
        if made.status != 201 {
            return Err(io::Error::other(format!("{path}: {} {}", made.status, made.text())));
        }
    }
    Ok(())
}
