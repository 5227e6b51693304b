//! The commands that work on a feed rather than serve one: `astrarium processor …`,
//! `astrarium replicate` and `astrarium ranges …`. They speak to any endpoint of the protocol, and to nothing else.

mod arguments;
mod copy;
mod manage;
mod place;
mod ranges;
mod replicate;
mod run;
mod sink;
mod status;
#[cfg(test)]
mod tests;

use arguments::Arguments;

const HELP: &str = "\
astrarium processor run        hand each change to a command or an HTTP endpoint
astrarium processor status     hosts, leases, lag, dead letters (--watch, --json)
astrarium processor pause      no host of the fleet calls its handler
astrarium processor resume     … until now
astrarium processor seek       send the fleet elsewhere (--to beginning|now|'time 2026-01-31T12:00:00Z'|'after <etag>', --lease TOKEN)
astrarium processor reset      forget all positions (the fleet must be stopped)
astrarium processor deadletter list|redrive [ID…]
astrarium processor leases export|import FILE [--dry-run]
astrarium replicate            copy a container into another one and keep it up to date
                               (--to-database, --to-container, --until-caught-up)
astrarium ranges list          partition key ranges: id, from, to, parents
astrarium ranges split ID      cut one in two, online
astrarium ranges merge ID ID…  make neighbours one, online

Which feed:
  --endpoint URL --key KEY     or --connection-string TEXT, or ASTRARIUM_CONNECTION_STRING
  --database NAME --container NAME
  --leases NAME                the lease container (leases); --leases-database NAME if elsewhere
  --dead-letters NAME          the dead-letter container, partitioned by /id
  --name PREFIX                the processor's name: one set of positions (processor)
  --trust FILE                 believe the certificates of this PEM file instead of the system's
  --insecure                   believe any certificate, on a loopback address

For run:
  --exec COMMAND               run by the shell for each batch; changes as JSON lines on its stdin; exit 0 is success
  --post URL                   POST each batch as JSON lines; a status of 200 to 299 is success
  --instance NAME              this host among others (host name and process id)
  --from POSITION              where leases without a position begin (now)
  --all-versions               all versions and deletes
  --lanes N                    keys handled side by side
  --timeout SECONDS            a batch that takes longer is cancelled, and has failed
  --max-items N                changes per page
  --on-failure block|park|dead-letter|stop  --attempts N
  --renew SECONDS --acquire SECONDS --expire SECONDS --poll SECONDS --rejoin SECONDS
";

/// Whether these words are a command of ours.
pub fn is_command(words: &[String]) -> bool {
    matches!(words.first().map(String::as_str), Some("processor" | "replicate" | "ranges"))
}

/// Carries a command out.
pub fn run(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (command, rest) = split(&words)?;
    let arguments = Arguments::parse(rest, FLAGS, NAMES)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(async {
        match command {
            "help" => {
                print!("{HELP}");
                Ok(())
            }
            "run" => run::run(&arguments).await,
            "status" => status::status(&arguments).await,
            "replicate" => replicate::replicate(&arguments).await,
            word if word.starts_with("ranges") => ranges::ranges(word, &arguments).await,
            other => manage::manage(other, &arguments).await,
        }
    })
}

const FLAGS: &[&str] = &["insecure", "all-versions", "watch", "json", "dry-run", "until-caught-up"];
const NAMES: &[&str] = &[
    "endpoint",
    "key",
    "connection-string",
    "database",
    "container",
    "leases",
    "leases-database",
    "dead-letters",
    "name",
    "exec",
    "post",
    "instance",
    "from",
    "lanes",
    "max-items",
    "on-failure",
    "attempts",
    "renew",
    "acquire",
    "expire",
    "poll",
    "rejoin",
    "timeout",
    "trust",
    "to",
    "lease",
    "to-database",
    "to-container",
];

/// The command, and the words after it.
fn split<'a>(words: &'a [&'a str]) -> Result<(&'a str, &'a [&'a str]), String> {
    match words {
        _ if words.contains(&"--help") => Ok(("help", &[])),
        ["replicate", rest @ ..] => Ok(("replicate", rest)),
        ["ranges", "list", rest @ ..] => Ok(("ranges list", rest)),
        ["ranges", "split", rest @ ..] => Ok(("ranges split", rest)),
        ["ranges", "merge", rest @ ..] => Ok(("ranges merge", rest)),
        ["ranges", ..] => Err(HELP.to_owned()),
        [] | ["processor"] | ["processor", "help" | "--help", ..] => Ok(("help", &[])),
        ["processor", "deadletter", "list", rest @ ..] => Ok(("deadletter list", rest)),
        ["processor", "deadletter", "redrive", rest @ ..] => Ok(("deadletter redrive", rest)),
        ["processor", "leases", "export", rest @ ..] => Ok(("leases export", rest)),
        ["processor", "leases", "import", rest @ ..] => Ok(("leases import", rest)),
        ["processor", "deadletter", ..] => Err("deadletter list, or deadletter redrive?".into()),
        ["processor", "leases", ..] => Err("leases export, or leases import FILE?".into()),
        [
            "processor",
            word @ ("run" | "status" | "pause" | "resume" | "seek" | "reset"),
            rest @ ..,
        ] => Ok((word, rest)),
        [_, word, ..] => Err(format!("'{word}' is no command of the processor\n\n{HELP}")),
        _ => Err(HELP.to_owned()),
    }
}
