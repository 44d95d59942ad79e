use super::*;
use crate::child::{ChildKey, ChildKind};
use crate::nodes::{Action, Event, FailoverMode, NodeObservation, PodCommand};

#[test]
fn what_breaks_a_rule_is_neither_pending_nor_begun() {
    let command = PodCommand {
        pod: "poc-0".into(),
        pod_uid: "nobody".into(),
        action: Action::Failover(FailoverMode::Force, None),
    };
    let delete = Step::Delete { key: ChildKey::new(ChildKind::StatefulSet, "poc"), uid: "set".to_owned() };
    let begun =
        Event { about: "failover-1".to_owned(), warning: false, reason: "FailoverStarted", message: String::new() };
    let decision = Decision { events: vec![begun], ..Decision::default() };
    let pending = vec![delete.to_string(), "something else".to_owned()];
    let mut report = Report { nodes: Some(decision), pending, ..Report::default() };
    let observation = Observation { nodes: Some(NodeObservation::default()), ..Observation::default() };
    let target = Target {
        cluster: "poc".to_owned(),
        masters: 3,
        replicas_per_master: 1,
        persistent: true,
        node_timeout: NODE_TIMEOUT,
        min_replicas_to_write: 0,
    };
    let steps = vec![Step::Command(command), delete];
    assert_eq!(safe(steps, Some(&target), &observation, &mut report, Timestamp::UNIX_EPOCH), []);
    assert_eq!(report.pending, ["something else"]);
    assert!(report.nodes.is_some_and(|decision| decision.events.is_empty()));
    assert_eq!(report.troubles.first().map(|trouble| trouble.reason), Some(Reason::UnsafePlan));
}
