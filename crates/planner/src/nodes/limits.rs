//! Times and sizes, each with its reason. Pure.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Above this, full views are read from some nodes only and the others are judged by their summaries:
/// views grow with the square of the cluster.
pub const ALL_VIEWS: usize = 32;
/// Full views in a larger cluster.
pub const SOME_VIEWS: usize = 8;
/// Full views that are read in addition because their summary differs from the others'.
pub const DIFFERING_VIEWS: usize = 16;
/// Nodes that introduce all others in a larger cluster; gossip does the rest.
pub const HUBS: usize = 3;
/// Nothing is changed on the strength of an older view.
pub const VIEW_AGE: Duration = Duration::from_secs(2);
/// A view is read again this often while something is moving.
pub const POLL: Duration = Duration::from_millis(50);
pub const POLL_LARGE: Duration = Duration::from_millis(500);
/// And this often while an orchestration only waits.
pub const POLL_WAITING: Duration = Duration::from_secs(2);
/// How often a paused cluster is read while something is to be done about it.
pub const WATCHING: Duration = Duration::from_secs(2);
/// A handshake takes some ticks of Valkey's ten a second before MEET is worth repeating.
pub const REPEAT_DONE: Duration = Duration::from_millis(1_500);
pub const REPEAT_FAILED: Duration = Duration::from_millis(500);
pub const REPEAT_REFUSED: Duration = Duration::from_secs(5);
/// A candidate that did not win is passed over for this long.
pub const FAILOVER_PAUSE: Duration = Duration::from_secs(3);
/// A vote that was not won after this long may never be: a human is told the way out.
pub const VOTE: Duration = Duration::from_secs(60);
/// A sidecar tells within this time that its Valkey has another role: it looks once a second.
pub const WORD_OF_ROLE: Duration = Duration::from_millis(1_500);
/// A failure that only the other nodes saw: Valkey's own election comes first.
pub const ELECTION_FIRST: Duration = Duration::from_secs(3);
/// A replica that started no earlier than this before its primary went down went down with it; and so much later than the link
/// to it a failure may be noticed.
pub const TOGETHER: Duration = Duration::from_secs(2);
/// So long a process may be away before what depends on it is called lost: a container starts again in a second or two.
pub const RESTART: Duration = Duration::from_secs(5);
/// A lost shard is only made anew when it has been lost this long, and so long its own pod is waited for before somebody has to look.
pub const LOST_FOR: Duration = Duration::from_secs(30);
/// A step that got no further for this long only waits; others may have their turn.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Longest text in the status.
pub const TEXT: usize = 300;
/// Most troubles and plan sentences in the status.
pub const LISTED: usize = 8;

/// How long ago, never negative.
pub fn age(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then).max(SignedDuration::ZERO)).unwrap_or_default()
}

/// The text, cut where it is too long for the status.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The first few of a list, and how many more there are.
pub fn listed(items: &[String]) -> String {
    api::text::listed(items, LISTED)
}
