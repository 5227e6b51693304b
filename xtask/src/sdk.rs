//! The official SDKs as clients: installed under `target/`, run beside a server of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::{cargo, command, debug_binary, root, target};
use crate::step::Run;

/// The SDKs there are tests for.
pub const LANGUAGES: [&str; 3] = ["python", "js", "rust"];

/// The manifest of the Rust SDK's tests, which are a workspace of their own.
pub const RUST_MANIFEST: &str = "crates/conformance/sdk/rust/Cargo.toml";

/// Installs an SDK where it is not yet, and runs its tests.
pub fn run(run: &mut Run, language: &str, rest: &[&str]) {
    let name = format!("SDK tests: {language}");
    let suite = match language {
        "python" => python(run, rest),
        "js" => js(run, rest),
        _ => rust(run, rest),
    };
    match suite {
        Ok(suite) => {
            run.command(&name, beside_server(&suite));
        }
        Err(why) => run.fail(&name, &why),
    }
}

fn folder(language: &str) -> PathBuf {
    root().join("crates/conformance/sdk").join(language)
}

/// The same command, with a server that it finds in its environment.
fn beside_server(suite: &Command) -> Command {
    let mut command = Command::new(debug_binary("with-server"));
    command.args(["--log-level", "error", "--"]).arg(suite.get_program()).args(suite.get_args());
    if let Some(folder) = suite.get_current_dir() {
        command.current_dir(folder);
    }
    for (name, value) in suite.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

fn python(run: &mut Run, rest: &[&str]) -> Result<Command, String> {
    let requirements = folder("python").join("requirements.txt");
    let home = target().join("sdk-python");
    let installed = home.join("requirements.txt");
    if !same_text(&requirements, &installed) {
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        install_python(run, &home, &requirements)?;
        fs::copy(&requirements, &installed).map_err(|error| error.to_string())?;
    }
    let mut suite = Command::new(python_of(&home));
    suite.args(["-m", "pytest"]).args(rest).current_dir(folder("python"));
    suite.env("PYTHONPATH", home.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(suite)
}

/// A virtual environment, or where the system has none to give, a folder of packages.
fn install_python(run: &mut Run, home: &Path, requirements: &Path) -> Result<(), String> {
    let venv = home.join("venv");
    let made = Command::new(system_python()).args(["-m", "venv"]).arg(&venv).output();
    if !made.is_ok_and(|output| output.status.success()) {
        let _ = fs::remove_dir_all(&venv);
    }
    let mut pip = Command::new(python_of(home));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    if !venv.exists() {
        pip.arg("--target").arg(home.join("packages"));
    }
    pip.arg("-r").arg(requirements);
    let done = run.command("install the Python SDK", pip);
    if done { Ok(()) } else { Err("the Python SDK cannot be installed".to_owned()) }
}

fn python_of(home: &Path) -> PathBuf {
    let own = home.join("venv/bin/python");
    if own.exists() { own } else { system_python() }
}

fn system_python() -> PathBuf {
    std::env::var_os("PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

fn js(run: &mut Run, rest: &[&str]) -> Result<Command, String> {
    let home = folder("js");
    let installed = target().join("sdk-js-package-lock.json");
    let lock = home.join("package-lock.json");
    if !same_text(&lock, &installed) || !home.join("node_modules").exists() {
        let mut npm = command("npm", &["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        npm.current_dir(&home);
        if !run.command("install the JavaScript SDK", npm) {
            return Err("the JavaScript SDK cannot be installed".to_owned());
        }
        fs::copy(&lock, &installed).map_err(|error| error.to_string())?;
    }
    let mut suite = Command::new("node");
    suite.args(["--test", "--test-reporter=tap"]);
    if let Some(pattern) = rest.first() {
        suite.arg(format!("--test-name-pattern={pattern}"));
    }
    suite.arg("test/").current_dir(home);
    Ok(suite)
}

fn rust(run: &mut Run, rest: &[&str]) -> Result<Command, String> {
    let own_target = target().join("sdk-rust");
    let mut suite =
        cargo(&["test", "--quiet", "--locked", "--no-fail-fast", "--manifest-path", RUST_MANIFEST]);
    suite.env("CARGO_TARGET_DIR", &own_target);
    let mut build =
        cargo(&["test", "--quiet", "--locked", "--no-run", "--manifest-path", RUST_MANIFEST]);
    build.env("CARGO_TARGET_DIR", &own_target);
    if !run.command("build the Rust SDK", build) {
        return Err("the Rust SDK's tests do not build".to_owned());
    }
    suite.args(rest);
    Ok(suite)
}

fn same_text(a: &Path, b: &Path) -> bool {
    matches!((fs::read(a), fs::read(b)), (Ok(a), Ok(b)) if a == b)
}
