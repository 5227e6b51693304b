//! `DATETIMEBIN`: times put into bins of equal length.

use model::Result;

use super::instant::Instant;
use super::part::{Length, Part, months};
use crate::function::Call;
use crate::value::Value;

pub(super) fn date_time_bin<'a>(_: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let size = arguments.get(2).map_or(Some(1), Value::as_int);
    let start = arguments.get(3).map_or(Some(Instant::EPOCH), super::instant);
    let sound = super::instant(&arguments[0]).zip(super::part(&arguments[1]));
    let start_of_bin = sound.zip(size.zip(start)).and_then(|((at, part), (size, start))| {
        let sound = size > 0 && start >= Instant::BINS_FROM;
        sound.then(|| bin(at, part, size, start))?
    });
    Ok(super::text(start_of_bin))
}

/// The last start of a bin that is not after the time.
fn bin(at: Instant, part: Part, size: i64, start: Instant) -> Option<Instant> {
    match part.length() {
        Length::Months(length) => {
            let size = size.checked_mul(length)?;
            let bins = (months(at) - months(start)).div_euclid(size);
            let candidate = start.add_months(bins.checked_mul(size)?)?;
            if candidate <= at {
                return Some(candidate);
            }
            // Bins begin on the day of the start, which this month has not reached yet.
            start.add_months((bins - 1).checked_mul(size)?)
        }
        Length::Nanoseconds(length) => {
            let size = i128::from(size) * i128::from(length);
            let since = i128::from(at.ticks() - start.ticks()) * 100;
            let steps = since.div_euclid(size) * size / 100;
            Instant::at(i64::try_from(i128::from(start.ticks()) + steps).ok()?)
        }
    }
}
