//! What all passes over clusters share: the client, the cache, the settings, and the little that is remembered from pass to pass.
//! Nothing remembered here is needed for correctness: a new process starts without it.

use crate::api_work::Running;
use crate::cache::Cache;
use crate::commands::{CommandDispatcher, Zones};
use crate::identity::Identities;
use crate::line::Line;
use crate::metrics::Metrics;
use crate::runtime_state::RuntimeStates;
use kube::Client;
use manifests::OperatorSettings;
use std::sync::Arc;
use std::time::Duration;

pub struct Context {
    pub client: Client,
    pub cache: Arc<Cache>,
    pub line: Arc<Line>,
    pub dispatcher: Arc<CommandDispatcher>,
    pub zones: Zones,
    pub identities: Arc<Identities>,
    pub metrics: Arc<Metrics>,
    pub settings: OperatorSettings,
    pub resync: Duration,
    pub states: RuntimeStates,
    pub api_work: Running,
}
