//! Parts of dates and times: years down to nanoseconds.

use super::instant::{DAY, Instant, SECOND};

/// A part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

const NAMES: &[(Part, &[&str])] = &[
    (Part::Year, &["year", "yyyy", "yy"]),
    (Part::Month, &["month", "mm", "m"]),
    (Part::Day, &["day", "dd", "d"]),
    (Part::Hour, &["hour", "hh"]),
    (Part::Minute, &["minute", "mi", "n"]),
    (Part::Second, &["second", "ss", "s"]),
    (Part::Millisecond, &["millisecond", "ms"]),
    (Part::Microsecond, &["microsecond", "mcs"]),
    (Part::Nanosecond, &["nanosecond", "ns"]),
];

/// How long a part is.
pub(super) enum Length {
    /// So many months, which are not equally long.
    Months(i64),
    /// So many nanoseconds.
    Nanoseconds(i64),
}

impl Part {
    pub(super) fn named(name: &str) -> Option<Self> {
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        NAMES.iter().find(|(_, names)| names.iter().any(is)).map(|(part, _)| *part)
    }

    pub(super) fn length(self) -> Length {
        Length::Nanoseconds(match self {
            Self::Year => return Length::Months(12),
            Self::Month => return Length::Months(1),
            Self::Day => DAY * 100,
            Self::Hour => 3600 * SECOND * 100,
            Self::Minute => 60 * SECOND * 100,
            Self::Second => SECOND * 100,
            Self::Millisecond => 1_000_000,
            Self::Microsecond => 1_000,
            Self::Nanosecond => 1,
        })
    }

    /// A time, and so many of the part later; what is finer than 100 ns is left out.
    pub(super) fn add(self, at: Instant, count: i64) -> Option<Instant> {
        match self.length() {
            Length::Months(months) => at.add_months(count.checked_mul(months)?),
            Length::Nanoseconds(length) => {
                let steps = i128::from(count) * i128::from(length) / 100;
                Instant::at(i64::try_from(i128::from(at.ticks()) + steps).ok()?)
            }
        }
    }

    /// How many starts of the part lie between two times; below 0 where the second is earlier.
    pub(super) fn difference(self, from: Instant, to: Instant) -> Option<i64> {
        match self.length() {
            Length::Months(length) => {
                let starts = |at: Instant| (months(at)).div_euclid(length);
                Some(starts(to) - starts(from))
            }
            Length::Nanoseconds(length) => {
                let starts = |at: Instant| (i128::from(at.ticks()) * 100).div_euclid(length.into());
                i64::try_from(starts(to) - starts(from)).ok()
            }
        }
    }

    /// The part of a time; parts of a second count from the last one.
    pub(super) fn of(self, at: Instant) -> i64 {
        let ([year, month, day], [hour, minute, second]) = (at.date(), at.time());
        match self {
            Self::Year => year,
            Self::Month => month,
            Self::Day => day,
            Self::Hour => hour,
            Self::Minute => minute,
            Self::Second => second,
            Self::Millisecond => at.fraction() / 10_000,
            Self::Microsecond => at.fraction() / 10,
            Self::Nanosecond => at.fraction() * 100,
        }
    }
}

/// Months since the start of the calendar.
pub(super) fn months(at: Instant) -> i64 {
    let [year, month, _] = at.date();
    year * 12 + month - 1
}
