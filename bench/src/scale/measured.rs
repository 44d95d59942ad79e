//! The steps of one repetition, each under load: bare pods, the operator from three shards to six, `valkey-cli` on its nodes back and
//! forth while it is paused, the operator back to three. IO.

use crate::{
    by_hand::ByHand,
    data,
    results::{Cost, Results},
};
use anyhow::{Context, Result};
use api::{cluster::ValkeyCluster, names::ROLE_PRIMARY};
use bench::{
    bare_pods::{self, Images},
    cluster::Cluster,
    table,
};
use kube::api::DeleteParams;
use load::{Load, Options};
use serde_json::json;
use std::{
    cell::RefCell,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const SMALL: i32 = 3;
const LARGE: i32 = 6;
/// Writes before anything changes, so that every connection is up, and after it.
const AROUND: Duration = Duration::from_secs(1);
/// What takes longer will never be done.
const ATOMIC: Duration = Duration::from_secs(120);
const ONE_BY_ONE: Duration = Duration::from_secs(900);

pub struct Scaling {
    pub cluster: Cluster,
    by_hand: ByHand,
    address: SocketAddr,
    keys: u32,
    patience: Duration,
}

impl Scaling {
    pub async fn prepare(cluster: Cluster, version: &str, keys: u32, atomic: bool) -> Result<Self> {
        let by_hand = ByHand::new(version, atomic)?;
        cluster.create().await?;
        cluster.ready().await?;
        let address = cluster.address().await?.parse().context("the Service's address")?;
        let began = Instant::now();
        data::fill(address, keys).await?;
        table::progress(&format!("Valkey {version}: {keys} keys written in {}", table::text(began.elapsed())));
        let patience = if atomic { ATOMIC } else { ONE_BY_ONE };
        Ok(Self { cluster, by_hand, address, keys, patience })
    }

    pub async fn measure(&self, results: &mut Results) -> Result<()> {
        let load = self.load().await?;
        let images = Images::of(&self.cluster.with_role(ROLE_PRIMARY).await?)?;
        let started = bare_pods::start(&self.cluster.pods, &images).await?;
        let ended = bare_pods::end(&self.cluster.pods, &DeleteParams::default()).await?;
        let [started_text, ended_text] = [started, ended].map(table::text);
        table::progress(&format!("six bare pods: Ready after {started_text}, ended after {ended_text}"));
        load.stop().await?;
        results.out.cost.add(self.operated(LARGE).await?);
        let (emptied, filled) = self.moved_by_hand(results).await?;
        results.r#in.cost.add(self.operated(SMALL).await?);
        results.out.floor(started, filled);
        results.r#in.floor(ended, emptied);
        Ok(())
    }

    /// By the operator, from the edit until the cluster is Ready as asked.
    async fn operated(&self, masters: i32) -> Result<Cost> {
        let load = self.load().await?;
        let began = Instant::now();
        let stages = Stages::default();
        self.cluster.edit(json!({"masterCount": masters})).await?;
        let scaled = self.cluster.scaled(masters, self.patience, |seen| stages.look(seen, began.elapsed())).await;
        scaled.with_context(|| format!("it came so far: {}", stages.text()))?;
        let took = began.elapsed();
        let cost = self.cost(load, took).await?;
        table::progress(&format!("to {masters} shards: {}; {}", cost.text(), stages.text()));
        Ok(cost)
    }

    /// What emptying three primaries took, and filling them again.
    async fn moved_by_hand(&self, results: &mut Results) -> Result<(Duration, Duration)> {
        self.cluster.edit(json!({"paused": true})).await?;
        let load = self.load().await?;
        let emptied = self.by_hand.empty_half(self.address).await?;
        let filled = self.by_hand.fill_half(self.address).await?;
        let cost = self.cost(load, emptied + filled).await?;
        let [emptied_text, filled_text] = [emptied, filled].map(table::text);
        table::progress(&format!(
            "valkey-cli --cluster rebalance: emptied in {emptied_text}, filled in {filled_text}; {}",
            cost.text()
        ));
        results.by_hand.add(cost);
        self.cluster.edit(json!({"paused": false})).await?;
        self.cluster.scaled(LARGE, self.patience, |_| ()).await?;
        Ok((emptied, filled))
    }

    async fn load(&self) -> Result<Load> {
        let (covered_within, verified_within) = (Duration::from_secs(30), Duration::from_secs(60));
        let seeds = [self.address.to_string()];
        let load =
            Load::start(Options { writers: 6, rate: 600, covered_within, verified_within, ..Options::to(seeds) });
        let load = load.await?;
        sleep(AROUND).await;
        Ok(load)
    }

    async fn cost(&self, load: Load, took: Duration) -> Result<Cost> {
        sleep(AROUND).await;
        let report = load.stop().await?;
        let kept = data::count(self.address, self.keys).await?;
        Ok(Cost::of(took, &report, u64::from(self.keys) - kept))
    }
}

/// When the status told of which step first, and what it says at last.
#[derive(Default)]
struct Stages {
    told: RefCell<Vec<(String, Duration)>>,
    plan: RefCell<Option<String>>,
}

impl Stages {
    fn look(&self, cluster: &ValkeyCluster, at: Duration) {
        let running = cluster.status.as_ref().and_then(|status| status.orchestration.as_ref());
        self.plan.replace(cluster.status.as_ref().and_then(|status| status.plan.clone()));
        let mut told = self.told.borrow_mut();
        if let Some(running) = running.filter(|running| told.last().is_none_or(|(step, _)| *step != running.step)) {
            told.push((running.step.clone(), at));
        }
    }

    fn text(&self) -> String {
        let told = self.told.borrow();
        let told = told.iter().map(|(step, at)| format!("{step} {}", table::text(*at)));
        told.chain(self.plan.borrow().iter().cloned()).collect::<Vec<_>>().join(", ")
    }
}
