//! The account that an example works on, from its environment.

use std::error::Error;

use client::{Account, Client, Credential, Options, Trust};

/// A client of `ASTRARIUM_ENDPOINT` with `ASTRARIUM_KEY`.
pub fn client() -> Result<Client, Box<dyn Error>> {
    let variable =
        |name: &str| std::env::var(name).map_err(|_| format!("set {name} in the environment"));
    let key = Credential::key(&variable("ASTRARIUM_KEY")?)?;
    let account = Account::new(&variable("ASTRARIUM_ENDPOINT")?, key)?;
    let trust = match std::env::var_os("ASTRARIUM_CERTIFICATE") {
        Some(file) => Trust::Certificates(std::fs::read(file)?),
        None => Trust::System,
    };
    Ok(Client::new(account, Options { trust, ..Options::default() })?)
}

/// An argument of the command line.
pub fn argument(at: usize, meaning: &str) -> Result<String, Box<dyn Error>> {
    Ok(std::env::args().nth(at).ok_or_else(|| format!("argument {at} is missing: {meaning}"))?)
}
