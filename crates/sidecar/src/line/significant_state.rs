//! The fields of a server's state whose change the operator wants to know immediately. Pure; the watch compares two of these.

use super::heartbeat;
use crate::{
    health::{condition::Kind, observation::Observation},
    state::State,
};
use link::contract::{Boot, SettingsRefused, TriedParameter};
use topology::Role;
use valkey::{ClusterInfo, Info};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignificantState {
    /// `None` before the first check.
    kind: Option<Kind>,
    pub role: Option<Role>,
    run_id: String,
    primary: String,
    connected_replicas: u64,
    cluster: Option<ClusterInfo>,
    settings_revision: Option<String>,
    pending_restart: Vec<String>,
    refused: Vec<String>,
    tried: Vec<TriedParameter>,
    boot: Option<Boot>,
    /// A change of roots waits for every sidecar to say that it believes the new one.
    trusted_roots: Vec<String>,
}

impl SignificantState {
    pub fn of(observed: &Observation, kind: Kind, state: &State) -> Self {
        let info = observed.info.as_ref();
        let text = |name| info.and_then(|info| info.text(name)).unwrap_or_default().to_owned();
        Self {
            kind: Some(kind),
            // A server that just went keeps its role: that is what matters about its death.
            role: info.map_or(state.role, Info::role),
            run_id: text("run_id"),
            primary: format!("{}:{}", text("master_host"), text("master_port")),
            connected_replicas: info.and_then(|info| info.number("connected_slaves")).unwrap_or_default(),
            cluster: observed.cluster.clone(),
            settings_revision: state.settings_revision.clone(),
            pending_restart: state.pending_restart.iter().map(|pending| pending.parameter.clone()).collect(),
            refused: heartbeat::refused(state),
            tried: heartbeat::tried(state),
            boot: state.boot.clone(),
            trusted_roots: heartbeat::trusted_roots(state),
        }
    }

    /// Something was refused that was not before.
    pub fn refused_since(&self, before: &Self) -> Option<SettingsRefused> {
        let news = self.refused != before.refused && !self.refused.is_empty();
        let revision = self.settings_revision.clone().unwrap_or_default();
        news.then(|| SettingsRefused { revision, detail: self.refused.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{configuration::record::Refused, health::observation::Answer};

    fn seen(info: &str, kind: Kind, state: &mut State) -> SignificantState {
        let info = (!info.is_empty()).then(|| Info::parse(info));
        let seen = SignificantState::of(&Observation { answer: Answer::Pong, info, ..Default::default() }, kind, state);
        state.role = seen.role;
        seen
    }

    #[test]
    fn a_dead_server_is_a_change_and_keeps_its_role() {
        let mut state = State::default();
        let alive = seen("role:master\nrun_id:1\n", Kind::Ready, &mut state);
        let dead = seen("", Kind::Dead, &mut state);
        assert!(dead != alive && dead.role == Some(Role::Primary));
        assert_eq!(dead, seen("", Kind::Dead, &mut state));
    }

    #[test]
    fn the_first_check_is_a_change() {
        assert_ne!(seen("role:master\n", Kind::Ready, &mut State::default()), SignificantState::default());
    }

    #[test]
    fn a_refused_setting_is_told_with_its_reason() {
        let mut state = State::default();
        let before = seen("role:master\n", Kind::Ready, &mut state);
        state.refused.insert("hz".into(), Refused { value: "x".into(), reason: "not a number".into() });
        let after = seen("role:master\n", Kind::Ready, &mut state);
        assert_eq!(after.refused_since(&before).unwrap().detail, "hz x: not a number");
        assert_eq!((after.refused_since(&after), before.refused_since(&after)), (None, None));
    }

    #[test]
    fn a_node_that_fails_and_one_that_is_back_are_changes() {
        let failing = |possibly: u64, failed: u64| {
            let text = format!(
                "cluster_state:ok\ncluster_slots_assigned:16384\ncluster_slots_ok:16384\ncluster_nodes_pfail:{possibly}\n\
                 cluster_nodes_fail:{failed}\ncluster_known_nodes:6\ncluster_size:3\ncluster_current_epoch:6\ncluster_my_epoch:1\n"
            );
            let cluster = valkey::ClusterInfo::parse(&text);
            let seen = Observation { answer: Answer::Pong, cluster, ..Default::default() };
            SignificantState::of(&seen, Kind::Ready, &State::default())
        };
        assert_ne!(failing(0, 0), failing(1, 0));
        assert_ne!(failing(1, 0), failing(0, 1), "what was a suspicion is agreed on");
        assert_eq!(failing(1, 0), failing(1, 0));
    }

    #[test]
    fn what_moves_all_the_time_is_no_change() {
        let using = |memory: u32| {
            let info = format!("role:master\nused_memory:{memory}\nmaster_repl_offset:{memory}\n");
            seen(&info, Kind::Ready, &mut State::default())
        };
        assert_eq!(using(1), using(2));
    }
}
