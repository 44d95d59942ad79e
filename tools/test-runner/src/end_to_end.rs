//! The end-to-end tests: those that share a testbed in one pool, those that want one alone one after the other on another. On a cluster
//! of the user's they share what there is. IO.

use crate::{
    needs::Needs,
    pool::{Job, Pool, prepare},
    session::Session,
    suites::Case,
    testbed::{self, Testbed},
};
use tokio::process::Command;

/// Tests mostly wait, so more of them share the testbed than there are cores; those with a cluster under load take two places.
const SLOTS: u32 = 6;
const NODES: u8 = 3;
const IMAGES: [&str; 4] = ["valkey-8.1", "valkey-9.1", "exporter", "sidecar-older"];

/// The tests are for a cluster of the user's.
pub fn is_external() -> bool {
    std::env::var("E2E_EXTERNAL").is_ok_and(|value| value == "1")
}

pub async fn run(session: &Session, cases: Vec<(Case, Needs)>) {
    let jobs = cases.into_iter().map(|(case, needs)| match needs {
        Needs::Shared(slots) => (Job { case, slots }, false),
        _ => (Job { case, slots: 1 }, true),
    });
    if is_external() {
        return external(session, jobs.map(|(job, _)| job).collect()).await;
    }
    let (alone, shared): (Vec<_>, Vec<_>) = jobs.partition(|(_, alone)| *alone);
    let jobs = |jobs: Vec<(Job, bool)>| jobs.into_iter().map(|(job, _)| job).collect();
    let base = testbed::base_name();
    // One after the other: two testbeds beside each other are twice as much as a small machine computes in time.
    on_testbed(session, "e2e", base.clone(), SLOTS, jobs(shared)).await;
    on_testbed(session, "e2e alone", base, 1, jobs(alone)).await;
}

/// Tests that make testbeds themselves, one at a time.
pub async fn run_own(session: &Session, cases: Vec<(Case, Needs)>) {
    let variables = vec![("TESTBED_NAME".to_owned(), testbed::base_name())];
    let jobs = cases.into_iter().map(|(case, _)| Job { case, slots: 1 }).collect();
    in_pool(session, Pool { part: "testbeds", slots: 1, variables }, jobs).await;
}

async fn on_testbed(session: &Session, part: &'static str, name: String, slots: u32, jobs: Vec<Job>) {
    if jobs.is_empty() {
        return;
    }
    let testbed = Testbed::named(session, part, name);
    if testbed.up(NODES, &IMAGES).await && testbed.install_operator().await {
        in_pool(session, Pool { part, slots, variables: testbed.variables() }, jobs).await;
    } else {
        jobs.iter().for_each(|job| session.skip(part, &job.case.name(), "its testbed is not there"));
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
    if jobs.is_empty() {
        return;
    }
    session.expect(pool.part, jobs.len());
    pool.run(session, jobs).await;
    session.say(&format!("{} is done", pool.part));
}
