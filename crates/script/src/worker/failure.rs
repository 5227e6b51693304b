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
    frames: String,
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
            frames: frames.map(|frame| format!("\n   {}", frame.trim_start())).collect(),
            number: fields.get::<Option<f64>>(2)?.map(|number| number as u32),
        })
    }
}

/// A run that threw.
pub(crate) fn thrown(port: &Port, description: Description) -> Error {
    if let Some(Description { what, frames, number, .. }) = port.aborted.take() {
        let message =
            format!("The script was aborted. Exception = {what}\nStack trace: {what}{frames}");
        return Error::new(ErrorKind::Thrown(number), message);
    }
    if port.stopped.get() || port.late() {
        return timeout();
    }
    let Description { what, frames, number, .. } = description;
    if what.starts_with(OUT_OF_MEMORY) || what == "null" || port.exhausted.get() {
        let message = "The script took more memory than it may and was ended. (Or it threw null, \
                       which cannot be told from that.)";
        return Error::new(ErrorKind::Memory, message);
    }
    let message = format!(
        "Encountered exception while executing function. Exception = {what}\nStack trace: {what}{frames}"
    );
    Error::new(ErrorKind::Thrown(number), message)
}

/// A script that does not compile. `indent` is by how much its first line was moved.
pub(crate) fn uncompiled(id: &str, indent: u32, description: &Description) -> Error {
    let place = match description.place() {
        Some((1, column)) => format!(" at line 1, column {}", column.saturating_sub(indent)),
        Some((line, column)) => format!(" at line {line}, column {column}"),
        None => String::new(),
    };
    let message = format!("The script {id} does not compile: {}{place}.", description.what);
    Error::new(ErrorKind::Compile, message)
}

impl Description {
    /// Line and column of the innermost frame, which ends in `:line:column`.
    fn place(&self) -> Option<(u32, u32)> {
        let frame = self.frames.lines().find(|frame| !frame.is_empty())?;
        let mut fields = frame.trim_end_matches(')').rsplit(':');
        let (column, line) = (fields.next()?, fields.next()?);
        Some((line.parse().ok()?, column.parse().ok()?))
    }
}
