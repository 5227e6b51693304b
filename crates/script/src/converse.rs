//! The pool's side of a run: hears what the script asks, has the host answer.

use std::collections::VecDeque;
use std::time::Duration;

use model::Result as Answered;

use crate::clock::Deadline;
use crate::frame::{Decoder, Encoder, Malformed};
use crate::host::Page;
use crate::lane::Taken;
use crate::message::{self, Reply, Role, Run};
use crate::operation::Operation;
use crate::process::{timeout, worker};
use crate::{Call, Error, ErrorKind, Host, Limits, Outcome, Result, Task};

/// How much longer than a script may run the pool waits for it. The worker ends a script by itself
/// when its time is up, and can say where it was; only one that does not is killed.
const GRACE: Duration = Duration::from_millis(500);
/// Answers are handed over once they have so many bytes; the rest waits for its turn.
const ANSWER_BYTES: usize = 1024 * 1024;
const OK: u32 = 200;
const CREATED: u32 = 201;
const NO_CONTENT: u32 = 204;
const NOT_MODIFIED: u32 = 304;

/// When a worker that has begun now is killed.
pub(crate) fn deadline(limits: &Limits) -> Deadline {
    Deadline::after(limits.time + GRACE)
}

/// Runs a script to its end.
pub(crate) fn run(
    taken: &mut Taken<'_>,
    limits: &Limits,
    call: &Call<'_>,
    host: &mut dyn Host,
) -> Result<Outcome> {
    let deadline = deadline(limits);
    let mut waiting = Waiting::default();
    let mut heard = ask(taken, &message::run(&described(call)), deadline)?;
    loop {
        let operations = match Reply::read(&heard) {
            Ok(Reply::Operations(operations)) => operations,
            Ok(Reply::Done { body, log }) => {
                taken.rest();
                return Ok(Outcome { body: body.map(str::to_owned), log: log.to_owned() });
            }
            Ok(Reply::Failed(error)) => return Err(failed(taken, error)),
            _ => return Err(confused(taken)),
        };
        if waiting.add(operations, limits).is_err() {
            return Err(confused(taken));
        }
        let Some(answers) = waiting.answer(host, deadline) else {
            taken.discard();
            return Err(timeout());
        };
        heard = exchange(taken, answers.as_slice(), deadline)?;
    }
}

/// A request that came to its end, though not a good one.
pub(crate) fn failed(taken: &mut Taken<'_>, error: Error) -> Error {
    if ends_worker(&error) {
        taken.discard();
    }
    taken.rest();
    error
}

/// A worker whose script broke a limit ends itself: nothing the script left behind is trusted.
pub(crate) fn ends_worker(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Timeout | ErrorKind::Memory)
}

/// Says the first word to a worker. One that died while nobody looked is replaced: it has not heard
/// a thing.
pub(crate) fn ask(taken: &mut Taken<'_>, frame: &[u8], deadline: Deadline) -> Result<Vec<u8>> {
    let sent = taken.process()?.send(frame, Some(deadline));
    if sent.is_err_and(|error| error.kind == ErrorKind::Worker) {
        taken.renew()?.send(frame, Some(deadline))?;
    }
    hear(taken, deadline)
}

/// Says something to a worker, and hears what it says to that.
pub(crate) fn exchange(taken: &mut Taken<'_>, frame: &[u8], until: Deadline) -> Result<Vec<u8>> {
    let process = taken.process()?;
    let heard = process.send(frame, Some(until)).and_then(|()| process.receive(until));
    heard.inspect_err(|_| taken.discard())
}

/// Hears what more a worker has to say.
pub(crate) fn hear(taken: &mut Taken<'_>, until: Deadline) -> Result<Vec<u8>> {
    let heard = taken.process()?.receive(until);
    heard.inspect_err(|_| taken.discard())
}

/// A worker that says what it cannot mean is not to be trusted any more.
pub(crate) fn confused(taken: &mut Taken<'_>) -> Error {
    taken.discard();
    worker("the script broke off: its worker gave an answer that makes no sense")
}

