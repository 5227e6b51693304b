//! The wall-clock time that other libraries write into leases.
//!
//! Nobody's ownership follows from it here; it is written because .NET peers look at it, and read
//! for people who ask when a lease was last touched.

use std::time::Duration;

const DAY_SECONDS: i64 = 86_400;

/// Since 1970, as .NET writes it: seven digits of fraction and a `Z`.
pub fn format(since_epoch: Duration) -> String {
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(0);
    let (days, rest) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let ticks = since_epoch.subsec_nanos() / 100;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ticks:07}Z")
}

/// Reads what any of the libraries has written: no fraction, or one of any length, `Z`,
/// `Z[UTC]` or an offset.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_suffix("[UTC]").unwrap_or(text);
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset) = split_offset(time)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute) = (clock.next()??, clock.next()??);
    let second = clock.next().unwrap_or(Some(0))?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    let seconds =
        days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos(fraction)?))
}

/// The time of day, and the seconds by which it is ahead of UTC.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (clock, offset) = time.split_at_checked(at)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    (seconds <= DAY_SECONDS).then_some((clock, sign * seconds))
}

fn nanos(fraction: &str) -> Option<u32> {
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    digits.parse().ok()
}

/// Days since 1970 of a date of the Gregorian calendar, which begins its year in March here so
/// that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let civil_month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(civil_month <= 2), civil_month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_parse() {
        let at = Duration::new(1_700_000_000, 123_456_700);
        for text in [
            "2023-11-14T22:13:20.1234567Z",
            "2023-11-14T22:13:20.123456700Z",
            "2023-11-14T22:13:20.1234567Z[UTC]",
            "2023-11-15T00:13:20.1234567+02:00",
        ] {
            assert_eq!(parse(text), Some(at), "{text}");
        }
        assert_eq!(parse("2023-11-14T22:13:20Z"), Some(Duration::from_secs(1_700_000_000)));
        for wrong in ["", "yesterday", "2023-11-14", "2023-13-14T00:00:00Z", "2023-11-14T25:00:00Z"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for seconds in [0, 951_782_400, 1_700_000_000, 4_102_444_800] {
            let at = Duration::new(seconds, 700);
            assert_eq!(parse(&format(at)), Some(at));
        }
        assert_eq!(format(Duration::from_secs(951_782_400)), "2000-02-29T00:00:00.0000000Z");
    }
}
