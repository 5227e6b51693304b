//! Runs a case file: step after step against a database of its own.

use crate::case::{self, Directive, HEADERS, Part, Step};
use crate::http::{Client, Request, Response};
use crate::json::{self, Json};
use crate::names::{Names, expand_runs};
use crate::render::{Show, list, render};
use crate::server::Server;
use crate::{both, date, invariant, sign};

/// Where cases run, and with which key.
#[derive(Debug)]
pub struct Target {
    /// `http://host:port`.
    pub endpoint: String,
    /// The account key, base64.
    pub key: String,
    /// Keys by name, for `as=`.
    pub keys: Vec<(String, String)>,
}

/// How a case file went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Steps that were compared and held.
    pub held: usize,
    /// What did not hold, ready to print.
    pub failures: Vec<String>,
    /// The file as it would be if the server were right.
    pub blessed: String,
}

/// Runs the text of a case file. `restart` steps need the server itself.
pub fn run(target: &Target, database: &str, text: &str, server: Option<&mut Server>) -> Outcome {
    let client = Client::new(&target.endpoint);
    let names = Names::default();
    let mut session =
        Session { target, client, names, database: database.to_owned(), container: None, server };
    let mut parts = case::parse(text);
    let mut outcome = Outcome::default();
    match session.create_database() {
        Ok(()) => session.steps(&mut parts, &mut outcome),
        Err(error) => outcome.failures.push(format!("cannot create the database: {error}")),
    }
    session.drop_databases();
    outcome.blessed = case::print(&parts);
    outcome
}

/// The container that paths are relative to.
struct Container {
    name: String,
    key_paths: Vec<String>,
}

struct Session<'a> {
    target: &'a Target,
    client: Client,
    names: Names,
    database: String,
    container: Option<Container>,
    server: Option<&'a mut Server>,
}

