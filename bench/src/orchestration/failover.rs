//! How long writes stand still when a primary is lost, next to a failover by hand on the same cluster. IO, under load.

use crate::Arguments;
use anyhow::{Context, Result, ensure};
use api::names::{ROLE_PRIMARY, ROLE_REPLICA, port};
use bench::{cluster::Cluster, numbers::Series, table};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use load::{Load, Options, Report};
use std::{net::SocketAddr, time::Duration};
use tokio::{process::Command, time::sleep};
use valkey::{Address, Connection};

const KILLED: Duration = Duration::from_secs(1);
const DELETED: Duration = Duration::from_millis(200);
/// Writes before the fault, so that every connection is up.
const BEFORE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Fault {
    ByHand,
    Deleted,
    Killed,
}

#[derive(Default)]
struct Gaps {
    gaps: Series,
    /// How long the load itself stood still: the machine's part in the gaps.
    stalls: Series,
    lost: u64,
    acknowledged: u64,
}

pub async fn measure(cluster: &Cluster, arguments: &Arguments) -> Result<()> {
    let [mut by_hand, mut deleted, mut killed] = [Gaps::default(), Gaps::default(), Gaps::default()];
    for _ in 0..arguments.repetitions {
        by_hand.add(Fault::ByHand, strike(cluster, arguments, Fault::ByHand).await?);
        deleted.add(Fault::Deleted, strike(cluster, arguments, Fault::Deleted).await?);
        killed.add(Fault::Killed, strike(cluster, arguments, Fault::Killed).await?);
    }
    table::row("floor: CLUSTER FAILOVER by hand → longest write gap", &by_hand.gaps);
    by_hand.tell();
    table::promised("primary's pod deleted → longest write gap", &deleted.gaps, DELETED);
    deleted.tell();
    table::promised("primary's process killed → longest write gap", &killed.gaps, KILLED);
    killed.tell();
    Ok(())
}

async fn strike(cluster: &Cluster, arguments: &Arguments, fault: Fault) -> Result<Report> {
    let load = Load::start(options(cluster.address().await?)).await?;
    sleep(BEFORE).await;
    let (victim, becomes) = match fault {
        Fault::ByHand => (cluster.with_role(ROLE_REPLICA).await?, ROLE_PRIMARY),
        Fault::Deleted | Fault::Killed => (cluster.with_role(ROLE_PRIMARY).await?, ROLE_REPLICA),
    };
    let name = victim.name_any();
    match fault {
        Fault::ByHand => fail_over(&victim).await?,
        Fault::Deleted => drop(cluster.pods.delete(&name, &DeleteParams::default()).await?),
        Fault::Killed => kill(arguments, &name).await?,
    }
    cluster.settled(&name, becomes).await?;
    Ok(load.stop().await?)
}

fn options(address: String) -> Options {
    let (covered_within, verified_within) = (Duration::from_secs(30), Duration::from_secs(60));
    Options { writers: 6, rate: 600, covered_within, verified_within, ..Options::to([address]) }
}

async fn fail_over(replica: &Pod) -> Result<()> {
    let ip =
        replica.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("the replica has no address")?;
    let address = SocketAddr::new(ip.parse()?, u16::try_from(port::VALKEY)?);
    let mut connection = Connection::open(&Address::Tcp(address), Duration::from_secs(5)).await?;
    connection.call(&["CLUSTER", "FAILOVER"]).await?;
    Ok(())
}

async fn kill(arguments: &Arguments, pod: &str) -> Result<()> {
    let target = format!("{}/{pod}", arguments.namespace);
    let killed = Command::new(&arguments.testbed).args(["pod", "kill", &target]).output().await;
    let killed = killed.with_context(|| format!("run {}", arguments.testbed.display()))?;
    ensure!(killed.status.success(), "testbed pod kill {target}: {}", String::from_utf8_lossy(&killed.stderr));
    Ok(())
}

impl Gaps {
    fn add(&mut self, fault: Fault, report: Report) {
        let milliseconds = |value: f64| Duration::from_secs_f64(value / 1e3);
        let (gap, stall) = (milliseconds(report.longest_gap_ms), milliseconds(report.own_stall_ms));
        let [gap_text, stall_text] = [gap, stall].map(table::text);
        let lost = report.lost;
        table::progress(&format!("{}: gap {gap_text}, own stall {stall_text}, {lost} writes lost", fault.name()));
        self.gaps.add(gap);
        self.stalls.add(stall);
        self.lost += lost;
        self.acknowledged += report.acknowledged;
    }

    fn tell(&self) {
        let stall = table::text(self.stalls.worst());
        let Self { lost, acknowledged, .. } = self;
        table::note(&format!(
            "the load's own stall at worst {stall}; {lost} of {acknowledged} acknowledged writes lost"
        ));
    }
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::ByHand => "CLUSTER FAILOVER",
            Fault::Deleted => "pod deleted",
            Fault::Killed => "process killed",
        }
    }
}
