//! What the boot of a testbed says while it goes on, as lines in `boot.jsonl`: written inside, followed by `up` from outside.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::layout::Dir;
use crate::patience;

/// A process that is just becoming another program shows no environment, by which we know it, for a moment.
const SILENCE_SECONDS: u64 = 3;

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    Step(String),
    Ready,
    Failed(String),
}

pub fn write(dir: &Dir, entry: &Entry) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(dir.file("boot.jsonl"))?;
    Ok(writeln!(file, "{}", serde_json::to_string(entry)?)?)
}

/// True when the boot has come to its good end.
pub fn is_ready(dir: &Dir) -> bool {
    let text = std::fs::read_to_string(dir.file("boot.jsonl")).unwrap_or_default();
    entries(&text).last() == Some(&Entry::Ready)
}

/// Shows the steps until the boot is ready or failed. A boot may take its time, but no longer than `limit` from one step to the next.
/// `alive` tells whether it still goes on at all.
pub fn follow(dir: &Dir, limit: Duration, alive: impl Fn() -> bool, mut show: impl FnMut(&str)) -> Result<()> {
    let (mut last_step, mut last_alive) = (Instant::now(), Instant::now());
    let mut seen = 0;
    loop {
        // Asked before reading: an end that comes between the two is seen in the next round.
        if alive() {
            last_alive = Instant::now();
        }
        let text = read(dir)?;
        let all = entries(&text);
        for entry in all.iter().skip(seen) {
            match entry {
                Entry::Step(what) => show(what),
                Entry::Ready => return Ok(()),
                Entry::Failed(reason) => bail!("{reason}"),
            }
        }
        if all.len() > seen {
            (seen, last_step) = (all.len(), Instant::now());
        }
        if last_alive.elapsed() > patience::seconds(SILENCE_SECONDS) {
            bail!("the testbed's init ended while it was starting; see {}", dir.log("init").display());
        }
        if last_step.elapsed() > limit {
            bail!("nothing new for {} s; its logs are in {}", limit.as_secs(), dir.text("logs"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn read(dir: &Dir) -> Result<String> {
    let mut text = String::new();
    if let Ok(mut file) = File::open(dir.file("boot.jsonl")) {
        file.read_to_string(&mut text).context("cannot read boot.jsonl")?;
    }
    Ok(text)
}

/// Whole lines only: the last one may still be on its way.
fn entries(text: &str) -> Vec<Entry> {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.filter_map(|line| serde_json::from_str(line.trim()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_still_being_written_is_left_for_later() {
        let text = "{\"step\":\"one\"}\n{\"step\":\"tw";
        assert_eq!(entries(text), [Entry::Step("one".into())]);
    }
}
