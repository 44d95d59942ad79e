//! What is true of the cluster now, told from the same model the decision is made on. Pure.

use super::available::available;
use super::cluster_model::{ClusterModel, Member, Membership};
use super::decision::{FindingKind, NodeFinding};
use super::limits::{cut, listed};
use super::node_failures;
use super::observation::Valkey;
use super::proposal::Proposal;
use super::record::{OrchestrationKind, ShardNode, Stage};
use super::views;
use super::{departed, gates};
use api::conditions::Reason;
use std::collections::BTreeMap;
use topology::{NodeId, PodName, Role, SlotSet};

type Owners = BTreeMap<NodeId, SlotSet>;

pub(crate) fn findings(model: &ClusterModel, proposals: &[Proposal]) -> Vec<NodeFinding> {
    let troubles = troubles(model, proposals);
    let degraded = match troubles.first() {
        Some((reason, _)) => {
            let texts: Vec<String> = troubles.iter().map(|(_, text)| text.clone()).collect();
            finding(FindingKind::Degraded, Some(true), *reason, &texts.join("; "))
        }
        None if !views::missing(model).is_empty() => {
            finding(FindingKind::Degraded, None, Reason::NotHeard, "what the nodes see is being read")
        }
        None => finding(FindingKind::Degraded, Some(false), Reason::AsExpected, "nothing is wrong"),
    };
    let slots_covered = slots_covered(model);
    let available = available(model, &slots_covered);
    vec![slots_covered, replicas_in_sync(model), views_agree(model), degraded, available]
}

fn finding(kind: FindingKind, status: Option<bool>, reason: Reason, message: &str) -> NodeFinding {
    NodeFinding { kind, status, reason, message: cut(message) }
}

fn slots_covered(model: &ClusterModel) -> NodeFinding {
    let kind = FindingKind::SlotsCovered;
    if model.members.iter().all(|member| member.facts().is_none()) {
        return finding(kind, None, Reason::NotHeard, "no node is heard");
    }
    let owners = model.ownership();
    if let Some(text) = unserved(model, &owners, |id| node_failures::failure(model, id, owners.len()).is_some()) {
        return finding(kind, Some(false), Reason::PrimaryDown, &format!("{text} does not answer"));
    }
    if let Some(text) = unserved(model, &owners, |_| true) {
        return finding(kind, None, Reason::NotHeard, &format!("{text} is not heard, and nobody calls it failed"));
    }
    let owned = owners.values().fold(on_their_way(model), |all, slots| all.union(slots));
    let missing = owned.complement().count();
    match missing {
        0 => finding(kind, Some(true), Reason::AllSlotsCovered, "all 16384 slots have an owner"),
        _ if model.recorded.is_empty() => {
            finding(kind, Some(false), Reason::NotFormed, "the cluster is not formed yet")
        }
        _ => finding(kind, Some(false), Reason::SlotsMissing, &format!("{missing} of 16384 slots have no owner")),
    }
}

/// What was given to a node that has not said so yet is not without an owner.
fn on_their_way(model: &ClusterModel) -> SlotSet {
    let scales = model.running.is_some_and(|running| running.kind == OrchestrationKind::Scale);
    let ids = model.members.iter().filter_map(Member::id).filter(|_| scales);
    ids.fold(SlotSet::default(), |all, id| all.union(&model.map.attributed(id)))
}

/// The primaries that do not answer us and of which this is true, by their slots.
fn unserved(model: &ClusterModel, owners: &Owners, such: impl Fn(&NodeId) -> bool) -> Option<String> {
    let silent = owners.iter().filter(|(id, _)| model.by_id(id).is_none() && such(id));
    let slots: Vec<String> = silent.map(|(_, slots)| slots.to_string()).collect();
    (!slots.is_empty()).then(|| format!("the primary of slots {}", listed(&slots)))
}

fn replicas_in_sync(model: &ClusterModel) -> NodeFinding {
    let kind = FindingKind::ReplicasInSync;
    let owners = model.owners();
    if owners.is_empty() {
        return without_owners(model);
    }
    let short = owners.iter().filter_map(|owner| shortage(model, owner)).collect::<Vec<_>>();
    let unheard: Vec<String> = short.iter().flat_map(|(_, unheard)| unheard).map(ToString::to_string).collect();
    let short: Vec<String> =
        short.into_iter().filter(|(_, unheard)| unheard.is_empty()).map(|(text, _)| text).collect();
    let syncing = replicas(model).filter(|member| !in_sync(member)).map(|member| member.name().to_string());
    let syncing: Vec<String> = syncing.collect();
    if !short.is_empty() {
        return finding(
            kind,
            Some(false),
            Reason::ReplicasMissing,
            &format!("replicas are missing: {}", listed(&short)),
        );
    }
    match syncing.is_empty() {
        false => finding(kind, Some(false), Reason::ReplicasSyncing, &format!("not in sync: {}", listed(&syncing))),
        true if !unheard.is_empty() => {
            finding(kind, None, Reason::NotHeard, &format!("not heard: {}", listed(&unheard)))
        }
        true => {
            finding(kind, Some(true), Reason::AllReplicasInSync, "every shard has its replicas and they have all data")
        }
    }
}

