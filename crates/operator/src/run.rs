//! The operator's life: answer probes, win the Lease, work, give the Lease back.

use crate::arguments::RunArguments;
use crate::controller::Scope;
use crate::health::{Health, Stage};
use crate::install;
use crate::leader::{self, Election, Settings};
use crate::metrics::Metrics;
use crate::serve::{self, Pages};
use crate::stop::{self, Stop};
use futures::future::join_all;
use kube::{Api, Client};
use manifests::OperatorSettings;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Serve(#[from] serve::Error),
    #[error(transparent)]
    Definition(#[from] install::Error),
    #[error("stopped leading")]
    Leader(#[from] leader::Error),
}

/// Runs until `stop` is wished for, or the Lease is lost, which is an error: the process must end.
pub async fn run(client: Client, arguments: &RunArguments, stop: Stop) -> Result<(), Error> {
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
    let pages = Pages { health: health.clone(), metrics: metrics.clone() };
    let address = serve::start(arguments.listen_address, pages).await?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "valkey-operator started");
    install::check(&client).await?;
    let scopes = scopes(&client, arguments, &health, &metrics);
    if !arguments.leader_election {
        work(scopes, stop, &health, &metrics).await;
        return Ok(());
    }
    health.set(Stage::StandingBy);
    lead(election(&client, arguments), scopes, stop, &health, &metrics).await
}

async fn lead(
    mut election: Election,
    scopes: Vec<Scope>,
    stop: Stop,
    health: &Health,
    metrics: &Metrics,
) -> Result<(), Error> {
    tokio::select! {
        () = election.win() => tracing::info!("leading"),
        () = stop.clone().wished() => return Ok(()),
    }
    let lost = tokio::select! {
        () = work(scopes, stop, health, metrics) => None,
        error = election.keep() => Some(error),
    };
    match lost {
        Some(error) => Err(error.into()),
        None => {
            election.release().await;
            Ok(())
        }
    }
}

async fn work(scopes: Vec<Scope>, stop: Stop, health: &Health, metrics: &Metrics) {
    health.synchronize(scopes.len());
    metrics.leader.set(1);
    join_all(scopes.into_iter().map(|scope| scope.run(stop.clone()))).await;
    metrics.leader.set(0);
}

fn scopes(client: &Client, arguments: &RunArguments, health: &Arc<Health>, metrics: &Arc<Metrics>) -> Vec<Scope> {
    let scope = |namespace| Scope {
        client: client.clone(),
        namespace,
        metrics: metrics.clone(),
        health: health.clone(),
        settings: OperatorSettings { sidecar_image: arguments.sidecar_image.clone() },
        resync: arguments.resync.to_std(),
    };
    arguments.scopes().into_iter().map(scope).collect()
}

fn election(client: &Client, arguments: &RunArguments) -> Election {
    let own = arguments.lease_namespace.as_ref().or(arguments.pod_namespace.as_ref());
    let namespace = own.map_or(client.default_namespace(), String::as_str);
    let settings = Settings {
        name: arguments.lease_name.clone(),
        identity: format!("{}_{:08x}", arguments.pod_name.as_deref().unwrap_or("valkey-operator"), fastrand::u32(..)),
        duration: arguments.lease_duration.to_std(),
        interval: arguments.lease_renew_interval.to_std(),
    };
    Election::new(Api::namespaced(client.clone(), namespace), settings)
}

/// A stop that comes with SIGTERM or SIGINT.
pub fn stop_on_signal() -> Stop {
    let (stopper, wish) = stop::channel();
    tokio::spawn(async move {
        if let Err(error) = stop::signalled().await {
            tracing::error!(%error, "signals cannot be received, stopping");
        }
        stopper.stop();
    });
    wish
}
