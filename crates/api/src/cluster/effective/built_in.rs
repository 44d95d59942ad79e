//! The values of fields that nobody set. Pure. Another value here reaches every cluster that leaves the field out as soon as the
//! operator is upgraded: what needs new pods to take effect must not change, but for the tags, of which every one is remembered.

use crate::cluster::AppendFsync;
use crate::valkey_version::ValkeyVersion;

/// Every default there has been, the newest last. A cluster that runs an earlier one keeps it.
const VALKEY_TAGS: [&str; 1] = ["9.1.2"];
const EXPORTER_TAGS: [&str; 1] = ["v1.69.0"];

pub const MASTER_COUNT: i32 = 3;
pub const REPLICAS_PER_MASTER: i32 = 1;
pub const VALKEY_NAME: &str = "docker.io/valkey/valkey";
pub const VALKEY_TAG: &str = newest(&VALKEY_TAGS);
pub const EXPORTER_NAME: &str = "docker.io/oliver006/redis_exporter";
pub const EXPORTER_TAG: &str = newest(&EXPORTER_TAGS);
/// User and group in the public Valkey image. They can never change: the files on the volumes belong to them.
pub const VALKEY_ID: i64 = 999;
pub const SAVE: &str = "3600 1 300 100 60 10000";
pub const APPENDFSYNC: AppendFsync = AppendFsync::Everysec;
pub const AUTO_AOF_REWRITE_PERCENTAGE: i32 = 100;
pub const AUTO_AOF_REWRITE_MIN_SIZE: &str = "64mb";
pub const SCRAPE_INTERVAL: &str = "30s";
pub const MIN_REPLICAS_MAX_LAG: i32 = 10;
pub const CLIENT_CERT_VALIDITY: &str = "6h";
pub const ROTATE_BEFORE_PERCENT: i32 = 66;

/// With a single replica, one restarting pod would stop all writes of its shard.
pub fn min_replicas_to_write(replicas_per_master: i32) -> i32 {
    i32::from(replicas_per_master >= 2)
}

/// Whether a cluster that names no tag stays with the one it runs: an operator's upgrade alone replaces no pod, and the return to an
/// older operator takes nobody to an older Valkey, which may be unable to read the data.
pub fn keeps_valkey_tag(running: &str) -> bool {
    let version = |tag: &str| ValkeyVersion::from_tag(tag).ok();
    VALKEY_TAGS.contains(&running) || version(running) > version(VALKEY_TAG)
}

/// The same of an image whose tag does not say its version: nothing but its version line is known of the default one beside it.
pub fn keeps_valkey_version(running: ValkeyVersion) -> bool {
    ValkeyVersion::from_tag(VALKEY_TAG).is_ok_and(|default| running.at_least(default.major, default.minor))
}

pub fn keeps_exporter_tag(running: &str) -> bool {
    EXPORTER_TAGS.contains(&running)
}

const fn newest<const N: usize>(tags: &[&'static str; N]) -> &'static str {
    match tags.last() {
        Some(tag) => tag,
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ever_the_default_and_what_is_later_is_kept_and_nothing_else() {
        let kept = |tag: &&str| keeps_valkey_tag(tag);
        assert!(VALKEY_TAGS.iter().all(kept) && ["9.1.3", "9.2", "10.0.1-alpine"].iter().all(kept));
        assert!(!["8.1", "9.1", "9.1.1", "latest", ""].iter().any(kept));
        assert!(keeps_exporter_tag(EXPORTER_TAG) && !keeps_exporter_tag("v1.68.0"));
    }
}
