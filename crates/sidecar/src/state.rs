//! What the parts of the agent know about each other: the loop writes, the HTTP answers read. Pure data behind one lock
//! that is never held over an await.

use crate::{
    boot::{self, Gate},
    configuration::{append_only::Progress, plan::Pending, record::Refused},
    election::Consent,
    line::status::LineStatus,
    slot_moves::SlotMoves,
    stop_mark::StopMark,
};
use api::node_settings::NodeSettings;
use link::{
    client::Notice,
    contract::{Boot, report_request::Event},
};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tokio::sync::{Notify, watch};
use topology::Role;

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
    /// Why the running server takes no writes yet.
    pub withheld: Option<&'static str>,
    pub append_only: Progress,
    pub refused: BTreeMap<String, Refused>,
    pub pending_restart: Vec<Pending>,
    pub ignored: BTreeMap<String, String>,
    /// Parameters that we do not know, each with why it is not in effect; empty when it is.
    pub tried: BTreeMap<String, String>,
    /// Revision of the settings that the running server was brought to.
    pub settings_revision: Option<String>,
    /// The line to the operator.
    pub line: LineStatus,
    /// How the last start of Valkey was decided.
    #[serde(serialize_with = "boot::status::serialize")]
    pub boot: Option<Boot>,
    /// The server's last known role.
    #[serde(skip)]
    pub role: Option<Role>,
    /// The pod's end was announced.
    pub terminating: bool,
    #[serde(skip)]
    pub stop_mark: StopMark,
    #[serde(skip)]
    pub consent: Consent,
    #[serde(skip)]
    pub failed_probes: BTreeMap<(&'static str, &'static str), u64>,
    #[serde(skip)]
    pub hand_overs: BTreeMap<&'static str, u64>,
}

/// Kept for the operator while there is no line; the oldest go first.
const MOST_NOTICES: usize = 32;

#[derive(Clone, Debug, Default)]
pub struct Shared {
    state: Arc<Mutex<State>>,
    review: Arc<Notify>,
    /// The gate before Valkey.
    pub gate: Gate,
    pub slot_moves: SlotMoves,
    notices: Arc<Mutex<VecDeque<Notice>>>,
    notice_added: Arc<Notify>,
    /// The settings in force, for those who wait for others.
    settings: Arc<watch::Sender<Option<Arc<NodeSettings>>>>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A probe met a server that the loop has not dealt with.
    pub fn ask_for_review(&self) {
        self.review.notify_one();
    }

    pub async fn review_asked_for(&self) {
        self.review.notified().await;
    }

    /// Sends it to the operator, now or when there is a line.
    pub fn notify_operator(&self, notice: Notice) {
        let mut notices = self.notices.lock();
        let changed = |notice: &Notice| matches!(notice, Notice::Changed);
        if changed(&notice) && notices.iter().any(changed) {
            return;
        }
        if notices.len() >= MOST_NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
        self.notice_added.notify_one();
    }

    pub fn report(&self, event: Event) {
        self.notify_operator(Notice::Report(event));
    }

    /// The oldest notice that is not sent yet; for one reader.
    pub async fn next_notice(&self) -> Notice {
        loop {
            let added = self.notice_added.notified();
            let oldest = self.notices.lock().pop_front();
            match oldest {
                Some(notice) => return notice,
                None => added.await,
            }
        }
    }

    pub fn take_settings(&self, settings: NodeSettings) {
        self.settings.send_replace(Some(Arc::new(settings)));
    }

    pub fn settings(&self) -> watch::Receiver<Option<Arc<NodeSettings>>> {
        self.settings.subscribe()
    }
}
