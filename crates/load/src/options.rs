//! What a load does. Pure data; tests start from `Options::to`.

use std::{path::PathBuf, time::Duration};

#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port` of any nodes, or of a Service in front of them.
    pub seeds: Vec<String>,
    /// Writers that wait for each answer; shared out over the shards, at least one each.
    pub writers: usize,
    /// Writes per second of all writers together; 0 means as fast as they can.
    pub rate: u32,
    /// Each shard gets one more write in this interval, whether earlier ones were answered or not: gaps are measured by them.
    pub probe_every: Duration,
    pub value_size: usize,
    /// For one write, redirects included.
    pub timeout: Duration,
    /// An acknowledgement counts only when this many replicas have the write as well (WAIT).
    pub replicas: u32,
    /// Where acknowledgements are written to as they come.
    pub journal: Option<PathBuf>,
    /// How long to wait at the start for a cluster that owns every slot.
    pub covered_within: Duration,
    /// How long the reading back at the end may wait for nodes that do not answer.
    pub verified_within: Duration,
    pub timeline: bool,
}

impl Options {
    pub fn to<S: Into<String>>(seeds: impl IntoIterator<Item = S>) -> Self {
        Self {
            seeds: seeds.into_iter().map(Into::into).collect(),
            writers: 8,
            rate: 0,
            probe_every: Duration::from_millis(10),
            value_size: 64,
            timeout: Duration::from_secs(1),
            replicas: 0,
            journal: None,
            covered_within: Duration::from_secs(10),
            verified_within: Duration::from_secs(30),
            timeline: false,
        }
    }
}
