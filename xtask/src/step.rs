//! Steps, one after the other: each is named, timed and counted.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::count::Count;

/// What has been run so far.
#[derive(Debug, Default)]
pub struct Run {
    total: Count,
    failed_steps: Vec<String>,
}

impl Run {
    /// Runs a command as a step; its output is shown, and its tests are counted. True if all is well.
    pub fn command(&mut self, name: &str, command: Command) -> bool {
        let start = begin(name);
        let (mut count, success) = watch(command);
        if !success && count.failed == 0 {
            count.failed = 1;
        } else if success && count == Count::default() {
            count.passed = 1;
        }
        self.end(name, start, count)
    }

    /// A step that is a list of what is wrong.
    pub fn check(&mut self, name: &str, violations: Vec<String>) {
        let start = begin(name);
        for violation in &violations {
            println!("{violation}");
        }
        let failed = usize::from(!violations.is_empty());
        self.end(name, start, Count { passed: 1 - failed, failed });
    }

    /// A step that could not even begin.
    pub fn fail(&mut self, name: &str, why: &str) {
        let start = begin(name);
        println!("{why}");
        self.end(name, start, Count { passed: 0, failed: 1 });
    }

    /// Prints the sum, alone on the last line.
    pub fn finish(self) -> ExitCode {
        for name in &self.failed_steps {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.total.passed, self.total.failed);
        ExitCode::from(u8::from(self.total.failed > 0))
    }

    fn end(&mut self, name: &str, start: Instant, count: Count) -> bool {
        self.total.add(count);
        let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
        let (took, all) = (start.elapsed().as_secs_f64(), count.passed + count.failed);
        println!(
            "== {name}: {verdict}, {} of {all}, {took:.1} s
",
            count.passed
        );
        if count.failed > 0 {
            self.failed_steps.push(name.to_owned());
        }
        count.failed == 0
    }
}

fn begin(name: &str) -> Instant {
    println!("== {name}");
    Instant::now()
}

/// Runs a command, shows what it prints and counts the tests in it.
fn watch(mut command: Command) -> (Count, bool) {
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cannot run {}: {error}", command.get_program().to_string_lossy());
            return (Count::default(), false);
        }
    };
    let mut count = Count::default();
    let stdout = BufReader::new(child.stdout.take().expect("stdout was asked for"));
    for line in stdout.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        match Count::read(&line) {
            Some(found) => {
                count.add(found);
                // The sum of all steps stands alone at the end; the sums of steps do not look like it.
                if found != Count::default() {
                    println!("   {line}");
                }
            }
            None => println!("{line}"),
        }
    }
    let success = child.wait().is_ok_and(|status| status.success());
    (count, success)
}
