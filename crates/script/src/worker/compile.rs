//! From the text of a script to the function that it is.

use rquickjs::{Ctx, Function, Object, Value};

use crate::worker::failure;
use crate::worker::port::Port;
use crate::worker::sandbox::evaluate;
use crate::{Error, ErrorKind, Result};

/// Before and after a text that is one function: a declaration becomes an expression.
const EXPRESSION: (&str, &str) = ("(", "\n)");
/// Before a text of several statements. They see each other, and nobody else sees them.
const STATEMENTS: &str = "(function () {";
/// How many functions are looked at to find the one that is meant.
const CANDIDATES: usize = 16;
/// What cannot be a name, though prose may have it after the word.
const RESERVED: &str = " await break case catch class const continue debugger default delete do else \
    enum export extends false finally for function if import in instanceof let new null return \
    static super switch this throw true try typeof var void while with yield ";

/// The function that a text is.
///
/// Scripts are written as one function, mostly as a declaration. Where other declarations or
/// directives stand beside it, the first function declared is meant.
pub(crate) fn compile<'js>(
    ctx: &Ctx<'js>,
    kit: &Object<'js>,
    port: &Port,
    id: &str,
    source: &str,
) -> Result<Function<'js>> {
    if source.contains('\0') {
        let message = format!("The script {id} does not compile: it has a zero character in it.");
        return Err(Error::new(ErrorKind::Compile, message));
    }
    let attempt = |before: &str, after: &str| {
        port.indent.set(before.len() as u32);
        let found =
            evaluate::<Value<'js>>(ctx, &format!("{id}.js"), &[before, source, after].concat());
        found.map_err(|error| {
            let description = failure::describe(ctx, kit, &error);
            match port.stopped.get() {
                true => failure::thrown(port, description),
                false => failure::uncompiled(port, id, &description),
            }
        })
    };
    let found = attempt(EXPRESSION.0, EXPRESSION.1).or_else(|first| {
        // If it does not compile this way either, the first attempt says better why.
        attempt(STATEMENTS, &choice(source)).map_err(|_| first)
    })?;
    found.into_function().ok_or_else(|| {
        Error::new(ErrorKind::Compile, format!("The script {id} is not a function."))
    })
}

/// The end of a text of statements, which gives the first function that was declared.
fn choice(source: &str) -> String {
    let mut end = "\nreturn ".to_owned();
    for name in names(source).take(CANDIDATES) {
        end += &format!("typeof {name} === 'function' ? {name} : ");
    }
    end + "undefined; })()"
}

/// Whatever stands after the word `function`, be it in a comment or inside another.
fn names(source: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    source.split("function").skip(1).filter_map(move |after| {
        let name = after.trim_start().trim_start_matches('*').trim_start();
        let end = name.find(|c| !is_part(c)).unwrap_or(name.len());
        let begins_well = name.starts_with(|c: char| is_part(c) && !c.is_numeric());
        let name = (begins_well && end < name.len()).then(|| &name[..end])?;
        (!RESERVED.contains(&format!(" {name} "))).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_are_found() {
        let found = |source| names(source).collect::<Vec<_>>().join(" ");
        assert_eq!(found("function f() {} async function* g$ () {}"), "f g$");
        assert_eq!(found("function (a) {} function\n é(){}"), "é");
        assert_eq!(found("function 1() function"), "");
        assert_eq!(found("// a function in a comment\nfunction inner() {}"), "inner");
        assert_eq!(
            choice("function a() {}"),
            "\nreturn typeof a === 'function' ? a : undefined; })()"
        );
    }
}
