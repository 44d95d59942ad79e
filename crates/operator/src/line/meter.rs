//! The line's instruments, shown with the operator's other metrics.

use crate::metrics::{Metrics, Refused};
use link::server::{Meter, Refusal};
use std::sync::Arc;
use std::time::Duration;

pub struct LineMeter(pub Arc<Metrics>);

impl Meter for LineMeter {
    fn refused(&self, refusal: &Refusal) {
        self.0.line_refusals.get_or_create(&Refused { reason: refusal.reason() }).inc();
    }

    fn connections(&self, open: usize) {
        self.0.line_connections.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    fn streams(&self, open: usize) {
        self.0.line_streams.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    fn heartbeat(&self, served: Duration, round_trip: Option<Duration>) {
        self.0.heartbeat_served.observe(served.as_secs_f64());
        if let Some(time) = round_trip {
            self.0.heartbeat_round_trip.observe(time.as_secs_f64());
        }
    }
}
