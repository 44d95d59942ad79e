//! What all looks at clusters share: the client, the cache, the settings, and the little that is remembered from look to look.
//! Nothing remembered here is needed for correctness: a new process starts without it.

use crate::api_work::Running;
use crate::cache::Cache;
use crate::conduct::{Conductor, Zones};
use crate::identity::Identities;
use crate::line::Line;
use crate::metrics::Metrics;
use crate::recent::Recent;
use kube::Client;
use manifests::OperatorSettings;
use std::sync::Arc;
use std::time::Duration;

pub struct Context {
    pub client: Client,
    pub cache: Arc<Cache>,
    pub line: Arc<Line>,
    pub conductor: Arc<Conductor>,
    pub zones: Zones,
    pub identities: Arc<Identities>,
    pub metrics: Arc<Metrics>,
    pub settings: OperatorSettings,
    pub resync: Duration,
    pub recent: Recent,
    pub api_work: Running,
}
