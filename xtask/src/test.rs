//! Everything that CI runs, cheapest first.

use crate::project::{cargo, command, debug_binary};
use crate::sdk;
use crate::step::Run;

/// All of it. What needs the server is skipped when it does not build.
pub fn all(run: &mut Run) {
    run.command("format", cargo(&["fmt", "--all", "--check"]));
    run.command(
        "format of the Rust SDK's tests",
        cargo(&["fmt", "--manifest-path", sdk::RUST_MANIFEST, "--check"]),
    );
    run.command(
        "clippy",
        cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    );
    let bench = [
        "clippy",
        "--quiet",
        "--package",
        "astrarium-conformance",
        "--features",
        "bench",
        "--bins",
        "--",
        "-D",
        "warnings",
    ];
    run.command("clippy of the benchmark", cargo(&bench));
    let is_built = build(run);
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"]);
    // Those that start the server need not build it themselves.
    tests.env("ASTRARIUM_BIN", debug_binary("astrarium"));
    run.command("tests beside the code", tests);
    if !is_built {
        return;
    }
    run.command("text cases", command(debug_binary("cases"), &[]));
    run.command("queries by every way", command(debug_binary("queries"), &[]));
    run.command("abuse", command(debug_binary("abuse"), &[]));
    for language in sdk::LANGUAGES {
        sdk::run(run, language, &[]);
    }
    run.command("crash, 20 cycles", command(debug_binary("crash"), &["--cycles", "20"]));
}

/// Builds the server and what speaks to it.
pub fn build(run: &mut Run) -> bool {
    run.command("build", cargo(&["build", "--quiet", "--workspace", "--bins"]))
}
