//! User-defined functions: loaded once, called many times at once.

use std::time::Duration;

use rquickjs::function::Args;
use rquickjs::{Ctx, Function, Object, Result, Type};

use crate::clock::Deadline;
use crate::frame::{Decoder, Encoder};
use crate::message::{self, Request};
use crate::pipe::Pipe;
use crate::worker::compile::compile;
use crate::worker::failure;
use crate::worker::port::Port;
use crate::worker::sandbox::Sandbox;
use crate::{Error, ErrorKind, Limits, Value};

/// Values are sent once they have so many bytes.
const PIECE_BYTES: usize = 256 * 1024;
/// How long calls that came together are made before the rest is left for another time.
const SLICE: Duration = Duration::from_millis(100);

/// Serves the functions of one query until it is over. Gives whether this process may go on;
/// nothing if the pool is gone or not to be understood.
pub(crate) fn serve(
    sandbox: &Sandbox,
    pipe: &Pipe,
    limits: &Limits,
    scripts: &[(&str, &str)],
) -> Option<bool> {
    let port = sandbox.port();
    port.begin();
    sandbox.enter(|ctx, kit| {
        let compiled = scripts.iter().map(|(id, source)| compile(ctx, kit, port, id, source));
        match compiled.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(functions) => {
                pipe.send(&message::done(None, ""), None).ok()?;
                Loaded { ctx, kit, port, functions }.all(pipe, limits)
            }
            Err(error) => say(pipe, &error),
        }
    })
}

fn say(pipe: &Pipe, error: &Error) -> Option<bool> {
    pipe.send(&message::failed(error), None).ok()?;
    Some(!crate::converse::ends_worker(error))
}

/// Functions that can be called.
struct Loaded<'r, 'js> {
    ctx: &'r Ctx<'js>,
    kit: &'r Object<'js>,
    port: &'r Port,
    functions: Vec<Function<'js>>,
}

impl<'js> Loaded<'_, 'js> {
    fn all(&self, pipe: &Pipe, limits: &Limits) -> Option<bool> {
        loop {
            let frame = pipe.receive(None).ok()?;
            match Request::read(&frame).ok()? {
                Request::Apply { calls, from } => {
                    super::confine::processor(limits);
                    self.port.begin();
                    if let Err(stop) = self.calls(pipe, calls as usize, from) {
                        let error = stop?;
                        if !say(pipe, &error)? {
                            return Some(false);
                        }
                    }
                }
                Request::Unload => return Some(true),
                _ => return None,
            }
        }
    }

    /// Makes calls, and sends what they give. Fails with what went wrong, or with nothing if the
    /// pool is gone or not to be understood. What was given before is sent in any case, so that the
    /// pool knows which call is to blame; and once they have taken some time together, the rest is
    /// left to the pool to ask for again, so that every call has about the whole time of a script.
    fn calls(
        &self,
        pipe: &Pipe,
        calls: usize,
        mut from: Decoder<'_>,
    ) -> std::result::Result<(), Option<Error>> {
        let slice = Deadline::after(SLICE.min(self.port.limits.time / 10));
        let send = |values: &mut Encoder| {
            let frame = std::mem::replace(values, message::values());
            pipe.send(frame.as_slice(), None).map_err(|_| None)
        };
        let mut results = message::values();
        let empty = results.len();
        for call in 0..calls {
            let before = results.len();
            let failed = match self.call(&mut results, &mut from) {
                Ok(()) if results.len() - before > self.port.limits.output_bytes => {
                    results.cut(before);
                    let message = "The value of a function is larger than it may be.";
                    Some(Error::new(ErrorKind::TooLarge, message))
                }
                Ok(()) => None,
                Err(None) => return Err(None),
                Err(error) => error,
            };
            let last = call + 1 == calls;
            let late = !last && slice.passed();
            let due = failed.is_some() || late || last || results.len() > PIECE_BYTES;
            if due && results.len() > empty {
                send(&mut results)?;
            }
            if let Some(error) = failed {
                return Err(Some(error));
            }
            if late {
                return send(&mut results);
            }
        }
        Ok(())
    }

    fn call(
        &self,
        to: &mut Encoder,
        from: &mut Decoder<'_>,
    ) -> std::result::Result<(), Option<Error>> {
        let (function, arguments) = message::read_call(from).map_err(|_| None)?;
        let function = self.functions.get(function);
        let function = function.ok_or_else(|| Error::new(ErrorKind::Worker, "no such function"))?;
        let mut values = Args::new(self.ctx.clone(), arguments);
        let mut filled = Ok(());
        for _ in 0..arguments {
            let value = message::read_value(from).map_err(|_| None)?;
            filled = filled.and_then(|()| self.argument(&mut values, value));
        }
        filled.and_then(|()| self.give(to, function, values)).map_err(|error| {
            Some(failure::thrown(self.port, failure::describe(self.ctx, self.kit, &error)))
        })
    }

    fn argument(&self, to: &mut Args<'js>, value: Value<'_>) -> Result<()> {
        match value {
            Value::Undefined => to.push_arg(rquickjs::Undefined),
            Value::Null => to.push_arg(rquickjs::Null),
            Value::Bool(bool) => to.push_arg(bool),
            Value::Number(number) => to.push_arg(number),
            Value::Text(text) => to.push_arg(&*text),
            Value::Json(text) => to.push_arg(self.ctx.json_parse(&*text)?),
        }
    }

    fn give(&self, to: &mut Encoder, function: &Function<'js>, args: Args<'js>) -> Result<()> {
        let given: rquickjs::Value<'js> = function.call_arg(args)?;
        let value = match given.type_of() {
            Type::Null => Value::Null,
            Type::Bool => Value::Bool(given.as_bool() == Some(true)),
            Type::Int | Type::Float => Value::Number(given.as_number().unwrap_or(f64::NAN)),
            Type::String => Value::Text(given.get::<String>()?.into()),
            _ => match self.ctx.json_stringify(given)? {
                Some(text) => Value::Json(text.to_string()?.into()),
                None => Value::Undefined,
            },
        };
        message::value(to, &value);
        Ok(())
    }
}
