//! Provisioned throughput: how it is asked for, shown, changed, and turned into partitions.

use serde_json::{Map, Value, json};

use crate::{Error, Result, limits};

const MANUAL_MIN: u32 = 400;
const MANUAL_STEP: u32 = 100;
const AUTOSCALE_MIN: u32 = 1000;
const AUTOSCALE_STEP: u32 = 1000;
/// Containers of a shared database that the smallest throughput pays for.
const SHARED_CONTAINERS: usize = 25;

/// The throughput of one container or database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throughput {
    /// A fixed number of request units per second.
    Manual(u32),
    /// Between a tenth of `max` and `max`, by demand.
    Autoscale {
        /// Most request units per second.
        max: u32,
        /// By how much to raise `max` when storage outgrows it. We store and show it only.
        increment_percent: Option<u32>,
    },
}

impl Throughput {
    /// What the headers of a create request ask for; `None` if they ask for nothing.
    pub fn from_headers(manual: Option<&str>, autopilot: Option<&str>) -> Result<Option<Self>> {
        match (manual, autopilot) {
            (None, None) => Ok(None),
            (Some(manual), None) => manual_from(header_number(manual)?).map(Some),
            (None, Some(settings)) => {
                let settings: Value = serde_json::from_str(settings).map_err(|e| {
                    Error::bad_request(format!("the autopilot settings are not JSON: {e}"))
                })?;
                autoscale_from(&settings).map(Some)
            }
            (Some(_), Some(_)) => Err(Error::bad_request(
                "manual and autoscale throughput cannot both be set: send one of the two headers",
            )),
        }
    }

    /// The `content` of the offer that shows this throughput.
    ///
    /// Autoscale shows a tenth of its maximum as the current value: that is where it idles, and
    /// the scaled value of the moment would change the offer without anyone writing to it.
    pub fn offer_content(&self) -> Map<String, Value> {
        let mut content = Map::new();
        match *self {
            Self::Manual(ru) => {
                content.insert("offerThroughput".into(), json!(ru));
            }
            Self::Autoscale { max, increment_percent } => {
                let mut settings = json!({ "maxThroughput": max });
                if let Some(percent) = increment_percent {
                    settings["autoUpgradePolicy"] =
                        json!({ "throughputPolicy": { "incrementPercent": percent } });
                }
                content.insert("offerThroughput".into(), json!(max / 10));
                content.insert("offerAutopilotSettings".into(), settings);
            }
        }
        content
    }

    /// Reads the `content` of an offer, as stored or as sent back to change it.
    ///
    /// Where there are autopilot settings, they count and `offerThroughput` is only a display.
    pub fn from_offer_content(content: &Map<String, Value>) -> Result<Self> {
        if let Some(settings) = content.get("offerAutopilotSettings").filter(|v| !v.is_null()) {
            return autoscale_from(settings);
        }
        let ru = content.get("offerThroughput").and_then(whole_number).ok_or_else(|| {
            Error::bad_request("content.offerThroughput of an offer must be a whole number")
        })?;
        manual_from(ru)
    }

    /// The smallest throughput of this kind that the history and size of the resource allow.
    ///
    /// `containers` counts only where the throughput is `shared` by those of a database.
    pub fn minimum(
        &self,
        highest_ever: u32,
        stored_gb: u64,
        containers: usize,
        shared: bool,
    ) -> u32 {
        let extra = if shared { containers.saturating_sub(SHARED_CONTAINERS) as u64 } else { 0 };
        let highest = u64::from(highest_ever);
        let (least, step) = match self {
            Self::Manual(_) => {
                let for_containers = u64::from(MANUAL_MIN) + 100 * extra;
                (for_containers.max(stored_gb).max(highest.div_ceil(100)), MANUAL_STEP)
            }
            Self::Autoscale { .. } => {
                let for_containers = u64::from(AUTOSCALE_MIN) + 1000 * extra;
                let for_storage = stored_gb.saturating_mul(10);
                (for_containers.max(for_storage).max(highest.div_ceil(10)), AUTOSCALE_STEP)
            }
        };
        round_up(least, step)
    }

    /// The throughput after a change to `new`, given the [`minimum`](Self::minimum) of its kind.
    pub fn replace(&self, new: Self, minimum: u32) -> Result<Self> {
        match (self, new) {
            (Self::Manual(_), Self::Autoscale { .. }) => Err(Error::bad_request(
                "manual throughput becomes autoscale only by the header \
                 x-ms-cosmos-migrate-offer-to-autopilot",
            )),
            (Self::Autoscale { .. }, Self::Manual(_)) => Err(Error::bad_request(
                "autoscale throughput becomes manual only by the header \
                 x-ms-cosmos-migrate-offer-to-manual-throughput",
            )),
            _ => {
                at_least(i64::from(new.ru_per_second()), minimum)?;
                Ok(new)
            }
        }
    }

