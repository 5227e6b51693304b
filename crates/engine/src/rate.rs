//! Provisioned throughput as a bucket of request units that refills each second.
//!
//! A request is admitted while the bucket is above zero and may overdraw it, as the service
//! does: its charge is known only afterwards. The bucket holds at most one second's worth.

use std::sync::{Mutex, PoisonError};

/// Request units left, and when they were counted.
#[derive(Debug)]
pub(crate) struct Rate {
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    per_second: f64,
    left: f64,
    counted_ms: u64,
}

impl Rate {
    /// A full bucket.
    pub fn new(per_second: u32, now_ms: u64) -> Self {
        let per_second = f64::from(per_second);
        Self { bucket: Mutex::new(Bucket { per_second, left: per_second, counted_ms: now_ms }) }
    }

    /// Changes the provisioned throughput.
    pub fn set(&self, per_second: u32) {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).per_second =
            f64::from(per_second);
    }

    /// Whether a request may go on now; otherwise how many milliseconds to wait.
    pub fn admit(&self, now_ms: u64) -> Result<(), u64> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.refill(now_ms);
        if bucket.left > 0.0 {
            return Ok(());
        }
        let missing = 1.0 - bucket.left;
        let wait_ms = missing * 1000.0 / bucket.per_second;
        Err(wait_ms.ceil().clamp(1.0, 60_000.0) as u64)
    }

    /// Takes a charge out.
    pub fn spend(&self, charge: f64) {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).left -= charge;
    }
}

impl Bucket {
    fn refill(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.counted_ms);
        self.counted_ms = now_ms;
        let gained = self.per_second * elapsed_ms as f64 / 1000.0;
        self.left = (self.left + gained).min(self.per_second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_overdraws_once_and_refills_with_time() {
        let rate = Rate::new(400, 0);
        assert_eq!(rate.admit(0), Ok(()));
        rate.spend(600.0);
        let wait_ms = rate.admit(0).unwrap_err();
        assert_eq!(wait_ms, 503);
        assert!(rate.admit(400).is_err());
        assert_eq!(rate.admit(903), Ok(()));
    }

    #[test]
    fn an_idle_bucket_saves_no_more_than_a_second() {
        let rate = Rate::new(400, 0);
        assert_eq!(rate.admit(3_600_000), Ok(()));
        rate.spend(401.0);
        assert!(rate.admit(3_600_000).is_err());
    }
}
