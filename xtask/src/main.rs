//! The project's chores: `cargo xtask <word>`.

mod bench;
mod count;
mod project;
mod sdk;
mod step;
mod test;
mod tidy;

use std::process::ExitCode;

use project::{command, debug_binary};
use step::Run;

const HELP: &str = "\
cargo xtask test                                 everything that CI runs
cargo xtask cases [--bless] [--endpoint URL] [filter…]
                                                 the text cases, through HTTP
cargo xtask queries [--seed S | --runs N]        random queries: by index, scan, server and fan-out
cargo xtask abuse                                bad manners against a running server
cargo xtask sdk <python|js|rust> [filter]        tests with an official SDK
cargo xtask crash [--cycles N] [--seed S]        kill -9 under load, again and again
cargo xtask bench [--json] [--grow N] [filter…]  speed, beside its ceilings
cargo xtask bench query [--documents N]          queries, beside PostgreSQL
cargo xtask bench processor [filter]             the change feed processor's figures
cargo xtask tidy                                 what the compiler does not hold";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut run = Run::default();
    match words.as_slice() {
        ["test"] => test::all(&mut run),
        ["cases", rest @ ..] => built(&mut run, "cases", rest),
        ["abuse"] => built(&mut run, "abuse", &[]),
        ["queries", rest @ ..] => built(&mut run, "queries", rest),
        ["crash", rest @ ..] => built(&mut run, "crash", rest),
        ["sdk", language, rest @ ..] if sdk::LANGUAGES.contains(language) => {
            if test::build(&mut run) {
                sdk::run(&mut run, language, rest);
            }
        }
        ["bench", rest @ ..] => return bench::run(rest),
        ["tidy"] => run.check("tidy", tidy::violations()),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    }
    run.finish()
}

/// Builds, then runs one of the conformance programs.
fn built(run: &mut Run, program: &str, arguments: &[&str]) {
    if test::build(run) {
        run.command(program, command(debug_binary(program), arguments));
    }
}
