//! For tests: identities at an API server of their own, or at one that nobody asks.

use super::{Identities, NoParties, Own, Settings};
use crate::client::Clients;
use crate::metrics::Metrics;
use std::sync::Arc;

pub const NAMESPACE: &str = "valkey-operator-system";

pub fn identities() -> Arc<Identities> {
    identities_at(kube::Config::new("http://127.0.0.1:9".parse().unwrap()))
}

pub fn identities_at(config: kube::Config) -> Arc<Identities> {
    let client = kube::Client::try_from(config).unwrap();
    let settings = Settings { namespace: NAMESPACE.into(), replica: None, built_in: true };
    let metrics = Arc::new(Metrics::new());
    let clients = Clients { requests: client.clone(), watches: client, installed: Arc::default() };
    let own = Own::start(&clients, Settings { built_in: false, ..settings.clone() }, metrics.clone());
    Identities::new(clients, settings, Arc::new(NoParties), own, metrics)
}
