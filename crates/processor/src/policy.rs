//! What happens when a handler fails.
//!
//! A batch is tried again in place, later and later. When it has failed often enough the policy
//! says what is next. To park or to dead-letter, the item at fault has to be known: the batch is
//! halved until it stands alone.

use std::ops::Range;
use std::time::Duration;

/// How long to wait before the next attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// Before the second attempt.
    pub first: Duration,
    /// Each wait is so many times the one before.
    pub factor: f64,
    /// Never longer.
    pub max: Duration,
    /// Up to this share of the wait is taken off at random, so that hosts do not march in step.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            factor: 2.0,
            max: Duration::from_secs(30),
            jitter: 0.2,
        }
    }
}

impl Backoff {
    /// The wait after so many failures, given a random number.
    pub fn wait(&self, failures: u32, random: u64) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX).min(64);
        let seconds = self.first.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        let seconds = seconds.min(self.max.as_secs_f64());
        let chance = (random % 1024) as f64 / 1024.0;
        Duration::from_secs_f64(seconds * (1.0 - self.jitter.clamp(0.0, 1.0) * chance))
    }
}

/// What follows when all attempts have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Go on trying; nothing behind it in its lane is handled. What .NET does, without giving the
    /// lease away in between.
    #[default]
    Block,
    /// The item goes to the dead-letter container and its key with it: later changes of that key
    /// wait behind it, in order, until they are redriven.
    ParkKey,
    /// The item goes to the dead-letter container, and on.
    DeadLetter,
    /// The processor stops with the error.
    Stop,
}

/// The rule for failures.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorPolicy {
    /// How often an item is tried in place before `then`. Not for `Block`, which never gives up.
    pub attempts: u32,
    /// The waits in between.
    pub backoff: Backoff,
    /// What follows.
    pub then: OnFailure,
    /// A range that was taken so often without any progress is suspected of a change that kills
    /// its handler's process: it is read one change at a time, and the culprit is treated as `then`
    /// says. 0: never.
    pub deaths: u32,
}

impl Default for ErrorPolicy {
    fn default() -> Self {
        Self { attempts: 3, backoff: Backoff::default(), then: OnFailure::Block, deaths: 0 }
    }
}

impl ErrorPolicy {
    /// Whether single items are set aside.
    pub fn sets_aside(&self) -> bool {
        matches!(self.then, OnFailure::ParkKey | OnFailure::DeadLetter)
    }
}

/// The next step with a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Hand these items over.
    Handle(Range<usize>),
    /// This one is at fault; set it aside.
    SetAside(usize),
    /// Give up altogether.
    Stop,
    /// Nothing is left.
    Done,
}

/// A batch being tried.
#[derive(Debug)]
pub struct Trial {
    /// What is left, the next part last.
    parts: Vec<Range<usize>>,
    /// Failures of the next part.
    failures: u32,
}

impl Trial {
    /// A batch of so many items.
    pub fn new(items: usize) -> Self {
        let parts = Vec::from_iter((items > 0).then_some(0..items));
        Self { parts, failures: 0 }
    }

    /// What to do now.
    pub fn step(&self, policy: &ErrorPolicy) -> Step {
        let Some(part) = self.parts.last() else { return Step::Done };
        let exhausted = self.failures >= policy.attempts.max(1);
        match policy.then {
            OnFailure::Stop if exhausted => Step::Stop,
            OnFailure::ParkKey | OnFailure::DeadLetter if exhausted && part.len() == 1 => {
                Step::SetAside(part.start)
            }
            _ => Step::Handle(part.clone()),
        }
    }

    /// The part was handled, or set aside.
    pub fn passed(&mut self) {
        self.parts.pop();
        self.failures = 0;
    }

    /// The part failed. Returns how long to wait before the next step.
    pub fn failed(&mut self, policy: &ErrorPolicy, random: u64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let exhausted = self.failures >= policy.attempts.max(1);
        let Some(part) = self.parts.last().cloned() else { return Duration::ZERO };
        if policy.sets_aside() && exhausted {
            if part.len() > 1 {
                self.parts.pop();
                let middle = part.start + part.len() / 2;
                self.parts.push(middle..part.end);
                self.parts.push(part.start..middle);
                // A half is condemned only after its own attempts.
                self.failures = 0;
            }
            return Duration::ZERO;
        }
        policy.backoff.wait(self.failures, random)
    }

    /// Failures of the next part so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(then: OnFailure) -> ErrorPolicy {
        ErrorPolicy { then, attempts: 2, ..ErrorPolicy::default() }
    }

    /// Runs a batch in which some items always fail; tells what was set aside and handled.
    fn run(items: usize, bad: &[usize], policy: &ErrorPolicy) -> (Vec<usize>, Vec<usize>) {
        let (mut aside, mut handled) = (Vec::new(), Vec::new());
        let mut trial = Trial::new(items);
        for _ in 0..1000 {
            match trial.step(policy) {
                Step::Done | Step::Stop => break,
                Step::SetAside(item) => {
                    aside.push(item);
                    trial.passed();
                }
                Step::Handle(part) if part.clone().any(|item| bad.contains(&item)) => {
                    trial.failed(policy, 0);
                }
                Step::Handle(part) => {
                    handled.extend(part);
                    trial.passed();
                }
            }
        }
        (aside, handled)
    }

    #[test]
    fn halving_finds_the_poison_and_keeps_the_order() {
        let (aside, handled) = run(20, &[7], &policy(OnFailure::DeadLetter));
        assert_eq!(aside, [7]);
        assert_eq!(handled, (0..20).filter(|item| *item != 7).collect::<Vec<_>>());
        let (aside, handled) = run(5, &[0, 1, 2, 3, 4], &policy(OnFailure::ParkKey));
        assert_eq!((aside.len(), handled.len()), (5, 0));
    }

    #[test]
    fn blocking_never_ends_and_stopping_does() {
        let mut trial = Trial::new(3);
        let block = policy(OnFailure::Block);
        for _ in 0..50 {
            assert_eq!(trial.step(&block), Step::Handle(0..3));
            trial.failed(&block, 0);
        }
        let mut trial = Trial::new(3);
        let stop = policy(OnFailure::Stop);
        trial.failed(&stop, 0);
        assert_eq!(trial.step(&stop), Step::Handle(0..3));
        trial.failed(&stop, 0);
        assert_eq!(trial.step(&stop), Step::Stop);
        assert_eq!(Trial::new(0).step(&stop), Step::Done);
    }

    #[test]
    fn waits_grow_to_their_limit() {
        let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
        assert_eq!(backoff.wait(1, 9), Duration::from_millis(100));
        assert_eq!(backoff.wait(3, 9), Duration::from_millis(400));
        assert_eq!(backoff.wait(1000, 9), Duration::from_secs(30));
        let jittered = Backoff::default().wait(1, 1023);
        assert!(jittered > Duration::from_millis(79) && jittered < Duration::from_millis(100));
    }
}
