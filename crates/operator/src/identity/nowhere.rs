//! For tests: identities whose API server nobody asks.

use super::{Identities, NoParties, Own, Settings};
use crate::client::Clients;
use crate::metrics::Metrics;
use std::sync::Arc;

pub fn identities() -> Arc<Identities> {
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
    let settings = Settings { namespace: "valkey-operator-system".into(), replica: None, built_in: true };
    let metrics = Arc::new(Metrics::new());
    let own = Own::start(client.clone(), Settings { built_in: false, ..settings.clone() }, metrics.clone());
    let clients = Clients { requests: client.clone(), watches: client };
    Identities::new(clients, settings, Arc::new(NoParties), own, metrics)
}
