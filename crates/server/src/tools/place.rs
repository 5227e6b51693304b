//! From the command line to the containers it is about.

use std::sync::Arc;
use std::time::Duration;

use client::{Account, Client, Container, Credential, Options as ClientOptions, Trust};
use processor::{Builder, Options, Site};

use super::arguments::Arguments;

/// An endpoint that is silent for so long is spoken of.
const SILENCE: Duration = Duration::from_secs(2);

/// The monitored container.
pub fn site(arguments: &Arguments) -> Result<Site, String> {
    let (endpoint, key, options) = how(arguments)?;
    let (database, container) = (arguments.need("database")?, arguments.need("container")?);
    Site::new(&endpoint, key, options, database, container).map_err(|error| error.to_string())
}

/// The container itself.
pub fn container(arguments: &Arguments) -> Result<Container, String> {
    let (endpoint, key, options) = how(arguments)?;
    let (database, container) = (arguments.need("database")?, arguments.need("container")?);
    let client = Account::new(&endpoint, key).and_then(|account| Client::new(account, options));
    Ok(client.map_err(|error| error.to_string())?.container(database, container))
}

fn how(arguments: &Arguments) -> Result<(String, Credential, ClientOptions), String> {
    let (endpoint, key) = account(arguments)?;
    let trust = trust(arguments)?;
    let key = Credential::key(&key).map_err(|error| error.to_string())?;
    Ok((endpoint, key, ClientOptions { trust, ..ClientOptions::default() }))
}

/// Whose certificates count.
pub fn trust(arguments: &Arguments) -> Result<Trust, String> {
    match arguments.get("trust") {
        _ if arguments.flag("insecure") => Ok(Trust::AnyOnLoopback),
        Some(path) => {
            let pem = std::fs::read(path).map_err(|error| format!("--trust {path}: {error}"))?;
            Ok(Trust::Certificates(pem))
        }
        None => Ok(Trust::System),
    }
}

fn account(arguments: &Arguments) -> Result<(String, String), String> {
    if let Some(endpoint) = arguments.get("endpoint") {
        return Ok((endpoint.to_owned(), arguments.need("key")?.to_owned()));
    }
    let said = arguments.get("connection-string").map(str::to_owned);
    let text = said.or_else(|| std::env::var("ASTRARIUM_CONNECTION_STRING").ok());
    let text = text.ok_or("which account? --endpoint and --key, or --connection-string")?;
    let part = |name: &str| {
        let parts = text.split(';').filter_map(|part| part.split_once('='));
        parts
            .map(|(name, value)| (name.trim(), value.trim()))
            .find_map(|(each, value)| each.eq_ignore_ascii_case(name).then(|| value.to_owned()))
    };
    match (part("AccountEndpoint"), part("AccountKey")) {
        (Some(endpoint), Some(key)) => Ok((endpoint, key)),
        _ => Err("a connection string needs AccountEndpoint=…; and AccountKey=…;".into()),
    }
}

/// Waits for what an endpoint is asked first, and says so if no answer comes: the client tries again for
/// a while before it gives up.
pub async fn answered<T>(arguments: &Arguments, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE) => {}
    }
    if let Ok((endpoint, _)) = account(arguments) {
        eprintln!("astrarium: {endpoint} does not answer; it is tried again");
    }
    work.await
}

/// The processor's name, which its positions are stored under.
pub fn prefix(arguments: &Arguments) -> String {
    arguments.get("name").unwrap_or("processor").to_owned()
}

/// A processor over the containers, without options or handler.
pub async fn builder(arguments: &Arguments, site: &Site) -> Result<Builder, String> {
    let database = arguments.get("leases-database").or(arguments.get("database"));
    let database = database.unwrap_or_default();
    let leases = site.beside(database, arguments.get("leases").unwrap_or("leases"));
    let connecting = answered(arguments, Builder::connect(site, &leases)).await;
    let mut builder = connecting.map_err(|error| error.to_string())?;
    if let Some(name) = arguments.get("dead-letters") {
        let store = site.beside(database, name).store("the dead-letter container").await;
        builder = builder.dead_letters(Arc::new(store.map_err(|error| error.to_string())?));
    }
    Ok(builder.options(Options { lease_prefix: prefix(arguments), ..Options::default() }))
}
