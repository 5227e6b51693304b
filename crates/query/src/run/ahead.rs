//! User-defined functions, called for many rows at once.
//!
//! A function runs elsewhere, and asking there costs more than most functions do. So before rows are
//! evaluated they are rehearsed: a call whose answer is not known is noted and gives undefined, and
//! what was noted is then called together. A function given what another gave is noted only when
//! that is known, so rows are rehearsed again as often as functions can depend on each other. The
//! evaluation itself finds the answers; it asks for itself where the rehearsal was wrong, so that a
//! rehearsal never decides what a query gives, and a failure counts only where it is reached.

use model::Result;

use super::Run;
use super::cursor::Found;
use crate::eval::rows::Rows;
use crate::eval::{Context, Frame};
use crate::limits;
use crate::source::Source;
use crate::world::{Budget, Rehearsal};

/// A row of a chunk: which document, and how many rows of it come before.
type Spot = (usize, u32);

/// The rehearsal of a chunk of documents. It is told where the evaluation is, and stays ahead.
pub(super) struct Ahead<'a, S> {
    run: &'a Run<'a, S>,
    chunk: &'a [Found],
    /// None where the query calls no functions.
    functions: Option<&'a dyn Rehearsal>,
    /// The row that is evaluated next.
    at: Spot,
    /// Rows before this one were rehearsed.
    ready: Spot,
}

impl<S: Source> Run<'_, S> {
    /// Rehearses the rows of a chunk as far as the query calls functions.
    pub(super) fn ahead<'a>(&'a self, chunk: &'a [Found]) -> Ahead<'a, S> {
        let calls = self.bound().udf_calls > 0;
        let functions = if calls { self.context.world.rehearsal() } else { None };
        Ahead { run: self, chunk, functions, at: (0, 0), ready: (0, 0) }
    }
}

impl<S: Source> Ahead<'_, S> {
    /// The evaluation comes to a document of the chunk.
    pub(super) fn item(&mut self, at: usize) {
        self.at = (at, 0);
        self.keep_up();
    }

    /// The evaluation comes to the next row of its document.
    pub(super) fn row(&mut self) {
        self.keep_up();
        self.at.1 += 1;
    }

    fn keep_up(&mut self) {
        if let Some(functions) = self.functions.filter(|_| self.at >= self.ready) {
            self.ready = self.rehearse(functions).max((self.at.0, self.at.1 + 1));
        }
    }

    /// Rehearses rows from the one that is evaluated next. Gives the first that is not ready.
    fn rehearse(&self, functions: &dyn Rehearsal) -> Spot {
        let mut end = (self.chunk.len(), 0);
        for round in 1..=limits::REHEARSALS {
            functions.begin(round > 1);
            let (reached, marks) = self.note(functions, end);
            let (noted, full) = (functions.noted(), functions.is_full());
            let answered = functions.finish();
            end = reached;
            if answered < noted {
                let known = marks.iter().rev().find(|(calls, _)| *calls <= answered);
                end = known.map_or(self.at, |(_, spot)| *spot);
            }
            // One row alone may have more calls than are noted at once.
            let cut = full && end == (self.at.0, self.at.1 + 1);
            let done = round >= self.run.bound().udf_calls && !cut;
            if noted == 0 || end <= self.at || done {
                break;
            }
        }
        end
    }

    /// Evaluates rows for the sake of the calls in them. Gives where it stopped, and how many calls
    /// were noted before which row.
    fn note(&self, functions: &dyn Rehearsal, end: Spot) -> (Spot, Vec<(usize, Spot)>) {
        // Counted apart: it is not what the query asked for.
        let budget = Budget::default();
        let mut begun = 0;
        let context = Context { budget: &budget, ..*self.run.context };
        let mut marks = vec![(0, self.at)];
        let (first, passed) = self.at;
        for (at, found) in self.chunk.iter().enumerate().skip(first) {
            if (at, 0) >= end {
                break;
            }
            let mut row = 0;
            budget.begin_row();
            let mut frame = Frame::new(&context, self.run.bound().slots, &found.document.body);
            let mut rows = Rows::new(self.run.block());
            // What cannot be evaluated fails later, if it is reached.
            while let Ok(true) = rows.next(&mut frame) {
                budget.begin_row();
                row += 1;
                if at == first && row <= passed {
                    // These are over.
                    begun = budget.steps();
                    continue;
                }
                let _ = self.run.rehearse_row(&mut frame);
                let (noted, next) = (functions.noted(), (at, row));
                match marks.last_mut() {
                    Some((calls, spot)) if *calls == noted => *spot = next,
                    _ => marks.push((noted, next)),
                }
                let tired = budget.steps() - begun > limits::REHEARSAL_STEPS;
                if functions.is_full() || tired || next >= end {
                    return (next, marks);
                }
            }
        }
        (end, marks)
    }
}

impl<S: Source> Run<'_, S> {
    /// Evaluates all that is evaluated of a row.
    fn rehearse_row<'a>(&'a self, frame: &mut Frame<'a>) -> Result<()> {
        let block = self.block();
        if !block.passes(frame)? {
            return Ok(());
        }
        for key in &self.bound().order.keys {
            key.node.eval(frame)?;
        }
        match &block.grouping {
            None => drop(block.output(frame)?),
            Some(grouping) => {
                for (key, _) in &grouping.keys {
                    key.eval(frame)?;
                }
                for node in &grouping.aggregates {
                    node.argument.eval(frame)?;
                }
            }
        }
        Ok(())
    }
}
