//! What the parts of the agent know about each other: the loop writes, the HTTP answers read. Pure data behind one lock
//! that is never held over an await.

use crate::configuration::{append_only::Progress, plan::Pending, record::Refused};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// valkey.conf is in place: Valkey may start.
    pub rendered: bool,
    /// Why settings.json cannot be used; the last good settings stay in force.
    pub settings_problem: Option<String>,
    /// Why the running server could not be brought to the settings.
    pub apply_problem: Option<String>,
    /// A server has answered since the sidecar started.
    pub seen_valkey: bool,
    pub valkey_version: Option<String>,
    /// The server process (its run id) that has all of the present settings.
    pub settled_run: Option<String>,
    pub append_only: Progress,
    pub refused: BTreeMap<String, Refused>,
    pub pending_restart: Vec<Pending>,
    pub ignored: BTreeMap<String, String>,
    #[serde(skip)]
    pub failed_probes: BTreeMap<(&'static str, &'static str), u64>,
    #[serde(skip)]
    pub hand_overs: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Shared {
    state: Arc<Mutex<State>>,
    review: Arc<Notify>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A probe met a server that the loop has not dealt with.
    pub fn ask_for_review(&self) {
        self.review.notify_one();
    }

    pub async fn review_asked_for(&self) {
        self.review.notified().await;
    }
}
