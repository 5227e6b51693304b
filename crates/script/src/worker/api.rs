//! The script API: JavaScript, compiled once for all runtimes of this process.

use rquickjs::module::WriteOptions;
use rquickjs::{Context, Ctx, Function, Module, Object, Result, Runtime};

/// Names of the parts in stack traces begin so, and can be told from the script's own.
pub(crate) const PREFIX: &str = "api:";

macro_rules! parts {
    ($($name:literal),*) => {
        [$((concat!("api:", $name), include_str!(concat!("api/", $name, ".js")))),*]
    };
}

/// What procedures and triggers see, in the order in which the parts need each other.
const DATABASE: [(&str, &str); 5] = parts!("error", "random", "context", "collection", "chain");
/// Functions see no database; they need only errors, and a console that does nothing.
const FUNCTIONS: [(&str, &str); 2] = parts!("error", "console");

/// The parts, as the engine's own code.
pub(crate) struct Api(Vec<Vec<u8>>);

impl Api {
    /// Compiles the API of functions, or else that of the database.
    pub(crate) fn compile(functions: bool) -> Result<Self> {
        let parts = if functions { &FUNCTIONS[..] } else { &DATABASE[..] };
        let context = Context::full(&Runtime::new()?)?;
        let compiled = context.with(|ctx| {
            let compile = |(name, source): &(&str, &str)| {
                let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
                Module::declare(ctx.clone(), *name, *source)?.write(options)
            };
            parts.iter().map(compile).collect::<Result<Vec<_>>>()
        });
        compiled.map(Self)
    }

    /// Puts the API into a runtime. Each part adds to the kit what others and the worker need.
    pub(crate) fn install<'js>(&self, ctx: &Ctx<'js>, kit: &Object<'js>) -> Result<()> {
        for part in &self.0 {
            let (part, evaluated) = load(ctx, part)?.eval()?;
            evaluated.finish::<()>()?;
            part.get::<_, Function<'js>>("default")?.call::<_, ()>((kit.clone(),))?;
        }
        Ok(())
    }
}

#[expect(unsafe_code, reason = "the engine trusts its own code, and this is where it comes from")]
fn load<'js>(ctx: &Ctx<'js>, part: &[u8]) -> Result<Module<'js>> {
    // SAFETY: the bytes come from `Api::compile`, from the same engine in the same process.
    unsafe { Module::load(ctx.clone(), part) }
}
