//! What pool and worker say to each other.
//!
//! The pool speaks first and each then answers in turn: a [`Request`] is followed by any number of
//! exchanges of [`Reply::Operations`] and [`Request::Answers`], and ends with one of the other
//! replies.

use std::time::Duration;

use crate::frame::{Decoder, Encoder, Malformed};
use crate::{Container, Error, ErrorKind, Limits, Value};

type Read<T> = std::result::Result<T, Malformed>;

/// From the pool. Texts are borrowed from where they are, or from the frame.
#[derive(Debug)]
pub(crate) enum Request<'a> {
    /// The first of all: what scripts may take.
    Hello { limits: Limits, functions: bool },
    /// Run this script.
    Run(Run<'a>),
    /// Compile this script.
    Check { id: &'a str, source: &'a str },
    /// Make these functions ready.
    Load(Vec<(&'a str, &'a str)>),
    /// Call them: so many calls, to be read with [`read_call`].
    Apply { calls: u32, from: Decoder<'a> },
    /// Forget the functions.
    Unload,
    /// What came of operations, of the earliest first. There may be fewer than asked for; the rest
    /// comes when the worker has taken these.
    Answers { accepting: bool, answers: Decoder<'a> },
}

/// A run as the worker gets to know it.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) id: &'a str,
    pub(crate) source: &'a str,
    pub(crate) container: Container,
    pub(crate) role: Role,
    pub(crate) arguments: Option<&'a str>,
    pub(crate) verb: &'a str,
    pub(crate) body: Option<&'a str>,
    pub(crate) stored: Option<&'a str>,
    pub(crate) log: bool,
    pub(crate) seed: u128,
}

/// In which role a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Procedure,
    Before,
    After,
}

const HELLO: u8 = 0;
const RUN: u8 = 1;
const CHECK: u8 = 2;
const LOAD: u8 = 3;
const APPLY: u8 = 4;
const UNLOAD: u8 = 5;
const ANSWERS: u8 = 6;

pub(crate) fn hello(limits: &Limits, functions: bool) -> Vec<u8> {
    let mut to = Encoder::default();
    to.byte(HELLO).long(u64::try_from(limits.time.as_micros()).unwrap_or(u64::MAX));
    for limit in [
        limits.memory_bytes,
        limits.stack_bytes,
        limits.output_bytes,
        limits.log_chars,
        limits.message_bytes,
        limits.pending_operations,
        limits.pending_bytes,
    ] {
        to.long(limit as u64);
    }
    to.byte(functions.into()).take()
}

fn read_hello<'a>(from: &mut Decoder<'a>) -> Read<Request<'a>> {
    let time = Duration::from_micros(from.long()?);
    let mut limit = || from.long().and_then(|limit| usize::try_from(limit).map_err(|_| Malformed));
    let limits = Limits {
        time,
        memory_bytes: limit()?,
        stack_bytes: limit()?,
        output_bytes: limit()?,
        log_chars: limit()?,
        message_bytes: limit()?,
        pending_operations: limit()?,
        pending_bytes: limit()?,
    };
    Ok(Request::Hello { limits, functions: from.byte()? == 1 })
}

pub(crate) fn run(run: &Run<'_>) -> Vec<u8> {
    let mut to = Encoder::default();
    to.byte(RUN).text(run.id).text(run.source);
    to.text(&run.container.self_link).text(&run.container.alt_link);
    to.long(run.container.size_mb).long(run.container.max_size_mb);
    to.byte(run.role as u8).optional(run.arguments).text(run.verb);
    to.optional(run.body).optional(run.stored).byte(run.log.into());
    to.long(run.seed as u64).long((run.seed >> 64) as u64).take()
}

fn read_run<'a>(from: &mut Decoder<'a>) -> Read<Request<'a>> {
    let (id, source) = (from.text()?, from.text()?);
    let container = Container {
        self_link: from.string()?,
        alt_link: from.string()?,
        size_mb: from.long()?,
        max_size_mb: from.long()?,
    };
    let role = match from.byte()? {
        0 => Role::Procedure,
        1 => Role::Before,
        2 => Role::After,
        _ => return Err(Malformed),
    };
    let (arguments, verb) = (from.optional()?, from.text()?);
    let (body, stored, log) = (from.optional()?, from.optional()?, from.byte()? == 1);
    let seed = u128::from(from.long()?) | u128::from(from.long()?) << 64;
    Ok(Request::Run(Run { id, source, container, role, arguments, verb, body, stored, log, seed }))
}

pub(crate) fn check(id: &str, source: &str) -> Vec<u8> {
    Encoder::default().byte(CHECK).text(id).text(source).take()
}

