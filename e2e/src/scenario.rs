//! One end-to-end test from start to end: the right cluster, the lock, the namespace, the time limit, the evidence, the cleaning up.
//! Every test function is a `Scenario::named("…").run(async |test| { … })`.

use crate::{
    collection, describe,
    environment::Environment,
    fault, interruption,
    lock::{self, Lock, Sharing},
    namespace,
    patience::stretched,
    ready,
    skip::{self, Skipped},
    test::{PATIENCE, Test},
    timeline::Timeline,
    wait::wait_for_list,
};
use anyhow::{Context, Result, anyhow, ensure};
use futures::FutureExt;
use kube::Api;
use std::{any::Any, panic::AssertUnwindSafe, sync::Mutex, time::Duration};

/// Longer than any single wait, so that a wait which fails says itself what it waited for.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// What a test is called and what it needs.
#[derive(Debug, Clone)]
pub struct Scenario {
    name: String,
    timeout: Duration,
    testbed_reason: Option<String>,
    breaks_nodes: bool,
    alone: bool,
    heavy: bool,
    pod_security: String,
}

impl Scenario {
    /// The name is part of the namespace's and the name of the failure collection; use the test function's.
    pub fn named(name: &str) -> Self {
        let pod_security = "restricted".to_owned();
        Self {
            name: name.to_owned(),
            timeout: DEFAULT_TIMEOUT,
            testbed_reason: None,
            breaks_nodes: false,
            alone: false,
            heavy: false,
            pod_security,
        }
    }

    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Skipped on an external cluster, with this reason.
    pub fn needs_testbed(mut self, reason: &str) -> Self {
        self.testbed_reason = Some(reason.to_owned());
        self
    }

    /// Runs alone on the testbed, and never on an external cluster.
    pub fn breaks_nodes(mut self) -> Self {
        self.breaks_nodes = true;
        self.needs_testbed("it breaks nodes, which only the testbed can mend")
    }

    /// Runs while no other test does, for what all tests rely on and this one takes away; never on an external cluster.
    pub fn alone(mut self, reason: &str) -> Self {
        self.alone = true;
        self.needs_testbed(reason)
    }

    /// Keeps the machine busy all the time, as a cluster under load does: fewer such tests run beside each other.
    pub fn heavy(mut self) -> Self {
        self.heavy = true;
        self
    }

    /// The Pod Security level enforced in the test's namespace; `restricted` unless said otherwise.
    pub fn pod_security(mut self, level: &str) -> Self {
        self.pod_security = level.to_owned();
        self
    }

    pub fn run(self, body: impl AsyncFnOnce(&Test) -> Result<()>) -> Result<()> {
        if describe::is_asked() {
            return describe::tell(self.needs());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.context("start the async runtime")?.block_on(Box::pin(self.conduct(body)))
    }

    fn needs(&self) -> &'static str {
        match (self.breaks_nodes || self.alone, self.heavy) {
            (true, _) => describe::ALONE,
            (false, true) => describe::SHARED_HEAVY,
            (false, false) => describe::SHARED,
        }
    }

    async fn conduct(self, body: impl AsyncFnOnce(&Test) -> Result<()>) -> Result<()> {
        ensure!(!interruption::happened(), "not started: the run was interrupted");
        let environment = Environment::connect().await?;
        if let Some(reason) = self.testbed_reason.as_ref().filter(|_| environment.is_external()) {
            return skip::report(&self.name, reason);
        }
        let _lock = self.lock(&environment).await?;
        let test = self.prepare(environment).await?;
        let outcome = self.watch_over(&test, Box::pin(body(&test))).await;
        let mended = self.mend(&test).await.inspect_err(|error| test.note(format!("not mended: {error:#}")));
        conclude(&test, outcome.and(mended)).await
    }

    /// External clusters need no lock: nothing breaks their nodes.
    async fn lock(&self, environment: &Environment) -> Result<Option<Lock>> {
        let Some(testbed) = &environment.testbed else { return Ok(None) };
        let sharing = if self.breaks_nodes || self.alone { Sharing::Exclusive } else { Sharing::Shared };
        let lock = lock::take(&testbed.directory, sharing).await?;
        fault::mend_leftovers(testbed).context("mend what an earlier test left broken")?;
        Ok(Some(lock))
    }

    async fn prepare(&self, environment: Environment) -> Result<Test> {
        let timeline = Timeline::start();
        let namespace = namespace::create(&environment.client, &self.name, &self.pod_security).await?;
        timeline.note(format!("namespace {namespace}"));
        let (name, also_collected) = (self.name.clone(), Mutex::default());
        Ok(Test { name, namespace, environment, timeline, also_collected, alone: self.breaks_nodes })
    }

    /// Ends the body at its time limit, at Ctrl-C and at a panic, each as an error.
    async fn watch_over(&self, test: &Test, body: impl Future<Output = Result<()>>) -> Result<()> {
        let guarded = AssertUnwindSafe(body).catch_unwind();
        tokio::select! {
            ended = tokio::time::timeout(stretched(self.timeout), guarded) => match ended {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => Err(anyhow!("panicked: {}", panic_text(&*panic))),
                Err(_) => {
                    let (limit, last) = (stretched(self.timeout).as_secs(), test.timeline.last());
                    Err(anyhow!("not finished after its time limit of {limit} s; the last it did: {last}"))
                }
            },
            () = interruption::wait() => Err(anyhow!("interrupted")),
        }
    }

    /// The lock is given back only when the nodes take pods again, or the next test would pay for this one.
    async fn mend(&self, test: &Test) -> Result<()> {
        let Some(testbed) = test.environment.testbed.as_ref().filter(|_| self.breaks_nodes) else { return Ok(()) };
        fault::mend_leftovers(testbed)?;
        let nodes = Api::all(test.client());
        wait_for_list(nodes, "", "all nodes to be Ready again", PATIENCE, ready::nodes_ready).await?;
        Ok(())
    }
}

async fn conclude(test: &Test, outcome: Result<()>) -> Result<()> {
    let outcome = match outcome {
        Err(error) if error.is::<Skipped>() => report_skipped(test, &error),
        Err(error) => Err(with_evidence(test, error).await),
        Ok(()) => Ok(()),
    };
    outcome.and(clean_up(test).await)
}

fn report_skipped(test: &Test, error: &anyhow::Error) -> Result<()> {
    let reason = error.downcast_ref::<Skipped>().map_or_else(String::new, |skipped| skipped.0.clone());
    skip::report(&test.name, &reason)
}

async fn with_evidence(test: &Test, error: anyhow::Error) -> anyhow::Error {
    test.note(format!("failed: {error:#}"));
    match collection::collect(test, &error).await {
        Ok(path) => error.context(format!("{} failed; collected in {}", test.name, path.display())),
        Err(problem) => error.context(format!("{} failed; nothing collected: {problem:#}", test.name)),
    }
}

async fn clean_up(test: &Test) -> Result<()> {
    if std::env::var("E2E_KEEP").is_ok_and(|value| value == "1") {
        return skip::say(&format!("KEPT namespace {} of {}", test.namespace, test.name));
    }
    namespace::delete(&test.environment.client, &test.namespace).await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".to_owned())
}
