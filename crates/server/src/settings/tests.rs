//! Precedence, spelling, and what is refused.

use std::time::Duration;

use super::*;

fn loaded(arguments: &str, variables: &[(&str, &str)], file: &str) -> Result<Loaded, String> {
    let environment = |name: &str| {
        variables.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
    };
    load(arguments.split_whitespace().map(str::to_owned), environment, |_| Ok(file.to_owned()))
}

fn refused(arguments: &str, variables: &[(&str, &str)], file: &str) -> String {
    loaded(arguments, variables, file).expect_err("should be refused")
}

#[test]
fn without_anything_it_serves_with_the_defaults() {
    let loaded = loaded("", &[], "").unwrap();
    assert_eq!(loaded.verb, Verb::Serve);
    assert_eq!((loaded.settings.host.as_str(), loaded.settings.port), ("127.0.0.1", 8081));
    assert_eq!(loaded.settings.header_timeout, Duration::from_secs(30));
    assert!(loaded.settings.sync && !loaded.settings.memory && !loaded.settings.has_own_key());
}

#[test]
fn flags_win_over_variables_and_those_over_the_file() {
    let port = |arguments, variables: &[(&str, &str)], file| {
        loaded(arguments, variables, file).unwrap().settings.port
    };
    let variable = [("ASTRARIUM_PORT", "2")];
    assert_eq!(port("serve --config x --port 1", &variable, "port = 3"), 1);
    assert_eq!(port("serve --config x", &variable, "port = 3"), 2);
    assert_eq!(port("serve --config=x", &[], "port = 3"), 3);
    assert_eq!(port("serve", &[("ASTRARIUM_CONFIG", "x")], "port = \"4\""), 4);
    assert_eq!(port("serve", &[], "port = 5"), 8081);
}

#[test]
fn switches_and_lists() {
    let settings = |arguments, file| loaded(arguments, &[], file).unwrap().settings;
    assert!(settings("--memory", "").memory);
    assert!(!settings("--memory false", "").memory);
    assert!(!settings("--memory=off --enforce-throughput", "").memory);
    assert!(settings("--memory --enforce-throughput", "").enforce_throughput);
    assert_eq!(settings("--config x", "cors = [\"a\", \"b\"]").cors, ["a", "b"]);
    assert_eq!(settings("--cors a,b", "").cors, ["a", "b"]);
}

#[test]
fn the_emulators_variables_are_honoured_unless_ours_are_set() {
    let emulator = [
        ("AZURE_COSMOS_EMULATOR_KEY", WELL_KNOWN_KEY),
        ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "10.0.0.7"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "false"),
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "10"),
        ("ASTRARIUM_ADVERTISE", "http://other:1"),
    ];
    let loaded = loaded("", &emulator, "").unwrap();
    assert!(loaded.settings.memory && loaded.settings.has_own_key());
    assert_eq!(loaded.settings.advertise, "http://other:1");
    assert_eq!(loaded.notes.len(), 1);
}

#[test]
fn what_is_wrong_is_named() {
    assert!(refused("dance", &[], "").contains("'dance'"));
    assert!(refused("--colour red", &[], "").contains("--colour"));
    assert!(refused("--port", &[], "").contains("--port needs a value"));
    assert!(refused("--port 70000", &[], "").contains("--port is '70000'"));
    assert!(refused("", &[("ASTRARIUM_PORT", "x")], "").contains("ASTRARIUM_PORT is 'x'"));
    assert!(refused("--config f", &[], "port = ").contains("f:"));
    assert!(refused("--config f", &[], "prot = 1").contains("there is no setting 'prot'"));
    assert!(refused("--config f", &[], "[port]\na = 1").contains("wrong type"));
    assert!(refused("--consistency Firm", &[], "").contains("five levels"));
    assert!(refused("--header-timeout -1", &[], "").contains("seconds"));
    assert!(refused("--max-connections 0", &[], "").contains("at least 1"));
}

#[test]
fn keys_are_decoded() {
    let keys = |arguments| loaded(arguments, &[], "").unwrap().settings.keys();
    assert_eq!(format!("{:?}", keys("").unwrap()), "Keys(1 full, 0 read-only)");
    let own = "--key MDEyMzQ1Njc4OTAxMjM0NTY3ODk= --read-only-key MDEyMzQ1Njc4OTAxMjM0NTY3ODk=";
    assert_eq!(format!("{:?}", keys(own).unwrap()), "Keys(1 full, 1 read-only)");
    assert!(keys("--key %%%").unwrap_err().contains("key is not base64"));
    assert!(keys("--key c2hvcnQ=").unwrap_err().contains("too short"));
    assert!(keys("--key a --key-file b").unwrap_err().contains("not both"));
}

#[test]
fn keys_are_never_shown() {
    let loaded = loaded(&format!("config --key {WELL_KNOWN_KEY}"), &[], "").unwrap();
    let shown = effective(&loaded);
    assert!(!shown.contains("C2y6") && shown.contains("********"), "{shown}");
    assert!(
        refused("--key-file x --port x --secondary-key SECRET", &[], "").find("SECRET").is_none()
    );
}

#[test]
fn what_is_advertised_is_a_whole_url() {
    let advertised = |text: &str| {
        loaded(&format!("--advertise {text}"), &[], "").unwrap().settings.advertised(8081)
    };
    assert_eq!(advertised("http://db:1/").as_deref(), Some("http://db:1/"));
    assert_eq!(advertised("10.0.0.7").as_deref(), Some("https://10.0.0.7:8081/"));
    assert_eq!(advertised("db:443").as_deref(), Some("https://db:443/"));
    assert_eq!(advertised("[::1]").as_deref(), Some("https://[::1]:8081/"));
    assert_eq!(loaded("", &[], "").unwrap().settings.advertised(1), None);
}

#[test]
fn help_and_documentation_name_every_setting() {
    for setting in SETTINGS {
        assert!(help().contains(&format!("--{}", setting.name)));
        assert!(markdown().contains(&setting.env()));
    }
    assert!(help().lines().all(|line| line.chars().count() <= 92), "{}", help());
}

#[test]
fn the_documentation_lists_every_setting() {
    let page = include_str!("../../../../docs/configuration.md");
    assert!(
        page.contains(super::markdown().trim_end()),
        "docs/configuration.md: put in what `astrarium config --markdown` prints"
    );
}
