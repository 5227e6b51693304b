//! An executor in virtual time: one thread, one seed, one order of events.
//!
//! Tasks belong to processes, which can be paused and killed. Which of the tasks that are ready
//! runs next is a matter of the seed, never of who woke whom first.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use processor::env::{Env, Later, Rule, Task, scramble};

pub type Process = u32;
/// The process of everything that is not a host: network, service, script.
pub const WORLD: Process = 0;

struct Slot {
    process: Process,
    future: Option<Later<'static, ()>>,
    waker: Waker,
}

struct Inner {
    now: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    tasks: BTreeMap<u64, Slot>,
    paused: BTreeSet<Process>,
    dead: BTreeSet<Process>,
    next: u64,
    chance: u64,
}

type Ready = Arc<Mutex<BTreeSet<u64>>>;

/// The simulated machine room.
#[derive(Clone)]
pub struct Sim {
    inner: Arc<Mutex<Inner>>,
    ready: Ready,
}

struct Alarm {
    id: u64,
    ready: Ready,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ready.lock().expect("ready").insert(self.id);
    }
}

impl Sim {
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            now: Duration::ZERO,
            timers: BTreeMap::new(),
            tasks: BTreeMap::new(),
            paused: BTreeSet::new(),
            dead: BTreeSet::new(),
            next: 1,
            chance: scramble(seed),
        };
        Self { inner: Arc::new(Mutex::new(inner)), ready: Ready::default() }
    }

    pub fn now(&self) -> Duration {
        self.inner.lock().expect("inner").now
    }

    pub fn random(&self) -> u64 {
        let mut inner = self.inner.lock().expect("inner");
        inner.chance = inner.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(inner.chance)
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.random() % end.max(1)
    }

    /// True in so many of a thousand cases.
    pub fn chance(&self, of_thousand: u64) -> bool {
        self.below(1000) < of_thousand
    }

    pub fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from * 1000 + self.below((to - from) * 1000 + 1))
    }

    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep { sim: self.clone(), until: self.now() + time, key: None }
    }

    pub fn spawn(&self, process: Process, future: Later<'static, ()>) -> u64 {
        let mut inner = self.inner.lock().expect("inner");
        let id = inner.next;
        inner.next += 1;
        if inner.dead.contains(&process) {
            drop(inner);
            drop(future);
            return id;
        }
        let waker = Waker::from(Arc::new(Alarm { id, ready: Arc::clone(&self.ready) }));
        inner.tasks.insert(id, Slot { process, future: Some(future), waker });
        drop(inner);
        self.ready.lock().expect("ready").insert(id);
        id
    }

    pub fn cancel(&self, id: u64) {
        let slot = self.inner.lock().expect("inner").tasks.remove(&id);
        drop(slot);
    }

    pub fn pause(&self, process: Process, paused: bool) {
        let mut inner = self.inner.lock().expect("inner");
        if paused {
            inner.paused.insert(process);
        } else {
            inner.paused.remove(&process);
        }
    }

    /// Ends a process without warning.
    pub fn kill(&self, process: Process) {
        let mut gone = Vec::new();
        let mut inner = self.inner.lock().expect("inner");
        inner.dead.insert(process);
        let ids: Vec<u64> = inner
            .tasks
            .iter()
            .filter(|(_, slot)| slot.process == process)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            gone.extend(inner.tasks.remove(&id));
        }
        drop(inner);
        drop(gone);
    }

    /// Ends everything. Tasks know the room they run in, so nothing of it would be freed otherwise.
    pub fn clear(&self) {
        let mut inner = self.inner.lock().expect("inner");
        let ended = (std::mem::take(&mut inner.tasks), std::mem::take(&mut inner.timers));
        drop(inner);
        drop(ended);
    }

    pub fn is_dead(&self, process: Process) -> bool {
        self.inner.lock().expect("inner").dead.contains(&process)
    }

    /// Runs until that time, or until `done` says so.
    pub fn run_until(&self, end: Duration, done: impl Fn() -> bool) {
        while self.now() < end && !done() {
            if let Some(id) = self.pick() {
                self.poll(id);
            } else if !self.advance(end) {
                return;
            }
        }
    }

    fn pick(&self) -> Option<u64> {
        let ready: Vec<u64> = self.ready.lock().expect("ready").iter().copied().collect();
        let mut runnable = Vec::new();
        {
            let inner = self.inner.lock().expect("inner");
            for id in ready {
                match inner.tasks.get(&id) {
                    None => {
                        self.ready.lock().expect("ready").remove(&id);
                    }
                    Some(slot) if inner.paused.contains(&slot.process) => {}
                    Some(_) => runnable.push(id),
                }
            }
        }
        if runnable.is_empty() {
            return None;
        }
        let id = runnable[self.below(runnable.len() as u64) as usize];
        self.ready.lock().expect("ready").remove(&id);
        Some(id)
    }

    fn poll(&self, id: u64) {
        let taken = {
            let mut inner = self.inner.lock().expect("inner");
            let slot = inner.tasks.get_mut(&id);
            slot.and_then(|slot| Some((slot.future.take()?, slot.waker.clone())))
        };
        let Some((mut future, waker)) = taken else { return };
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut inner = self.inner.lock().expect("inner");
        if done {
            inner.tasks.remove(&id);
        } else if let Some(slot) = inner.tasks.get_mut(&id) {
            slot.future = Some(future);
            return;
        }
        // Finished, or cancelled by itself: dropped without the lock, since drops may spawn.
        drop(inner);
        drop(future);
    }

    fn advance(&self, end: Duration) -> bool {
        let mut inner = self.inner.lock().expect("inner");
        let Some((&(at, id), _)) = inner.timers.iter().next() else { return false };
        if at > end {
            inner.now = end;
            return true;
        }
        inner.now = inner.now.max(at);
        let waker = inner.timers.remove(&(at, id));
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// A wait in virtual time.
pub struct Sleep {
    sim: Sim,
    until: Duration,
    key: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sim = self.sim.clone();
        let mut inner = sim.inner.lock().expect("inner");
        if inner.now >= self.until {
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            inner.next += 1;
            inner.next
        });
        inner.timers.insert((self.until, key), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.sim.inner.lock().expect("inner").timers.remove(&(self.until, key));
        }
    }
}

