//! The ValkeyCluster resource: what people write and what they read back. Pure; the CRD is generated from these types.

mod backup;
mod config_rules;
pub mod effective;
mod env;
mod exporter;
mod image;
mod metadata_rules;
mod module;
mod network_policy;
mod node_status;
pub mod ownership;
mod refused;
mod replication;
mod resources;
pub(crate) mod rules;
mod security_context;
mod services;
mod spec;
mod status;
mod storage;

pub use backup::{AppendFsync, AppendOnlyFile, Backup, DatabaseSnapshots};
pub use env::is_own as is_own_variable;
pub use exporter::{Exporter, ServiceMonitor};
pub use image::{ExporterImage, Image, ValkeyImage};
pub use module::Module;
pub use network_policy::NetworkPolicy;
pub use node_status::{
    AnswersStatus, OrchestrationStatus, QueuedStatus, SHARD_NODES, ShardNodeStatus, ShardStatus, TroubleStatus,
};
pub use refused::{OF_AUTHORITY, OF_CLUSTER, RefusedField};
pub use replication::Replication;
pub use resources::Resources;
pub use rules::{LEAST_SIDECAR_MEMORY, root as root_rules};
pub use security_context::SecurityContext;
pub use services::{ClientService, PodServiceAccount, ReadService};
pub use spec::{ValkeyCluster, ValkeyClusterSpec};
pub use status::{
    ExporterStatus, LISTED_MODULES, LISTED_PODS, ModuleStatus, Phase, PodStatus, StatefulSetReference,
    ValkeyClusterStatus,
};
pub use storage::Storage;
