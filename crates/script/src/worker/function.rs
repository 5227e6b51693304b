//! User-defined functions: loaded once, called for many rows.

use rquickjs::function::Args;
use rquickjs::{Ctx, Function, Object, Result, Type};

use crate::frame::Encoder;
use crate::message::{self, Request};
use crate::pipe::Pipe;
use crate::worker::compile::compile;
use crate::worker::failure;
use crate::worker::port::Port;
use crate::worker::sandbox::Sandbox;
use crate::{Error, ErrorKind, Limits, Value};

/// Values are sent once they have so many bytes.
const PIECE_BYTES: usize = 256 * 1024;

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
                Request::Apply { function, rows, values } => {
                    super::confine::processor(limits);
                    self.port.begin();
                    let done = self.rows(pipe, function as usize, rows as usize, &values);
                    if let Err(stop) = done {
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

    /// Calls the function for each row, and sends what it gives. Fails with what went wrong, or
    /// with nothing if the pool is gone.
    fn rows(
        &self,
        pipe: &Pipe,
        function: usize,
        rows: usize,
        values: &[Value],
    ) -> std::result::Result<(), Option<Error>> {
        let function = self.functions.get(function);
        let function = function.ok_or_else(|| Error::new(ErrorKind::Worker, "no such function"))?;
        let width = values.len() / rows.max(1);
        let mut results = message::values();
        for row in 0..rows {
            let arguments = values.get(row * width..(row + 1) * width).unwrap_or_default();
            let before = results.len();
            self.row(&mut results, function, arguments).map_err(|error| {
                failure::thrown(self.port, failure::describe(self.ctx, self.kit, &error))
            })?;
            if results.len() - before > self.port.limits.output_bytes {
                let message = "The value of a function is larger than it may be.";
                return Err(Some(Error::new(ErrorKind::TooLarge, message)));
            }
            if results.len() > PIECE_BYTES || row + 1 == rows {
                pipe.send(results.as_slice(), None).map_err(|_| None)?;
                results = message::values();
            }
        }
        Ok(())
    }

    fn row(&self, to: &mut Encoder, function: &Function<'js>, arguments: &[Value]) -> Result<()> {
        let mut args = Args::new(self.ctx.clone(), arguments.len());
        for argument in arguments {
            match argument {
                Value::Undefined => args.push_arg(rquickjs::Undefined)?,
                Value::Null => args.push_arg(rquickjs::Null)?,
                Value::Bool(bool) => args.push_arg(*bool)?,
                Value::Number(number) => args.push_arg(*number)?,
                Value::Text(text) => args.push_arg(text.as_str())?,
                Value::Json(text) => args.push_arg(self.ctx.json_parse(text.as_str())?)?,
            }
        }
        let given: rquickjs::Value<'js> = function.call_arg(args)?;
        let value = match given.type_of() {
            Type::Null => Value::Null,
            Type::Bool => Value::Bool(given.as_bool() == Some(true)),
            Type::Int | Type::Float => Value::Number(given.as_number().unwrap_or(f64::NAN)),
            Type::String => Value::Text(given.get::<String>()?),
            _ => match self.ctx.json_stringify(given)? {
                Some(text) => Value::Json(text.to_string()?),
                None => Value::Undefined,
            },
        };
        message::value(to, &value);
        Ok(())
    }
}
