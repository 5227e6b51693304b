//! The benchmark: builds everything for speed, then hands over to the program that measures.

use std::process::ExitCode;

use crate::project::{cargo, command, release_binary};

/// Builds and measures.
pub fn run(arguments: &[&str]) -> ExitCode {
    if let ["processor", rest @ ..] = arguments {
        return processor(rest);
    }
    let server = ["build", "--release", "--package", "astrarium-server"];
    let ceilings = [
        "build",
        "--release",
        "--package",
        "astrarium-conformance",
        "--features",
        "bench",
        "--bin",
        "bench",
        "--bin",
        "ceiling",
    ];
    // Two builds: in one, the ceilings' features would be the server's too.
    for build in [&server[..], &ceilings[..]] {
        if !cargo(build).status().is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    let status = command(release_binary("bench"), arguments).status();
    if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The processor, with the server as a process beside it.
fn processor(arguments: &[&str]) -> ExitCode {
    let builds = [
        ["build", "--release", "--package", "astrarium-server", "--bin", "astrarium"],
        ["build", "--release", "--package", "astrarium-processor", "--example", "bench"],
    ];
    for build in builds {
        if !cargo(&build).status().is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    let mut bench = command(release_binary("examples/bench"), arguments);
    bench.env("ASTRARIUM_BIN", release_binary("astrarium"));
    let status = bench.status();
    if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
