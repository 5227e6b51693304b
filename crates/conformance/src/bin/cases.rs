//! Runs the case files: `cases [--bless] [--endpoint URL] [--key KEY] [filter…]`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use conformance::run::{Outcome, Target, run};
use conformance::server::{Scratch, Server, binary};
use conformance::{WELL_KNOWN_KEY, sign};

/// Keys of the server we start, so that cases can sign with each.
const SECONDARY: &str =
    "c2Vjb25kYXJ5LWtleS1vZi10aGUtY2FzZXMtMDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OQ==";
const READ_ONLY: &str =
    "cmVhZC1vbmx5LWtleS1vZi10aGUtY2FzZXMtMDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OQ==";
const UNKNOWN: &str =
    "dW5rbm93bi1rZXktb2YtdGhlLWNhc2VzLTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMQ==";

#[derive(Default)]
struct Arguments {
    bless: bool,
    endpoint: Option<String>,
    key: Option<String>,
    filters: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files: Vec<PathBuf> =
        case_files(&root).into_iter().filter(|file| wanted(file, &arguments.filters)).collect();
    let scratch = Scratch::new("cases").expect("a place for the server's data");
    let mut server = match arguments.endpoint {
        Some(_) => None,
        None => Some(start(scratch.path()).expect("the server starts")),
    };
    let target = Target {
        endpoint: arguments
            .endpoint
            .clone()
            .unwrap_or_else(|| server.as_ref().expect("just started").endpoint.clone()),
        key: arguments.key.clone().unwrap_or_else(|| WELL_KNOWN_KEY.to_owned()),
        keys: keys(),
    };
    let (mut passed, mut failed) = (0, 0);
    for file in &files {
        let outcome = run_file(&root, file, &target, &mut server, arguments.bless);
        if outcome.failures.is_empty() { passed += 1 } else { failed += 1 }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0 || files.is_empty()))
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--bless" => out.bless = true,
            "--endpoint" => out.endpoint = Some(words.next().ok_or("--endpoint needs a URL")?),
            "--key" => out.key = Some(words.next().ok_or("--key needs a key")?),
            flag if flag.starts_with("--") => return Err(format!("no such option: {flag}")),
            _ => out.filters.push(word),
        }
    }
    Ok(out)
}

fn keys() -> Vec<(String, String)> {
    [("secondary", SECONDARY), ("readonly", READ_ONLY), ("unknown", UNKNOWN)]
        .map(|(name, key)| (name.to_owned(), key.to_owned()))
        .to_vec()
}

fn start(data: &Path) -> std::io::Result<Server> {
    Server::start(&binary(), data, &["--secondary-key", SECONDARY, "--read-only-key", READ_ONLY])
}

/// All case files, in order of their names.
fn case_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the cases are there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "case") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn wanted(file: &Path, filters: &[String]) -> bool {
    let name = file.to_string_lossy();
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

fn run_file(
    root: &Path,
    file: &Path,
    target: &Target,
    server: &mut Option<Server>,
    bless: bool,
) -> Outcome {
    let name = file.strip_prefix(root).unwrap_or(file).with_extension("").display().to_string();
    let text = std::fs::read_to_string(file).expect("a case file is text");
    let start = Instant::now();
    let database = format!(
        "case-{}-{}",
        sign::percent_encode(&name.replace(['/', '\\'], "-")),
        std::process::id()
    );
    let mut outcome = run(target, &database, &text, server.as_mut());
    if !text.lines().any(|line| line.starts_with("# Source:")) {
        outcome.failures.push("no `# Source:` line says where its truth comes from".to_owned());
    }
    if bless && outcome.blessed != text {
        std::fs::write(file, &outcome.blessed).expect("the case file can be written");
        println!("blessed {name}");
    } else if outcome.failures.is_empty() {
        println!("ok {name} ({} answers, {} ms)", outcome.held, start.elapsed().as_millis());
    }
    for failure in outcome.failures.iter().filter(|_| !bless) {
        println!("FAILED {name} {failure}");
    }
    outcome
}