/// Nobody says of himself that he has slots.
fn without_owners(model: &ClusterModel) -> NodeFinding {
    let kind = FindingKind::ReplicasInSync;
    let unheard: Vec<String> = model.unheard().iter().map(ToString::to_string).collect();
    match () {
        () if model.members.iter().all(|member| member.facts().is_none()) => {
            finding(kind, None, Reason::NotHeard, "no node is heard")
        }
        () if model.recorded.is_empty() => finding(kind, None, Reason::NotFormed, "the cluster is not formed yet"),
        () if !unheard.is_empty() => finding(kind, None, Reason::NotHeard, &format!("not heard: {}", listed(&unheard))),
        () => finding(kind, Some(false), Reason::ReplicasMissing, "no node that is heard has slots"),
    }
}

/// What a primary lacks, and the pods whose silence may be all there is to it.
fn shortage<'a>(model: &ClusterModel<'a>, owner: &Member) -> Option<(String, Vec<&'a PodName>)> {
    let id = owner.id()?;
    let (have, wanted) = (model.replicas_of(id).len(), model.target.replicas_per_master);
    let unheard = unheard_in_shard(model, id);
    let explained = if have + unheard.len() >= wanted { unheard } else { Vec::new() };
    (have < wanted).then(|| (format!("{} has {have} of {wanted}", owner.name()), explained))
}

/// Pods of this node's shard that are silent and run all the same.
pub(crate) fn unheard_in_shard<'a>(model: &ClusterModel<'a>, id: &NodeId) -> Vec<&'a PodName> {
    let recorded = model.recorded_shard(id).into_iter().flat_map(|shard| &shard.nodes);
    recorded.filter(|node| is_only_unheard(model, node)).map(|node| &node.pod).collect()
}

/// Its sidecar is silent, and other nodes hear it.
fn is_only_unheard(model: &ClusterModel, node: &ShardNode) -> bool {
    let silent = model.by_name(&node.pod).is_some_and(|member| member.membership == Membership::Unknown);
    silent && departed::answers_somewhere(model, &node.node_id)
}

fn replicas<'p>(model: &'p ClusterModel) -> impl Iterator<Item = &'p Member<'p>> {
    model.members.iter().filter(|member| member.is(Role::Replica))
}

pub(crate) fn in_sync(member: &Member) -> bool {
    member.facts().is_some_and(|facts| facts.primary_link_up && !facts.loading)
}

fn views_agree(model: &ClusterModel) -> NodeFinding {
    let kind = FindingKind::ViewsAgree;
    let doubts = view_doubts(model);
    let only_unread = doubts.len() == 1 && !views::missing(model).is_empty();
    match doubts.is_empty() {
        true => finding(kind, Some(true), Reason::ViewsEqual, "every node sees the same cluster"),
        false if only_unread => finding(kind, None, Reason::NotHeard, &listed(&doubts)),
        false => finding(kind, Some(false), Reason::ViewsDiffer, &listed(&doubts)),
    }
}

pub(crate) fn view_doubts(model: &ClusterModel) -> Vec<String> {
    let mut doubts = Vec::new();
    let unheard: Vec<String> = model.unheard_wanted().iter().map(ToString::to_string).collect();
    if !unheard.is_empty() {
        doubts.push(format!("not heard: {}", listed(&unheard)));
    }
    let unread: Vec<String> = views::missing(model).iter().map(|member| member.name().to_string()).collect();
    if !unread.is_empty() {
        doubts.push(format!("views to be read: {}", listed(&unread)));
    }
    if !model.map.agrees() || !model.map.conflicts().is_empty() || !digests_agree(model) {
        doubts.push("the nodes do not agree who owns which slots".to_owned());
    }
    doubts.extend(unsettled(model));
    doubts
}

fn digests_agree(model: &ClusterModel) -> bool {
    let mut digests =
        model.members.iter().filter(|member| member.membership == Membership::Ours).filter_map(Member::facts);
    let first = digests.next().map(|facts| &facts.summary.slots_digest);
    digests.all(|facts| Some(&facts.summary.slots_digest) == first)
}

