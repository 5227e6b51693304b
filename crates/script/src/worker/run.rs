//! A run of a procedure or trigger: the script's turns, and the answers between them.

use rquickjs::function::Args;
use rquickjs::{Array, Ctx, Function, IntoJs, Object, Result, Value};

use crate::message::{Role, Run};
use crate::worker::compile::compile;
use crate::worker::failure::{self, Description};
use crate::worker::port::{Arrived, Lost, Port};
use crate::worker::sandbox::{Sandbox, lost};
use crate::{Error, ErrorKind, Outcome};

type Ended<T> = std::result::Result<T, Error>;

/// Runs a script to its end.
pub(crate) fn run(sandbox: &Sandbox, run: &Run<'_>) -> Ended<Outcome> {
    let port = sandbox.port();
    port.begin();
    let ended = turns(sandbox, run);
    port.close().unwrap_or_else(|Lost| lost());
    let log = port.log.take();
    match ended {
        Ok(body) => Ok(Outcome { body, log }),
        Err(error) => Err(Error { log, ..error }),
    }
}

/// Whether a script compiles.
pub(crate) fn check(sandbox: &Sandbox, id: &str, source: &str) -> Ended<()> {
    let port = sandbox.port();
    port.begin();
    sandbox.enter(|ctx, kit| compile(ctx, kit, port, id, source).map(|_| ()))
}

/// The script's first turn, then one for each answer, until nothing is asked for any more.
fn turns(sandbox: &Sandbox, run: &Run<'_>) -> Ended<Option<String>> {
    let port = sandbox.port();
    sandbox.enter(|ctx, kit| Turn { ctx, kit, port }.first(run))?;
    settle(sandbox)?;
    while let Some(answer) = port.next().unwrap_or_else(|Lost| lost()) {
        sandbox.enter(|ctx, kit| Turn { ctx, kit, port }.next(answer))?;
        settle(sandbox)?;
    }
    sandbox.enter(|ctx, kit| Turn { ctx, kit, port }.last())
}

/// Runs what promises have waiting. A rejection that nobody handles is no failure of the run, unless
/// it comes from a lack of memory; a job that the engine itself could not do is.
fn settle(sandbox: &Sandbox) -> Ended<()> {
    let port = sandbox.port();
    loop {
        if port.should_stop() || port.exhausted.get() {
            return Err(failure::thrown(port, Description::default()));
        }
        match sandbox.job() {
            Ok(true) => {}
            Ok(false) if port.exhausted.get() => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                return Err(sandbox
                    .enter(|ctx, kit| failure::thrown(port, failure::describe(ctx, kit, &error))));
            }
        }
    }
}

/// A turn of one run.
struct Turn<'r, 'js> {
    ctx: &'r Ctx<'js>,
    kit: &'r Object<'js>,
    port: &'r Port,
}

impl<'js> Turn<'_, 'js> {
    fn first(&self, run: &Run<'_>) -> Ended<()> {
        let arguments = self.arguments(run)?;
        self.or_failed(self.prepare(run, &arguments))?;
        let main = compile(self.ctx, self.kit, self.port, run.id, run.source)?;
        self.or_failed(self.call(&main, &arguments))
    }

    fn next(&self, answer: Arrived) -> Ended<()> {
        self.or_failed(self.deliver(answer))
    }

    fn last(&self) -> Ended<Option<String>> {
        let finish = self.kit.get::<_, Function<'js>>("finish");
        let body: Option<String> = self.or_failed(finish.and_then(|finish| finish.call(())))?;
        if body.as_ref().is_some_and(|body| body.len() > self.port.limits.output_bytes) {
            let message = "The answer of the script is larger than an answer may be.";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(body)
    }

    fn or_failed<T>(&self, result: Result<T>) -> Ended<T> {
        result.map_err(|error| {
            failure::thrown(self.port, failure::describe(self.ctx, self.kit, &error))
        })
    }

    fn arguments(&self, run: &Run<'_>) -> Ended<Array<'js>> {
        let text = run.arguments.unwrap_or("[]");
        let parsed = self.ctx.json_parse(text);
        let array = parsed.ok().filter(Value::is_array).and_then(Value::into_array);
        array.ok_or_else(|| {
            let _ = self.ctx.catch();
            let message = "The arguments of a stored procedure must be a JSON array.";
            Error::new(ErrorKind::Thrown(None), message)
        })
    }

    /// Tells the API what this run is about.
    fn prepare(&self, run: &Run<'_>, arguments: &Array<'js>) -> Result<()> {
        let call = Object::new(self.ctx.clone())?;
        call.set("selfLink", run.container.self_link.as_str())?;
        call.set("altLink", run.container.alt_link.as_str())?;
        call.set("size", run.container.size_mb as f64)?;
        call.set("maxSize", run.container.max_size_mb as f64)?;
        let role = match run.role {
            Role::Procedure => "procedure",
            Role::Before => "before",
            Role::After => "after",
        };
        call.set("role", role)?;
        call.set("verb", run.verb)?;
        call.set("body", run.body)?;
        call.set("stored", run.stored)?;
        call.set("arguments", arguments.clone())?;
        let seed: Vec<u32> = (0..4).map(|i| (run.seed >> (32 * i)) as u32).collect();
        self.tell("setSeed", seed)?;
        self.tell("setLogging", run.log)?;
        self.tell("setContainer", call.clone())?;
        self.tell("enter", call)
    }

    fn tell(&self, name: &str, what: impl IntoJs<'js>) -> Result<()> {
        let what = what.into_js(self.ctx)?;
        self.kit.get::<_, Function<'js>>(name)?.call((what,))
    }

    fn call(&self, main: &Function<'js>, arguments: &Array<'js>) -> Result<()> {
        let mut args = Args::new(self.ctx.clone(), arguments.len());
        for argument in arguments.iter::<Value<'js>>() {
            args.push_arg(argument?)?;
        }
        main.call_arg::<Value<'js>>(args).map(|_| ())
    }

    fn deliver(&self, answer: Arrived) -> Result<()> {
        let value = match answer.status {
            0..400 => self.ctx.json_parse(answer.text)?,
            _ => answer.text.into_js(self.ctx)?,
        };
        let deliver = self.kit.get::<_, Function<'js>>("deliver")?;
        deliver.call((answer.status, value, answer.continuation))
    }
}