    /// The autoscale throughput that takes the place of this one: the next step that is not
    /// less. Takes what [`minimum`](Self::minimum) takes; autoscale stays what it is.
    pub fn migrate_to_autoscale(
        &self,
        highest_ever: u32,
        stored_gb: u64,
        containers: usize,
        shared: bool,
    ) -> Self {
        let Self::Manual(ru) = *self else { return *self };
        let max = round_up(u64::from(ru), AUTOSCALE_STEP);
        let unbounded = Self::Autoscale { max, increment_percent: None };
        let minimum = unbounded.minimum(highest_ever, stored_gb, containers, shared);
        Self::Autoscale { max: max.max(minimum), increment_percent: None }
    }

    /// The manual throughput that takes the place of this one: what autoscale could reach.
    pub fn migrate_to_manual(&self) -> Self {
        Self::Manual(self.ru_per_second())
    }

    /// How many partitions carry this throughput.
    ///
    /// One partition carries 10,000 request units per second, so it is that many, rounded up.
    /// The service counts so for autoscale, for shared throughput and for every later increase;
    /// its finer start for manual throughput (6,000 each) is a rule of thumb that it does not
    /// promise, and one rule keeps a container the same whichever way it got its throughput.
    pub fn partitions(&self) -> usize {
        self.ru_per_second().div_ceil(limits::PARTITION_RU_PER_SECOND).max(1) as usize
    }

    /// The request units per second to enforce; autoscale is allowed its maximum at any time.
    pub fn ru_per_second(&self) -> u32 {
        match *self {
            Self::Manual(ru) => ru,
            Self::Autoscale { max, .. } => max,
        }
    }
}

fn manual_from(requested: i64) -> Result<Throughput> {
    checked(requested, MANUAL_MIN, MANUAL_STEP).map(Throughput::Manual)
}

fn autoscale_from(settings: &Value) -> Result<Throughput> {
    let max = settings.get("maxThroughput").and_then(whole_number).ok_or_else(|| {
        Error::bad_request("autopilot settings need maxThroughput, a whole number")
    })?;
    let max = checked(max, AUTOSCALE_MIN, AUTOSCALE_STEP)?;
    let increment_percent =
        match settings.pointer("/autoUpgradePolicy/throughputPolicy/incrementPercent") {
            None | Some(Value::Null) => None,
            Some(percent) => {
                Some(whole_number(percent).and_then(|p| u32::try_from(p).ok()).ok_or_else(
                    || Error::bad_request("incrementPercent must be a whole number of at least 0"),
                )?)
            }
        };
    Ok(Throughput::Autoscale { max, increment_percent })
}

fn header_number(text: &str) -> Result<i64> {
    text.trim()
        .parse()
        .map_err(|_| Error::bad_request(format!("throughput '{text}' is not a whole number")))
}

/// Clients that know only doubles may write `400.0`.
fn whole_number(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15).map(|n| n as i64))
}

fn checked(requested: i64, minimum: u32, step: u32) -> Result<u32> {
    at_least(requested, minimum)?;
    let ru = u32::try_from(requested).ok().filter(|&ru| ru <= limits::RU_PER_SECOND);
    let ru = ru.ok_or_else(|| {
        Error::bad_request(format!(
            "Requested throughput {requested} is more than the maximum throughput {}",
            limits::RU_PER_SECOND
        ))
    })?;
    if !ru.is_multiple_of(step) {
        return Err(Error::bad_request(format!(
            "Requested throughput {ru} is not a multiple of {step}"
        )));
    }
    Ok(ru)
}

/// SDK suites look for this wording.
fn at_least(requested: i64, minimum: u32) -> Result<()> {
    if requested < i64::from(minimum) {
        return Err(Error::bad_request(format!(
            "Requested throughput {requested} is less than required minimum throughput {minimum}"
        )));
    }
    Ok(())
}

