//! Which path gives which answer. IO through `observation` and `handover`; the HTTP server calls it.

use super::{
    condition::{Condition, Kind},
    disk,
    http::Response,
    metrics, observation,
};
use crate::{arguments::RunArguments, handover::HandOver, last_copy, line::terminating, state::Shared};
use api::names::probe;
use serde_json::json;
use sidecar_rules::handover::Outcome;
use std::{sync::Arc, time::Duration};

/// The volume is asked for metrics' sake only: a slow one must not make them late.
const DISK_DEADLINE: Duration = Duration::from_millis(200);

const KNOWN: &str = "known paths: /healthz /valkey/startup /valkey/liveness /valkey/readiness /valkey/pre-stop/<cluster UID> /metrics /status\n";

#[derive(Clone)]
pub struct Routes {
    pub arguments: Arc<RunArguments>,
    pub shared: Shared,
    pub hand_over: Arc<HandOver>,
}

impl Routes {
    pub async fn answer(self, path: String) -> Response {
        match path.as_str() {
            probe::SIDECAR => self.own_health(),
            probe::STARTUP => self.probe("startup", Kind::is_to_be_left_alone).await,
            probe::LIVENESS => self.liveness().await,
            probe::READINESS => self.probe("readiness", Kind::is_ready).await,
            "/metrics" => self.metrics().await,
            "/status" => Response::json(200, &*self.shared.lock()),
            other => match other.strip_prefix(probe::PRE_STOP) {
                Some(cluster_uid) if self.is_of(cluster_uid) => self.pre_stop().await,
                Some(_) => Response::text(403, "a stop is announced with the UID of this pod's cluster\n"),
                None => Response::text(404, KNOWN),
            },
        }
    }

    /// The port is open to all who can reach it, and the kubelet asks it for anybody who names it in a probe. Without settings yet there
    /// is nothing to hand over.
    fn is_of(&self, cluster_uid: &str) -> bool {
        let settings = self.shared.settings();
        let own = settings.borrow().as_ref().and_then(|settings| settings.cluster_uid.clone());
        own.is_none_or(|own| own == cluster_uid)
    }

    fn own_health(&self) -> Response {
        let state = self.shared.lock();
        match (state.rendered, &state.settings_problem) {
            (true, None) => Response::json(200, &json!({"state": "ready"})),
            // The last good settings stay in force: that is a matter for a warning, not for a restart.
            (true, Some(problem)) => Response::json(200, &json!({"state": "ready", "warning": problem})),
            (false, problem) => {
                let detail = problem.as_ref().or(state.apply_problem.as_ref());
                Response::json(503, &json!({"state": "starting", "detail": detail}))
            }
        }
    }

    async fn probe(&self, name: &'static str, passes: fn(Kind) -> bool) -> Response {
        let condition = self.condition().await;
        let passes = passes(condition.kind);
        self.probed(name, condition, passes)
    }

    async fn liveness(&self) -> Response {
        let condition = self.condition().await;
        let last = condition.kind == Kind::Hung && last_copy::may_be_in(&self.arguments.pod.data_dir).await;
        let passes = last || condition.kind.is_to_be_left_alone();
        self.probed("liveness", condition, passes)
    }

    async fn condition(&self) -> Condition {
        let pod = &self.arguments.pod;
        let observed = observation::observe(&pod.socket(), &pod.data_dir, self.arguments.probe_deadline).await;
        let condition = self.shared.judge(&observed);
        if condition.kind == Kind::ApplyingSettings {
            self.shared.ask_for_review();
        }
        condition
    }

    fn probed(&self, name: &'static str, Condition { kind, detail }: Condition, passes: bool) -> Response {
        if !passes {
            *self.shared.lock().failed_probes.entry((name, kind.name())).or_default() += 1;
        }
        let status = if passes { 200 } else { 503 };
        Response::json(status, &json!({"state": kind.name(), "detail": detail}))
    }

    /// 200 in every case: the kubelet stops the container anyway, and a failed hook only adds a misleading Event.
    async fn pre_stop(&self) -> Response {
        terminating::report(&self.shared);
        self.shared.gate.dismiss();
        let outcome = self.hand_over.run().await;
        *self.shared.lock().hand_overs.entry(outcome.name()).or_default() += 1;
        match &outcome {
            Outcome::Failed(_) => tracing::error!(%outcome, "asked to hand over before a stop"),
            _ => tracing::info!(%outcome, "asked to hand over before a stop"),
        }
        Response::json(200, &json!({"outcome": outcome.name(), "detail": outcome.to_string()}))
    }

    async fn metrics(&self) -> Response {
        let disk = disk::ask(&self.arguments.pod.data_dir, DISK_DEADLINE).await;
        Response::text(200, metrics::text(&self.shared.lock(), disk))
    }
}
