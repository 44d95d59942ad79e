//! The report for people. Pure.

use crate::report::{Report, Sample, ShardReport};
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempted, acknowledged, refused, uncertain, lost, wrong, unverified, .. } = self;
        writeln!(f, "writes        {attempted} in {:.1} s (run {})", self.seconds, self.run)?;
        writeln!(f, "acknowledged  {acknowledged}; refused {refused}, without an answer {uncertain}")?;
        writeln!(f, "read back     lost {lost}, wrong {wrong}, could not be checked {unverified}")?;
        self.samples.iter().try_for_each(|sample| writeln!(f, "  {}", line_of(sample)))?;
        if self.attempted > self.acknowledged || !self.shards.is_empty() {
            self.write_course(f)?;
        }
        writeln!(f, "verdict       {}", self.verdict())
    }
}

impl Report {
    fn write_course(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "longest gap   {} ms in one shard, {} ms in all at once, {} ms until acknowledged again \
             (the checker itself stalled for {} ms at worst)",
            self.longest_gap_ms, self.longest_gap_everywhere_ms, self.longest_unacknowledged_ms, self.own_stall_ms
        )?;
        self.shards.iter().try_for_each(|shard| writeln!(f, "  {}", line_of_shard(shard)))?;
        let latency = &self.latency;
        writeln!(
            f,
            "latency       p50 {} ms, p90 {} ms, p99 {} ms, p99.9 {} ms, longest {} ms",
            latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.p999_ms, latency.longest_ms
        )?;
        self.errors.iter().try_for_each(|(kind, error)| {
            writeln!(f, "error         {} × {kind}, first: {}", error.count, error.first)
        })?;
        let seconds = self.timeline.iter().flatten().enumerate();
        seconds.into_iter().try_for_each(|(number, second)| {
            writeln!(f, "second {number:<6} acknowledged {:<8} failed {}", second.acknowledged, second.failed)
        })
    }

    pub fn verdict(&self) -> String {
        match (self.damage(), self.inconclusive()) {
            (Some(damage), _) => format!("DATA LOST: {damage}"),
            (None, Some(why)) => format!("INCONCLUSIVE: {why}"),
            (None, None) => format!("all {} acknowledged writes are there", self.acknowledged),
        }
    }
}

fn line_of(sample: &Sample) -> String {
    let Sample { key, problem, slot, acknowledged_by, acknowledged_at_ms } = sample;
    format!("{problem:?}: {key} (slot {slot}), acknowledged by {acknowledged_by} at {acknowledged_at_ms} ms")
}

fn line_of_shard(shard: &ShardReport) -> String {
    let ShardReport { slots, acknowledged, failed, gaps, longest_unacknowledged_ms: _ } = shard;
    let longest = gaps
        .first()
        .map_or(String::new(), |gap| format!(", longest gap {} ms from {} ms on", gap.length_ms, gap.from_ms));
    format!("slots {slots}: {acknowledged} acknowledged, {failed} failed{longest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_tells_loss_from_not_knowing() {
        let good = Report { acknowledged: 5, ..Report::default() };
        assert!(good.is_sound() && good.to_string().contains("all 5 acknowledged writes are there"));
        let unknown = Report { unverified: 2, unverified_because: Some("it is off".into()), ..good.clone() };
        assert!(!unknown.is_sound() && unknown.damage().is_none());
        assert!(unknown.verdict().contains("2 of 5 acknowledged writes could not be read back: it is off"));
        let lossy = Report { lost: 1, ..unknown };
        assert!(!lossy.is_sound() && lossy.verdict().starts_with("DATA LOST"));
        let empty = Report::default();
        assert!(!empty.is_sound() && empty.verdict().contains("no write was acknowledged"));
    }

    #[test]
    fn json_reads_back_as_the_same_report() {
        let report = Report { run: "x".into(), lost: 3, timeline: Some(vec![Default::default()]), ..Report::default() };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
