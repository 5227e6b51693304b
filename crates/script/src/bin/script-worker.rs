//! A program that is a worker and nothing else, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    astrarium_script::worker::main()
}
