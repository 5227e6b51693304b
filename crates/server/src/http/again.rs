//! A task that wakes itself while it runs is run again at once, and not by way of the scheduler.
//!
//! Reading a request's body does that: who wants the body and who reads it are parts of one task, and
//! tell each other by waking it. To the scheduler that is new work, for which it wakes another thread;
//! that one finds nothing to do, and keeps the client from its core.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often a task runs in a row before others get their turn.
const RUNS: usize = 4;

/// Nobody runs it: who wakes it tells the scheduler.
const RESTING: u8 = 0;
/// It runs.
const RUNNING: u8 = 1;
/// It runs, and has been woken meanwhile.
const WOKEN: u8 = 2;

/// See the top of this file.
pub struct Again<F> {
    task: Pin<Box<F>>,
    own: Arc<Own>,
    waker: Waker,
    /// Whom its own waker wakes, to be compared without a lock.
    scheduler: Option<Waker>,
}

struct Own {
    state: AtomicU8,
    scheduler: Mutex<Option<Waker>>,
}

impl<F: Future> Again<F> {
    /// Runs a future so.
    pub fn new(task: F) -> Self {
        let own = Arc::new(Own { state: AtomicU8::new(RESTING), scheduler: Mutex::new(None) });
        Self { task: Box::pin(task), waker: own.clone().into(), own, scheduler: None }
    }
}

impl<F: Future> Future for Again<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { task, own, waker, scheduler } = self.get_mut();
        if !scheduler.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *scheduler = Some(cx.waker().clone());
            own.scheduler().clone_from(scheduler);
        }
        for _ in 0..RUNS {
            own.state.store(RUNNING, SeqCst);
            let polled = task.as_mut().poll(&mut Context::from_waker(waker));
            // Whoever wakes it from here on tells the scheduler.
            if own.state.swap(RESTING, SeqCst) != WOKEN || polled.is_ready() {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Own {
    fn scheduler(&self) -> MutexGuard<'_, Option<Waker>> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let running = self.state.compare_exchange(RUNNING, WOKEN, SeqCst, SeqCst);
        if running == Err(RESTING)
            && let Some(scheduler) = &*self.scheduler()
        {
            scheduler.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Polls once a task that wakes itself so many times; how often it ran, and how often the
    /// scheduler was told.
    fn poll_once(wakes: usize) -> (usize, usize) {
        let count = Arc::<Count>::default();
        let waker = count.clone().into();
        let ran = AtomicUsize::new(0);
        let mut task = pin!(Again::new(poll_fn(|cx| {
            if ran.fetch_add(1, SeqCst) < wakes {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        })));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        (ran.load(SeqCst), count.0.load(SeqCst))
    }

    #[test]
    fn who_wakes_itself_runs_again_at_once() {
        assert_eq!(poll_once(0), (1, 0));
        assert_eq!(poll_once(1), (2, 0));
        assert_eq!(poll_once(RUNS - 1), (RUNS, 0));
    }

    #[test]
    fn but_not_for_ever() {
        assert_eq!(poll_once(usize::MAX), (RUNS, 1));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_from_elsewhere_is_lost() {
        for _ in 0..1_000 {
            let (tell, told) = tokio::sync::oneshot::channel();
            let waiting = tokio::spawn(Again::new(async move {
                tokio::task::yield_now().await;
                told.await
            }));
            tokio::spawn(async move { tell.send(7) }).await.unwrap().unwrap();
            assert_eq!(waiting.await.unwrap(), Ok(7));
        }
    }
}
