//! A quiet machine: one life-cycle test at a time, and the proof that it left nothing behind.

use anyhow::{Context, Result};
use e2e::{
    Testbed, Verdict,
    lock::{self, Lock, Sharing},
    machine::Machine,
    mode,
    patience::stretched,
    skip, wait_for,
};
use std::{fs, time::Duration};

const LIMIT: Duration = Duration::from_secs(180);

/// Gives the test the machine as it was before, and nobody else near it: neither another life-cycle test nor one on the main testbed.
pub fn alone(name: &str, body: impl AsyncFnOnce(&Machine) -> Result<()>) -> Result<()> {
    let mode::Mode::Testbed { name: main } = mode::decide(|name| std::env::var(name).ok())? else {
        return skip::report(name, "it makes testbeds on this machine, and an external cluster is in use");
    };
    let _turn = take_turn()?;
    let main = Testbed::named(&main)?;
    let _quiet =
        main.directory.exists().then(|| lock::take_blocking(&main.directory, Sharing::Exclusive)).transpose()?;
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

pub async fn leaves_nothing(before: &Machine) -> Result<()> {
    let gone = wait_for("the machine to be as before", Duration::from_secs(10), async || {
        let others = testbeds_of_others();
        let mut left = Machine::snapshot()?.beyond(before);
        left.retain(|thing| !others.iter().any(|name| belongs_to(thing, name)));
        Ok(Verdict::when(left.is_empty(), || left.join("\n")))
    });
    Ok(gone.await?)
}

/// Testbeds that live on this machine for another purpose; what moves in them is none of our business.
fn testbeds_of_others() -> Vec<String> {
    let entries = fs::read_dir(e2e::testbed::STATE_ROOT).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("e2e-")).collect()
}

fn belongs_to(thing: &str, testbed: &str) -> bool {
    let signs =
        [format!("of testbed {testbed}"), format!("valkey-testbed/{testbed}"), format!("valkey-testbed-{testbed}")];
    signs.iter().any(|sign| thing.contains(sign.as_str()))
}
