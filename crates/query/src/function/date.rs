//! Dates and times: UTC, in steps of 100 ns, from year 1 to 9999.

use self::instant::Instant;
use self::part::Part;
use super::{Call, Function, Param};
use crate::value::Value;

mod bin;
mod format;
mod instant;
mod part;

use Param::{Integer, String};

/// Whether a text is a date and time.
pub(super) fn is_date_time(text: &str) -> bool {
    Instant::parse(text).is_some()
}

pub(super) const TABLE: &[Function] = &[
    Function::scalar(
        "AGO",
        &[String, Integer],
        |call, v| {
            let back = v[1].as_int().and_then(i64::checked_neg);
            Ok(text(back.and_then(|n| part(&v[0])?.add(now(call)?, n))))
        },
        "Now, less so many of a part.",
        ("DATETIMEDIFF('hh', AGO('hh', 2), NOW())", "2"),
    )
    .unstable(),
    Function::scalar(
        "DATETIMEADD",
        &[String, Integer, String],
        |_, v| Ok(text(added(&v[0], &v[1], instant(&v[2])))),
        "The time, and so many of a part more.",
        ("DATETIMEADD('mm', 1, '2024-01-31T00:00:00Z')", "\"2024-02-29T00:00:00.0000000Z\""),
    ),
    Function::scalar(
        "DATETIMEBIN",
        &[String, String, Integer, String],
        bin::date_time_bin,
        "The start of the bin of so many of a part, counted from 1970 or as said, of the time.",
        (
            "DATETIMEBIN('2021-06-28T17:24:29.2991234Z', 'hh', 5)",
            "\"2021-06-28T16:00:00.0000000Z\"",
        ),
    )
    .optional(2),
    Function::scalar(
        "DATETIMEDIFF",
        &[String, String, String],
        |_, v| Ok(int((|| part(&v[0])?.difference(instant(&v[1])?, instant(&v[2])?))())),
        "How many starts of a part lie between two times.",
        ("DATETIMEDIFF('year', '2023-12-31', '2024-01-01')", "1"),
    ),
    Function::scalar(
        "DATETIMEFORMAT",
        &[String, String],
        format::date_time_format,
        "The time spelled as a pattern of yyyy, MM, dd, HH, mm, ss, fff and the like says.",
        ("DATETIMEFORMAT('2024-05-06T07:08:09Z', 'dd.MM.yyyy HH:mm')", "\"06.05.2024 07:08\""),
    ),
    Function::scalar(
        "DATETIMEFROMPARTS",
        &[Integer, Integer, Integer, Integer, Integer, Integer, Integer],
        |_, v| Ok(text(from_parts(v))),
        "The time of a year, month and day, hour, minute, second and 100 ns.",
        ("DATETIMEFROMPARTS(2024, 2, 29, 12)", "\"2024-02-29T12:00:00.0000000Z\""),
    )
    .optional(4),
    Function::scalar(
        "DATETIMEPART",
        &[String, String],
        |_, v| Ok(int((|| Some(part(&v[0])?.of(instant(&v[1])?)))())),
        "A part of the time as a number.",
        ("DATETIMEPART('mcs', '2024-01-01T00:00:00.1234567Z')", "123456"),
    ),
    Function::scalar(
        "DATETIMETOTICKS",
        &[String],
        |_, v| Ok(int(instant(&v[0]).map(Instant::ticks))),
        "The steps of 100 ns since 1970.",
        ("DATETIMETOTICKS('1970-01-01T00:00:01Z')", "10000000"),
    ),
    Function::scalar(
        "DATETIMETOTIMESTAMP",
        &[String],
        |_, v| Ok(int(instant(&v[0]).map(|at| at.ticks().div_euclid(TICKS_PER_MILLISECOND)))),
        "The milliseconds since 1970.",
        ("DATETIMETOTIMESTAMP('1970-01-01T00:00:01Z')", "1000"),
    ),
    Function::scalar(
        "DAY",
        &[String],
        |_, v| Ok(int(instant(&v[0]).map(|at| Part::Day.of(at)))),
        "The day of the month.",
        ("DAY('2024-05-06')", "6"),
    ),
    Function::scalar(
        "GETCURRENTDATETIME",
        &[],
        |call, _| Ok(text(now(call))),
        "Now.",
        ("LENGTH(GETCURRENTDATETIME())", "28"),
    )
    .unstable(),
    Function::scalar(
        "GETCURRENTDATETIMESTATIC",
        &[],
        |call, _| Ok(text(started(call))),
        "When the query began.",
        ("LENGTH(GETCURRENTDATETIMESTATIC())", "28"),
    )
    .unstable(),
    Function::scalar(
        "GETCURRENTTICKS",
        &[],
        |call, _| Ok(int(now(call).map(Instant::ticks))),
        "Now, in steps of 100 ns since 1970.",
        ("IS_INTEGER(GETCURRENTTICKS())", "true"),
    )
    .unstable(),
    Function::scalar(
        "GETCURRENTTICKSSTATIC",
        &[],
        |call, _| Ok(int(started(call).map(Instant::ticks))),
        "When the query began, in steps of 100 ns since 1970.",
        ("IS_INTEGER(GETCURRENTTICKSSTATIC())", "true"),
    )
    .unstable(),
    Function::scalar(
        "GETCURRENTTIMESTAMP",
        &[],
        |call, _| Ok(int(now(call).map(|at| at.ticks().div_euclid(TICKS_PER_MILLISECOND)))),
        "Now, in milliseconds since 1970.",
        ("IS_INTEGER(GETCURRENTTIMESTAMP())", "true"),
    )
    .unstable(),
    Function::scalar(
        "GETCURRENTTIMESTAMPSTATIC",
        &[],
        |call, _| Ok(int(started(call).map(|at| at.ticks().div_euclid(TICKS_PER_MILLISECOND)))),
        "When the query began, in milliseconds since 1970.",
        ("IS_INTEGER(GETCURRENTTIMESTAMPSTATIC())", "true"),
    )
    .unstable(),
    Function::scalar(
        "MONTH",
        &[String],
        |_, v| Ok(int(instant(&v[0]).map(|at| Part::Month.of(at)))),
        "The month of the year.",
        ("MONTH('2024-05-06')", "5"),
    ),
    Function::scalar(
        "NOW",
        &[String, Integer],
        |call, v| match v {
            [] => Ok(text(now(call))),
            [part, count] => Ok(text(added(part, count, now(call)))),
            _ => Ok(Value::Undefined),
        },
        "Now, or so many of a part later.",
        ("DATETIMEDIFF('dd', NOW(), NOW('dd', 3))", "3"),
    )
    .optional(2)
    .unstable(),
    Function::scalar(
        "TICKSTODATETIME",
        &[Integer],
        |_, v| Ok(text(v[0].as_int().and_then(Instant::at))),
        "The time so many steps of 100 ns after 1970.",
        ("TICKSTODATETIME(10000000)", "\"1970-01-01T00:00:01.0000000Z\""),
    ),
    Function::scalar(
        "TIMESTAMPTODATETIME",
        &[Integer],
        |_, v| {
            let ticks = v[0].as_int().and_then(|n| n.checked_mul(TICKS_PER_MILLISECOND));
            Ok(text(ticks.and_then(Instant::at)))
        },
        "The time so many milliseconds after 1970.",
        ("TIMESTAMPTODATETIME(1000)", "\"1970-01-01T00:00:01.0000000Z\""),
    ),
    Function::scalar(
        "YEAR",
        &[String],
        |_, v| Ok(int(instant(&v[0]).map(|at| Part::Year.of(at)))),
        "The year.",
        ("YEAR('2024-05-06')", "2024"),
    ),
];

