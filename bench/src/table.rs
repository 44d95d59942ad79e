//! What is printed: results on standard output, each single measurement with the machine's load on standard error.

use crate::numbers::{Factors, Series};
use std::{fs, time::Duration};

pub fn heading(what: &str) {
    println!("\n{what:<52} {:>9} {:>9}", "median", "worst");
}

pub fn row(what: &str, series: &Series) {
    println!("{what:<52} {:>9} {:>9}", text(series.median()), text(series.worst()));
}

pub fn promised(what: &str, series: &Series, limit: Duration) {
    let (median, worst) = (text(series.median()), text(series.worst()));
    println!(
        "{what:<52} {median:>9} {worst:>9}   promised ≤ {}: {}",
        text(limit),
        verdict(series.median() <= limit, series.worst() <= limit)
    );
}

/// So many times the floor of the same repetition.
pub fn times(what: &str, factors: &Factors, limit: f64) {
    let Factors { median, worst } = factors;
    let verdict = verdict(*median <= limit, *worst <= limit);
    println!(
        "{what:<52} {:>9} {:>9}   promised ≤ {limit}: {verdict}",
        format!("{median:.2} ×"),
        format!("{worst:.2} ×")
    );
}

/// None is promised.
pub fn none(what: &str, found: u64) {
    let verdict = verdict(found == 0, found == 0);
    println!("{what:<52} {:>9} {found:>9}   promised none: {verdict}", "");
}

/// The worst of many is not promised.
pub fn percentile(what: &str, series: &Series, percent: usize, limit: Duration) {
    let [median, high] = [series.median(), series.percentile(percent)].map(text);
    let verdict = if series.percentile(percent) <= limit { "kept" } else { "MISSED" };
    println!("{what:<52} {median:>9} {high:>9}   P{percent}, promised ≤ {}: {verdict}", text(limit));
}

/// One bad number may be the machine's fault or ours; it is never passed over.
fn verdict(median_keeps: bool, worst_keeps: bool) -> &'static str {
    match (median_keeps, worst_keeps) {
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
        assert_eq!(verdict(true, true), "kept");
        assert_eq!(verdict(true, false), "kept in the median, NOT AT WORST");
        assert_eq!(verdict(false, false), "MISSED");
    }

    #[test]
    fn times_are_written_in_the_unit_they_are_thought_of() {
        assert_eq!(text(Duration::from_millis(206)), "206 ms");
        assert_eq!(text(Duration::from_millis(5_940)), "5.94 s");
    }
}
