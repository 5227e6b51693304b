//! `astrarium query`: asks a running server, and prints the rows or how they were found.

use client::{
    Account, Client, Container, Credential, Options, PartitionKey, Query, QueryOptions, Trust,
};
use serde_json::Value;

use crate::settings::WELL_KNOWN_KEY;

/// How to call it.
pub const USAGE: &str = "\
astrarium query [options] DATABASE CONTAINER TEXT

  --endpoint URL         the server [http://127.0.0.1:8081]
  --key KEY              its key [the well-known one]
  --insecure             any certificate, of a server on this machine
  --explain              how the rows are found, instead of the rows
  --partition-key JSON   only one partition key, such as '[\"a\"]'
  --parameter @NAME=JSON a parameter of the query; may be repeated
";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub struct Ask {
    endpoint: String,
    key: String,
    insecure: bool,
    explain: bool,
    partition_key: Option<PartitionKey>,
    parameters: Vec<(String, Value)>,
    database: String,
    container: String,
    text: String,
}

impl Ask {
    /// Reads the words behind `query`.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut ask = Self {
            endpoint: "http://127.0.0.1:8081".to_owned(),
            key: WELL_KNOWN_KEY.to_owned(),
            insecure: false,
            explain: false,
            partition_key: None,
            parameters: Vec::new(),
            database: String::new(),
            container: String::new(),
            text: String::new(),
        };
        let mut names = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--endpoint" => ask.endpoint = value()?,
                "--key" => ask.key = value()?,
                "--insecure" => ask.insecure = true,
                "--explain" => ask.explain = true,
                "--partition-key" => ask.partition_key = Some(partition_key(&value()?)?),
                "--parameter" => ask.parameters.push(parameter(&value()?)?),
                flag if flag.starts_with("--") => {
                    return Err(format!("there is no {flag}\n\n{USAGE}"));
                }
                _ => names.push(word),
            }
        }
        let Ok([database, container, text]) = <[String; 3]>::try_from(names) else {
            return Err(format!("a database, a container and a text are needed\n\n{USAGE}"));
        };
        (ask.database, ask.container, ask.text) = (database, container, text);
        Ok(ask)
    }

    /// Asks page after page, and gives each line of the answer away.
    pub async fn run(
        &self,
        mut line: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<(), String> {
        let container = self.container()?;
        let query = self
            .parameters
            .iter()
            .fold(Query::new(&self.text), |query, (name, value)| query.with(name, value.clone()));
        let wrong = |error: client::Error| error.to_string();
        if self.explain {
            let told = container.explain(query, self.partition_key.as_ref()).await;
            return line(&explained(&told.map_err(wrong)?));
        }
        let partition_key = self.partition_key.clone();
        let options = QueryOptions { partition_key, ..QueryOptions::default() };
        let mut rows = container.query(query, options).map_err(wrong)?;
        while let Some(page) = rows.next_page().await.map_err(wrong)? {
            for row in &page.rows {
                line(&String::from_utf8_lossy(row))?;
            }
        }
        Ok(())
    }

    fn container(&self) -> Result<Container, String> {
        let trust = if self.insecure { Trust::AnyOnLoopback } else { Trust::System };
        // Whoever names an endpoint means it, and not one that the account would send us to.
        let options = Options { trust, region_discovery: false, ..Options::default() };
        let client = Credential::key(&self.key)
            .and_then(|key| Account::new(&self.endpoint, key))
            .and_then(|account| Client::new(account, options));
        let client = client.map_err(|error| error.to_string())?;
        Ok(client.container(&self.database, &self.container))
    }
}

/// A JSON array: one value for each level.
fn partition_key(text: &str) -> Result<PartitionKey, String> {
    let levels: Vec<Value> = serde_json::from_str(text)
        .map_err(|_| format!("{text} is no partition key: write it as [\"a\"]"))?;
    Ok(PartitionKey::levels(levels))
}

/// `@name=JSON`.
fn parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("a parameter is written as @name=value")?;
    let value: Value = serde_json::from_str(value)
        .map_err(|_| format!("the value of {name} is not JSON: texts stand in double quotes"))?;
    Ok((name.to_owned(), value))
}

/// A plan as people read it.
fn explained(body: &Value) -> String {
    let indexes: Vec<&str> =
        body["indexes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    format!(
        "plan       {}\nindexes    {}\nentries    {}\ndocuments  {}\nrows       {}\ntime       {} ms",
        body["plan"].as_str().unwrap_or(""),
        if indexes.is_empty() { "none".to_owned() } else { indexes.join("; ") },
        body["entries"],
        body["documents"],
        body["rows"],
        body["timeInMs"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Ask, String> {
        Ask::parse(line.split('|').map(str::to_owned))
    }

    #[test]
    fn names_and_a_text_are_needed_the_rest_has_defaults() {
        let ask = parsed("shop|orders|SELECT * FROM c").unwrap();
        assert_eq!((ask.database.as_str(), ask.container.as_str()), ("shop", "orders"));
        assert_eq!((ask.text.as_str(), ask.explain), ("SELECT * FROM c", false));
        let ask = parsed("--explain|a|b|--parameter|@n=1|c|--partition-key|[\"x\"]").unwrap();
        assert!(ask.explain);
        assert_eq!(ask.parameters, [("@n".to_owned(), Value::from(1))]);
        assert_eq!(ask.partition_key, Some(PartitionKey::from("x")));
        for wrong in [
            "a|b",
            "a|b|c|d",
            "--nothing|a|b|c",
            "a|b|c|--key",
            "a|b|c|--parameter|x",
            "a|b|c|--partition-key|x",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
