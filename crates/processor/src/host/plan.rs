//! Carrying the plan out: each lease gets a worker, and each worker its order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Host, Life, Slot, Told};
use crate::balance::{self, equal};
use crate::env::Rule;
use crate::fence::Safety;
use crate::lease::{Lease, Owner, extra};
use crate::observer::CloseReason;
use crate::range::{Order, Taken, Worker, take};
use crate::tenure::Tenure;

impl Host {
    /// Gives every lease the order that follows from the plan.
    pub(super) fn carry_out(&mut self, now: Duration) {
        self.shared.has_peers.store(self.fleet.has_peers(), std::sync::atomic::Ordering::Relaxed);
        let redrive = self.fleet.control.redrive;
        self.redrives.send_if_modified(|old| std::mem::replace(old, redrive) != redrive);
        self.resting.retain(|_, until| *until > now);
        if let Some(first) = self.resting.values().min() {
            self.plan_at = self.plan_at.min(*first);
        }
        let env = &self.shared.env;
        self.fleet.wall = (!env.keeps(Rule::SeenExpiry)).then(|| env.wall());
        let joinable = self.joinable();
        let (hosts, mut items) = self.fleet.table(now);
        // What will be one lease is planned as one; the upper half goes where the lower one does.
        items.retain(|item| !joinable.iter().any(|pair| pair.high == item.id));
        let mut plan = balance::plan(&hosts, &items, self.shared.options.balance_by_load);
        for pair in &joinable {
            let target = plan.get(&pair.low).cloned().flatten();
            plan.insert(pair.high.clone(), target);
        }
        let me = self.owner().to_string();
        self.start_join(&joinable, &me, now);
        let leases: Vec<Lease> = self.fleet.live_leases().cloned().collect();
        for lease in &leases {
            let target = plan.get(&lease.id).and_then(Option::as_ref);
            self.place(lease, target, &me, now);
        }
        self.steal_from_peers(&leases, &me, now);
    }

    fn place(&mut self, lease: &Lease, target: Option<&String>, me: &str, now: Duration) {
        if let Some(slot) = self.slots.get(&lease.id) {
            let order = self.order(lease, target, me, now);
            slot.orders.send_if_modified(|old| {
                let changed = *old != order;
                *old = order;
                changed
            });
            return;
        }
        // A child of a worker of ours that is still making its siblings.
        let parent = lease.property(extra::PARENT).map(|token| self.shared.names.lease(token));
        let held = self.fleet.control.holds(&lease.token)
            || parent.is_some_and(|parent| self.slots.contains_key(&parent))
            || self.resting.contains_key(&lease.id)
            || self.is_joining(&lease.id);
        // Whoever may be thought dead takes nothing, and then looks first at what is left.
        let unsafe_now = self.shared.fence.safety_in(self.known_in, now) != Safety::Safe;
        if self.stop.is_some() || self.error.is_some() || held || unsafe_now {
            return;
        }
        let remembered = self.epochs.get(&lease.id).copied().unwrap_or(0);
        if lease.owner.as_deref() == Some(me) && lease.epoch() > remembered {
            self.adopt(lease.clone());
            return;
        }
        let is_mine = lease.owner.as_deref() == Some(me);
        let free = is_mine || self.fleet.life(lease, now) == Life::Free;
        if !free {
            self.free_since.remove(&lease.id);
            return;
        }
        let since = *self.free_since.entry(lease.id.clone()).or_insert(now);
        let patience = self.shared.options.lease_acquire_interval * 2;
        let neglected = target.is_some() && now.saturating_sub(since) > patience;
        if target.map(String::as_str) == Some(me) || neglected {
            self.free_since.remove(&lease.id);
            self.take(lease.clone(), remembered, self.first_order());
        }
    }

