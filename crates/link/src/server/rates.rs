//! How fast each pod may call, over all connections that it has and had: dialling again earns nothing. No IO; time is passed in.

use super::{bucket::Bucket, shares::Holder};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How often those are forgotten who have earned back all they may use at once.
const FORGET: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Known {
    buckets: HashMap<Holder, Bucket>,
    forgotten: Option<Instant>,
}

pub struct Rates {
    burst: u32,
    per_second: u32,
    known: Mutex<Known>,
}

impl Rates {
    pub fn new(burst: u32, per_second: u32) -> Self {
        Self { burst, per_second, known: Mutex::default() }
    }

    pub fn take(&self, holder: &Holder, now: Instant) -> bool {
        let mut known = self.known.lock();
        self.forget(&mut known, now);
        let bucket = known.buckets.entry(holder.clone()).or_insert_with(|| Bucket::full(self.burst, now));
        bucket.take(self.burst, self.per_second, now)
    }

    fn forget(&self, known: &mut Known, now: Instant) {
        if known.forgotten.is_some_and(|forgotten| now < forgotten + FORGET) {
            return;
        }
        known.forgotten = Some(now);
        known.buckets.retain(|_, bucket| !bucket.is_full(self.burst, self.per_second, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_has_its_own_rate_and_is_forgotten_when_it_has_earned_all_back() {
        let (rates, start) = (Rates::new(3, 1), Instant::now());
        let (one, other): (Holder, Holder) = ("one".into(), "other".into());
        assert_eq!((0..10).filter(|_| rates.take(&one, start)).count(), 3);
        assert!(rates.take(&other, start));
        assert!(rates.take(&one, start + Duration::from_secs(1)));
        assert!(rates.take(&other, start + FORGET));
        assert_eq!(rates.known.lock().buckets.len(), 1);
    }
}
