//! What of a heartbeat matters to decisions, without what moves all the time. Pure.

use link::contract::HeartbeatRequest;

/// The heartbeat without counters and clocks: equal ones call for no new pass. A field that is added to the
/// contract later counts until it is taken out here.
pub fn significant_fields(beat: &HeartbeatRequest) -> HeartbeatRequest {
    let mut beat = beat.clone();
    beat.highest_epoch = 0;
    beat.cause = 0;
    beat.previous_round_trip_microseconds = 0;
    beat.volume = None;
    if let Some(node) = beat.node.as_mut() {
        node.replication_offset = 0;
        node.used_memory_bytes = 0;
        node.keys = 0;
        node.uptime_seconds = 0;
        node.primary_link_down_seconds = None;
    }
    beat
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::contract::{NodeState, Role};

    fn beat(role: Role, offset: u64) -> HeartbeatRequest {
        let node = NodeState { role: role.into(), replication_offset: offset, keys: offset, ..NodeState::default() };
        HeartbeatRequest { node: Some(node), highest_epoch: offset, ..HeartbeatRequest::default() }
    }

    #[test]
    fn counters_do_not_matter_and_roles_do() {
        assert_eq!(significant_fields(&beat(Role::Primary, 1)), significant_fields(&beat(Role::Primary, 2)));
        assert_ne!(significant_fields(&beat(Role::Primary, 1)), significant_fields(&beat(Role::Replica, 1)));
    }
}
