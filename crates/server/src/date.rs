//! Dates as HTTP writes them, `Thu, 27 Apr 2017 00:51:12 GMT`, to and from seconds since 1970.
//!
//! Every signed request carries one, so reading it must cost nothing. The obsolete forms of
//! HTTP dates are not read: no client of this protocol sends them.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECONDS_PER_DAY: u64 = 86_400;

/// Seconds since 1970, which years before it have none of, or `None` if the text is not such a date.
pub fn parse(text: &str) -> Option<u64> {
    let b: &[u8; 29] = text.as_bytes().try_into().ok()?;
    let form = b[3] == b','
        && b[19] == b':'
        && b[22] == b':'
        && [4, 7, 11, 16, 25].iter().all(|&at| b[at] == b' ')
        && b[26..].eq_ignore_ascii_case(b"GMT");
    if !form || !DAYS.iter().any(|day| b[..3].eq_ignore_ascii_case(day.as_bytes())) {
        return None;
    }
    let month = MONTHS.iter().position(|month| b[8..11].eq_ignore_ascii_case(month.as_bytes()))?;
    let (day, year) = (number(&b[5..7])?, number(&b[12..16])?);
    let (hour, minute, second) = (number(&b[17..19])?, number(&b[20..22])?, number(&b[23..25])?);
    let valid =
        (1..=days_of(year, month)).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    valid.then(|| {
        if year < 1970 {
            return 0;
        }
        let days = days_before_year(year) + days_before_month(year, month) + day - 1;
        days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second
    })
}

/// The date of a moment given in seconds since 1970.
pub fn format(seconds: u64) -> String {
    let (mut days, rest) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let weekday = DAYS[(days % 7) as usize];
    let mut year = 1970 + days / 366;
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    days -= days_before_year(year);
    let mut month = 0;
    while days_before_month(year, month) + days_of(year, month) <= days {
        month += 1;
    }
    let day = days - days_before_month(year, month) + 1;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let month = MONTHS[month];
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// The wall clock, in seconds since 1970. It may be some milliseconds behind, for which it is read in no time.
#[cfg(target_os = "linux")]
pub fn now() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// The wall clock, in seconds since 1970.
#[cfg(not(target_os = "linux"))]
pub fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, &digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64, month: usize) -> u64 {
    match month {
        1 if leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

fn days_before_month(year: u64, month: usize) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    BEFORE[month] + u64::from(month > 1 && leap(year))
}

fn days_before_year(year: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    (year.max(1970) - 1970) * 365 + leaps(year.max(1970) - 1) - leaps(1969)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse("Wed, 31 Dec 1969 23:59:59 GMT"), Some(0));
        assert_eq!(parse("Thu, 27 Apr 2017 00:51:12 GMT"), Some(1_493_254_272));
        assert_eq!(parse("thu, 27 apr 2017 00:51:12 gmt"), Some(1_493_254_272));
        assert_eq!(parse("Tue, 29 Feb 2000 23:59:59 GMT"), Some(951_868_799));
    }

    #[test]
    fn every_day_of_five_centuries_comes_back() {
        for day in 0..500 * 366 {
            let seconds = day * SECONDS_PER_DAY + day % SECONDS_PER_DAY;
            assert_eq!(parse(&format(seconds)), Some(seconds), "{}", format(seconds));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in [
            "",
            "Thu, 27 Apr 2017 00:51:12 CET",
            "Thu, 31 Apr 2017 00:51:12 GMT",
            "Wed, 29 Feb 2017 00:51:12 GMT",
            "Thu, 27 Apr 2017 24:51:12 GMT",
            "Thu, +7 Apr 2017 00:51:12 GMT",
            "Xxx, 27 Apr 2017 00:51:12 GMT",
            "2017-04-27T00:51:12Z 12345678",
            "Thu, 27 Apr 2017 00:51:12 GM\u{e9}",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