impl Session<'_> {
    fn steps(&mut self, parts: &mut [Part], outcome: &mut Outcome) {
        for part in parts {
            let Part::Step(step) = part else { continue };
            match self.step(step) {
                Ok(None) => {}
                Ok(Some(actual)) => {
                    let expected = step.expected.clone().unwrap_or_default();
                    if same(&expected, &actual.lines) && actual.wrong.is_empty() {
                        outcome.held += 1;
                    } else {
                        outcome.failures.push(report(step, &expected, &actual));
                    }
                    step.expected = Some(actual.lines);
                }
                Err(error) => {
                    outcome
                        .failures
                        .push(format!("line {}: {}\n    {error}", step.line, step.given[0]));
                    // What follows stands on this step; its failures would only hide the first.
                    return;
                }
            }
        }
    }

    fn step(&mut self, step: &Step) -> Result<Option<Actual>, String> {
        let directive = Directive::parse(&step.given[0])?;
        match directive.word.as_str() {
            "container" => self.container(&directive, &step.given[1..]).map(|()| None),
            "items" => self.items(&directive, &step.given[1..]).map(|()| None),
            "restart" => self.restart().map(|()| None),
            "query" => self.query(&directive, &step.given[1..]).map(Some),
            word if word.bytes().all(|b| b.is_ascii_uppercase()) => {
                self.request(&directive, step).map(Some)
            }
            word => Err(format!("no such directive: {word}")),
        }
    }

    fn container(&mut self, directive: &Directive, lines: &[String]) -> Result<(), String> {
        let paths: Vec<String> =
            directive.option("pk").unwrap_or("/pk").split(',').map(str::to_owned).collect();
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let quoted: Vec<String> = paths.iter().map(|path| json::quoted(path)).collect();
        let version = directive.option("version").unwrap_or("2");
        let mut body = format!(
            r#"{{"id":{},"partitionKey":{{"paths":[{}],"kind":"{kind}","version":{version}}}"#,
            json::quoted(&directive.target),
            quoted.join(",")
        );
        // Further members of the definition follow as lines of `"name":value`.
        for line in lines {
            body.push_str(&format!(
                ",{}",
                self.names.json(&self.fill(line))?.trim_end_matches(',')
            ));
        }
        body.push('}');
        let mut request =
            self.new_request("POST", &format!("/dbs/{}/colls", self.database), body.into_bytes());
        for name in ["throughput", "autoscale"] {
            if let Some(value) = directive.option(name) {
                request.set(header_of(name).expect("a known option"), value);
            }
        }
        self.expect(request, 201)?;
        self.container = Some(Container { name: directive.target.clone(), key_paths: paths });
        Ok(())
    }

    fn items(&mut self, directive: &Directive, lines: &[String]) -> Result<(), String> {
        let numbers = match directive.target.split_once("..") {
            Some((from, to)) => {
                from.parse().ok().zip(to.parse().ok()).map(|(from, to): (u32, u32)| from..=to)
            }
            None => Some(1..=1),
        };
        for number in numbers.ok_or("items takes a range such as 1..20")? {
            for line in lines {
                let text = self.names.json(&self.fill(line))?.replace("{n}", &number.to_string());
                self.item(&text)?;
            }
        }
        Ok(())
    }

    fn item(&mut self, text: &str) -> Result<(), String> {
        let item = Json::parse(text)?;
        let container = self.container.as_ref().ok_or("no container yet")?;
        let key: Vec<String> = container
            .key_paths
            .iter()
            .map(|path| {
                item.pointer(path).map_or("{}".to_owned(), |value| ascii(&value.to_string()))
            })
            .collect();
        let path = self.path("docs")?;
        let mut request = self.new_request("POST", &path, text.as_bytes().to_vec());
        request.set("x-ms-documentdb-partitionkey", format!("[{}]", key.join(",")));
        self.expect(request, 201)
    }

    fn query(&mut self, directive: &Directive, lines: &[String]) -> Result<Actual, String> {
        let text = self.names.plain(&lines.join("\n"))?;
        let path = self.path("docs")?;
        let body = format!(r#"{{"query":{},"parameters":[]}}"#, json::quoted(&text));
        let mut request = self.new_request("POST", &path, body.into_bytes());
        request.set("content-type", "application/query+json");
        request.set("x-ms-documentdb-isquery", "true");
        self.options(directive, &mut request)?;
        let response = self.exchange(request.clone(), directive)?;
        let mut wrong = invariant::violations(&path, &response);
        wrong.extend(self.other_way(&request, &response));
        let mut lines =
            render(&response, &Show::parse(directive.option("show"), true), &mut self.names);
        // Results speak for themselves: the status is worth a line only where something is wrong.
        if lines[0] == "200" {
            lines.remove(0);
        }
        Ok(Actual { wrong, lines, response })
    }

    fn other_way(&mut self, request: &Request, response: &Response) -> Option<String> {
        both::violation(&mut self.client, &self.target.key, request, response)
    }

    fn restart(&mut self) -> Result<(), String> {
        let server = self
            .server
            .as_mut()
            .ok_or("restart needs a server of our own: run without --endpoint")?;
        server.restart().map_err(|error| error.to_string())
    }

    fn request(&mut self, directive: &Directive, step: &Step) -> Result<Actual, String> {
        let path = self.path(&directive.target)?;
        let given = Given::of(&step.given[1..])?;
        let mut body = expand_runs(&self.names.json(&self.fill(&given.body))?).into_bytes();
        body.extend_from_slice(&given.hex);
        let mut request = self.new_request(&directive.word, &path, body);
        self.options(directive, &mut request)?;
        for (name, value) in &given.headers {
            request.set(name, expand_runs(&self.names.plain(&self.fill(value))?));
        }
        // Signed here and not with the options, so that a header line may take the place of the signature.
        let signed = request.has("authorization");
        if !signed {
            self.authorize(directive, &mut request)?;
        }
        for name in &given.without {
            request.remove(name);
        }
        let response = self.client.send(&request).map_err(|error| error.to_string())?;
        let mut wrong = invariant::violations(&path, &response);
        wrong.extend(self.other_way(&request, &response));
        let reads = matches!(directive.word.as_str(), "GET");
        let mut lines =
            render(&response, &Show::parse(directive.option("show"), reads), &mut self.names);
        for line in &mut lines {
            *line = line.replace(&self.database, "{db}");
        }
        Ok(Actual { wrong, lines, response })
    }

    fn options(&self, directive: &Directive, request: &mut Request) -> Result<(), String> {
        for (name, value) in &directive.options {
            if matches!(name.as_str(), "as" | "show" | "date" | "by" | "sign") {
                continue;
            }
            let header = header_of(name).ok_or_else(|| format!("no such option: {name}"))?;
            let value = match value.as_str() {
                "incremental" => "Incremental Feed".to_owned(),
                "full" => "Full-Fidelity Feed".to_owned(),
                value => expand_runs(&self.names.plain(&self.fill(value))?),
            };
            request.set(header, value);
        }
        Ok(())
    }

    fn authorize(&self, directive: &Directive, request: &mut Request) -> Result<(), String> {
        let offset =
            directive.option("date").unwrap_or("0").parse().map_err(|_| "date= takes seconds")?;
        let date = date::now(offset);
        request.set("x-ms-date", date.clone());
        let (kind, link) = match directive.option("by") {
            Some("rid") => sign::resource_by_rid(&request.path),
            _ => sign::resource(&request.path),
        };
        let signer = self.names.plain(directive.option("as").unwrap_or("primary"))?;
        let key = match signer.as_str() {
            "none" => return Ok(()),
            token if token.starts_with("type=") => {
                request.set("authorization", sign::percent_encode(token));
                return Ok(());
            }
            "primary" => &self.target.key,
            name => match self.target.keys.iter().find(|(known, _)| known == name) {
                Some((_, key)) => key,
                None => return Err(format!("no such key: {name}")),
            },
        };
        request.set("authorization", sign::master(key, &request.method, &kind, &link, &date));
        Ok(())
    }

    fn new_request(&self, method: &str, path: &str, body: Vec<u8>) -> Request {
        let mut request =
            Request { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body };
        request.set("x-ms-version", "2020-07-15");
        request.set("accept", "application/json");
        if !request.body.is_empty() {
            request.set("content-type", "application/json");
        }
        request
    }

    fn exchange(
        &mut self,
        mut request: Request,
        directive: &Directive,
    ) -> Result<Response, String> {
        self.authorize(directive, &mut request)?;
        self.client.send(&request).map_err(|error| error.to_string())
    }

    fn expect(&mut self, request: Request, status: u16) -> Result<(), String> {
        let response = self.exchange(request, &Directive::default())?;
        if response.status == status {
            return Ok(());
        }
        Err(format!("expected {status}, got {} {}", response.status, response.text()))
    }

    /// The path of a request, from the account down.
    fn path(&self, target: &str) -> Result<String, String> {
        let target = expand_runs(&self.names.plain(&self.fill(target))?);
        if target.starts_with('/') {
            return Ok(target);
        }
        let database = format!("/dbs/{}", self.database);
        let first = target.split(['/', '?']).next().unwrap_or("");
        if first == "database" {
            return Ok(database + &target["database".len()..]);
        }
        if matches!(first, "colls" | "users" | "clientencryptionkeys") {
            return Ok(format!("{database}/{target}"));
        }
        let container = self.container.as_ref().ok_or("no container yet")?;
        let owner = format!("{database}/colls/{}", sign::percent_encode(&container.name));
        Ok(match target.strip_prefix("container") {
            Some(rest) => owner + rest,
            None => format!("{owner}/{target}"),
        })
    }

    fn fill(&self, text: &str) -> String {
        let text = text.replace("{db}", &self.database);
        match &self.container {
            Some(container) => text.replace("{container}", &container.name),
            None => text,
        }
    }

    fn create_database(&mut self) -> Result<(), String> {
        let body = format!(r#"{{"id":{}}}"#, json::quoted(&self.database));
        self.expect(self.new_request("POST", "/dbs", body.into_bytes()), 201)
    }

    /// Deletes the databases of the case: the one given, and those named after it.
    fn drop_databases(&mut self) {
        let Ok(response) =
            self.exchange(self.new_request("GET", "/dbs", Vec::new()), &Directive::default())
        else {
            return;
        };
        let body = Json::parse(&response.text()).unwrap_or(Json::Null);
        for entry in list(&body).unwrap_or_default() {
            let id = entry.get("id").and_then(Json::text).unwrap_or("");
            if id.starts_with(&self.database) {
                let path = format!("/dbs/{}", sign::percent_encode(id));
                let _ = self
                    .exchange(self.new_request("DELETE", &path, Vec::new()), &Directive::default());
            }
        }
    }
}

/// What a step brings beside its directive.
#[derive(Default)]
struct Given {
    headers: Vec<(String, String)>,
    without: Vec<String>,
    body: String,
    hex: Vec<u8>,
}

impl Given {
    fn of(lines: &[String]) -> Result<Self, String> {
        let mut given = Self::default();
        let mut body = Vec::new();
        for line in lines {
            if let Some(header) = line.strip_prefix("header ") {
                let (name, value) =
                    header.split_once(':').ok_or_else(|| format!("no colon in: {line}"))?;
                given.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            } else if let Some(name) = line.strip_prefix("without ") {
                given.without.push(name.trim().to_owned());
            } else if let Some(hex) = line.strip_prefix("hex ") {
                given.hex.extend(bytes_of(hex)?);
            } else {
                body.push(line.as_str());
            }
        }
        given.body = body.join("\n");
        Ok(given)
    }
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let digits: String = hex.split_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    pairs.map(byte).collect::<Option<_>>().ok_or_else(|| format!("not hexadecimal: {hex}"))
}

fn header_of(option: &str) -> Option<&'static str> {
    HEADERS.iter().find(|(name, _)| *name == option).map(|(_, header)| *header)
}