pub(crate) fn load(scripts: &[crate::Script<'_>]) -> Vec<u8> {
    let mut to = Encoder::default();
    to.byte(LOAD);
    for script in scripts {
        to.text(script.id).text(script.source);
    }
    to.take()
}

/// Begins a frame of calls, of so many bytes; they follow as [`invocation`] wrote them.
pub(crate) fn apply(calls: u32, bytes: usize) -> Encoder {
    let mut to = Encoder::with(Vec::with_capacity(bytes + 5));
    to.byte(APPLY).number(calls);
    to
}

/// Begins a call of a function, by its place among those loaded; its arguments follow with
/// [`value`].
pub(crate) fn invocation(to: &mut Encoder, function: u32, arguments: u32) {
    to.number(function).number(arguments);
}

/// The function of the next call, and how many arguments follow, each for [`read_value`].
pub(crate) fn read_call(from: &mut Decoder<'_>) -> Read<(usize, usize)> {
    let (function, arguments) = (from.number()? as usize, from.number()? as usize);
    // Each takes a byte at least.
    if arguments > from.len() { Err(Malformed) } else { Ok((function, arguments)) }
}

pub(crate) fn unload() -> Vec<u8> {
    vec![UNLOAD]
}

/// A frame of answers, each written by [`answer`] or [`page`].
pub(crate) fn answers(accepting: bool, answers: &Encoder) -> Encoder {
    let mut to = Encoder::with(Vec::with_capacity(answers.len() + 2));
    to.byte(ANSWERS).byte(accepting.into()).append(answers);
    to
}

pub(crate) fn answer(to: &mut Encoder, status: u32, text: &[u8], continuation: Option<&str>) {
    to.number(status).bytes(text).optional(continuation);
}

pub(crate) fn page<T: AsRef<[u8]>>(
    to: &mut Encoder,
    status: u32,
    items: &[T],
    continuation: Option<&str>,
) {
    to.number(status).json_list(items).optional(continuation);
}

impl<'a> Request<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Read<Self> {
        let mut from = Decoder::new(bytes);
        match from.byte()? {
            HELLO => read_hello(&mut from),
            RUN => read_run(&mut from),
            CHECK => Ok(Self::Check { id: from.text()?, source: from.text()? }),
            LOAD => {
                let mut scripts = Vec::new();
                while !from.is_empty() {
                    scripts.push((from.text()?, from.text()?));
                }
                Ok(Self::Load(scripts))
            }
            APPLY => Ok(Self::Apply { calls: from.number()?, from }),
            UNLOAD => Ok(Self::Unload),
            ANSWERS => Ok(Self::Answers { accepting: from.byte()? == 1, answers: from }),
            _ => Err(Malformed),
        }
    }
}

/// The answer to one operation: its status, JSON text or message, and the continuation of a page.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u32,
    pub(crate) text: &'a str,
    pub(crate) continuation: Option<&'a str>,
}

impl<'a> Answer<'a> {
    pub(crate) fn read(from: &mut Decoder<'a>) -> Read<Self> {
        Ok(Self { status: from.number()?, text: from.text()?, continuation: from.optional()? })
    }
}

/// From the worker.
#[derive(Debug)]
pub(crate) enum Reply<'a> {
    /// The script asks for these, beside what it has not yet had answers to.
    Operations(Decoder<'a>),
    /// It ended well.
    Done { body: Option<&'a str>, log: &'a str },
    /// It did not.
    Failed(Error),
    /// What functions gave, for [`read_values`]; with nothing in it, that the rest of the calls is
    /// left for another time.
    Values(Decoder<'a>),
}

const OPERATIONS: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;
const VALUES: u8 = 3;

/// Begins a frame of operations; they follow with [`Asked::write`](crate::operation::Asked::write).
pub(crate) fn operations() -> Encoder {
    let mut to = Encoder::default();
    to.byte(OPERATIONS);
    to
}

pub(crate) fn done(body: Option<&str>, log: &str) -> Vec<u8> {
    Encoder::default().byte(DONE).optional(body).text(log).take()
}

pub(crate) fn failed(error: &Error) -> Vec<u8> {
    let (kind, number) = match error.kind {
        ErrorKind::Compile => (0, None),
        ErrorKind::Thrown(number) => (1, number),
        ErrorKind::Timeout => (2, None),
        ErrorKind::Memory => (3, None),
        ErrorKind::TooLarge => (4, None),
        ErrorKind::Busy | ErrorKind::Worker => (5, None),
    };
    let mut to = Encoder::default();
    to.byte(FAILED).byte(kind).byte(number.is_some().into()).number(number.unwrap_or(0));
    to.text(&error.message).text(&error.log).take()
}

/// Begins a frame of values; they follow with [`value`].
pub(crate) fn values() -> Encoder {
    let mut to = Encoder::default();
    to.byte(VALUES);
    to
}

impl<'a> Reply<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Read<Self> {
        let mut from = Decoder::new(bytes);
        match from.byte()? {
            OPERATIONS => Ok(Self::Operations(from)),
            DONE => Ok(Self::Done { body: from.optional()?, log: from.text()? }),
            FAILED => read_failed(&mut from).map(Self::Failed),
            VALUES => Ok(Self::Values(from)),
            _ => Err(Malformed),
        }
    }
}