fn described<'a>(call: &Call<'a>) -> Run<'a> {
    let mut run = Run {
        id: call.script.id,
        source: call.script.source,
        container: call.container.clone(),
        role: Role::Procedure,
        arguments: None,
        verb: "",
        body: None,
        stored: None,
        log: call.log,
        seed: call.seed,
    };
    match call.task {
        Task::Procedure { arguments } => run.arguments = Some(arguments),
        Task::Before { verb, body } => {
            (run.role, run.verb, run.body) = (Role::Before, verb.name(), body);
        }
        Task::After { verb, body, stored } => {
            (run.role, run.verb, run.body, run.stored) = (Role::After, verb.name(), body, stored);
        }
    }
    run
}

/// Operations that the script has asked for and that have not been done.
#[derive(Default)]
struct Waiting {
    operations: VecDeque<Operation>,
    /// How many bytes they came in.
    bytes: usize,
}

impl Waiting {
    fn add(
        &mut self,
        mut asked: Decoder<'_>,
        limits: &Limits,
    ) -> std::result::Result<(), Malformed> {
        self.bytes += asked.len();
        while !asked.is_empty() {
            // The worker accepts no more than this from its script, so it has lost its senses.
            let too_many = self.operations.len() >= limits.pending_operations;
            if too_many || self.bytes > 2 * limits.pending_bytes {
                return Err(Malformed);
            }
            self.operations.push_back(Operation::read(&mut asked)?);
        }
        Ok(())
    }

    /// Does what is asked until there is enough to hand over. `None` once it is too late.
    fn answer(&mut self, host: &mut dyn Host, deadline: Deadline) -> Option<Encoder> {
        let mut answers = Encoder::default();
        while answers.len() < ANSWER_BYTES {
            let Some(operation) = self.operations.pop_front() else { break };
            if deadline.passed() {
                return None;
            }
            perform(&mut answers, host, &operation);
        }
        if self.operations.is_empty() {
            self.bytes = 0;
        }
        Some(message::answers(host.accepts(), &answers))
    }
}

fn perform(answers: &mut Encoder, host: &mut dyn Host, operation: &Operation) {
    match operation {
        Operation::Create { body, options } => {
            item(answers, CREATED, host.create(body, options).map(Some));
        }
        Operation::Upsert { body, options } => {
            let stored = host.upsert(body, options);
            let status = if matches!(stored, Ok((_, true))) { CREATED } else { OK };
            item(answers, status, stored.map(|(body, _)| Some(body)));
        }
        Operation::Replace { item: which, body, options } => {
            item(answers, OK, host.replace(which, body, options).map(Some));
        }
        Operation::Read { item: which, if_none_match } => {
            item(answers, OK, host.read(which, if_none_match.as_deref()));
        }
        Operation::Delete { item, if_match } => match host.delete(item, if_match.as_deref()) {
            Ok(()) => message::answer(answers, NO_CONTENT, b"null", None),
            Err(error) => refusal(answers, &error),
        },
        Operation::List { page: which } => page(answers, host.list(which)),
        Operation::Query { query, page: which } => page(answers, host.query(query, which)),
    }
}

fn item(answers: &mut Encoder, status: u32, answer: Answered<Option<bytes::Bytes>>) {
    match answer {
        Ok(Some(body)) => message::answer(answers, status, &body, None),
        Ok(None) => message::answer(answers, NOT_MODIFIED, b"null", None),
        Err(error) => refusal(answers, &error),
    }
}

fn page(answers: &mut Encoder, answer: Answered<Page>) {
    match answer {
        Ok(page) => message::page(answers, OK, &page.items, page.continuation.as_deref()),
        Err(error) => refusal(answers, &error),
    }
}

fn refusal(answers: &mut Encoder, error: &model::Error) {
    let status = error.fault.status().into();
    message::answer(answers, status, error.message.as_bytes(), None);
}
