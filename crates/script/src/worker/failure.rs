//! What a script threw, as an error that a person can use.

use rquickjs::{Array, Ctx, Exception, Function, Object, Value};

use crate::process::timeout;
use crate::worker::api;
use crate::worker::port::Port;
use crate::{Error, ErrorKind};

const OUT_OF_MEMORY: &str = "InternalError: out of memory";

/// Whether this is what the engine throws when there is no memory left. Where there is none even
/// for an error, it throws null.
pub(crate) fn is_out_of_memory(thrown: &Value<'_>) -> bool {
    let message = thrown.as_exception().and_then(Exception::message);
    thrown.is_null() || message.is_some_and(|message| OUT_OF_MEMORY.ends_with(&message))
}

/// What the API's `describe` says of a thrown value.
#[derive(Debug, Default)]
pub(crate) struct Description {
    what: String,
    frames: Vec<String>,
    number: Option<u32>,
}

/// Says what went wrong in the engine, from the exception that is pending in it.
pub(crate) fn describe<'js>(
    ctx: &Ctx<'js>,
    kit: &Object<'js>,
    error: &rquickjs::Error,
) -> Description {
    if !error.is_exception() {
        return Description { what: error.to_string(), ..Description::default() };
    }
    let thrown = ctx.catch();
    let described = kit.get::<_, Function<'js>>("describe");
    let described = described.and_then(|describe| describe.call((thrown,)));
    match described.and_then(|fields: Array<'js>| Description::read(&fields)) {
        Ok(description) => description,
        Err(_) => {
            // There was not even memory, or time, left to say what happened.
            let _: Value<'_> = ctx.catch();
            Description { what: OUT_OF_MEMORY.to_owned(), ..Description::default() }
        }
    }
}

impl Description {
    /// Reads what the API's `describe` gives.
    pub(crate) fn read(fields: &Array<'_>) -> rquickjs::Result<Self> {
        let frames: String = fields.get(1)?;
        let frames = frames.lines().filter(|frame| !frame.contains(api::PREFIX));
        Ok(Self {
            what: fields.get(0)?,
            frames: frames.map(|frame| frame.trim().to_owned()).collect(),
            number: fields.get::<Option<f64>>(2)?.map(|number| number as u32),
        })
    }

    /// What was thrown, and below it where.
    fn traced(&self, port: &Port) -> String {
        let mut traced = format!("{}\nStack trace: {}", self.what, self.what);
        for frame in &self.frames {
            traced += "\n   ";
            match place(frame, port.indent.get()) {
                Some((before, line, column)) => {
                    let closing = if frame.ends_with(')') { ")" } else { "" };
                    traced += &format!("{before}:{line}:{column}{closing}");
                }
                None => traced += frame,
            }
        }
        traced
    }
}

/// A run that threw.
pub(crate) fn thrown(port: &Port, description: Description) -> Error {
    if let Some(aborted) = port.aborted.take() {
        let message = format!("The script was aborted. Exception = {}", aborted.traced(port));
        return Error::new(ErrorKind::Thrown(aborted.number), message);
    }
    if port.stopped.get() || port.late() {
        return timeout();
    }
    let what = description.what.as_str();
    if what.starts_with(OUT_OF_MEMORY) || what == "null" || port.exhausted.get() {
        let message = "The script took more memory than it may and was ended. (Or it threw null, \
                       which cannot be told from that.)";
        return Error::new(ErrorKind::Memory, message);
    }
    let message = format!(
        "Encountered exception while executing function. Exception = {}",
        description.traced(port)
    );
    Error::new(ErrorKind::Thrown(description.number), message)
}

/// A script that does not compile.
pub(crate) fn uncompiled(port: &Port, id: &str, description: &Description) -> Error {
    let place = description.frames.first().and_then(|frame| place(frame, port.indent.get()));
    let place = place.map(|(_, line, column)| format!(" at line {line}, column {column}"));
    let place = place.unwrap_or_default();
    let message = format!("The script {id} does not compile: {}{place}.", description.what);
    Error::new(ErrorKind::Compile, message)
}

/// What stands before the place in a frame, its line and its column, as the script's author counts
/// them.
fn place(frame: &str, indent: u32) -> Option<(&str, u32, u32)> {
    let mut fields = frame.trim_end_matches(')').rsplitn(3, ':');
    let (column, line) = (fields.next()?.parse::<u32>().ok()?, fields.next()?.parse().ok()?);
    let column = if line == 1 { column.saturating_sub(indent) } else { column };
    Some((fields.next()?, line, column))
}
