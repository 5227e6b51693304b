//! The process that scripts run in.
//!
//! It serves one pool, over its standard input and output, one request at a time. Each run gets a
//! runtime of its own, made while nobody waits, and thrown away afterwards: nothing that a script
//! does can be seen by the next. A script that broke a limit takes the whole process with it.

mod api;
mod compile;
mod confine;
mod failure;
mod function;
mod port;
mod run;
mod sandbox;

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::rc::Rc;

use crate::Limits;
use crate::message::{self, Request};
use crate::pipe::Pipe;
use crate::worker::api::Api;
use crate::worker::port::Port;
use crate::worker::sandbox::Sandbox;

/// Serves the pool that started this process until it hangs up.
///
/// To be called first thing in `main`, on a thread with a large enough stack; the process ends with
/// the code that this gives.
pub fn main() -> ExitCode {
    match serve() {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

fn serve() -> Option<()> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    let pipe = Rc::new(Pipe::new(input, output).ok()?);
    let hello = pipe.receive(None).ok()?;
    let Ok(Request::Hello { limits, functions }) = Request::read(&hello) else { return None };
    confine::process(&limits);
    let api = Api::compile(functions).ok()?;
    loop {
        let port = Rc::new(Port::new(pipe.clone(), limits));
        let sandbox = Sandbox::new(port, &api).ok()?;
        let Ok(request) = pipe.receive(None) else { return Some(()) };
        let healthy = answer(&sandbox, &pipe, &limits, &request)?;
        if !healthy {
            // Not dropped: tearing down what a script left behind could take long.
            std::mem::forget(sandbox);
            return Some(());
        }
    }
}

/// Does what the pool asks. Gives whether this process may go on; nothing if the pool is gone or
/// not to be understood.
fn answer(sandbox: &Sandbox, pipe: &Pipe, limits: &Limits, request: &[u8]) -> Option<bool> {
    confine::processor(limits);
    let (reply, healthy) = match Request::read(request).ok()? {
        Request::Run(run) => match run::run(sandbox, &run) {
            Ok(outcome) => (message::done(outcome.body.as_deref(), &outcome.log), true),
            Err(error) => (message::failed(&error), !crate::converse::ends_worker(&error)),
        },
        Request::Check { id, source } => match run::check(sandbox, id, source) {
            Ok(()) => (message::done(None, ""), true),
            Err(error) => (message::failed(&error), !crate::converse::ends_worker(&error)),
        },
        Request::Load(scripts) => return function::serve(sandbox, pipe, limits, &scripts),
        // A query that ended when its functions did not load.
        Request::Unload => return Some(true),
        _ => return None,
    };
    pipe.send(&reply, None).ok()?;
    Some(healthy)
}
