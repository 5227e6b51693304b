//! A moment in UTC, read from and written as ISO 8601 text.

use std::fmt;

/// Steps of 100 ns since 1970, within the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(i64);

pub(super) const SECOND: i64 = 10_000_000;
pub(super) const DAY: i64 = 86_400 * SECOND;
/// The first and the last moment: 0001-01-01 and the end of 9999-12-31.
const FIRST: i64 = -719_162 * DAY;
const LAST: i64 = 2_932_897 * DAY - 1;

impl Instant {
    /// The start of 1970.
    pub(super) const EPOCH: Self = Self(0);
    /// The start of 1601, before which bins may not begin.
    pub(super) const BINS_FROM: Self = Self(-134_774 * DAY);

    /// The moment so many steps after 1970, if it has a date.
    pub(super) fn at(ticks: i64) -> Option<Self> {
        (FIRST..=LAST).contains(&ticks).then_some(Self(ticks))
    }

    /// The moment of a date (year, month, day), a time (hour, minute, second) and steps of 100 ns.
    pub(super) fn new(date: [i64; 3], time: [i64; 3], fraction: i64) -> Option<Self> {
        let [year, month, day] = date;
        let [hour, minute, second] = time;
        let sound = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..SECOND).contains(&fraction);
        sound.then(|| {
            let seconds = hour * 3600 + minute * 60 + second;
            Self(days_since_1970(year, month, day) * DAY + seconds * SECOND + fraction)
        })
    }

    /// The moment that a text names: a date, or a date and a time to the second or finer.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let bytes = bytes.strip_suffix(b"Z").unwrap_or(bytes);
        let (date, time) = bytes.split_at_checked(10)?;
        let date = triple(date, 4, b'-')?;
        if time.is_empty() {
            return Self::new(date, [0; 3], 0);
        }
        let time = time.strip_prefix(b"T").or(time.strip_prefix(b" "))?;
        let (time, fraction) = time.split_at_checked(8)?;
        let time = triple(time, 2, b':')?;
        let fraction = match fraction {
            [] => 0,
            [b'.', digits @ ..] if (1..=7).contains(&digits.len()) => {
                let missing = 7 - digits.len() as u32;
                number(digits)? * 10_i64.pow(missing)
            }
            _ => return None,
        };
        Self::new(date, time, fraction)
    }

    pub(super) fn ticks(self) -> i64 {
        self.0
    }

    /// Year, month and day.
    pub(super) fn date(self) -> [i64; 3] {
        date_of_day(self.0.div_euclid(DAY))
    }

    /// Hour, minute and second.
    pub(super) fn time(self) -> [i64; 3] {
        let seconds = self.0.rem_euclid(DAY) / SECOND;
        [seconds / 3600, seconds / 60 % 60, seconds % 60]
    }

    /// The steps of 100 ns since the last second.
    pub(super) fn fraction(self) -> i64 {
        self.0.rem_euclid(SECOND)
    }

    /// So many months later; a day that the month does not have becomes its last.
    pub(super) fn add_months(self, months: i64) -> Option<Self> {
        let [year, month, day] = self.date();
        let total = (year * 12 + month - 1).checked_add(months)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        if !(1..=9999).contains(&year) {
            return None;
        }
        let day = day.min(days_in_month(year, month));
        Self::new([year, month, day], self.time(), self.fraction())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([year, month, day], [hour, minute, second]) = (self.date(), self.time());
        let fraction = self.fraction();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
    }
}

/// Three numbers with a sign between them; the second and third have two digits.
fn triple(text: &[u8], first: usize, between: u8) -> Option<[i64; 3]> {
    let (a, rest) = text.split_at_checked(first)?;
    match rest {
        [x, b0, b1, y, c0, c1] if *x == between && *y == between => {
            Some([number(a)?, number(&[*b0, *b1])?, number(&[*c0, *c1])?])
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of a 400-year cycle, and from the start of the first one (0000-03-01) to 1970-01-01.
const CYCLE: i64 = 146_097;
const TO_1970: i64 = 719_468;

/// Years are counted from March, so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let from_march = (month + 9) % 12;
    let year = if month <= 2 { year - 1 } else { year };
    let in_cycle = year.rem_euclid(400);
    let in_year = (153 * from_march + 2) / 5 + day - 1;
    year.div_euclid(400) * CYCLE + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + in_year
        - TO_1970
}

fn date_of_day(day: i64) -> [i64; 3] {
    let day = day + TO_1970;
    let (cycle, in_cycle) = (day.div_euclid(CYCLE), day.rem_euclid(CYCLE));
    // Take the leap days out of the days so far: what is left has 365 to a year.
    let year = (in_cycle - in_cycle / 1460 + in_cycle / 36_524 - in_cycle / 146_096) / 365;
    let in_year = in_cycle - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    [cycle * 400 + year + i64::from(month <= 2), month, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every day of a whole cycle, one after the other, by the rules of the calendar alone; and
    /// the ends of every year there is.
    #[test]
    fn days_follow_each_other() {
        let mut expected = [1601, 1, 1];
        let mut ticks = Instant::BINS_FROM.ticks();
        while expected[0] < 2002 {
            let instant = Instant::at(ticks).expect("a moment");
            assert_eq!(instant.date(), expected);
            assert_eq!(Instant::new(expected, [0; 3], 0), Some(instant));
            let [year, month, day] = expected;
            expected = if day < days_in_month(year, month) {
                [year, month, day + 1]
            } else if month < 12 {
                [year, month + 1, 1]
            } else {
                [year + 1, 1, 1]
            };
            ticks += DAY;
        }
        let mut next = FIRST;
        for year in 1..=9999 {
            let first = Instant::new([year, 1, 1], [0; 3], 0).expect("a moment");
            let last = Instant::new([year, 12, 31], [23, 59, 59], SECOND - 1).expect("a moment");
            assert_eq!((first.ticks(), first.date()), (next, [year, 1, 1]));
            assert_eq!(last.date(), [year, 12, 31]);
            next = last.ticks() + 1;
        }
        assert_eq!(next, LAST + 1);
        assert_eq!(Instant::EPOCH.date(), [1970, 1, 1]);
    }
}
