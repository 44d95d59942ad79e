//! What a load found. Pure; serialised as it stands for `--output json`, and printed by `report_text`.

use crate::{
    gap::{Gap, milliseconds},
    histogram::Percentiles,
    ledger::{Entries, ShardEntries},
    slot,
    verification::Findings,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub run: String,
    pub seconds: f64,
    pub attempted: u64,
    pub acknowledged: u64,
    /// Surely not executed: the server said no, or was not reached.
    pub refused: u64,
    /// Sent and not answered, or not on enough replicas: executed or not, nobody was told that it was.
    pub uncertain: u64,
    /// Acknowledged and not there any more.
    pub lost: u64,
    /// Acknowledged and there with another value.
    pub wrong: u64,
    /// Acknowledged and neither found nor missed, because the owner did not answer.
    pub unverified: u64,
    /// When the first and the last of what is lost or wrong were acknowledged, in milliseconds since the start.
    pub damaged_between_ms: Option<[u32; 2]>,
    /// The earliest of what is lost or wrong.
    pub samples: Vec<Sample>,
    /// Why some could not be read back.
    pub unverified_because: Option<String>,
    pub errors: BTreeMap<String, ErrorCount>,
    /// The longest time in which the primary of some shard took no write.
    pub longest_gap_ms: f64,
    /// The longest time in which no primary took any.
    pub longest_gap_everywhere_ms: f64,
    /// The longest time in which some shard acknowledged nothing: more than the gap where acknowledging waits for a replica that
    /// has to come back first.
    #[serde(default)]
    pub longest_unacknowledged_ms: f64,
    /// How long the checker itself was kept from running at worst; shorter gaps than this mean nothing.
    pub own_stall_ms: f64,
    pub latency: Percentiles,
    pub shards: Vec<ShardReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Vec<Second>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The slots that one primary owned at the start.
    pub slots: String,
    pub acknowledged: u64,
    pub failed: u64,
    /// In which the primary took no write, the longest first.
    pub gaps: Vec<Gap>,
    #[serde(default)]
    pub longest_unacknowledged_ms: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub key: String,
    pub problem: Problem,
    pub slot: u16,
    pub acknowledged_by: String,
    pub acknowledged_at_ms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Problem {
    Lost,
    Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    pub count: u64,
    /// The first of them in full.
    pub first: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    pub acknowledged: u64,
    pub failed: u64,
}

impl Report {
    pub fn of(run: &str, length: Duration, own_stall: Duration, entries: &Entries, findings: Findings) -> Self {
        let shards: Vec<_> = entries.shards.iter().map(ShardReport::of).collect();
        Self {
            run: run.to_owned(),
            seconds: (length.as_secs_f64() * 1e3).round() / 1e3,
            attempted: entries.attempted,
            acknowledged: entries.written.len() as u64,
            refused: entries.refused,
            uncertain: entries.uncertain,
            errors: entries.errors.clone(),
            longest_gap_ms: shards.iter().map(ShardReport::longest_gap_ms).fold(0.0, f64::max),
            longest_gap_everywhere_ms: first_length(&entries.everywhere.longest()),
            longest_unacknowledged_ms: shards.iter().map(|shard| shard.longest_unacknowledged_ms).fold(0.0, f64::max),
            own_stall_ms: milliseconds(own_stall),
            latency: entries.latency.percentiles(),
            shards,
            ..Self::default()
        }
        .with(findings)
    }

    pub fn with(self, findings: Findings) -> Self {
        let Findings { lost, wrong, unverified, samples, damaged_between_ms, unverified_because } = findings;
        Self { lost, wrong, unverified, samples, damaged_between_ms, unverified_because, ..self }
    }

    /// What speaks against the cluster, in words; `None` when every acknowledged write is there.
    pub fn damage(&self) -> Option<String> {
        let Self { lost, wrong, acknowledged, .. } = self;
        let when = self.damaged_between_ms.map(|[first, last]| format!(", acknowledged from {first} to {last} ms"));
        let text = format!("of {acknowledged} acknowledged writes {lost} are lost and {wrong} are wrong");
        (*lost + *wrong > 0).then(|| text + &when.unwrap_or_default())
    }

    /// Why the report proves nothing; `None` when it does.
    pub fn inconclusive(&self) -> Option<String> {
        let Self { acknowledged, unverified, .. } = self;
        let why = self.unverified_because.as_deref().unwrap_or("no reason is known");
        match (*acknowledged, *unverified) {
            (0, _) => Some("no write was acknowledged".to_owned()),
            (_, 0) => None,
            _ => Some(format!("{unverified} of {acknowledged} acknowledged writes could not be read back: {why}")),
        }
    }

    /// Every acknowledged write was read back as it was written, and there were some.
    pub fn is_sound(&self) -> bool {
        self.damage().is_none() && self.inconclusive().is_none()
    }
}

impl ShardReport {
    fn of(entries: &ShardEntries) -> Self {
        Self {
            slots: slot::describe(&entries.slots),
            acknowledged: entries.acknowledged,
            failed: entries.failed,
            gaps: entries.gaps.longest(),
            longest_unacknowledged_ms: first_length(&entries.acknowledgements.longest()),
        }
    }

    pub fn longest_gap_ms(&self) -> f64 {
        first_length(&self.gaps)
    }
}

fn first_length(gaps: &[Gap]) -> f64 {
    gaps.first().map_or(0.0, |gap| gap.length_ms)
}
