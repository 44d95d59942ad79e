//! One life-cycle test at a time, and the proof that it left nothing behind on a machine where others work too.

use anyhow::{Context, Result};
use e2e::{
    Verdict, describe,
    lock::{self, Lock, Sharing},
    machine::Machine,
    mode,
    patience::stretched,
    skip,
    testbed::STATE_ROOT,
    wait_for,
};
use std::{fs, time::Duration};

const LIMIT: Duration = Duration::from_secs(400);

/// Gives the test the machine as it was before, and its turn among life-cycle tests.
pub fn alone(name: &str, body: impl AsyncFnOnce(&Machine) -> Result<()>) -> Result<()> {
    if describe::is_asked() {
        return describe::tell(describe::MACHINE);
    }
    if mode::decide(|name| std::env::var(name).ok())? == mode::Mode::External {
        return skip::report(name, "it makes testbeds on this machine, and an external cluster is in use");
    }
    let _turn = take_turn()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let before = Machine::snapshot()?;
        tokio::time::timeout(stretched(LIMIT), body(&before)).await.context("not finished after its time limit")?
    })
}

fn take_turn() -> Result<Lock> {
    let directory = std::env::temp_dir().join("valkey-e2e-lifecycle");
    fs::create_dir_all(&directory)?;
    lock::take_blocking(&directory, Sharing::Exclusive)
}

/// What others make while we look comes and goes; what a testbed leaves behind is there at every look.
pub async fn leaves_nothing(before: &Machine) -> Result<()> {
    let mut left: Option<Vec<String>> = None;
    let gone = wait_for("the machine to be as before", Duration::from_secs(60), async || {
        let mut found = ours(Machine::snapshot()?.beyond(before));
        found.retain(|thing| left.as_ref().is_none_or(|left| left.contains(thing)));
        let verdict = Verdict::when(found.is_empty(), || found.join("\n"));
        left = Some(found);
        Ok(verdict)
    });
    Ok(gone.await?)
}

/// Without what belongs to testbeds that live on this machine for another purpose.
pub fn ours(mut things: Vec<String>) -> Vec<String> {
    let signs: Vec<_> = others().iter().flat_map(|name| signs_of(name)).collect();
    things.retain(|thing| !signs.iter().any(|sign| mentions(thing, sign)));
    things
}

fn others() -> Vec<String> {
    let entries = fs::read_dir(STATE_ROOT).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("e2e-")).collect()
}

/// Its name, its folder, and the link that joins the machine to it.
fn signs_of(testbed: &str) -> Vec<String> {
    let mut signs =
        vec![format!("of testbed {testbed}"), format!("valkey-testbed/{testbed}"), format!("valkey-testbed-{testbed}")];
    let layout = fs::read(format!("{STATE_ROOT}/{testbed}/testbed.json")).unwrap_or_default();
    let layout: serde_json::Value = serde_json::from_slice(&layout).unwrap_or_default();
    signs.extend(layout["index"].as_u64().map(|index| format!("vtb{index}")));
    signs
}

/// As a whole: `vtb1` is not in `vtb12`, nor the testbed `test` in `test-alone`.
fn mentions(thing: &str, sign: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-');
    thing.split(sign).skip(1).any(|rest| !goes_on(rest))
}

#[test]
fn a_testbed_is_known_by_its_whole_name() {
    assert!(mentions("links: 12: vtb1@if2:", "vtb1") && !mentions("links: 12: vtb12@if2:", "vtb1"));
    assert!(mentions("files: /var/lib/valkey-testbed/test", "valkey-testbed/test"));
    assert!(!mentions("cgroups: /sys/fs/cgroup/pids/valkey-testbed-test-alone", "valkey-testbed-test"));
}
