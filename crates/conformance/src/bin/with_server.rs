//! Runs a command beside a server of its own: `with-server [server options] -- command …`.
//!
//! The command finds the server by `ASTRARIUM_ENDPOINT`, `ASTRARIUM_KEY` and, for tests that
//! start servers themselves, `ASTRARIUM_BIN`.

use std::process::{Command, ExitCode};

use conformance::WELL_KNOWN_KEY;
use conformance::server::{Scratch, Server, binary};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(dashes) = words.iter().position(|word| word == "--") else {
        eprintln!("usage: with-server [server options] -- command [arguments]");
        return ExitCode::from(2);
    };
    let options: Vec<&str> = words[..dashes].iter().map(String::as_str).collect();
    let Some((program, arguments)) = words[dashes + 1..].split_first() else {
        eprintln!("with-server: no command after --");
        return ExitCode::from(2);
    };
    let scratch = Scratch::new("beside").expect("a place for the server's data");
    let mut server = Server::start(&binary(), scratch.path(), &options).expect("the server starts");
    let status = Command::new(program)
        .args(arguments)
        .env("ASTRARIUM_ENDPOINT", &server.endpoint)
        .env("ASTRARIUM_KEY", WELL_KNOWN_KEY)
        .env("ASTRARIUM_BIN", binary())
        .status();
    let survived = server.is_running();
    if !survived {
        eprintln!("the server ended while the command ran");
    }
    match status {
        Ok(status) if survived => {
            ExitCode::from(status.code().map_or(1, |code| code.clamp(0, 255) as u8))
        }
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run {program}: {error}");
            ExitCode::FAILURE
        }
    }
}
