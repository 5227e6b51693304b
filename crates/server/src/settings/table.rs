//! The table of settings.

use std::path::PathBuf;
use std::time::Duration;

use super::load;
use crate::consistency::Consistency;
use crate::log;

/// One setting.
pub struct Setting {
    /// Its name: `--name` as a flag, `ASTRARIUM_NAME` in the environment, `name` in the file.
    pub name: &'static str,
    /// What stands for its value in the help; empty for a switch.
    pub value: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Whether to hide it from sight.
    pub secret: bool,
}

impl Setting {
    /// Its name in the environment.
    pub fn env(&self) -> String {
        format!("ASTRARIUM_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Whether naming it is enough to switch it on.
    pub fn is_switch(&self) -> bool {
        self.value.is_empty()
    }
}

macro_rules! settings {
    ($($(#[$secret:ident])? $name:literal $value:literal = $default:literal,
        $field:ident: $type:ty = $parse:ident, $doc:literal;)+) => {
        /// All settings, parsed.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $(#[doc = $doc] pub $field: $type,)+
        }

        /// All settings, in the order in which people are shown them.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            value: $value,
            default: $default,
            doc: $doc,
            secret: settings!(@secret $($secret)?),
        },)+];

        impl Settings {
            /// Parses the values of all rows; the first wrong one by its row, with what would be right.
            pub(super) fn parse(values: &[&str]) -> Result<Self, (usize, String)> {
                assert_eq!(values.len(), SETTINGS.len());
                let mut rows = values.iter().enumerate();
                Ok(Self {
                    $($field: {
                        let (row, value) = rows.next().expect("there are as many values as rows");
                        $parse(value).map_err(|why| (row, why))?
                    },)+
                })
            }
        }
    };
    (@secret secret) => { true };
    (@secret) => { false };
}

settings! {
    "host" "ADDR" = "127.0.0.1", host: String = text,
        "Address to listen on. Any but a loopback address needs a key of your own.";
    "port" "N" = "8081", port: u16 = number,
        "Port to listen on, for HTTP and HTTPS alike; 0 takes a free one.";
    "data-dir" "DIR" = "./astrarium-data", data_dir: PathBuf = directory,
        "Directory of the data and of the certificate made for it.";
    "memory" "" = "false", memory: bool = switch,
        "Keep the data in memory only; it is gone when the server stops.";
    "durability" "WHEN" = "disk", sync: bool = durability,
        "When a write is answered: once the disk has it, or once the operating system (os) has it, which a loss of power can undo.";
    "cache-mb" "MB" = "192", cache_mb: usize = positive,
        "Memory for data that was read lately.";
    #[secret] "key" "BASE64" = "", key: String = text,
        "Primary key. Without key and key-file, the key of Microsoft's emulator, on loopback only.";
    "key-file" "FILE" = "", key_file: String = text,
        "File with the primary key.";
    #[secret] "secondary-key" "BASE64" = "", secondary_key: String = text,
        "Secondary key, equal in rights to the primary.";
    #[secret] "read-only-key" "BASE64" = "", read_only_key: String = text,
        "Key that only reads.";
    #[secret] "read-only-secondary-key" "BASE64" = "", read_only_secondary_key: String = text,
        "Second key that only reads.";
    "advertise" "URL" = "", advertise: String = text,
        "Endpoint that clients are told to use, as a URL or a host (then https). Without it, the one they came by.";
    "consistency" "LEVEL" = "Session", consistency: Consistency = consistency,
        "Consistency of the account: Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual.";
    "enforce-throughput" "" = "false", enforce_throughput: bool = switch,
        "Refuse requests beyond the provisioned throughput with 429, as the service does.";
    "script-workers" "N" = "4", script_workers: usize = number,
        "Processes that run stored procedures and triggers; 0 switches them off.";
    "script-timeout" "SECONDS" = "5", script_timeout: Duration = seconds,
        "Time that a stored procedure or trigger may run.";
    "tls-certificate" "FILE" = "", tls_certificate: String = text,
        "Certificate chain (PEM). Without it one is made and kept in the data directory.";
    "tls-key" "FILE" = "", tls_key: String = text,
        "Private key of the certificate (PEM).";
    "cors" "ORIGINS" = "", cors: Vec<String> = list,
        "Origins, separated by commas, whose pages may use the server from a browser; * is all.";
    "log-level" "LEVEL" = "info", log_level: Option<tracing::Level> = level,
        "Lowest level to log: off, error, warn, info, debug (every request) or trace.";
    "log-format" "FORMAT" = "text", log_format: log::Form = form,
        "How log lines look: text or json.";
    "ready-json" "" = "false", ready_json: bool = switch,
        "Print the machine-readable ready line on a terminal too.";
    "max-connections" "N" = "10000", connections_max: usize = positive,
        "Most connections at a time; more wait.";
    "body-memory-mb" "MB" = "256", body_memory_mb: usize = positive,
        "Memory for the bodies of all requests under way.";
    "header-timeout" "SECONDS" = "30", header_timeout: Duration = seconds,
        "Time for a client to send the head of a request.";
    "body-timeout" "SECONDS" = "60", body_timeout: Duration = seconds,
        "Time for a client to send a body, or without taking any of an answer.";
    "idle-timeout" "SECONDS" = "600", idle_timeout: Duration = seconds,
        "Time after which a connection that does nothing is closed.";
    "shutdown-timeout" "SECONDS" = "30", shutdown_timeout: Duration = seconds,
        "Time for requests under way to finish when the server is told to stop.";
}

/// The setting with a name.
pub(super) fn position(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.name == name)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| "must be a whole number in range".to_owned())
}

fn positive(text: &str) -> Result<usize, String> {
    // Far beyond any machine, and far from overflow when counted in bytes.
    number(text).ok().filter(|n| (1..=1 << 30).contains(n)).ok_or("must be at least 1".to_owned())
}

fn switch(text: &str) -> Result<bool, String> {
    load::switch(text).ok_or("must be true or false".to_owned())
}

/// Whether to wait for the disk.
fn durability(text: &str) -> Result<bool, String> {
    match text.trim() {
        "disk" => Ok(true),
        "os" => Ok(false),
        _ => Err("must be disk or os".to_owned()),
    }
}

fn text(text: &str) -> Result<String, String> {
    Ok(text.trim().to_owned())
}

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.into()) }
}

fn consistency(text: &str) -> Result<Consistency, String> {
    Consistency::parse(text.trim()).ok_or("must be one of the five levels".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.trim().parse().map_err(|_| "must be a number of seconds")?;
    if !(0.001..=1e6).contains(&seconds) {
        return Err("must be between 0.001 and 1000000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn list(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Ok(parts.map(str::to_owned).collect())
}

fn level(text: &str) -> Result<Option<tracing::Level>, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "off" | "quiet" => Ok(None),
        level @ ("error" | "warn" | "info" | "debug" | "trace") => {
            level.parse().map(Some).map_err(|_| "is not a level".to_owned())
        }
        _ => Err("must be off, error, warn, info, debug or trace".to_owned()),
    }
}

fn form(text: &str) -> Result<log::Form, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "text" => Ok(log::Form::Text),
        "json" => Ok(log::Form::Json),
        _ => Err("must be text or json".to_owned()),
    }
}
