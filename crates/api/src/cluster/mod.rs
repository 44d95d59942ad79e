//! The ValkeyCluster resource: what people write and what they read back. Pure; the CRD is generated from these types.

mod backup;
mod config_rules;
pub mod effective;
mod exporter;
mod image;
mod metadata_rules;
mod node_status;
mod readable;
mod replication;
mod resources;
pub(crate) mod rules;
mod security_context;
mod spec;
mod status;
mod storage;

pub use backup::{AppendFsync, AppendOnlyFile, Backup, DatabaseSnapshots};
pub use exporter::{Exporter, ServiceMonitor};
pub use image::{ExporterImage, Image, ValkeyImage};
pub use node_status::{AnswersStatus, OrchestrationStatus, QueuedStatus, ShardNodeStatus, ShardStatus, TroubleStatus};
pub use replication::{ReadService, Replication};
pub use resources::Resources;
pub use rules::name_rules;
pub use security_context::SecurityContext;
pub use spec::{ValkeyCluster, ValkeyClusterSpec};
pub use status::{ExporterStatus, Phase, PodStatus, StatefulSetReference, ValkeyClusterStatus};
pub use storage::Storage;
