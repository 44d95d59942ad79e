//! How Valkey writes its data to disk: snapshots and the append-only file. Pure.

use super::rules::rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How the pods keep their data on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Snapshots of the whole data set (RDB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseSnapshots>,
    /// The append-only file (AOF): every write is logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aof: Option<AppendOnlyFile>,
}

/// When Valkey writes a snapshot by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSnapshots {
    /// Whether snapshots are written at the save points. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Save points: pairs of seconds and changes. "3600 1 60 100" means after an hour if anything changed, after a minute if 100 keys did.
    /// Default: 3600 1 300 100 60 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = save_rules()))]
    pub save: Option<String>,
}

/// The append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppendOnlyFile {
    /// Whether writes are logged to the append-only file. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When the log is forced to disk: always (each write), everysec (once a second) or no (when the system likes). Default: everysec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appendfsync: Option<AppendFsync>,
    /// The log is rewritten when it has grown by this many percent since the last rewrite; 0 switches that off. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = percentage_rules()))]
    pub auto_aof_rewrite_percentage: Option<i32>,
    /// The log is not rewritten while it is smaller than this. Default: 64mb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = size_rules()))]
    pub auto_aof_rewrite_min_size: Option<String>,
}

/// When the append-only file is forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AppendFsync {
    Always,
    Everysec,
    No,
}

impl AppendFsync {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::No => "no",
        }
    }
}

fn save_rules() -> Value {
    json!([rule(
        "self.matches('^[1-9][0-9]{0,8} [1-9][0-9]{0,8}( [1-9][0-9]{0,8} [1-9][0-9]{0,8})*$')",
        "backup.database.save must be pairs of seconds and changes such as \"3600 1 60 100\"; set backup.database.enabled to false for no save points"
    )])
}

fn percentage_rules() -> Value {
    json!([rule(
        "self >= 0",
        "backup.aof.autoAofRewritePercentage must not be negative: 0 switches automatic rewrites off"
    )])
}

fn size_rules() -> Value {
    json!([rule(
        "self.matches('^[1-9][0-9]{0,12}(b|k|kb|m|mb|g|gb|B|K|KB|M|MB|G|GB)?$')",
        "backup.aof.autoAofRewriteMinSize must be a size as Valkey writes it: a whole number with an optional kb, mb or gb, for example 64mb"
    )])
}
