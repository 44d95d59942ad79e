//! What is printed: results on standard output, each single measurement with the machine's load on standard error.

use crate::numbers::Series;
use std::{fs, time::Duration};

pub fn heading(version: &str) {
    println!("\n{:<52} {:>9} {:>9}", format!("Valkey {version}, 3 primaries × 1 replica"), "median", "worst");
}

pub fn row(what: &str, series: &Series) {
    println!("{what:<52} {:>9} {:>9}", text(series.median()), text(series.worst()));
}

pub fn promised(what: &str, series: &Series, limit: Duration) {
    let (median, worst) = (text(series.median()), text(series.worst()));
    println!("{what:<52} {median:>9} {worst:>9}   promised ≤ {}: {}", text(limit), verdict(series, limit));
}

/// The worst of many is not promised.
pub fn percentile(what: &str, series: &Series, percent: usize, limit: Duration) {
    let [median, high] = [series.median(), series.percentile(percent)].map(text);
    let verdict = if series.percentile(percent) <= limit { "kept" } else { "MISSED" };
    println!("{what:<52} {median:>9} {high:>9}   P{percent}, promised ≤ {}: {verdict}", text(limit));
}

/// One bad number may be the machine's fault or ours; it is never passed over.
fn verdict(series: &Series, limit: Duration) -> &'static str {
    match (series.median() <= limit, series.worst() <= limit) {
        (_, true) => "kept",
        (true, false) => "kept in the median, NOT AT WORST",
        (false, false) => "MISSED",
    }
}

pub fn note(text: &str) {
    println!("  {text}");
}

pub fn progress(what: &str) {
    eprintln!("[load {}] {what}", machine_load());
}

pub fn text(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_millis());
    }
    format!("{:.2} s", time.as_secs_f64())
}

/// Of the last minute; above the number of cores, everything measured is too slow.
fn machine_load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_one_repetition_broke_is_not_called_kept() {
        let series = |values: [u64; 3]| {
            let mut series = Series::default();
            values.map(Duration::from_millis).into_iter().for_each(|value| series.add(value));
            series
        };
        let limit = Duration::from_millis(200);
        assert_eq!(verdict(&series([100, 200, 150]), limit), "kept");
        assert_eq!(verdict(&series([100, 5_440, 150]), limit), "kept in the median, NOT AT WORST");
        assert_eq!(verdict(&series([201, 300, 150]), limit), "MISSED");
    }

    #[test]
    fn times_are_written_in_the_unit_they_are_thought_of() {
        assert_eq!(text(Duration::from_millis(206)), "206 ms");
        assert_eq!(text(Duration::from_millis(5_940)), "5.94 s");
    }
}
