//! Threads that lend a hand to whoever reads many values at once.
//!
//! A page of a feed is read by copying and checking a thousand values or more, and a chunk of a scan
//! likewise. That is cut into pieces, which threads with nothing else to do take their share of.
//! Nobody waits for a hand: what none has taken, the reader does itself.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::{Error, Result};

/// Most threads; more do not make memory any faster.
const HANDS_MAX: usize = 4;

/// One set for the process: it is the processor's cores that are shared.
static HANDS: LazyLock<Arc<Hands>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    Hands::start(cores.saturating_sub(1).min(HANDS_MAX))
});

/// Does all pieces of a piece of work, and returns what they gave in their order.
pub(crate) async fn share<T: Send + 'static>(
    pieces: usize,
    work: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    share_among(&HANDS, pieces, work).await
}

async fn share_among<T: Send + 'static>(
    hands: &LazyLock<Arc<Hands>>,
    pieces: usize,
    work: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    if pieces < 2 {
        return (0..pieces).map(work).collect();
    }
    let job = Arc::new(Job {
        work,
        pieces,
        next: AtomicUsize::new(0),
        results: Mutex::new(Results { left: pieces, done: (0..pieces).map(|_| None).collect() }),
        finished: Notify::new(),
    });
    hands.ask(&job);
    job.run();
    loop {
        let finished = job.finished.notified();
        if let Some(done) = job.take() {
            return done.into_iter().map(|one| one.unwrap_or_else(|| Err(lost()))).collect();
        }
        finished.await;
    }
}

struct Hands {
    waiting: Mutex<VecDeque<Arc<dyn Run>>>,
    /// Threads that wait for a job, less the jobs that wait for a thread.
    idle: AtomicUsize,
    called: Condvar,
}

impl Hands {
    fn start(threads: usize) -> Arc<Self> {
        let hands = Arc::new(Self {
            waiting: Mutex::default(),
            idle: AtomicUsize::new(0),
            called: Condvar::new(),
        });
        for _ in 0..threads {
            let served = hands.clone();
            let hand = std::thread::Builder::new().name("kv-read".into());
            // Without a hand the work is done all the same.
            if hand.spawn(move || served.serve()).is_ok() {
                hands.idle.fetch_add(1, Ordering::Relaxed);
            }
        }
        hands
    }

    /// Asks one thread for help, if any has nothing to do.
    fn ask<T: Send + 'static, W>(&self, job: &Arc<Job<T, W>>)
    where
        W: Fn(usize) -> Result<T> + Send + Sync + 'static,
    {
        let one = |idle: usize| idle.checked_sub(1);
        if self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one).is_ok() {
            lock(&self.waiting).push_back(job.clone());
            self.called.notify_one();
        }
    }

    fn serve(&self) -> ! {
        loop {
            let mut waiting = lock(&self.waiting);
            let job = loop {
                match waiting.pop_front() {
                    Some(job) => break job,
                    None => {
                        waiting = self.called.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(waiting);
            job.run();
            self.idle.fetch_add(1, Ordering::Relaxed);
        }
    }
}

trait Run: Send + Sync {
    /// Does pieces until all are taken.
    fn run(&self);
}

struct Job<T, W> {
    work: W,
    pieces: usize,
    next: AtomicUsize,
    results: Mutex<Results<T>>,
    finished: Notify,
}

struct Results<T> {
    left: usize,
    done: Vec<Option<Result<T>>>,
}

impl<T, W> Job<T, W> {
    /// What all pieces gave, once they are done.
    fn take(&self) -> Option<Vec<Option<Result<T>>>> {
        let mut results = lock(&self.results);
        (results.left == 0).then(|| std::mem::take(&mut results.done))
    }
}

impl<T: Send, W: Fn(usize) -> Result<T> + Send + Sync> Run for Job<T, W> {
    fn run(&self) {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= self.pieces {
                return;
            }
            // Whatever becomes of the piece, whoever waits for it is told.
            let mut piece = Piece { job: self, n, result: None };
            piece.result = Some((self.work)(n));
        }
    }
}

struct Piece<'a, T, W> {
    job: &'a Job<T, W>,
    n: usize,
    result: Option<Result<T>>,
}

impl<T, W> Drop for Piece<'_, T, W> {
    fn drop(&mut self) {
        let mut results = lock(&self.job.results);
        results.done[self.n] = self.result.take();
        results.left -= 1;
        if results.left == 0 {
            self.job.finished.notify_one();
        }
    }
}

fn lost() -> Error {
    Error::Io("a thread that read values has failed".into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn pieces_come_back_in_their_order() {
        let readers = (0..64_usize).map(|reader| {
            tokio::spawn(share(reader, move |n| {
                if n == 40 { Err(Error::Io("piece 40".into())) } else { Ok((reader, n)) }
            }))
        });
        for (reader, result) in readers.collect::<Vec<_>>().into_iter().enumerate() {
            match result.await.unwrap() {
                Ok(done) => {
                    assert!(reader <= 40);
                    assert_eq!(done, (0..reader).map(|n| (reader, n)).collect::<Vec<_>>());
                }
                Err(error) => assert!(reader > 40 && error.to_string().contains("piece 40")),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hand_takes_what_the_reader_has_not_come_to() {
        static ONE: LazyLock<Arc<Hands>> = LazyLock::new(|| Hands::start(1));
        // Each of the two pieces ends only when the other has begun.
        let both = std::sync::Barrier::new(2);
        let done = share_among(&ONE, 2, move |n| {
            both.wait();
            Ok(n)
        });
        assert_eq!(done.await.unwrap(), [0, 1]);
    }

    #[tokio::test]
    async fn a_piece_that_panics_is_told() {
        let job = tokio::spawn(share(2, |n| if n == 1 { panic!("on purpose") } else { Ok(n) }));
        assert!(job.await.map_or(true, |done| done.is_err()));
    }
}