/// Headers carry ASCII; JSON can say everything in it.
fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// What came of a step.
struct Actual {
    lines: Vec<String>,
    wrong: Vec<String>,
    response: Response,
}

fn same(expected: &[String], actual: &[String]) -> bool {
    expected.len() == actual.len()
        && expected.iter().zip(actual).all(|(e, a)| e.trim_end() == a.trim_end())
}

/// Longest piece of an answer worth printing.
const REPORT_CHARS: usize = 1200;

fn report(step: &Step, expected: &[String], actual: &Actual) -> String {
    let mut out = format!("line {}: {}\n", step.line, step.given[0]);
    out.push_str(&format!(
        "  expected\n    {}\n  actual\n    {}\n",
        expected.join("\n    "),
        actual.lines.join("\n    ")
    ));
    for wrong in &actual.wrong {
        out.push_str(&format!("  broken everywhere-rule: {wrong}\n"));
    }
    let body: String = actual.response.text().chars().take(REPORT_CHARS).collect();
    out.push_str(&format!("  the answer was\n    {} {body}", actual.response.status));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_brings_is_told_apart() {
        let lines =
            ["header x-ms-max-item-count: banana", "without x-ms-version", "hex ff 00", "{}"]
                .map(str::to_owned);
        let given = Given::of(&lines).expect("valid");
        assert_eq!(given.headers, [("x-ms-max-item-count".to_owned(), "banana".to_owned())]);
        assert_eq!(given.without, ["x-ms-version"]);
        assert_eq!((given.body.as_str(), given.hex.as_slice()), ("{}", &[0xff, 0][..]));
        assert!(Given::of(&["hex zz".to_owned()]).is_err());
    }

    #[test]
    fn partition_keys_go_as_ascii() {
        assert_eq!(ascii("\"é😀\""), "\"\\u00e9\\ud83d\\ude00\"");
    }
}
