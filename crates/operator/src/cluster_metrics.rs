//! What is exported of each cluster, in the Prometheus text format. Read anew whenever somebody looks, so that series end with their
//! cluster, and only the leader has any. Pure; `cluster` says where the facts come from.

use api::conditions::ConditionType;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The values that a condition can have: one series each, of which one is 1.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// One cluster as its status tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    pub namespace: String,
    pub name: String,
    /// Of each type its status, in the order of [`ConditionType::ALL`].
    pub conditions: Vec<(ConditionType, String)>,
    pub pods_wanted: i64,
    pub pods_ready: i64,
    /// The orchestration under way: what it is about, and when it began, in seconds.
    pub orchestration: Option<(String, i64)>,
    pub queued: i64,
    /// Which certificate, and when it ends, in seconds.
    pub certificates: Vec<(&'static str, i64)>,
}

/// Where the facts of one scope come from.
type Source = Box<dyn Fn() -> Vec<ClusterFacts> + Send + Sync>;

#[derive(Default)]
pub struct ClusterMetrics {
    sources: Mutex<Vec<Source>>,
}

impl ClusterMetrics {
    pub fn add(&self, source: impl Fn() -> Vec<ClusterFacts> + Send + Sync + 'static) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    /// In an order that does not change, for people who read it.
    fn facts(&self) -> Vec<ClusterFacts> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let mut facts: Vec<ClusterFacts> = sources.iter().flat_map(|source| source()).collect();
        facts.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        facts
    }
}

impl fmt::Debug for ClusterMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterMetrics")
    }
}

/// Further labels and the value.
type Sample<'a> = (Vec<(&'static str, &'a str)>, i64);

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let facts = self.facts();
        for Described { name, help, samples } in DESCRIBED {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            facts.iter().try_for_each(|cluster| encode(&mut gauge, cluster, samples(cluster)))?;
        }
        Ok(())
    }
}

fn encode(gauge: &mut MetricEncoder<'_>, cluster: &ClusterFacts, samples: Vec<Sample<'_>>) -> Result<(), fmt::Error> {
    for (further, value) in samples {
        let mut labels = vec![("namespace", cluster.namespace.as_str()), ("name", cluster.name.as_str())];
        labels.extend(further);
        gauge.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

pub struct Described {
    name: &'static str,
    help: &'static str,
    samples: fn(&ClusterFacts) -> Vec<Sample<'_>>,
}

pub const DESCRIBED: [Described; 7] = [
    Described {
        name: "cluster_condition",
        help: "Conditions of a cluster: 1 for the status that each type has, 0 for the two others",
        samples: conditions,
    },
    Described {
        name: "cluster_pods_desired",
        help: "Pods that a cluster is to have now",
        samples: |cluster| vec![(Vec::new(), cluster.pods_wanted)],
    },
    Described {
        name: "cluster_pods_ready",
        help: "Pods of a cluster that are ready",
        samples: |cluster| vec![(Vec::new(), cluster.pods_ready)],
    },
    Described {
        name: "cluster_orchestrating",
        help: "1 while an orchestration of a cluster is under way, else 0",
        samples: |cluster| vec![(Vec::new(), i64::from(cluster.orchestration.is_some()))],
    },
    Described {
        name: "cluster_orchestration_start_timestamp_seconds",
        help: "When the orchestration that is under way began; absent while none is",
        samples: |cluster| {
            let began = cluster.orchestration.as_ref();
            began.map(|(kind, at)| (vec![("kind", kind.as_str())], *at)).into_iter().collect()
        },
    },
    Described {
        name: "cluster_orchestrations_queued",
        help: "Orchestrations of a cluster that wait for the one under way",
        samples: |cluster| vec![(Vec::new(), cluster.queued)],
    },
    Described {
        name: "cluster_certificate_expiration_timestamp_seconds",
        help: "When certificates of a cluster end: its intermediate, the leaf that its pods mount, and of those that sidecars present the first to end",
        samples: |cluster| {
            cluster.certificates.iter().map(|(which, at)| (vec![("certificate", *which)], *at)).collect()
        },
    },
];

fn conditions(cluster: &ClusterFacts) -> Vec<Sample<'_>> {
    let of_type = |(condition, is): &(ConditionType, String)| {
        let (condition, is) = (*condition, is.clone());
        STATUSES.map(move |status| (vec![("type", condition.as_str()), ("status", status)], i64::from(is == status)))
    };
    cluster.conditions.iter().flat_map(of_type).collect()
}
