//! A fleet of simulated sidecars loses its operator, for various times, and comes back.

use super::*;

const FLEET: usize = 10_000;
/// What the operator tells a fleet of this size.
const SPREAD: Duration = Duration::from_secs(8);
/// Handshakes an operator can do in a second with one core.
const CAPACITY: f64 = 1_500.0;
const WINDOW: f64 = 0.1;

/// When each sidecar first finds the operator, in seconds after it came back.
fn arrivals(outage: f64, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut arrivals: Vec<f64> = (0..FLEET)
        .map(|_| {
            let (mut now, mut failures) = (0.0, 0);
            loop {
                now += delay(failures, SPREAD, random.f64()).as_secs_f64();
                if now >= outage {
                    return now - outage;
                }
                failures += 1;
            }
        })
        .collect();
    arrivals.sort_by(f64::total_cmp);
    arrivals
}

/// When the last of them has its handshake done, one after another.
fn all_served(arrivals: &[f64]) -> f64 {
    arrivals.iter().fold(0.0, |free: f64, arrival| free.max(*arrival) + 1.0 / CAPACITY)
}

fn busiest_window(arrivals: &[f64]) -> usize {
    let mut windows = vec![0; 200];
    for arrival in arrivals {
        windows[(arrival / WINDOW) as usize] += 1;
    }
    windows.into_iter().max().unwrap_or_default()
}

const OUTAGES: [f64; 11] = [0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 8.0, 15.0, 60.0, 600.0, 3_600.0];

#[test]
fn ten_thousand_are_back_within_fifteen_seconds_however_long_the_operator_was_away() {
    for (seed, outage) in OUTAGES.into_iter().enumerate() {
        let last = all_served(&arrivals(outage, seed as u64));
        assert!(last < 15.0, "after {outage} s away the last was back after {last:.1} s");
    }
}

#[test]
fn they_do_not_stampede() {
    let even = FLEET as f64 * WINDOW / SPREAD.as_secs_f64();
    for (seed, outage) in OUTAGES.into_iter().enumerate() {
        let busiest = busiest_window(&arrivals(outage, seed as u64));
        assert!(
            (busiest as f64) < 2.0 * even,
            "after {outage} s away {busiest} came within {WINDOW} s, even is {even}"
        );
    }
}

#[test]
fn one_that_keeps_failing_waits_longer_each_time_and_never_longer_than_the_limit() {
    let waits: Vec<_> = (0..1_000).map(|failures| delay(failures, FIRST_SPREAD, 0.999)).collect();
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
    assert!(waits[0] < Duration::from_secs(1) && waits[10] > Duration::from_secs(4), "{:?}", waits[10]);
    assert!(waits[999] <= LONGEST);
}

#[test]
fn a_small_fleet_is_back_in_no_time() {
    assert!(delay(0, Duration::from_millis(200), 0.999) < Duration::from_millis(200));
}

#[test]
fn while_nobody_leads_a_large_fleet_asks_no_more_often_than_one_replica_can_answer() {
    let mut random = fastrand::Rng::with_seed(1);
    let mean = |spread: Duration, random: &mut fastrand::Rng| {
        let waits = (0..FLEET).map(|_| between_leaders(spread, random.f64()).as_secs_f64());
        waits.sum::<f64>() / FLEET as f64
    };
    let rate = FLEET as f64 / mean(SPREAD, &mut random);
    assert!(rate < 0.8 * CAPACITY, "{rate:.0} handshakes a second");
    assert!(mean(Duration::from_millis(200), &mut random) < 0.5, "a small fleet does not wait for its size");
}