/// The machine of one process: its clock is off, and runs fast or slow.
pub struct SimEnv {
    pub sim: Sim,
    pub process: Process,
    pub offset: Duration,
    pub speed: f64,
    /// The rule that does not hold here.
    pub without: Option<Rule>,
}

impl SimEnv {
    pub fn new(sim: &Sim, process: Process, skewed: bool, without: Option<Rule>) -> Self {
        let offset = if skewed { sim.millis(0, 7_200_000) } else { Duration::from_secs(3600) };
        let speed = if skewed { 0.95 + sim.below(101) as f64 / 1000.0 } else { 1.0 };
        Self { sim: sim.clone(), process, offset, speed, without }
    }
}

impl Env for SimEnv {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn now(&self) -> Duration {
        self.offset + self.sim.now().mul_f64(self.speed)
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(1_700_000_000) + self.now()
    }

    fn random(&self) -> u64 {
        self.sim.random()
    }

    fn sleep(&self, time: Duration) -> Later<'static, ()> {
        // Rounded up, or a sleeper would wake before its own clock says so.
        let time = time.min(Duration::from_secs(1 << 20)).div_f64(self.speed);
        Box::pin(self.sim.sleep(time + Duration::from_nanos(100)))
    }

    fn spawn(&self, task: Later<'static, ()>) -> Task {
        let id = self.sim.spawn(self.process, task);
        let sim = self.sim.clone();
        Task::new(move || sim.cancel(id))
    }
}
