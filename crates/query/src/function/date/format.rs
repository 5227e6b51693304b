//! `DATETIMEFORMAT`: times spelled by a pattern.

use std::fmt::Write;

use model::Result;

use super::instant::Instant;
use crate::function::Call;
use crate::value::Value;

pub(super) fn date_time_format<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(at), Some(pattern)) = (super::instant(&arguments[0]), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    // A letter of the pattern becomes four digits at most.
    call.budget.build(pattern.len() * 4)?;
    Ok(formatted(at, pattern).map_or(Value::Undefined, Value::text))
}

/// Runs of the same letter are specifiers, `\` takes the next character as it is, and all else
/// stands for itself. None for runs that mean nothing.
fn formatted(at: Instant, pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => out.extend(rest.next()),
            'y' | 'M' | 'd' | 'H' | 'h' | 'm' | 's' | 'f' | 'F' | 't' => {
                let mut length = 1;
                while rest.next_if_eq(&letter).is_some() {
                    length += 1;
                }
                specifier(at, letter, length, &mut out)?;
            }
            other => out.push(other),
        }
    }
    Some(out)
}

fn specifier(at: Instant, letter: char, length: usize, out: &mut String) -> Option<()> {
    let ([year, month, day], [hour, minute, second]) = (at.date(), at.time());
    let twelve = (hour + 11) % 12 + 1;
    let half = if hour < 12 { "AM" } else { "PM" };
    let (value, digits) = match (letter, length) {
        ('y', 4) => (year, 4),
        ('y', 2) => (year % 100, 2),
        ('M', 1 | 2) => (month, length),
        ('d', 1 | 2) => (day, length),
        ('H', 1 | 2) => (hour, length),
        ('h', 1 | 2) => (twelve, length),
        ('m', 1 | 2) => (minute, length),
        ('s', 1 | 2) => (second, length),
        ('f' | 'F', 1..=7) => {
            let fraction = format!("{:07}", at.fraction());
            let shown = &fraction[..length];
            out.push_str(if letter == 'F' { shown.trim_end_matches('0') } else { shown });
            return Some(());
        }
        ('t', 1 | 2) => {
            out.push_str(&half[..length]);
            return Some(());
        }
        _ => return None,
    };
    write!(out, "{value:0digits$}").ok()
}
