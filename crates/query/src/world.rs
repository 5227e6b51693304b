//! What a query knows of the world: time, chance, user-defined functions, and the policies of its
//! container. And the budget by which its cost is counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{Error, Result};

use crate::error::too_much;
use crate::limits;
use crate::value::Value;

/// Time, chance and scripts come in by this door.
pub trait World: Sync {
    /// Now, in ticks of 100 ns since 1970.
    fn now_ticks(&self) -> i64;

    /// A number from 0 up to, and without, 1.
    fn random(&self) -> f64;

    /// Calls a user-defined function. No argument is undefined.
    fn call(&self, name: &str, _arguments: &[Value<'_>]) -> Result<Value<'static>> {
        Err(Error::bad_request(format!("there is no user-defined function '{name}'")))
    }

    /// The same functions, where they are cheaper to call many times at once.
    fn rehearsal(&self) -> Option<&dyn Rehearsal> {
        None
    }
}

/// Functions that are called for many rows at once, while the rows are rehearsed.
pub trait Rehearsal: Sync {
    /// Begins a rehearsal, of the same rows as the last or of others: until it is finished, a call
    /// whose answer is not known is noted and gives undefined.
    fn begin(&self, again: bool);

    /// How many calls have been noted.
    fn noted(&self) -> usize;

    /// Whether these are enough.
    fn is_full(&self) -> bool;

    /// Ends the rehearsal and makes the calls noted. Gives how many of them, from the first on, have
    /// an answer now; be it that they failed.
    fn finish(&self) -> usize;
}

/// What the container says about its values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Whether geometries lie on a plane instead of the globe.
    pub planar: bool,
    /// The vectors, by path (`/a/b`).
    pub vectors: Vec<VectorSetting>,
    /// The language of full text where no path says otherwise.
    pub language: Option<String>,
    /// The languages of paths.
    pub languages: Vec<(String, String)>,
    /// Computed properties: name and query.
    pub computed: Vec<(String, String)>,
}

/// What the container says about one vector.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorSetting {
    /// Where it is (`/a/b`).
    pub path: String,
    /// `cosine`, `dotproduct` or `euclidean`.
    pub distance: String,
    /// How many numbers it has.
    pub dimensions: usize,
}

/// Counts the steps of a query, so that no row can take for ever and long ones let others go on.
#[derive(Debug, Default)]
pub struct Budget {
    steps: AtomicU64,
    row_start: AtomicU64,
    breath: AtomicU64,
}

impl Budget {
    /// Counts steps; fails where one row takes more than it may.
    pub fn spend(&self, steps: u64) -> Result<()> {
        // One thread at a time runs a query, so no step is lost between load and store.
        let total = self.steps.load(Relaxed) + steps;
        self.steps.store(total, Relaxed);
        if total - self.row_start.load(Relaxed) > limits::ROW_STEPS {
            return Err(too_much("steps for one item", limits::ROW_STEPS));
        }
        Ok(())
    }

    /// Fails where an expression builds more than it may; counts the bytes as steps too.
    pub fn build(&self, bytes: usize) -> Result<()> {
        if bytes > limits::VALUE_BYTES {
            return Err(too_much("bytes of one value", limits::VALUE_BYTES));
        }
        self.spend(bytes as u64 / 64)
    }

    /// The steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// A new row begins.
    pub fn begin_row(&self) {
        self.row_start.store(self.steps.load(Relaxed), Relaxed);
    }

    /// Whether it is time to breathe.
    pub fn is_due(&self) -> bool {
        let steps = self.steps.load(Relaxed);
        let due = steps - self.breath.load(Relaxed) >= limits::STEPS_BETWEEN_BREATHS;
        if due {
            self.breath.store(steps, Relaxed);
        }
        due
    }
}
