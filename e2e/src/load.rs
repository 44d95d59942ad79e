//! Load on a cluster under test: writes from the test's own process while the test breaks things, and the report afterwards. IO.
//! On the testbed this machine reaches pods and Services by their addresses; elsewhere it need not, so scenarios with load declare
//! `.needs_testbed(load::REACH)`.

use crate::{
    cluster::Cluster,
    measurement,
    test::{PATIENCE, Test},
    verdict::Verdict,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use load::{Load, Options, Progress, Report};
use std::time::Duration;

pub const REACH: &str = "its load runs beside the test and must reach pods by their addresses";
const PORT: u16 = 6379;
/// Enough to see every gap and every loss, little enough for two cores that do much else.
const WRITERS: usize = 6;
const RATE: u32 = 600;
/// A shard that acknowledged something within this time is not silent.
const RECENT_MS: f64 = 250.0;

/// A load that is running.
pub struct ClusterLoad<'a> {
    test: &'a Test,
    name: String,
    load: Load,
}

impl<'a> ClusterLoad<'a> {
    /// Against the cluster's client Service, with every slot served.
    pub async fn start(cluster: &Cluster<'a>) -> Result<Self> {
        Self::start_with(cluster, |options| options).await
    }

    /// The same, with changed options: `|options| Options { replicas: 1, ..options }`.
    pub async fn start_with(cluster: &Cluster<'a>, change: impl FnOnce(Options) -> Options) -> Result<Self> {
        let address = service_address(cluster.test, &cluster.name).await?;
        Self::start_at(cluster.test, &cluster.name, change(options([address]))).await
    }

    /// Against any addresses; `name` is for the timeline.
    pub async fn start_at(test: &'a Test, name: &str, options: Options) -> Result<Self> {
        test.note(format!("start load on {name} through {}", options.seeds.join(",")));
        test.testbed()?;
        let load = Load::start(options).await.with_context(|| format!("start load on {name}"))?;
        let load = Self { test, name: name.to_owned(), load };
        load.flows().await?;
        Ok(load)
    }

    pub fn progress(&self) -> Progress {
        self.load.progress()
    }

    /// Waits until every shard has just acknowledged a write, as at the start and after a fault.
    pub async fn flows(&self) -> Result<()> {
        let what = format!("every shard of {} to acknowledge writes", self.name);
        let look = async || {
            let progress = self.progress();
            let flows = progress.silent_ms < RECENT_MS && progress.acknowledged > 0;
            Ok(Verdict::when(flows, || format!("{progress:?}")))
        };
        self.test.wait_for(&what, PATIENCE, look).await
    }

    /// Waits until some shard acknowledges nothing, so that a fault has arrived.
    pub async fn falters(&self) -> Result<()> {
        let what = format!("a shard of {} to fall silent", self.name);
        let look = async || {
            let progress = self.progress();
            Ok(Verdict::when(progress.silent_ms >= RECENT_MS, || format!("{progress:?}")))
        };
        self.test.wait_for(&what, PATIENCE, look).await
    }

    /// Waits until this many more writes were acknowledged, so that there is something to lose.
    pub async fn acknowledges(&self, more: u64) -> Result<()> {
        let wanted = self.progress().acknowledged + more;
        let what = format!("{} to acknowledge {more} more writes", self.name);
        let look = async || {
            let progress = self.progress();
            Ok(Verdict::when(progress.acknowledged >= wanted, || format!("{progress:?}")))
        };
        self.test.wait_for(&what, PATIENCE, look).await
    }

    /// Stops writing and reads everything back. The report goes to the timeline too, and the gap to the measurements.
    pub async fn stop(self) -> Result<Report> {
        let report = self.load.stop().await.with_context(|| format!("stop the load on {}", self.name))?;
        self.test.note(format!("load on {} stopped\n{report}", self.name));
        measurement::record(self.test, "longest write gap", Duration::from_secs_f64(report.longest_gap_ms / 1e3))?;
        Ok(report)
    }

    /// As `stop`; an error unless every acknowledged write is there.
    pub async fn stop_sound(self) -> Result<Report> {
        let report = self.stop().await?;
        ensure!(report.is_sound(), "{report}");
        Ok(report)
    }
}

/// What loads in tests do unless said otherwise.
pub fn options<S: Into<String>>(seeds: impl IntoIterator<Item = S>) -> Options {
    Options { writers: WRITERS, rate: RATE, covered_within: PATIENCE, verified_within: PATIENCE, ..Options::to(seeds) }
}

/// `address:port` of a Service, which stays the same while pods come and go.
pub async fn service_address(test: &Test, name: &str) -> Result<String> {
    let service = test.api::<Service>().get(name).await.with_context(|| format!("read Service {name}"))?;
    let address = service.spec.and_then(|spec| spec.cluster_ip).filter(|address| address != "None");
    let address = address.with_context(|| format!("Service {name} has no address of its own"))?;
    Ok(if address.contains(':') { format!("[{address}]:{PORT}") } else { format!("{address}:{PORT}") })
}