fn read_failed(from: &mut Decoder<'_>) -> Read<Error> {
    let (kind, has_number, number) = (from.byte()?, from.byte()? == 1, from.number()?);
    let kind = match kind {
        0 => ErrorKind::Compile,
        1 => ErrorKind::Thrown(has_number.then_some(number)),
        2 => ErrorKind::Timeout,
        3 => ErrorKind::Memory,
        4 => ErrorKind::TooLarge,
        _ => ErrorKind::Worker,
    };
    Ok(Error { kind, message: from.string()?, log: from.string()? })
}

pub(crate) fn value(to: &mut Encoder, value: &Value<'_>) {
    match value {
        Value::Undefined => to.byte(0),
        Value::Null => to.byte(1),
        Value::Bool(false) => to.byte(2),
        Value::Bool(true) => to.byte(3),
        Value::Number(number) => to.byte(4).float(*number),
        Value::Text(text) => to.byte(5).text(text),
        Value::Json(text) => to.byte(6).text(text),
    };
}

pub(crate) fn read_value<'a>(from: &mut Decoder<'a>) -> Read<Value<'a>> {
    Ok(match from.byte()? {
        0 => Value::Undefined,
        1 => Value::Null,
        2 => Value::Bool(false),
        3 => Value::Bool(true),
        4 => Value::Number(from.float()?),
        5 => Value::Text(from.text()?.into()),
        6 => Value::Json(from.text()?.into()),
        _ => return Err(Malformed),
    })
}

/// Adds at most so many values.
pub(crate) fn read_values(
    from: &mut Decoder<'_>,
    most: usize,
    values: &mut Vec<Value<'static>>,
) -> Read<()> {
    for _ in 0..most {
        if from.is_empty() {
            break;
        }
        values.push(read_value(from)?.into_owned());
    }
    if from.is_empty() { Ok(()) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    /// Whatever a worker, or a stranger in its place, may say.
    #[test]
    fn nonsense_is_refused_and_never_panics() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..20_000 {
            let length = random() % 64;
            let mut bytes: Vec<u8> = (0..length).map(|_| (random() % 8) as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first = (round % 8) as u8;
            }
            if let Ok(Request::Apply { mut from, .. }) = Request::read(&bytes) {
                while let Ok((_, arguments)) = read_call(&mut from) {
                    assert!(arguments <= bytes.len());
                    let _ = read_value(&mut from);
                }
            }
            match Reply::read(&bytes) {
                Ok(Reply::Operations(mut from)) => while Operation::read(&mut from).is_ok() {},
                Ok(Reply::Values(mut from)) => {
                    let mut values = Vec::new();
                    let _ = read_values(&mut from, 3, &mut values);
                    assert!(values.len() <= 3);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn requests_and_replies_come_back_as_they_were() {
        let limits = Limits { log_chars: 5, ..Limits::default() };
        let frame = hello(&limits, true);
        let Ok(Request::Hello { limits: read, functions: true }) = Request::read(&frame) else {
            panic!("not a hello");
        };
        assert_eq!(read, limits);
        for kind in [
            ErrorKind::Compile,
            ErrorKind::Thrown(None),
            ErrorKind::Thrown(Some(0)),
            ErrorKind::Timeout,
            ErrorKind::Memory,
            ErrorKind::TooLarge,
            ErrorKind::Worker,
        ] {
            let error = Error { kind, message: "m".into(), log: "l".into() };
            let frame = failed(&error);
            assert!(matches!(Reply::read(&frame), Ok(Reply::Failed(read)) if read == error));
        }
        let seed = u128::MAX - 7;
        let frame = run(&Run {
            id: "i",
            source: "s",
            container: Container { size_mb: 1, ..Container::default() },
            role: Role::After,
            arguments: None,
            verb: "Create",
            body: Some("b"),
            stored: Some(""),
            log: true,
            seed,
        });
        let Ok(Request::Run(read)) = Request::read(&frame) else { panic!("not a run") };
        assert_eq!((read.id, read.source, read.role), ("i", "s", Role::After));
        assert_eq!((read.body, read.stored, read.seed), (Some("b"), Some(""), seed));
    }
}
