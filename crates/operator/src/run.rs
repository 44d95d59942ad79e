//! The operator's life: answer probes, win the Lease, work, give the Lease back.

use crate::arguments::RunArguments;
use crate::client::Clients;
use crate::cluster::ClusterKind;
use crate::health::{Health, Stage};
use crate::identity::{self, Identities, Own};
use crate::identity_choice::{IdentityChoice, InvalidChoice};
use crate::install;
use crate::leader::{self, Election, Settings};
use crate::line::{self, Line, LineSettings};
use crate::metrics::Metrics;
use crate::open_files;
use crate::runtime::{Scope, ScopeSettings, register};
use crate::serve::{self, Pages};
use crate::stop::{self, Stop};
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use link::{
    IdentitySource,
    server::{Leadership, Limits},
};
use manifests::OperatorSettings;
use pki::SpiffeId;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use workload_api::{Source, Times};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Serve(#[from] serve::Error),
    #[error(transparent)]
    Definition(#[from] install::Error),
    #[error("stopped leading")]
    Leader(#[from] leader::Error),
    #[error(transparent)]
    Line(#[from] line::Error),
    #[error(transparent)]
    Choice(#[from] InvalidChoice),
    #[error("the operator's namespace {namespace} makes no identity")]
    Identity { namespace: String, source: pki::InvalidLabel },
}

/// Runs until `stop` is wished for, or the Lease is lost, which is an error: the process must end.
pub async fn run(mut clients: Clients, arguments: &RunArguments, stop: Stop) -> Result<(), Error> {
    let client = clients.requests.clone();
    open_files::allow(Limits::default().connections);
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
    let pages = Pages { health: health.clone(), metrics: metrics.clone() };
    let address = serve::start(arguments.listen_address, pages).await?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "valkey-operator started");
    clients.installed = Arc::new(install::check(&client).await?);
    let replica = Replica::of(&client, arguments);
    let own = Own::start(&clients, replica.identity()?, metrics.clone());
    let (bound, leadership, line) = open_line(&replica, &own, &metrics, &stop).await?;
    let identities = Identities::new(clients.clone(), replica.identity()?, line.roster.clone(), own, metrics.clone());
    let scopes = scopes(&replica, &clients, &health, &metrics, (&line, &identities))?;
    let tasks = LeaderTasks { namespaces: arguments.scopes(), scopes, line, identities, health, metrics };
    if !arguments.leader_election {
        lead_alone(&leadership);
        tasks.work(stop).await;
        return Ok(());
    }
    tasks.health.set(Stage::StandingBy);
    lead(replica.election(bound, leadership), tasks, stop).await
}

/// This process among its like.
struct Replica<'a> {
    client: &'a Client,
    arguments: &'a RunArguments,
    /// The operator's own namespace.
    namespace: String,
    /// Different for every process.
    name: String,
}

impl<'a> Replica<'a> {
    fn of(client: &'a Client, arguments: &'a RunArguments) -> Self {
        let namespace = arguments.pod_namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        let name = arguments.pod_name.as_deref().unwrap_or("valkey-operator");
        Self { client, arguments, namespace, name: format!("{name}_{:08x}", fastrand::u32(..)) }
    }

    fn election(&self, bound: SocketAddr, leadership: watch::Sender<Leadership>) -> Election {
        let arguments = self.arguments;
        let namespace = arguments.lease_namespace.as_ref().unwrap_or(&self.namespace);
        let settings = Settings {
            name: arguments.lease_name.clone(),
            identity: self.name.clone(),
            duration: arguments.lease_duration.to_std(),
            interval: arguments.lease_renew_interval.to_std(),
            line_address: self.line_address(bound),
        };
        Election::new(Api::namespaced(self.client.clone(), namespace), settings, leadership)
    }

    /// Who the operator is for its sidecars.
    fn id(&self) -> Result<SpiffeId, Error> {
        let id = self.arguments.identity()?.naming().operator(&self.namespace);
        id.map_err(|source| Error::Identity { namespace: self.namespace.clone(), source })
    }

    /// Where identities are kept, and under which name this replica tells of itself.
    fn identity(&self) -> Result<identity::Settings, Error> {
        let in_a_pod = self.arguments.pod_namespace.is_some();
        Ok(identity::Settings {
            namespace: self.namespace.clone(),
            replica: self.arguments.pod_name.clone().filter(|_| in_a_pod),
            built_in: self.arguments.identity()? == IdentityChoice::BuiltIn,
        })
    }

    /// Where other replicas send sidecars while this one leads; none when only the port is known.
    fn line_address(&self, bound: SocketAddr) -> Option<String> {
        let own = Some(bound.ip()).filter(|address| !address.is_unspecified());
        let address = self.arguments.pod_ip.or(own)?;
        Some(SocketAddr::new(address, bound.port()).to_string())
    }
}

/// What the leader works on.
struct LeaderTasks {
    /// None stands for all.
    namespaces: Vec<Option<String>>,
    scopes: Vec<ScopeSettings>,
    line: Arc<Line>,
    identities: Arc<Identities>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl LeaderTasks {
    async fn work(self, stop: Stop) {
        self.health.synchronize(self.scopes.len());
        self.metrics.leader.set(1);
        self.line.roster.leads();
        let work = join_all(self.scopes.into_iter().map(|scope| Scope::run(scope, stop.clone())));
        tokio::select! {
            _ = work => {}
            () = self.identities.lead(self.namespaces) => {}
        }
        self.metrics.leader.set(0);
    }
}

async fn lead(mut election: Election, tasks: LeaderTasks, stop: Stop) -> Result<(), Error> {
    tokio::select! {
        () = election.win() => tracing::info!("leading"),
        () = stop.clone().wished() => return Ok(()),
    }
    let lost = tokio::select! {
        () = tasks.work(stop) => None,
        error = election.keep() => Some(error),
    };
    match lost {
        Some(error) => {
            election.resign();
            Err(error.into())
        }
        None => {
            election.release().await;
            Ok(())
        }
    }
}

/// Without an election there is no Lease to keep the term in: the clock stands in for it.
fn lead_alone(leadership: &watch::Sender<Leadership>) {
    let epoch = leader::first_term_at(Timestamp::now().as_second());
    leadership.send_replace(Leadership::Leader { epoch });
}

/// Listens at once, and speaks as soon as this replica has an identity.
async fn open_line(
    replica: &Replica<'_>,
    own: &Own,
    metrics: &Arc<Metrics>,
    stop: &Stop,
) -> Result<(SocketAddr, watch::Sender<Leadership>, Arc<Line>), Error> {
    let (listener, bound) = line::bind(replica.arguments.line_address).await?;
    let leadership = watch::Sender::new(Leadership::Follower { leader: None });
    let line = Arc::new(Line::new(leadership.subscribe()));
    let settings = LineSettings {
        leadership: leadership.subscribe(),
        heartbeat_interval: replica.arguments.heartbeat_interval.to_std(),
    };
    let (client, metrics, stop) = (replica.client.clone(), metrics.clone(), stop.clone());
    let (served, source) = (line.clone(), source(replica, own)?);
    tokio::spawn(async move {
        // Kept as long as the line: it renews them.
        let credentials = source.current().await;
        tracing::info!(%bound, "the line is open");
        line::serve(listener, served, settings, (client, credentials, metrics), stop).await;
    });
    Ok((bound, leadership, line))
}

/// Where this replica's certificate comes from.
fn source(replica: &Replica<'_>, own: &Own) -> Result<Box<dyn IdentitySource>, Error> {
    Ok(match replica.arguments.identity()? {
        IdentityChoice::BuiltIn => Box::new(own.clone()),
        IdentityChoice::WorkloadApi { endpoint, .. } => {
            Box::new(Source::follow(endpoint, replica.id()?, Times::default()))
        }
    })
}

/// What to work on, and the kinds there are: a kind is added here.
fn scopes(
    replica: &Replica<'_>,
    clients: &Clients,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
    (line, identities): (&Arc<Line>, &Arc<Identities>),
) -> Result<Vec<ScopeSettings>, Error> {
    let (settings, resync) = (settings(replica)?, replica.arguments.resync.to_std());
    let scope = |namespace| {
        let (clients, metrics, health) = (clients.clone(), metrics.clone(), health.clone());
        let clusters = ClusterKind::new(line.clone(), identities.clone(), settings.clone(), resync);
        ScopeSettings { clients, namespace, metrics, health, resync, kinds: vec![register(clusters)] }
    };
    Ok(replica.arguments.scopes().into_iter().map(scope).collect())
}

fn settings(replica: &Replica<'_>) -> Result<OperatorSettings, Error> {
    let line = Some(api::node_settings::LineSettings {
        addresses: replica.arguments.advertised(&replica.namespace),
        operator_id: replica.id()?.to_string(),
        workload_api_socket: replica.arguments.identity()?.socket(),
    });
    Ok(OperatorSettings { sidecar_image: replica.arguments.sidecar_image.clone(), line })
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
