//! Where things are, and how to call them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Where cargo puts what it builds: we were built there ourselves.
pub fn target() -> PathBuf {
    let own = std::env::current_exe().expect("the system tells where we are");
    own.ancestors().nth(2).expect("target/debug/xtask").to_owned()
}

/// A program that `cargo build` made.
pub fn debug_binary(name: &str) -> PathBuf {
    target().join("debug").join(name)
}

/// A program that `cargo build --release` made.
pub fn release_binary(name: &str) -> PathBuf {
    target().join("release").join(name)
}

/// A command to run in the root.
pub fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// A cargo command.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or("cargo".into()), arguments);
    // What we build must land where we look for it, however we were started.
    command.env("CARGO_TARGET_DIR", target());
    // Who runs us says so in the environment. Some crates are built again wherever that has changed.
    for (name, _) in std::env::vars_os() {
        let ours = ["CARGO_MANIFEST_", "CARGO_PKG_"];
        if name.to_str().is_some_and(|name| ours.iter().any(|our| name.starts_with(our))) {
            command.env_remove(name);
        }
    }
    command
}
