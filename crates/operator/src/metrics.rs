//! What the operator counts about itself, in the Prometheus text format. Shared by all parts; served by `serve`.

use crate::cluster_metrics::{ClusterFacts, ClusterMetrics};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Seconds, asked for anew whenever somebody looks.
type Reading = Box<dyn Fn() -> f64 + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Write {
    pub verb: &'static str,
    pub kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Watched {
    pub kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Refused {
    pub reason: &'static str,
}

/// One of the operator's own certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Certificate {
    pub certificate: &'static str,
}

/// Empty for all namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Scoped {
    pub namespace: String,
}

/// The instruments; each is cheap to use from anywhere.
pub struct Metrics {
    registry: Registry,
    pub reconciles: Family<Outcome, Counter>,
    pub duration: Histogram,
    pub writes: Family<Write, Counter>,
    pub watch_errors: Family<Watched, Counter>,
    pub clusters: Family<Scoped, Gauge>,
    pub leader: Gauge,
    pub certificates: Family<Certificate, Gauge>,
    of_clusters: Arc<ClusterMetrics>,
    pub line_connections: Gauge,
    pub line_streams: Gauge,
    pub line_refusals: Family<Refused, Counter>,
    pub token_reviews: Family<Outcome, Counter>,
    pub reports_not_logged: Counter,
    pub heartbeat_served: Histogram,
    pub heartbeat_round_trip: Histogram,
    oldest_heartbeat: Gauge<f64, AtomicU64>,
    silence: OnceLock<Reading>,
}

/// From a tenth of a millisecond to some seconds.
fn of_calls() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 3.0, 10))
}

impl Metrics {
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("valkey_operator"),
            reconciles: Family::default(),
            duration: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            writes: Family::default(),
            watch_errors: Family::default(),
            clusters: Family::default(),
            leader: Gauge::default(),
            certificates: Family::default(),
            of_clusters: Arc::default(),
            line_connections: Gauge::default(),
            line_streams: Gauge::default(),
            line_refusals: Family::default(),
            token_reviews: Family::default(),
            reports_not_logged: Counter::default(),
            heartbeat_served: of_calls(),
            heartbeat_round_trip: of_calls(),
            oldest_heartbeat: Gauge::default(),
            silence: OnceLock::new(),
        };
        metrics.register();
        metrics.register_line();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("reconciles", "Looks at a cluster, by how they ended", self.reconciles.clone());
        registry.register("reconcile_duration_seconds", "Time one pass took", self.duration.clone());
        registry.register("writes", "Requests that change something, by verb and kind", self.writes.clone());
        registry.register("watch_errors", "Interrupted watches, by kind", self.watch_errors.clone());
        registry.register("clusters", "ValkeyClusters, by watched namespace", self.clusters.clone());
        registry.register("leader", "1 while this process holds the Lease", self.leader.clone());
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "Always 1; which version of the operator this is", Info::new(version));
        let certificates = "When the operator's own certificates end: the root and its intermediate (the leader's), and the leaf it presents";
        registry.register("certificate_expiration_timestamp_seconds", certificates, self.certificates.clone());
        registry.register_collector(Box::new(self.of_clusters.clone()));
    }

    /// The clusters of one scope, asked for whenever somebody looks while this process leads.
    pub fn watch_clusters(&self, facts: impl Fn() -> Vec<ClusterFacts> + Send + Sync + 'static) {
        let leader = self.leader.clone();
        self.of_clusters.add(move || if leader.get() == 1 { facts() } else { Vec::new() });
    }

    /// When one of the operator's own certificates ends.
    pub fn certificate_ends(&self, certificate: &'static str, at: jiff::Timestamp) {
        self.certificates.get_or_create(&Certificate { certificate }).set(at.as_second());
    }

    fn register_line(&mut self) {
        let registry = &mut self.registry;
        registry.register("line_connections", "Open connections of sidecars", self.line_connections.clone());
        registry.register("line_streams", "Open streams for commands", self.line_streams.clone());
        registry.register("line_refusals", "Connections and calls turned away, by reason", self.line_refusals.clone());
        registry.register("token_reviews", "Pods' tokens asked about, by outcome", self.token_reviews.clone());
        let unshown = "Reports of sidecars that reported more than the log shows of one pod";
        registry.register("reports_not_logged", unshown, self.reports_not_logged.clone());
        let served = "Time from a sidecar's heartbeat to the reply";
        registry.register("heartbeat_served_seconds", served, self.heartbeat_served.clone());
        let round_trip = "Time a heartbeat took there and back, as sidecars measure it";
        registry.register("heartbeat_round_trip_seconds", round_trip, self.heartbeat_round_trip.clone());
        let oldest = "Time since the last heartbeat of the sidecar that is silent longest; 0 when none was heard";
        registry.register("oldest_heartbeat_seconds", oldest, self.oldest_heartbeat.clone());
    }

    /// Where the age of the oldest heartbeat comes from; a process has one line.
    pub fn watch_silence(&self, reading: impl Fn() -> f64 + Send + Sync + 'static) {
        let _ = self.silence.set(Box::new(reading));
    }

    pub fn write(&self, verb: &'static str, kind: &'static str) {
        self.writes.get_or_create(&Write { verb, kind }).inc();
    }

    pub fn reconciled(&self, outcome: &'static str, seconds: f64) {
        self.reconciles.get_or_create(&Outcome { outcome }).inc();
        self.duration.observe(seconds);
    }

    pub fn print(&self) -> String {
        if let Some(seconds) = self.silence.get() {
            self.oldest_heartbeat.set(seconds());
        }
        let mut page = String::new();
        // Writing into a String cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
