//! Keeps the client's map of slots current: asks several nodes at once and believes the newest. IO.

use crate::{
    client::Client,
    failure,
    ledger::Ledger,
    slot,
    slot_map::{SlotMap, View},
};
use futures::{StreamExt, stream::FuturesUnordered};
use std::{convert::Infallible, net::SocketAddr, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};
use topology::ClusterNodes;

/// How many nodes are asked in one round.
const ASKED: usize = 8;
/// How long a node may take, and how long the others are waited for after the first has answered.
const PATIENCE: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(30);
/// Between two rounds while all is well; and the least and the most while a shard is silent.
const CALM: Duration = Duration::from_secs(1);
const LEAST: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    #[error("{seed} is no host:port, or its name does not resolve")]
    Resolve { seed: String, source: std::io::Error },
    #[error("none of {asked} answered CLUSTER NODES; the last error: {last}")]
    NobodyAnswered { asked: String, last: String },
    #[error("no node owns the slots {slots}; the cluster is not formed, or part of it is down")]
    Uncovered { slots: String },
}

impl Client {
    /// Asks nodes it knows, or else the seeds, and takes over what they say.
    pub async fn refresh(&self) -> Result<(), RefreshError> {
        let mut known = self.map().nodes().to_vec();
        fastrand::shuffle(&mut known);
        known.truncate(ASKED);
        let mut views = self.views(&known).await.unwrap_or_default();
        if views.is_empty() {
            views = self.views(&self.resolve_seeds().await?).await?;
        }
        self.map().update(SlotMap::from_views(&views));
        Ok(())
    }

    /// Refreshes until every slot has an owner.
    pub async fn refresh_until_covered(&self, within: Duration) -> Result<(), RefreshError> {
        let until = Instant::now() + within;
        loop {
            let uncovered = match self.refresh().await {
                Ok(()) => self.map().uncovered(),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => Vec::new(),
            };
            let known = !self.map().nodes().is_empty();
            if known && uncovered.is_empty() {
                return Ok(());
            }
            if known && Instant::now() >= until {
                return Err(RefreshError::Uncovered { slots: slot::describe(&uncovered) });
            }
            sleep(MOST).await;
        }
    }

    async fn resolve_seeds(&self) -> Result<Vec<SocketAddr>, RefreshError> {
        let mut addresses = Vec::new();
        let mut failed = None;
        for seed in &self.seeds {
            match tokio::net::lookup_host(seed.as_str()).await {
                Ok(found) => addresses.extend(found),
                Err(source) => failed = Some(RefreshError::Resolve { seed: seed.clone(), source }),
            }
        }
        match failed {
            Some(error) if addresses.is_empty() => Err(error),
            _ => Ok(addresses),
        }
    }

    /// What these nodes say; nobody is waited for much longer than for the first.
    async fn views(&self, nodes: &[SocketAddr]) -> Result<Vec<View>, RefreshError> {
        let mut asking: FuturesUnordered<_> = nodes.iter().map(|node| self.view(*node)).collect();
        let mut until = Instant::now() + PATIENCE * 2;
        let (mut views, mut last) = (Vec::new(), "there is nobody to ask".to_owned());
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            match answer {
                Ok(view) => {
                    until = until.min(Instant::now() + GRACE);
                    views.push(view);
                }
                Err(error) => last = error,
            }
        }
        if views.is_empty() {
            let asked = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(RefreshError::NobodyAnswered { asked, last });
        }
        Ok(views)
    }

    async fn view(&self, asked: SocketAddr) -> Result<View, String> {
        let answer = self.ask(asked, &["CLUSTER", "NODES"], PATIENCE).await;
        let text = answer.map_err(|error| failure::with_sources(&error))?.into_text();
        let nodes = ClusterNodes::parse(&text).ok_or_else(|| format!("{asked} gave a list that cannot be read"))?;
        Ok(View { asked, nodes })
    }
}

/// Refreshes now and then; at once when an answer shows that the map is out of date; and often while a shard is silent, so that
/// how long it was silent does not depend on timeouts. Never ends.
pub async fn keep_current(client: &Client, ledger: &Ledger) -> Infallible {
    loop {
        let last = Instant::now();
        let _what_failed_is_asked_again = client.refresh().await;
        sleep(LEAST).await;
        tokio::select! {
            () = client.outdated.notified() => {}
            () = until_due(ledger, last) => {}
        }
    }
}

async fn until_due(ledger: &Ledger, last: Instant) {
    while last.elapsed() < pause(ledger.longest_silence()) {
        sleep(LEAST).await;
    }
}

fn pause(silence: Duration) -> Duration {
    if silence < LEAST * 3 { CALM } else { (silence / 20).clamp(LEAST, MOST) }
}
