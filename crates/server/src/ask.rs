//! `astrarium query`: asks a running server, and prints the rows or how they were found.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};

use crate::auth::signature;
use crate::path::percent_encoded;
use crate::settings::WELL_KNOWN_KEY;
use crate::{date, header};

/// How to call it.
pub const USAGE: &str = "\
astrarium query [options] DATABASE CONTAINER TEXT

  --endpoint URL         the server [http://127.0.0.1:8081]
  --key KEY              its key [the well-known one]
  --explain              how the rows are found, instead of the rows
  --partition-key JSON   only one partition key, such as '[\"a\"]'
  --parameter @NAME=JSON a parameter of the query; may be repeated
";

/// A server that does not answer for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of an answer: a page and its head.
const ANSWER_BYTES: u64 = 64 << 20;

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub struct Ask {
    endpoint: String,
    key: String,
    explain: bool,
    partition_key: Option<String>,
    parameters: Vec<Value>,
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
                "--explain" => ask.explain = true,
                "--partition-key" => ask.partition_key = Some(value()?),
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
    pub fn run(&self, mut line: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        let mut continuation = None;
        loop {
            let answer = self.page(continuation.as_deref())?;
            let body: Value = serde_json::from_slice(&answer.body)
                .map_err(|_| format!("{}: not an answer of a server", self.endpoint))?;
            if answer.status != 200 {
                let message = body["message"].as_str().unwrap_or("no message");
                return Err(format!("{}: {message}", answer.status));
            }
            if self.explain {
                return line(&explained(&body));
            }
            for row in body["Documents"].as_array().into_iter().flatten() {
                line(&row.to_string())?;
            }
            match answer.header(header::CONTINUATION.as_str()) {
                Some(next) => continuation = Some(next.to_owned()),
                None => return Ok(()),
            }
        }
    }

    fn page(&self, continuation: Option<&str>) -> Result<Answer, String> {
        let host = self.endpoint.strip_prefix("http://").map(|host| host.trim_end_matches('/'));
        let host = host.ok_or("the endpoint must begin with http://")?;
        let key = STANDARD.decode(&self.key).map_err(|_| "the key is not base64")?;
        let link = format!("dbs/{}/colls/{}", self.database, self.container);
        let date = date::format(date::now());
        let signature = signature::sign(&key, &Method::POST, "docs", &link, &date);
        let token = percent_encoded(&format!("type=master&ver=1.0&sig={signature}"));
        let token = token.replace('&', "%26").replace('=', "%3D").replace('+', "%2B");
        let body = json!({ "query": self.text, "parameters": self.parameters }).to_string();
        let mut head = format!(
            "POST /{}/docs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             authorization: {token}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\n\
             content-type: application/query+json\r\n{}: True\r\n{}: {}\r\n\
             content-length: {}\r\n",
            percent_encoded(&link),
            header::IS_QUERY,
            header::EXPLAIN,
            if self.explain { "True" } else { "False" },
            body.len()
        );
        let optional = [
            (&header::PARTITION_KEY, self.partition_key.as_deref()),
            (&header::CONTINUATION, continuation),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        send(host, &format!("{head}\r\n{body}")).map_err(|error| format!("{host}: {error}"))
    }
}

/// `@name=JSON`.
fn parameter(text: &str) -> Result<Value, String> {
    let (name, value) = text.split_once('=').ok_or("a parameter is written as @name=value")?;
    let value: Value = serde_json::from_str(value)
        .map_err(|_| format!("the value of {name} is not JSON: texts stand in double quotes"))?;
    Ok(json!({ "name": name, "value": value }))
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

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// One request on a connection of its own, which ends with the answer.
fn send(host: &str, request: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream.take(ANSWER_BYTES));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    Ok(Answer { status, headers, body })
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
        assert_eq!(ask.parameters, [json!({"name": "@n", "value": 1})]);
        assert_eq!(ask.partition_key.as_deref(), Some("[\"x\"]"));
        for wrong in ["a|b", "a|b|c|d", "--nothing|a|b|c", "a|b|c|--key", "a|b|c|--parameter|x"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