const TICKS_PER_MILLISECOND: i64 = 10_000;

fn now(call: &Call<'_>) -> Option<Instant> {
    Instant::at(call.world.now_ticks())
}

fn started(call: &Call<'_>) -> Option<Instant> {
    Instant::at(call.started_ticks)
}

fn instant(value: &Value<'_>) -> Option<Instant> {
    value.as_str().and_then(Instant::parse)
}

fn part(value: &Value<'_>) -> Option<Part> {
    value.as_str().and_then(Part::named)
}

fn added(name: &Value<'_>, count: &Value<'_>, at: Option<Instant>) -> Option<Instant> {
    part(name)?.add(at?, count.as_int()?)
}

fn from_parts(arguments: &[Value<'_>]) -> Option<Instant> {
    let mut parts = [0; 7];
    for (part, argument) in parts.iter_mut().zip(arguments) {
        *part = argument.as_int()?;
    }
    let [year, month, day, hour, minute, second, fraction] = parts;
    Instant::new([year, month, day], [hour, minute, second], fraction)
}

fn text(instant: Option<Instant>) -> Value<'static> {
    instant.map_or(Value::Undefined, |instant| Value::text(instant.to_string()))
}

fn int(value: Option<i64>) -> Value<'static> {
    value.map_or(Value::Undefined, Value::int)
}
