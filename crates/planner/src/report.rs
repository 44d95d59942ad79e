//! What the planner found, beside what it decided. Pure data; conditions, phase, plan text and Events are printed from it alone.

use crate::identities::CertificateReport;
use crate::modules::LoadedModule;
use crate::nodes::{Decision, FindingKind};
use crate::parameters::UnknownParameter;
use crate::sidecar_updates::SidecarUpdate;
use crate::sidecars::Sidecar;
use api::conditions::Reason;
use api::valkey_version::ValkeyVersion;
use std::collections::BTreeMap;

/// What has to be true of the nodes of a cluster that is as it should be, the weightiest first.
pub const SOUND: [FindingKind; 4] =
    [FindingKind::SlotsCovered, FindingKind::Available, FindingKind::ReplicasInSync, FindingKind::ViewsAgree];

/// Something that does not pass by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub reason: Reason,
    pub message: String,
}

/// What a valid spec asks for, as far as the status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub version: ValkeyVersion,
    pub replicas_per_master: u32,
    pub pods: u32,
    pub exporter: Option<String>,
    /// The ids of the pods are the platform's choice.
    pub platform_ids: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// None when the spec is not valid.
    pub asked: Option<Asked>,
    pub paused: bool,
    pub deleting: bool,
    pub has_stateful_set: bool,
    pub ready_pods: u32,
    /// Those of the pods asked for that are not ready, or do not exist.
    pub unready_pods: Vec<String>,
    /// Pods that do not exist.
    pub missing_pods: Vec<String>,
    /// Steps of this plan that are not done, in words.
    pub pending: Vec<String>,
    /// Things on their way that need nobody.
    pub waiting: Vec<String>,
    pub troubles: Vec<Trouble>,
    /// Each pod's sidecar, in the order of the pods; pods that do not exist have none.
    pub sidecars: Vec<Sidecar>,
    /// The modules that the nodes have loaded; None while that cannot be told.
    pub modules: Option<Vec<LoadedModule>>,
    /// What the nodes are and what becomes of them, without the commands; None when nobody asked them.
    pub nodes: Option<Decision>,
    /// Not every node has been heard since the leader changed: what was said of them before stands.
    pub nodes_returning: bool,
    /// Fields that wait for a restart, and how many pods wait for each.
    pub restart: BTreeMap<String, usize>,
    pub certificates: CertificateReport,
    /// The sidecars beside the operator; None when the spec cannot be read.
    pub sidecar_update: Option<SidecarUpdate>,
    /// Parameters of the spec that we do not know.
    pub unknown_parameters: Vec<UnknownParameter>,
}

impl Report {
    pub fn trouble(&mut self, reason: Reason, message: impl Into<String>) {
        self.troubles.push(Trouble { reason, message: message.into() });
    }

    /// Whether all that the spec asks for is there and nothing is on its way.
    pub fn is_settled(&self) -> bool {
        self.serves() && self.waiting.is_empty() && self.nodes_are_sound()
    }

    /// Whether the nodes are one cluster in which everybody does what he should.
    pub fn nodes_are_sound(&self) -> bool {
        self.nodes
            .as_ref()
            .is_none_or(|nodes| nodes.orchestration.is_none() && SOUND.iter().all(|kind| nodes.is(*kind)))
    }

    /// Whether all that is said against the nodes is that a view of theirs has to be read again, as after every change of one.
    pub fn a_view_is_read_again(&self) -> bool {
        let read = |nodes: &Decision| {
            let views = nodes.findings.iter().find(|finding| finding.kind == FindingKind::ViewsAgree);
            let unread = views.is_some_and(|finding| finding.status.is_none());
            let mut others = SOUND.iter().filter(|kind| **kind != FindingKind::ViewsAgree);
            unread && nodes.orchestration.is_none() && others.all(|kind| nodes.is(*kind))
        };
        self.nodes.as_ref().is_some_and(read)
    }

    /// Whether all pods are ready and no write is outstanding that may happen.
    pub fn serves(&self) -> bool {
        self.all_pods_ready() && (self.paused || self.pending.is_empty()) && !self.is_blocked()
    }

    /// Troubles that mean the spec is not in effect, even while all pods are ready.
    fn is_blocked(&self) -> bool {
        let blocking = [Reason::InvalidSpec, Reason::ObjectRefused, Reason::NameTaken, Reason::ObservationFailed];
        self.troubles.iter().any(|trouble| blocking.contains(&trouble.reason))
    }

    pub fn all_pods_ready(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.pods == self.ready_pods)
    }
}
