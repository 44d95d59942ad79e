//! The conditions a ValkeyCluster always has, the reasons they give, and how a list of them moves on. Pure.
//! `docs/conditions.md` explains each for users; a test keeps both equal.

use crate::text::shortened;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// An enum whose variants are written out as they are spelled, with a list of them all.
macro_rules! names {
    ($(#[$about:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum { $($(#[$doc])* $variant,)+ }

        impl $enum {
            pub const ALL: &'static [$enum] = &[$($enum::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self { $($enum::$variant => stringify!($variant),)+ }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use names;

names! {
    /// What can be said about a cluster. Every type is in the status at all times.
    ConditionType {
        /// All pods are ready, every slot is served, every replica follows and all nodes agree. The one `kubectl wait` and kstatus look at.
        Ready,
        /// The operator is changing something or waiting for a change to arrive.
        Progressing,
        /// Something is wrong that does not pass by itself.
        Degraded,
        /// Pods run with settings that only a restart replaces; the message lists them.
        RestartRequired,
        /// Clients need TLS and a password; the message says what is missing.
        Secured,
        /// Every pod's sidecar is connected to the operator; the message names those that are not.
        SidecarsConnected,
        /// Every slot has an owner that serves it.
        SlotsCovered,
        /// Every shard has all its replicas, and they have all data.
        ReplicasInSync,
        /// Everything is served: every slot has a primary that takes writes. One restarting replica is no outage.
        Available,
        /// The cluster is not yet as the spec says and will be, or is kept from it by choice. The name is kstatus's, for what reads it.
        Reconciling,
        /// The cluster cannot become as the spec says before somebody does something. The name is kstatus's.
        Stalled,
        /// No sidecar is older than the operator; the message names those that are, and the way to replace them.
        SidecarsUpToDate,
        /// Parameters of the spec that the operator does not know are in effect on every pod.
        ParametersInEffect,
    }
}

names! {
    /// Why a condition has its status. One enum serves conditions, Events and metrics.
    Reason {
        /// Everything is as the spec says: every pod is ready, and the nodes are one sound cluster.
        AllPodsReady,
        /// Pods are being made or are starting.
        PodsStarting,
        /// Pods that were started are not ready.
        PodsNotReady,
        /// Objects are being written to match the spec.
        ApplyingChanges,
        /// There is nothing to change.
        UpToDate,
        /// `spec.paused` is true.
        Paused,
        /// Nothing is wrong.
        AsExpected,
        /// The spec holds what the schema could not refuse.
        InvalidSpec,
        /// The API server refused an object the operator wants.
        ObjectRefused,
        /// An object of the wanted name belongs to somebody else.
        NameTaken,
        /// The operator could not look at the cluster's objects.
        ObservationFailed,
        /// An image cannot be pulled.
        ImagePullFailed,
        /// No node takes a pod.
        PodUnschedulable,
        /// A quota of the namespace is used up.
        QuotaExceeded,
        /// The StorageClass does not exist.
        StorageClassMissing,
        /// A volume is not provided.
        VolumePending,
        /// The valkey container starts again and again.
        ValkeyCrashLooping,
        /// The sidecar container starts again and again.
        SidecarCrashLooping,
        /// Another container of a pod starts again and again, or the pod cannot be run.
        PodFailing,
        /// Valkey or the sidecar does not take a setting of the spec.
        SettingRefused,
        /// Settings wait for a restart.
        RestartPending,
        /// No setting waits for a restart.
        NothingPending,
        /// Neither TLS nor users are configured: everybody who reaches the port may do everything.
        Unprotected,
        /// All sidecars are connected.
        AllSidecarsConnected,
        /// Sidecars are on their way: their pods are starting.
        SidecarsConnecting,
        /// Sidecars of running pods are not connected.
        SidecarsDisconnected,
        /// Sidecars of running pods are not connected because the tokens of their pods are refused.
        SidecarTokensRefused,
        /// No sidecar is older than the operator.
        SidecarsCurrent,
        /// Sidecars are older than the operator.
        SidecarsOutdated,
        /// Every slot has a primary that takes writes.
        Serving,
        /// A primary answers and takes no writes.
        WritesRefused,
        /// Every parameter is known, or in effect on every pod.
        AllParametersInEffect,
        /// A parameter that the operator does not know is not in effect on some pods.
        ParametersNotInEffect,
        /// Every slot is served.
        AllSlotsCovered,
        /// Some slots have no owner.
        SlotsMissing,
        /// The primary of a shard is not running.
        PrimaryDown,
        /// Every replica is there and follows.
        AllReplicasInSync,
        /// Shards have fewer replicas than asked for.
        ReplicasMissing,
        /// Replicas are copying their primary's data.
        ReplicasSyncing,
        /// All nodes see the same cluster.
        ViewsEqual,
        /// Nodes see the cluster differently.
        ViewsDiffer,
        /// The nodes are no cluster yet.
        NotFormed,
        /// Nodes were not heard, so it is not known.
        NotHeard,
        /// A pod that is none of the cluster's has its labels.
        ForeignPod,
        /// A pod of the cluster has not the labels that it is found by, and the operator may not put them back.
        PodMislabelled,
        /// A pod runs a node that never belonged to this cluster.
        ForeignNode,
        /// Two pods run the same node.
        DuplicateNode,
        /// A pod's record of who it was is damaged, and there is data beside it.
        DamagedNode,
        /// A node knows one that is none of ours.
        UnknownNode,
        /// A shard has lost all its copies.
        ShardLost,
        /// A primary is away with its data, and the copies that are there are older.
        OnlyOlderCopy,
        /// Too few primaries are left to vote.
        MajorityLost,
        /// What the spec asks for cannot be done yet.
        /// A plan was dropped because it would have endangered data.
        UnsafePlan,
        /// An orchestration is under way.
        Orchestrating,
    }
}

/// Most conditions of an object; there are fewer, and each type is there once.
pub const CONDITIONS: usize = 32;
/// A status stays far below the limit of an object, whatever goes wrong at once.
pub const LONGEST_TEXT: usize = 1024;

/// What is now true of one condition type; the times are added by [`advance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub condition: ConditionType,
    /// None is Unknown.
    pub status: Option<bool>,
    pub reason: Reason,
    pub message: String,
}

/// The new list of conditions: one for each finding, in the findings' order.
/// The transition time stays as long as the status does.
pub fn advance(
    previous: &[Condition],
    findings: &[Finding],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    findings.iter().map(|finding| next(previous, finding, generation, now)).collect()
}

fn next(previous: &[Condition], finding: &Finding, generation: Option<i64>, now: Timestamp) -> Condition {
    let Finding { condition, status, reason, message } = finding;
    let statement = Statement { condition: condition.as_str(), status: *status, reason: reason.as_str(), message };
    statement.condition(previous, generation, now)
}

/// A finding of any kind of resource, its words already chosen.
pub(crate) struct Statement<'a> {
    pub condition: &'a str,
    pub status: Option<bool>,
    pub reason: &'a str,
    pub message: &'a str,
}

impl Statement<'_> {
    pub(crate) fn condition(&self, previous: &[Condition], generation: Option<i64>, now: Timestamp) -> Condition {
        let status = status_text(self.status);
        let before = previous.iter().find(|condition| condition.type_ == self.condition && condition.status == status);
        Condition {
            type_: self.condition.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: shortened(self.message, LONGEST_TEXT).into_owned(),
            observed_generation: generation,
            last_transition_time: before.map_or(Time(now), |condition| condition.last_transition_time.clone()),
        }
    }
}

fn status_text(status: Option<bool>) -> &'static str {
    match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn finding(status: Option<bool>, message: &str) -> Finding {
        Finding { condition: ConditionType::Ready, status, reason: Reason::PodsStarting, message: message.to_owned() }
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let [start, later] = [1_000, 2_000].map(|second| Timestamp::from_second(second).unwrap());
        let first = advance(&[], &[finding(Some(false), "0 of 6")], Some(1), start);
        let second = advance(&first, &[finding(Some(false), "5 of 6")], Some(2), later);
        let third = advance(&second, &[finding(Some(true), "6 of 6")], Some(2), later);
        assert_eq!(second[0].last_transition_time, Time(start));
        assert_eq!((second[0].message.as_str(), second[0].observed_generation), ("5 of 6", Some(2)));
        assert_eq!(third[0].last_transition_time, Time(later));
    }

    #[test]
    fn unknown_is_a_status_of_its_own() {
        let now = Timestamp::from_second(1).unwrap();
        assert_eq!(advance(&[], &[finding(None, "")], None, now)[0].status, "Unknown");
    }

    /// First cells of the table below the heading, without the code quotes.
    fn documented(heading: &str) -> BTreeSet<String> {
        let text = include_str!("../../../docs/conditions.md");
        let section = text.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        cells.map(str::to_owned).collect()
    }

    #[test]
    fn every_condition_and_reason_is_documented_and_nothing_else_is() {
        let names = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(documented("Conditions"), names(ConditionType::ALL.iter().map(|c| c.as_str()).collect()));
        assert_eq!(documented("Reasons"), names(Reason::ALL.iter().map(|r| r.as_str()).collect()));
    }
}