fn round_up(ru: u64, step: u32) -> u32 {
    let rounded = ru.div_ceil(u64::from(step)).saturating_mul(u64::from(step));
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn autoscale(max: u32) -> Throughput {
        Throughput::Autoscale { max, increment_percent: None }
    }

    #[track_caller]
    fn check_headers(manual: Option<&str>, autopilot: Option<&str>, expect: &str) {
        let got = match Throughput::from_headers(manual, autopilot) {
            Ok(None) => "none".to_owned(),
            Ok(Some(throughput)) => Value::Object(throughput.offer_content()).to_string(),
            Err(error) => format!("{} {}", error.fault.status(), error.message),
        };
        assert!(got.starts_with(expect), "expected {expect}, got {got}");
    }

    #[test]
    fn headers_are_checked() {
        check_headers(None, None, "none");
        check_headers(Some("400"), None, r#"{"offerThroughput":400}"#);
        check_headers(
            None,
            Some(r#"{"maxThroughput":4000}"#),
            r#"{"offerThroughput":400,"offerAutopilotSettings":{"maxThroughput":4000}}"#,
        );
        check_headers(Some("400"), Some("{}"), "400 manual and autoscale");
        check_headers(Some("many"), None, "400 throughput 'many'");
        check_headers(
            Some("300"),
            None,
            "400 Requested throughput 300 is less than required minimum throughput 400",
        );
        check_headers(Some("450"), None, "400 Requested throughput 450 is not a multiple of 100");
        check_headers(Some("1000100"), None, "400 Requested throughput 1000100 is more");
        check_headers(Some("99999999999999999999"), None, "400 throughput '9");
        check_headers(
            None,
            Some(r#"{"maxThroughput":-200}"#),
            "400 Requested throughput -200 is less than required minimum throughput 1000",
        );
        check_headers(None, Some(r#"{"maxThroughput":4100}"#), "400 Requested throughput 4100");
        check_headers(None, Some("{}"), "400 autopilot settings need maxThroughput");
        check_headers(None, Some("{"), "400 the autopilot settings are not JSON");
    }

    #[test]
    fn offers_come_back_as_they_were() {
        for throughput in [
            Throughput::Manual(1000),
            autoscale(7000),
            Throughput::Autoscale { max: 5000, increment_percent: Some(0) },
        ] {
            let content = throughput.offer_content();
            assert_eq!(Throughput::from_offer_content(&content), Ok(throughput));
        }
        assert!(Throughput::from_offer_content(&Map::new()).is_err());
    }

    #[test]
    fn minimum_follows_history_storage_and_containers() {
        let manual = Throughput::Manual(400);
        assert_eq!(manual.minimum(400, 0, 1, false), 400);
        assert_eq!(manual.minimum(100_000, 0, 1, false), 1000);
        assert_eq!(manual.minimum(400, 1001, 1, false), 1100);
        assert_eq!(manual.minimum(400, 0, 30, true), 900);
        assert_eq!(manual.minimum(400, 0, 30, false), 400);
        let scaled = autoscale(1000);
        assert_eq!(scaled.minimum(1000, 0, 1, false), 1000);
        assert_eq!(scaled.minimum(50_500, 0, 1, false), 6000);
        assert_eq!(scaled.minimum(1000, 250, 1, false), 3000);
        assert_eq!(scaled.minimum(1000, 0, 27, true), 3000);
        assert_eq!(scaled.minimum(1000, u64::MAX, 1, false), u32::MAX);
    }

    #[test]
    fn replace_keeps_the_kind_and_the_minimum() {
        let manual = Throughput::Manual(1000);
        assert_eq!(manual.replace(Throughput::Manual(400), 400), Ok(Throughput::Manual(400)));
        let error = manual.replace(Throughput::Manual(400), 500).unwrap_err();
        assert!(error.message.contains("minimum throughput 500"));
        let error = manual.replace(autoscale(1000), 1000).unwrap_err();
        assert!(error.message.contains("migrate-offer-to-autopilot"));
        let error = autoscale(1000).replace(manual, 400).unwrap_err();
        assert!(error.message.contains("migrate-offer-to-manual-throughput"));
    }

    #[test]
    fn migration_never_lowers_the_throughput() {
        assert_eq!(
            Throughput::Manual(1100).migrate_to_autoscale(1100, 0, 1, false),
            autoscale(2000)
        );
        assert_eq!(
            Throughput::Manual(400).migrate_to_autoscale(50_000, 0, 1, false),
            autoscale(5000)
        );
        assert_eq!(autoscale(4000).migrate_to_manual(), Throughput::Manual(4000));
    }

    #[test]
    fn partitions_grow_with_throughput() {
        assert_eq!(Throughput::Manual(400).partitions(), 1);
        assert_eq!(Throughput::Manual(10_000).partitions(), 1);
        assert_eq!(Throughput::Manual(10_100).partitions(), 2);
        assert_eq!(autoscale(100_000).partitions(), 10);
    }
}