/// Nodes that do not yet see a whole cluster.
fn unsettled(model: &ClusterModel) -> Option<String> {
    let expected = model.members.iter().filter(|member| member.membership == Membership::Ours).count();
    let unsettled = model.members.iter().filter(|member| {
        member.wanted
            && member.facts().is_some_and(|facts| {
                let known = usize::try_from(facts.summary.known_nodes).unwrap_or_default();
                !facts.summary.state_ok || facts.summary.failing_nodes > 0 || known < expected
            })
    });
    let names: Vec<String> = unsettled.map(|member| member.name().to_string()).collect();
    (!names.is_empty()).then(|| format!("the cluster is not whole as seen by {}", listed(&names)))
}

/// Why the cluster is not yet as it should be. Empty is verified.
pub(crate) fn doubts(model: &ClusterModel) -> Vec<String> {
    let mut doubts = view_doubts(model);
    let findings = [slots_covered(model), replicas_in_sync(model)];
    doubts.extend(findings.into_iter().filter(|finding| finding.status != Some(true)).map(|finding| finding.message));
    doubts.dedup();
    doubts
}

/// What a change from outside has to solve.
fn troubles(model: &ClusterModel, proposals: &[Proposal]) -> Vec<(Reason, String)> {
    let mut troubles: Vec<(Reason, String)> = model.members.iter().filter_map(standing_trouble).collect();
    let blocked = proposals.iter().flat_map(|proposal| proposal.blocked.clone());
    troubles.extend(blocked.filter(|(reason, _)| *reason != Reason::ShardLost || !is_replaced(model, proposals)));
    troubles.extend(gates::blocked(model));
    troubles.extend(strangers(model));
    troubles.extend(model.map.ids().filter_map(|id| outliving(model, id)));
    troubles.sort();
    troubles.dedup();
    troubles
}

/// Where nothing is on volumes, an empty shard takes the place of a lost one as soon as new pods are there: nobody has to do anything.
fn is_replaced(model: &ClusterModel, proposals: &[Proposal]) -> bool {
    let heals = |proposal: &Proposal| proposal.kind == OrchestrationKind::Heal && proposal.step == Stage::AssignSlots;
    let mut recorded = model.recorded.iter().flat_map(|shard| &shard.nodes);
    let comes = model.members.iter().any(is_coming) || recorded.any(|node| model.by_name(&node.pod).is_none());
    !model.target.persistent && (comes || proposals.iter().any(heals))
}

/// A pod that was never heard, or whose Valkey is about to start without data.
fn is_coming(member: &Member) -> bool {
    match &member.pod.valkey {
        Valkey::Unknown => member.pod.last_answer.is_none() && !member.pod.terminating,
        Valkey::Waiting(boot) => !boot.has_data,
        Valkey::Down { .. } | Valkey::Answers(_) => false,
    }
}

pub(crate) fn standing_trouble(member: &Member) -> Option<(Reason, String)> {
    let (name, id) = (member.name(), member.id()?.short());
    match member.membership {
        Membership::Foreign => Some((
            Reason::ForeignNode,
            format!(
                "{name} runs node {id}, which never belonged to this cluster and has data, slots or acquaintances of its own; it is \
                 left alone: give the pod its own volume back, or an empty one"
            ),
        )),
        Membership::Duplicate => Some((
            Reason::DuplicateNode,
            format!(
                "{name} and another pod both run node {id}: one has a copy of the other's volume; give it an empty one"
            ),
        )),
        _ => None,
    }
}

/// Nodes of nobody's pods that some node knows.
fn strangers(model: &ClusterModel) -> Option<(Reason, String)> {
    if !model.unheard().is_empty() || !views::missing(model).is_empty() {
        return None;
    }
    let unknown = departed::unknown_ids(model).into_iter().filter(|id| departed::successor(model, id).is_none());
    let ids: Vec<String> = unknown.map(|id| id.short().to_owned()).collect();
    let text = format!(
        "the nodes know {}, which is in no pod of this cluster; it is left alone: if it is a leftover, run CLUSTER FORGET for it",
        listed(&ids)
    );
    (!ids.is_empty()).then_some((Reason::UnknownNode, text))
}

/// A process that outlived its pod, as when its kubelet is dead and the pod was deleted by force.
fn outliving(model: &ClusterModel, id: &NodeId) -> Option<(Reason, String)> {
    let address = departed::still_runs_at(model, id)?;
    let text = format!(
        "node {} at {address} still runs although its pod was deleted, and nobody takes its place while it does: end it, or the machine \
         it runs on",
        id.short()
    );
    Some((Reason::UnknownNode, text))
}
