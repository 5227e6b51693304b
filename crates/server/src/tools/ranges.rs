//! The partition key ranges of a container: listed, split, merged.

use super::arguments::Arguments;
use super::place::{self, answered};

/// Carries one of the commands out, and shows the ranges as they are then.
pub async fn ranges(command: &str, arguments: &Arguments) -> Result<(), String> {
    let container = place::container(arguments)?;
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    let done = match (command, words.as_slice()) {
        ("ranges list", []) => Ok(()),
        ("ranges split", [id]) => answered(arguments, container.split_range(id)).await,
        ("ranges merge", ids @ [_, _, ..]) => {
            answered(arguments, container.merge_ranges(ids)).await
        }
        ("ranges list", _) => return Err("ranges list takes no words".into()),
        ("ranges split", _) => return Err("ranges split takes the id of one range".into()),
        _ => return Err("ranges merge takes the ids of two or more neighbours".into()),
    };
    done.map_err(|error| error.to_string())?;
    let ranges = answered(arguments, container.partition_key_ranges()).await;
    let ranges = ranges.map_err(|error| error.to_string())?;
    for range in ranges {
        let min = if range.span.min().is_empty() { "-" } else { range.span.min() };
        println!("{}\t{min}\t{}\t{}", range.id, range.span.max(), range.parents.join(","));
    }
    Ok(())
}
