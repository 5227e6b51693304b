//! A runtime of the engine with the script API in it, ready for one run.

use std::rc::Rc;

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{Array, Context, Ctx, Function, IntoJs, Object, Persistent, Result, Runtime, Value};

use crate::operation::Asked;
use crate::worker::api::Api;
use crate::worker::failure::{self, Description};
use crate::worker::port::{Lost, Port};

/// What of the language there is. Left out: `performance`, a second clock, and what belongs to
/// browsers.
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::WeakRef,
);

/// The part of its memory that a script fills before cycles in it are looked for. Most scripts are
/// over by then.
const COLLECT_AT: usize = 4;

/// A runtime that no script has seen.
pub(crate) struct Sandbox {
    // Before the runtime, which must outlive it.
    kit: Persistent<Object<'static>>,
    context: Context,
    runtime: Runtime,
    port: Rc<Port>,
}

impl Sandbox {
    pub(crate) fn new(port: Rc<Port>, api: &Api) -> Result<Self> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(port.limits.memory_bytes);
        runtime.set_max_stack_size(port.limits.stack_bytes);
        runtime.set_gc_threshold(port.limits.memory_bytes / COLLECT_AT);
        let context = Context::custom::<Language>(&runtime)?;
        let kit = context.with(|ctx| {
            let kit = Object::new(ctx.clone())?;
            kit.set("native", native(&ctx, &port)?)?;
            api.install(&ctx, &kit)?;
            Ok::<_, rquickjs::Error>(Persistent::save(&ctx, kit))
        })?;
        let watch = port.clone();
        // Rejections that nobody handles are silent, but not for want of memory: half of what the
        // script wanted may not have happened.
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, handled| {
            if !handled && failure::is_out_of_memory(&reason) {
                watch.exhausted.set(true);
            }
        })));
        let watch = port.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || watch.should_stop())));
        Ok(Self { kit, context, runtime, port })
    }

    /// Enters the runtime, with what the parts of the API have for the worker.
    pub(crate) fn enter<T>(&self, inside: impl for<'js> FnOnce(&Ctx<'js>, &Object<'js>) -> T) -> T {
        self.context.with(|ctx| {
            let kit = self.kit.clone().restore(&ctx).expect("the kit was made in this runtime");
            inside(&ctx, &kit)
        })
    }

    /// Runs one of the jobs that promises have waiting. False if there is none.
    pub(crate) fn job(&self) -> Result<bool> {
        self.runtime.execute_pending_job().map_err(|_| rquickjs::Error::Exception)
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }
}

/// Evaluates a text in the global scope.
pub(crate) fn evaluate<'js, T: rquickjs::FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    source: &str,
) -> Result<T> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}

/// What the API can do that the language cannot.
fn native<'js>(ctx: &Ctx<'js>, port: &Rc<Port>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let limits = Object::new(ctx.clone())?;
    limits.set("output", port.limits.output_bytes as f64)?;
    limits.set("log", port.limits.log_chars as f64)?;
    limits.set("logging", false)?;
    native.set("limits", limits)?;
    let to = port.clone();
    let log = move |line: String| to.log.borrow_mut().push_str(&line);
    native.set("log", Function::new(ctx.clone(), log)?)?;
    let to = port.clone();
    let abort = move |why: Array<'js>| {
        let why = Description::read(&why).unwrap_or_default();
        to.aborted.borrow_mut().get_or_insert(why);
    };
    native.set("abort", Function::new(ctx.clone(), abort)?)?;
    let to = port.clone();
    let send = move |code: u32,
                     how: u32,
                     name: String,
                     extra: Option<String>,
                     text: String,
                     condition: Option<String>,
                     flag: u32| {
        let (extra, condition) = (extra.as_deref(), condition.as_deref());
        let asked = Asked { code, how, name: &name, extra, text: &text, condition, flag };
        to.ask(&asked).unwrap_or_else(|Lost| lost()) as u32
    };
    native.set("send", Function::new(ctx.clone(), send)?)?;
    let to = port.clone();
    let last = move |ctx: Ctx<'js>| answer(&ctx, to.last());
    native.set("last", Function::new(ctx.clone(), last)?)?;
    Ok(native)
}

/// `[status, value]`.
fn answer<'js>(
    ctx: &Ctx<'js>,
    arrived: std::result::Result<crate::worker::port::Arrived, Lost>,
) -> Result<Vec<Value<'js>>> {
    let arrived = arrived.unwrap_or_else(|Lost| lost());
    let value = match arrived.status {
        0..400 => ctx.json_parse(arrived.text)?,
        _ => arrived.text.into_js(ctx)?,
    };
    Ok(vec![arrived.status.into_js(ctx)?, value])
}

/// Without a pool there is nobody to answer to.
pub(crate) fn lost() -> ! {
    std::process::exit(1)
}
