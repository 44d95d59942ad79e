//! What is printed: results on standard output, each single measurement with the machine's load on standard error.

use crate::numbers::Series;
use std::{fs, time::Duration};

pub fn heading(version: &str) {
    println!("\n{:<52} {:>9} {:>9}", format!("Valkey {version}, 3 primaries × 1 replica"), "median", "worst");
}

pub fn row(what: &str, series: &Series) {
    println!("{what:<52} {:>9} {:>9}", text(series.median()), text(series.worst()));
}

/// A promise is about the median, because one number of a machine that does other things proves nothing.
pub fn promised(what: &str, series: &Series, limit: Duration) {
    let verdict = if series.median() <= limit { "kept" } else { "MISSED" };
    let (median, worst) = (text(series.median()), text(series.worst()));
    println!("{what:<52} {median:>9} {worst:>9}   promised ≤ {}: {verdict}", text(limit));
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
    fn times_are_written_in_the_unit_they_are_thought_of() {
        assert_eq!(text(Duration::from_millis(206)), "206 ms");
        assert_eq!(text(Duration::from_millis(5_940)), "5.94 s");
    }
}
