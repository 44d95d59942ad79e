//! What there is to run, and where: the stages of `make test` and of `make test-long`, beside each other as far as they can be. IO.

use crate::{
    end_to_end,
    needs::{self, Needs},
    outcome::{Outcome, Verdict},
    pool::{Job, Pool, prepare},
    script,
    session::Session,
    suites::{self, Case},
    testbed::{self, Testbed},
};
use clap::ValueEnum;
use futures::future::OptionFuture;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// Tests that start servers mostly wait for them, so more run at once than there are cores.
const UNIT_SLOTS: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// Tests without a cluster; some start real Valkey servers
    Unit,
    /// The demo's refusals, interruptions and its way with kind and k3d, with stand-ins for the programs it calls
    Demo,
    /// The container images
    Images,
    /// The chart and what is made from it, without a cluster
    Chart,
    /// As chart, and the chart installed, upgraded and uninstalled on a small testbed
    Install,
    /// The end-to-end tests, on testbeds of their own or on KUBECONFIG with E2E_EXTERNAL=1
    E2e,
    /// Thousands of random histories of the simulation; for --long
    Histories,
    /// A testbed's life in virtual machines with other cgroups than this one; for --long
    Machines,
}

pub const USUAL: [Stage; 5] = [Stage::Unit, Stage::Demo, Stage::Images, Stage::Install, Stage::E2e];
pub const LONG: [Stage; 4] = [Stage::Unit, Stage::E2e, Stage::Histories, Stage::Machines];

/// Scripts that `make test-long` runs one after the other when all else is done; each needs a stage of its own.
const LONG_SCRIPTS: [(Stage, &str, &str); 2] = [
    (
        Stage::Histories,
        "histories",
        "PROPTEST_CASES=10000 cargo test --workspace --no-fail-fast --test properties --test whole",
    ),
    (Stage::Machines, "machines", "testbed/vm/test"),
];

const LONG_SCRIPT: Duration = Duration::from_secs(6 * 60 * 60);

/// First what needs no testbed, beside building the images; then what does, one testbed after the other.
pub async fn run(session: &Session, stages: &[Stage], long: bool) {
    let on = |stage| stages.contains(&stage);
    let external = end_to_end::is_external();
    let testbeds = on(Stage::Install) || (on(Stage::E2e) && !external);
    let local = testbeds || stages != [Stage::E2e];
    let (_, cases) = tokio::join!(
        OptionFuture::from(local.then(|| machine(session, testbeds))),
        OptionFuture::from((on(Stage::Unit) || on(Stage::E2e)).then(|| compile(session))),
    );
    let chosen = needs::of(choose(session, cases.unwrap_or_default(), long)).await;
    let (scenarios, plain): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(_, needs)| *needs != Needs::Nothing);
    let (own, placed): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(|(_, needs)| *needs == Needs::Machine);
    tokio::join!(
        OptionFuture::from(on(Stage::Unit).then(|| unit(session, plain))),
        OptionFuture::from(on(Stage::Demo).then(|| demo(session))),
        OptionFuture::from(on(Stage::Chart).then(|| chart(session))),
        images(session, on(Stage::Images), testbeds),
    );
    OptionFuture::from(on(Stage::Install).then(|| install(session))).await;
    OptionFuture::from(on(Stage::E2e).then(|| end_to_end::run(session, placed))).await;
    OptionFuture::from(on(Stage::E2e).then(|| end_to_end::run_own(session, own))).await;
    for (_, name, line) in LONG_SCRIPTS.into_iter().filter(|(stage, ..)| on(*stage)) {
        let mut command = Command::new("bash");
        command.args(["-c", line]);
        script::run(session, name, name, command, LONG_SCRIPT).await;
    }
}

/// Tools of Debian and Helm, which scripts call, Valkey servers that run on this machine, and what testbeds are made of.
async fn machine(session: &Session, testbeds: bool) {
    prepare(session, "machine", "tools of this machine", driver(session, &["tools"])).await;
    prepare(session, "machine", "Helm", driver(session, &["part", "helm"])).await;
    prepare(session, "machine", "Valkey servers for tests", Command::new("images/fetch-valkey")).await;
    if testbeds {
        prepare(session, "machine", "parts of testbeds", driver(session, &["prepare"])).await;
    }
}

fn driver(session: &Session, arguments: &[&str]) -> Command {
    let mut command = Command::new(testbed::driver(session));
    command.args(arguments);
    command
}

/// Whatever compiled is given, whatever did not is a failure.
async fn compile(session: &Session) -> Vec<Case> {
    session.say("compile");
    session.begin("compile");
    let began = Instant::now();
    let found = suites::compile(session).await;
    session.end("compile");
    for (name, reason) in found.failures {
        let (verdict, log) = (Verdict::Failed(reason), (name == "compile").then(|| session.log_of("compile")));
        session.record("compile", Outcome { name, verdict, took: began.elapsed(), log, evidence: None });
    }
    session.say(&format!("compiled in {} s: {} tests", began.elapsed().as_secs(), found.cases.len()));
    found.cases
}

/// Those for `make test-long` wait for it, and nothing else runs there.
fn choose(session: &Session, cases: Vec<Case>, long: bool) -> Vec<Case> {
    let (chosen, left): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| case.long == long);
    if !long {
        left.iter().for_each(|case| session.skip("long", &case.name(), "`make test-long` runs it"));
    }
    chosen
}

async fn unit(session: &Session, cases: Vec<(Case, Needs)>) {
    session.expect("unit", cases.len());
    let pool = Pool { part: "unit", slots: UNIT_SLOTS, variables: Vec::new() };
    pool.run(session, cases.into_iter().map(|(case, _)| Job { case, slots: 1 }).collect()).await;
    session.say("unit tests are done");
}

/// Those that testbeds load are built here too, so that nobody compiles while tests run there.
async fn images(session: &Session, check: bool, testbeds: bool) {
    if testbeds {
        let build = testbed::build(&testbed::IMAGES);
        prepare(session, "images", "build the images for testbeds", build).await;
    }
    let mut build = Command::new("images/build");
    build.args(["pause", "valkey-8.1", "valkey-9.1", "exporter"]);
    if check && prepare(session, "images", "build the images", build).await {
        script::run(session, "images", "images/test", Command::new("images/test"), session.limit).await;
    }
}

async fn demo(session: &Session) {
    script::run(session, "demo", "scripts/test-demo", Command::new("scripts/test-demo"), session.limit).await;
}

async fn chart(session: &Session) {
    script::run(session, "chart", "charts/test", Command::new("charts/test"), session.limit).await;
}

/// The script wants a cluster that has nothing of ours.
async fn install(session: &Session) {
    let testbed = Testbed::named(session, "install", format!("{}-chart", testbed::base_name()));
    if testbed.up(1, &["operator", "sidecar", "valkey-9.1", "exporter"]).await {
        let mut command = Command::new("charts/test");
        command.args(["--kubeconfig", &testbed.kubeconfig(), "--with-images"]).envs(testbed.tools());
        script::run(session, "install", "charts/test", command, session.limit).await;
    }
    testbed.down().await;
}
