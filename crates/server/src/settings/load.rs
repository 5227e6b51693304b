//! Where settings come from. Flags win over the environment, that over the file, that over
//! the defaults; of the environment our own names win over those of Microsoft's emulator.

use super::table::{SETTINGS, Settings, position};

/// What the command line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Start the server.
    Serve,
    /// Show the settings in effect.
    Config,
    /// Show the table of settings as Markdown.
    ConfigMarkdown,
    /// Make a key.
    Key,
    /// Explain.
    Help,
    /// Say which version this is.
    Version,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody has set it.
    Default,
    /// The file.
    File,
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag,
}

/// Settings with their sources.
#[derive(Debug)]
pub struct Loaded {
    /// What to do.
    pub verb: Verb,
    /// The settings, parsed.
    pub settings: Settings,
    /// For each row of [`SETTINGS`], its value as text and where that comes from.
    pub values: Vec<(String, Source)>,
    /// What was set without any effect.
    pub notes: Vec<String>,
}

/// Reads all sources. What is wrong is said with the name under which it was set.
pub fn load(
    arguments: impl IntoIterator<Item = String>,
    environment: impl Fn(&str) -> Option<String>,
    read_file: impl Fn(&str) -> Result<String, String>,
) -> Result<Loaded, String> {
    let line = CommandLine::parse(arguments)?;
    let mut values: Vec<(String, Source)> =
        SETTINGS.iter().map(|setting| (setting.default.to_owned(), Source::Default)).collect();
    if let Some(path) = line.config.or_else(|| environment("ASTRARIUM_CONFIG")) {
        for (row, value) in from_file(&path, &read_file(&path)?)? {
            values[row] = (value, Source::File);
        }
    }
    let notes = from_environment(&environment, &mut values);
    for (row, value) in line.flags {
        values[row] = (value, Source::Flag);
    }
    Ok(Loaded { verb: line.verb, settings: parsed(&values)?, values, notes })
}

fn parsed(values: &[(String, Source)]) -> Result<Settings, String> {
    let texts: Vec<&str> = values.iter().map(|(text, _)| text.as_str()).collect();
    Settings::parse(&texts).map_err(|(row, why)| {
        let (setting, (value, source)) = (&SETTINGS[row], &values[row]);
        let name = match source {
            Source::Environment(variable) => variable.clone(),
            Source::Flag => format!("--{}", setting.name),
            Source::File | Source::Default => setting.name.to_owned(),
        };
        let shown = if setting.secret { "…" } else { value };
        format!("{name} is '{shown}': it {why}")
    })
}

/// The usual spellings of yes and no.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[derive(Debug)]
struct CommandLine {
    verb: Verb,
    config: Option<String>,
    flags: Vec<(usize, String)>,
}

impl CommandLine {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut line = Self { verb: Verb::Serve, config: None, flags: Vec::new() };
        let mut arguments = arguments.into_iter().peekable();
        if let Some(word) = arguments.next_if(|word| !word.starts_with('-')) {
            line.verb = verb(&word)?;
        }
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => line.verb = Verb::Help,
                "--version" | "-V" => line.verb = Verb::Version,
                "--markdown" if line.verb == Verb::Config => line.verb = Verb::ConfigMarkdown,
                _ => line.flag(&argument, &mut arguments)?,
            }
        }
        Ok(line)
    }

    fn flag(
        &mut self,
        argument: &str,
        rest: &mut std::iter::Peekable<impl Iterator<Item = String>>,
    ) -> Result<(), String> {
        let flag = argument
            .strip_prefix("--")
            .ok_or_else(|| format!("'{argument}' is not understood; see astrarium --help"))?;
        let (name, inline) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let missing = || format!("--{name} needs a value; see astrarium --help");
        if name == "config" {
            self.config = Some(inline.or_else(|| rest.next()).ok_or_else(missing)?);
            return Ok(());
        }
        let row =
            position(name).ok_or_else(|| format!("there is no --{name}; see astrarium --help"))?;
        let value = match inline {
            Some(value) => value,
            None if SETTINGS[row].is_switch() => {
                rest.next_if(|next| switch(next).is_some()).unwrap_or_else(|| "true".to_owned())
            }
            None => rest.next().ok_or_else(missing)?,
        };
        self.flags.push((row, value));
        Ok(())
    }
}

fn verb(word: &str) -> Result<Verb, String> {
    match word {
        "serve" => Ok(Verb::Serve),
        "config" => Ok(Verb::Config),
        "key" => Ok(Verb::Key),
        "help" => Ok(Verb::Help),
        "version" => Ok(Verb::Version),
        _ => Err(format!("there is no '{word}'; see astrarium --help")),
    }
}

fn from_file(path: &str, text: &str) -> Result<Vec<(usize, String)>, String> {
    let table: toml::Table = text.parse().map_err(|e| format!("{path}: {e}"))?;
    let row = |(name, value): (String, toml::Value)| {
        let row = position(&name).ok_or_else(|| format!("{path}: there is no setting '{name}'"))?;
        Ok((
            row,
            plain(value).ok_or_else(|| format!("{path}: '{name}' has a value of a wrong type"))?,
        ))
    };
    table.into_iter().map(row).collect()
}

fn plain(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(switch) => Some(switch.to_string()),
        toml::Value::Array(list) => {
            let parts: Option<Vec<String>> = list.into_iter().map(plain).collect();
            Some(parts?.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// Reads variables into place, and says which of them have no effect.
fn from_environment(
    environment: &impl Fn(&str) -> Option<String>,
    values: &mut [(String, Source)],
) -> Vec<String> {
    let mut set = |name: &str, variable: &str, value: String| {
        if let Some(row) = position(name) {
            values[row] = (value, Source::Environment(variable.to_owned()));
        }
    };
    let emulator = |name: &str| {
        let variable = format!("AZURE_COSMOS_EMULATOR_{name}");
        environment(&variable).filter(|value| !value.is_empty()).map(|value| (variable, value))
    };
    if let Some((variable, key)) = emulator("KEY") {
        set("key", &variable, key);
    }
    if let Some((variable, host)) = emulator("IP_ADDRESS_OVERRIDE") {
        set("advertise", &variable, host);
    }
    if let Some((variable, value)) = emulator("ENABLE_DATA_PERSISTENCE")
        && switch(&value) == Some(false)
    {
        set("memory", &variable, "true".to_owned());
    }
    for setting in SETTINGS {
        let variable = setting.env();
        if let Some(value) = environment(&variable) {
            set(setting.name, &variable, value);
        }
    }
    let ignored = emulator("PARTITION_COUNT").into_iter();
    ignored
        .map(|(variable, _)| format!("{variable} has no effect: containers need no reserve"))
        .collect()
}
