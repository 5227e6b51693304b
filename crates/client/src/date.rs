//! Dates as HTTP writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The last second of the year 9999: years have four digits on the wire.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Whole seconds since 1970; what lies before is 0.
pub fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// `Thu, 27 Apr 2017 00:51:12 GMT`.
pub fn format(seconds: u64) -> String {
    let seconds = seconds.min(SECONDS_MAX);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month from 0, and day from 1 of a day counted from 1970.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u64, expect: &str) {
        assert_eq!(format(seconds), expect);
    }

    #[test]
    fn dates() {
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(1_493_254_272, "Thu, 27 Apr 2017 00:51:12 GMT");
        check(951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn times_before_1970_are_its_first_second() {
        assert_eq!(seconds(UNIX_EPOCH - Duration::from_secs(5)), 0);
        assert_eq!(seconds(UNIX_EPOCH + Duration::from_millis(5999)), 5);
    }
}
