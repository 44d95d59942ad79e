//! What of a status is only how far something has come. Pure; the operator writes that no more than once a second.

use api::cluster::ValkeyClusterStatus;

/// Both say the same but for what is awaited, in words, and for slots that are on their way.
pub fn only_progress(before: &ValkeyClusterStatus, after: &ValkeyClusterStatus) -> bool {
    without_progress(before) == without_progress(after)
}

fn without_progress(status: &ValkeyClusterStatus) -> ValkeyClusterStatus {
    let mut status = status.clone();
    status.plan = None;
    if let Some(running) = &mut status.orchestration {
        (running.waiting_for, running.answers) = (None, Default::default());
    }
    status.queue.iter_mut().for_each(|queued| queued.why.clear());
    status.shards.iter_mut().for_each(|shard| shard.slots.clear());
    status.conditions.iter_mut().for_each(|condition| condition.message.clear());
    status.pods.iter_mut().for_each(|pod| pod.last_heartbeat = None);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::ShardStatus;

    #[test]
    fn slots_on_their_way_are_progress_and_another_shard_is_not() {
        let shard = |id: &str, slots: &str| ShardStatus {
            id: id.into(),
            slots: slots.into(),
            replication_id: None,
            nodes: Vec::new(),
        };
        let status = |shards: Vec<ShardStatus>, plan: &str| ValkeyClusterStatus {
            plan: Some(plan.to_owned()),
            shards,
            ..ValkeyClusterStatus::default()
        };
        let before = status(vec![shard("a", "0-9")], "scale: moving slots, 90 left");
        assert!(only_progress(&before, &status(vec![shard("a", "0-7")], "scale: moving slots, 88 left")));
        assert!(!only_progress(&before, &status(vec![shard("a", "0-7"), shard("b", "8-9")], "")));
        let ready = ValkeyClusterStatus { ready_replicas: 1, ..before.clone() };
        assert!(!only_progress(&before, &ready));
    }
}