    /// What the worker of a lease is told.
    fn order(&self, lease: &Lease, target: Option<&String>, me: &str, now: Duration) -> Order {
        let other = target.filter(|target| *target != me);
        if self.fleet.control.holds(&lease.token) {
            return Order::Release(CloseReason::Sought);
        }
        let leaves = self.stop.is_some() && now >= self.keep_until;
        if leaves || self.error.is_some() {
            if !self.shared.options.rejoin_grace.is_zero() && self.error.is_none() {
                return Order::Keep(CloseReason::Shutdown);
            }
            return match other.and_then(|other| other.parse().ok()) {
                Some(owner) => Order::HandOver(owner),
                None => Order::Release(CloseReason::Shutdown),
            };
        }
        match other.map(|other| other.parse::<Owner>()) {
            _ if self.stop.is_some() => Order::Work,
            _ if self.is_joining(&lease.id) => self.join_order(&lease.id).unwrap_or(Order::Work),
            Some(Ok(owner)) => Order::HandOver(owner),
            _ if target.is_none() => Order::Release(CloseReason::HandedOff),
            _ if self.fleet.control.paused => Order::Hold,
            _ => Order::Work,
        }
    }

    /// Hosts of other libraries hand nothing over: their own rule says what may be taken, and no
    /// faster than they would.
    fn steal_from_peers(&mut self, leases: &[Lease], me: &str, now: Duration) {
        let unsafe_now = self.shared.fence.safety_in(self.known_in, now) != Safety::Safe;
        if !self.shared.has_peers() || now < self.steal_at || self.stop.is_some() || unsafe_now {
            return;
        }
        self.steal_at = now + self.shared.options.lease_acquire_interval;
        let seen: Vec<equal::Seen<'_>> = leases
            .iter()
            .map(|lease| {
                let live = self.fleet.life(lease, now) == Life::Live;
                equal::Seen { id: &lease.id, owner: lease.owner.as_deref().filter(|_| live) }
            })
            .collect();
        let options = &self.shared.options;
        let wanted =
            equal::take(&seen, me, options.min_partition_count, options.max_partition_count);
        for id in wanted {
            let Some(lease) = leases.iter().find(|lease| lease.id == id) else { continue };
            let from_peer = lease.owner.as_ref().is_some_and(|o| o.parse::<Owner>().is_err());
            let idle = !self.slots.contains_key(id) && !self.resting.contains_key(id);
            if from_peer && idle && !self.fleet.control.holds(&lease.token) {
                let remembered = self.epochs.get(id).copied().unwrap_or(0);
                self.take(lease.clone(), remembered, self.first_order());
            }
        }
    }

    fn adopt(&mut self, lease: Lease) {
        self.epochs.insert(lease.id.clone(), lease.epoch());
        let tenure = Tenure::new(lease, self.owner());
        let id = tenure.lease.id.clone();
        let token = tenure.lease.token.clone();
        let (orders, heard) = watch::channel(self.first_order());
        let (shared, redrives) = (Arc::clone(&self.shared), self.redrives.subscribe());
        let worker = Worker::new(shared, tenure, self.known_in, heard, redrives);
        let tell = self.tell.clone();
        let work = async move {
            let _ = tell.send(Told::Ended(Box::new(worker.run().await)));
        };
        let task = self.shared.env.spawn(Box::pin(work));
        self.slots.insert(id, Slot { orders, token, _task: task });
    }

    pub(super) fn take(&mut self, lease: Lease, floor: u64, order: Order) {
        let (orders, heard) = watch::channel(order);
        let (shared, owner, tell) = (Arc::clone(&self.shared), self.owner(), self.tell.clone());
        let (id, token) = (lease.id.clone(), lease.token.clone());
        let redrives = self.redrives.subscribe();
        let spell = self.shared.fence.spell();
        let work = async move {
            let id = lease.id.clone();
            match take(Arc::clone(&shared), lease, owner, floor).await {
                Taken::Ours(tenure) => {
                    let _ = tell.send(Told::Taken(Box::new(tenure.lease.clone())));
                    let worker = Worker::new(shared, *tenure, spell, heard, redrives);
                    let _ = tell.send(Told::Ended(Box::new(worker.run().await)));
                }
                Taken::NotNow => {
                    let _ = tell.send(Told::NotTaken { id, why: None });
                }
                Taken::Impossible(why) => {
                    let _ = tell.send(Told::NotTaken { id, why: Some(why) });
                }
            }
        };
        let task = self.shared.env.spawn(Box::pin(work));
        self.slots.insert(id, Slot { orders, token, _task: task });
    }

    fn first_order(&self) -> Order {
        if self.fleet.control.paused { Order::Hold } else { Order::Work }
    }
}
