//! What was measured of one version, and the table of it.

use bench::{numbers::Series, table};
use load::Report;
use std::time::Duration;

const PROMISED: Duration = Duration::from_secs(30);
const PROMISED_TIMES_FLOOR: f64 = 1.1;
const PROMISED_GAP: Duration = Duration::from_millis(100);

pub struct Results {
    keys: u32,
    /// From three shards to six.
    pub out: Direction,
    /// And back.
    pub r#in: Direction,
    pub by_hand: Costs,
}

#[derive(Default)]
pub struct Direction {
    pub cost: Costs,
    pods: Series,
    slots: Series,
    both: Series,
}

/// One change, and what clients had of it.
pub struct Cost {
    took: Duration,
    gap: Duration,
    slowest: Duration,
    stall: Duration,
    failed: u64,
    /// Writes that were acknowledged and are not there, or not as written.
    lost: u64,
    acknowledged: u64,
    /// Of the keys that were there before.
    missing: u64,
    first_error: Option<String>,
}

#[derive(Default)]
pub struct Costs {
    took: Series,
    gaps: Series,
    slowest: Series,
    stalls: Series,
    failed: u64,
    lost: u64,
    acknowledged: u64,
    missing: u64,
}

impl Results {
    pub fn new(keys: u32) -> Self {
        Self { keys, out: Direction::default(), r#in: Direction::default(), by_hand: Costs::default() }
    }

    pub fn tell(&self, atomic: bool) {
        self.out.tell(["six bare pods Ready", "rebalance onto three empty primaries", "3 → 6 shards"], atomic);
        self.out.cost.tell(self.keys);
        self.r#in.tell(["six bare pods ended", "rebalance off three primaries", "6 → 3 shards"], atomic);
        self.r#in.cost.tell(self.keys);
        table::row("valkey-cli: longest write gap", &self.by_hand.gaps);
        table::row("  slowest write", &self.by_hand.slowest);
        table::note(&format!("{} operations failed, {} writes lost", self.by_hand.failed, self.by_hand.lost));
    }
}

impl Direction {
    pub fn floor(&mut self, pods: Duration, slots: Duration) {
        self.pods.add(pods);
        self.slots.add(slots);
        self.both.add(pods + slots);
    }

    fn tell(&self, [pods, slots, what]: [&str; 3], atomic: bool) {
        table::row(&format!("floor: {pods}"), &self.pods);
        table::row(&format!("floor: valkey-cli {slots}"), &self.slots);
        let what = format!("{what}, edit → Ready");
        match atomic {
            true => table::promised(&what, &self.cost.took, PROMISED),
            false => table::row(&what, &self.cost.took),
        }
        table::times("  so many times the floor", &self.cost.took.times(&self.both), PROMISED_TIMES_FLOOR);
    }
}

impl Cost {
    pub fn of(took: Duration, report: &Report, missing: u64) -> Self {
        let milliseconds = |value: f64| Duration::from_secs_f64(value / 1e3);
        Self {
            took,
            gap: milliseconds(report.longest_gap_ms),
            slowest: milliseconds(report.latency.longest_ms),
            stall: milliseconds(report.own_stall_ms),
            failed: report.refused + report.uncertain,
            lost: report.lost + report.wrong + report.unverified,
            acknowledged: report.acknowledged,
            missing,
            first_error: report.errors.values().next().map(|error| error.first.clone()),
        }
    }

    pub fn text(&self) -> String {
        let [took, gap, slowest, stall] = [self.took, self.gap, self.slowest, self.stall].map(table::text);
        let Self { failed, lost, acknowledged, missing, .. } = self;
        let error = self.first_error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        format!(
            "{took}, gap {gap}, slowest write {slowest}, own stall {stall}, {failed} operations failed{error}, {lost} of {acknowledged} \
             writes lost, {missing} keys missing"
        )
    }
}

impl Costs {
    pub fn add(&mut self, cost: Cost) {
        self.took.add(cost.took);
        self.gaps.add(cost.gap);
        self.slowest.add(cost.slowest);
        self.stalls.add(cost.stall);
        self.failed += cost.failed;
        self.lost += cost.lost;
        self.acknowledged += cost.acknowledged;
        self.missing += cost.missing;
    }

    fn tell(&self, keys: u32) {
        table::promised("  longest write gap", &self.gaps, PROMISED_GAP);
        table::row("  slowest write", &self.slowest);
        table::none("  operations failed", self.failed);
        table::none(&format!("  lost of {} acknowledged writes", self.acknowledged), self.lost);
        table::none(&format!("  missing of {keys} keys that were there"), self.missing);
        table::note(&format!("the load's own stall at worst {}", table::text(self.stalls.worst())));
    }
}
