//! The end-to-end tests: those that share a testbed in one pool, those that want one alone one after the other on another, those that
//! make their own beside both. On a cluster of the user's they share what there is. IO.

use crate::{
    needs::Needs,
    pool::{Job, Pool, prepare},
    session::Session,
    suites::Case,
    testbed::{self, Testbed},
};
use tokio::process::Command;

/// Clusters beside each other on one testbed of a machine with two cores; those under load take two.
const SLOTS: u32 = 8;
const NODES: u8 = 3;
const IMAGES: [&str; 4] = ["valkey-8.1", "valkey-9.1", "exporter", "sidecar-older"];

/// The tests are for a cluster of the user's.
pub fn is_external() -> bool {
    std::env::var("E2E_EXTERNAL").is_ok_and(|value| value == "1")
}

pub async fn run(session: &Session, cases: Vec<(Case, Needs)>) {
    let (mut shared, mut alone, mut machine) = (Vec::new(), Vec::new(), Vec::new());
    for (case, needs) in cases {
        match needs {
            Needs::Shared(slots) => shared.push(Job { case, slots }),
            Needs::Alone => alone.push(Job { case, slots: 1 }),
            Needs::Machine | Needs::Nothing => machine.push(Job { case, slots: 1 }),
        }
    }
    if is_external() {
        return external(session, shared.into_iter().chain(alone).chain(machine).collect()).await;
    }
    let base = testbed::base_name();
    tokio::join!(
        on_testbed(session, "e2e", base.clone(), SLOTS, shared),
        on_testbed(session, "e2e alone", format!("{base}-alone"), 1, alone),
        in_pool(session, Pool { part: "testbeds", slots: 1, variables: named(&base) }, machine),
    );
}

async fn on_testbed(session: &Session, part: &'static str, name: String, slots: u32, jobs: Vec<Job>) {
    if jobs.is_empty() {
        return;
    }
    let testbed = Testbed::named(session, part, name);
    if testbed.up(NODES, &IMAGES).await && testbed.install_operator().await {
        in_pool(session, Pool { part, slots, variables: testbed.variables() }, jobs).await;
    } else {
        jobs.iter().for_each(|job| session.skip(part, &job.case.name(), "because its testbed is not there"));
    }
    testbed.down().await;
}

/// Tests that this cluster cannot carry say so and are skipped.
async fn external(session: &Session, jobs: Vec<Job>) {
    let part = "e2e";
    if prepare(session, part, "install the operator", Command::new("e2e/install-operator")).await {
        in_pool(session, Pool { part, slots: SLOTS, variables: Vec::new() }, jobs).await;
    }
}

async fn in_pool(session: &Session, pool: Pool, jobs: Vec<Job>) {
    session.expect(pool.part, jobs.len());
    pool.run(session, jobs).await;
    session.say(&format!("{} is done", pool.part));
}

fn named(testbed: &str) -> Vec<(String, String)> {
    vec![("TESTBED_NAME".to_owned(), testbed.to_owned())]
}
