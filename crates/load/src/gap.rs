//! Times without an answer. Pure: it is told when answers came.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many of the longest gaps are kept.
const KEPT: usize = 10;

/// From one answer to the next, in milliseconds since the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    pub from_ms: f64,
    pub length_ms: f64,
}

/// The beginning and the end of the load count as answers: silence there is a gap too.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    last: Duration,
    longest: Vec<(Duration, Duration)>,
    closed: bool,
}

impl Gaps {
    pub fn heard(&mut self, at: Duration) {
        if self.closed || at <= self.last {
            return;
        }
        let length = at - self.last;
        if self.longest.len() < KEPT || self.longest.last().is_some_and(|(_, shortest)| *shortest < length) {
            let place = self.longest.partition_point(|(_, longer)| *longer >= length);
            self.longest.insert(place, (self.last, length));
            self.longest.truncate(KEPT);
        }
        self.last = at;
    }

    pub fn close(&mut self, at: Duration) {
        self.heard(at);
        self.closed = true;
    }

    /// How long it has been silent now.
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last)
    }

    /// The longest first.
    pub fn longest(&self) -> Vec<Gap> {
        let gap = |(from, length): &(Duration, Duration)| Gap {
            from_ms: milliseconds(*from),
            length_ms: milliseconds(*length),
        };
        self.longest.iter().map(gap).collect()
    }
}

/// With three digits, which is as fine as anybody can read.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(times: &[u64]) -> Gaps {
        let mut gaps = Gaps::default();
        for time in times {
            gaps.heard(Duration::from_millis(*time));
        }
        gaps
    }

    fn longest(gaps: &Gaps) -> Gap {
        gaps.longest()[0]
    }

    #[test]
    fn the_longest_gap_comes_first_and_says_when_it_began() {
        let gaps = gaps(&[10, 20, 520, 530]);
        assert_eq!(longest(&gaps), Gap { from_ms: 20.0, length_ms: 500.0 });
        assert_eq!(gaps.longest().len(), 4);
    }

    #[test]
    fn silence_at_both_ends_is_a_gap() {
        let mut late = gaps(&[700, 710]);
        late.close(Duration::from_millis(720));
        assert_eq!(longest(&late), Gap { from_ms: 0.0, length_ms: 700.0 });
        let mut early = gaps(&[10, 20]);
        early.close(Duration::from_millis(1020));
        assert_eq!(longest(&early), Gap { from_ms: 20.0, length_ms: 1000.0 });
    }

    #[test]
    fn what_comes_after_the_end_or_out_of_order_changes_nothing() {
        let mut gaps = gaps(&[10, 20, 15]);
        gaps.close(Duration::from_millis(30));
        gaps.heard(Duration::from_millis(9000));
        assert_eq!(longest(&gaps).length_ms, 10.0);
    }

    #[test]
    fn only_the_longest_are_kept() {
        let times: Vec<u64> = (0..100)
            .scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            })
            .collect();
        let kept = gaps(&times).longest();
        assert_eq!((kept.len(), kept[0].length_ms, kept[KEPT - 1].length_ms), (KEPT, 99.0, 90.0));
    }
}
