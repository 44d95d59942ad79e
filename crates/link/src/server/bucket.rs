//! How many calls a connection may make, how many handshakes an address: a token bucket. Pure; time is passed in.

use std::time::Instant;

pub struct Bucket {
    level: f64,
    filled: Instant,
}

impl Bucket {
    pub fn full(burst: u32, now: Instant) -> Self {
        Self { level: f64::from(burst), filled: now }
    }

    pub fn take(&mut self, burst: u32, per_second: u32, now: Instant) -> bool {
        self.level = self.level(burst, per_second, now);
        self.filled = now;
        let allowed = self.level >= 1.0;
        if allowed {
            self.level -= 1.0;
        }
        allowed
    }

    /// Nothing is lost by forgetting it.
    pub fn is_full(&self, burst: u32, per_second: u32, now: Instant) -> bool {
        self.level(burst, per_second, now) >= f64::from(burst)
    }

    fn level(&self, burst: u32, per_second: u32, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.filled).as_secs_f64() * f64::from(per_second);
        (self.level + earned).min(f64::from(burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_allowed_and_then_only_what_time_earns() {
        let start = Instant::now();
        let mut bucket = Bucket::full(3, start);
        let at_once = (0..10).filter(|_| bucket.take(3, 2, start)).count();
        assert_eq!(at_once, 3);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..10).filter(|_| bucket.take(3, 2, later)).count(), 2);
    }
}
