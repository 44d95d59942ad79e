//! What the status says of the nodes: shards, orchestration, and the conditions about them. Pure; a part of `status`.

use crate::nodes::FindingKind;
use crate::nodes::status as record;
use crate::report::{Report, SOUND};
use crate::status::Found;
use api::cluster::ValkeyClusterStatus;
use api::conditions::{ConditionType, Finding, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

type Previous<'a> = Option<&'a ValkeyClusterStatus>;

/// Whether the cluster serves as it should. A change of leader alone does not end that, nor that a node has news.
pub fn is_up(report: &Report, previous: Previous<'_>) -> bool {
    let was_up =
        previous.and_then(|status| condition(status, ConditionType::Ready)).is_some_and(|it| it.status == "True");
    let stands = was_up && (report.nodes_returning || report.a_view_is_read_again());
    report.serves() && (report.nodes_are_sound() || stands)
}

fn condition(status: &ValkeyClusterStatus, type_: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// The status with the nodes as they are now.
pub fn with_nodes(mut status: ValkeyClusterStatus, report: &Report) -> ValkeyClusterStatus {
    let Some(nodes) = &report.nodes else { return status };
    status.orchestration = record::orchestration(nodes.orchestration.as_ref());
    status.queue = record::queue(&nodes.queue);
    if !report.nodes_returning {
        status.shards = record::shards(&nodes.shards);
        status.master_count = shards_with_slots(&status);
    }
    status
}

/// What there is, and not what is asked for: an autoscaler divides by it.
fn shards_with_slots(status: &ValkeyClusterStatus) -> i32 {
    let count = status.shards.iter().filter(|shard| !shard.slots.is_empty()).count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Why the nodes are not one sound cluster.
pub fn unsound(report: &Report) -> Option<Found> {
    let nodes = report.nodes.as_ref()?;
    let missing = SOUND.iter().filter_map(|kind| nodes.findings.iter().find(|finding| finding.kind == *kind));
    let first = missing.into_iter().find(|finding| finding.status != Some(true));
    first
        .map(|finding| (false, finding.reason, finding.message.clone()))
        .or_else(|| orchestrating(report).map(|(_, reason, message)| (false, reason, message)))
}

/// The orchestration under way, as a word about progress.
pub fn orchestrating(report: &Report) -> Option<Found> {
    let running = report.nodes.as_ref()?.orchestration.as_ref()?;
    let waits = running.waiting_for.as_ref().map(|what| format!(", waits for {what}")).unwrap_or_default();
    Some((true, Reason::Orchestrating, format!("{:?}: {:?}{waits}", running.kind, running.step)))
}

/// What was wrong before, while the nodes have yet to tell what they see: it is not right because nobody looked.
pub fn still_degraded(report: &Report, previous: Previous<'_>) -> Option<Found> {
    let said = report.nodes.iter().flat_map(|nodes| &nodes.findings);
    let mut said = said.filter(|finding| finding.kind == FindingKind::Degraded).peekable();
    let unread = said.peek().is_some() && said.all(|finding| finding.status.is_none());
    let before = condition(previous?, ConditionType::Degraded).filter(|before| unread && before.status == "True")?;
    same(ConditionType::Degraded, before).map(|before| (true, before.reason, before.message))
}

pub fn of_nodes(type_: ConditionType, report: &Report, previous: Previous<'_>) -> Finding {
    let before = previous.and_then(|status| condition(status, type_)).filter(|_| report.nodes_returning);
    let kind = match type_ {
        ConditionType::ReplicasInSync => FindingKind::ReplicasInSync,
        ConditionType::Available => FindingKind::Available,
        _ => FindingKind::SlotsCovered,
    };
    let found = report.nodes.iter().flat_map(|nodes| &nodes.findings).find(|finding| finding.kind == kind);
    match (before.and_then(|before| same(type_, before)), found) {
        (Some(before), _) => before,
        (None, Some(found)) => {
            Finding { condition: type_, status: found.status, reason: found.reason, message: found.message.clone() }
        }
        (None, None) => unheard(type_),
    }
}

/// Nobody could look.
pub fn unheard(condition: ConditionType) -> Finding {
    Finding { condition, status: None, reason: Reason::NotHeard, message: "the nodes were not asked".to_owned() }
}

/// What a status said.
pub fn before(status: &ValkeyClusterStatus, type_: ConditionType) -> Option<Finding> {
    condition(status, type_).and_then(|condition| same(type_, condition))
}

/// The finding that a condition was made from.
fn same(type_: ConditionType, condition: &Condition) -> Option<Finding> {
    let status = match condition.status.as_str() {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    };
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason)?;
    Some(Finding { condition: type_, status, reason: *reason, message: condition.message.clone() })
}

#[cfg(test)]
mod tests {
    use crate::nodes::{Decision, FindingKind, NodeFinding};
    use crate::observation::Identity;
    use crate::report::{Asked, SOUND};
    use crate::{Report, status};
    use api::cluster::ValkeyClusterStatus;
    use api::conditions::Reason;
    use k8s_openapi::jiff::Timestamp;

    fn degraded(said: Option<bool>, previous: Option<&ValkeyClusterStatus>) -> ValkeyClusterStatus {
        let (kind, reason) = (FindingKind::Degraded, Reason::MajorityLost);
        let finding = NodeFinding { kind, status: said, reason, message: "too few are left".to_owned() };
        let nodes = Some(Decision { findings: vec![finding], ..Decision::default() });
        let mut report = Report { nodes, ..Report::default() };
        if said == Some(true) {
            report.trouble(Reason::MajorityLost, "too few are left");
        }
        status(&report, &Identity::default(), previous, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_cluster_that_is_not_ready_says_what_is_awaited() {
        let (kind, reason) = (FindingKind::ViewsAgree, Reason::ViewsDiffer);
        let differing = NodeFinding {
            kind,
            status: Some(false),
            reason,
            message: "the cluster is not whole as seen by a-1".to_owned(),
        };
        let nodes = Some(Decision { findings: vec![differing], ..Decision::default() });
        let version = api::valkey_version::ValkeyVersion::from_tag("9.1").unwrap();
        let asked = Some(Asked { version, replicas_per_master: 1, pods: 6, exporter: None, platform_ids: false });
        let report = Report { nodes, asked, ready_pods: 6, ..Report::default() };
        let found = status(&report, &Identity::default(), None, Timestamp::UNIX_EPOCH);
        assert_eq!(found.plan.as_deref(), Some("wait: the cluster is not whole as seen by a-1"));
    }

    fn phase_and_reason(status: &ValkeyClusterStatus) -> (Option<&str>, &str) {
        let degraded = status.conditions.iter().find(|condition| condition.type_ == "Degraded");
        (status.phase.as_deref(), degraded.map(|condition| condition.reason.as_str()).unwrap_or_default())
    }

    #[test]
    fn what_was_wrong_stays_said_until_the_nodes_have_told_what_they_see() {
        let wrong = degraded(Some(true), None);
        let unread = degraded(None, Some(&wrong));
        assert_eq!(phase_and_reason(&unread), (Some("Failed"), "MajorityLost"));
        assert_eq!(phase_and_reason(&degraded(Some(false), Some(&unread))).1, "AsExpected");
        assert_eq!(phase_and_reason(&degraded(None, None)).1, "AsExpected", "nothing was wrong before");
    }

    fn said(kind: FindingKind, status: Option<bool>) -> NodeFinding {
        NodeFinding { kind, status, reason: Reason::NotHeard, message: "views to be read: a-1".to_owned() }
    }

    fn ready(views: Option<bool>, previous: Option<&ValkeyClusterStatus>) -> ValkeyClusterStatus {
        let value = |kind| if kind == FindingKind::ViewsAgree { views } else { Some(true) };
        let findings = SOUND.map(|kind| said(kind, value(kind))).to_vec();
        let nodes = Some(Decision { findings, ..Decision::default() });
        let version = api::valkey_version::ValkeyVersion::from_tag("9.1").unwrap();
        let asked = Some(Asked { version, replicas_per_master: 1, pods: 6, exporter: None, platform_ids: false });
        let report = Report { nodes, asked, ready_pods: 6, ..Report::default() };
        status(&report, &Identity::default(), previous, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn ready_stands_and_is_told_once_while_a_view_is_read_again() {
        let whole = ready(Some(true), None);
        let unread = ready(None, Some(&whole));
        let read = ready(Some(true), Some(&unread));
        assert_eq!(crate::notices(&whole.conditions, &unread.conditions), []);
        assert_eq!(crate::notices(&unread.conditions, &read.conditions), []);
        let is_ready = |status: &ValkeyClusterStatus| status.conditions[0].status.clone();
        assert_eq!([is_ready(&unread), is_ready(&ready(Some(false), Some(&whole)))], ["True", "False"]);
        assert_eq!(is_ready(&ready(None, None)), "False", "it was not ready before");
    }
}
