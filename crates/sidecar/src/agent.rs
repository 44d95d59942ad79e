//! The loop of `run`: notice changed settings, keep valkey.conf current, bring the running server to the settings.
//! IO; level-triggered, so that losing any step or restarting the sidecar only means doing it again.

use crate::{
    arguments::RunArguments,
    boot::{self, StopNote},
    configuration::{
        append_only::{DataDirectory, Progress, Switch, SwitchError},
        apply::{self, Applied},
        data_folder::DataFolder,
        record::Record,
        render::{self, Inputs, Trust},
        wanted::{Values, Wanted},
    },
    durable_file,
    settings::{self, Stamp},
    state::Shared,
    stop_mark, volume,
    withheld::Writes,
};
use api::{node_settings::NodeSettings, valkey_version::ValkeyVersion};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use valkey::{Address, CallError, Connection, Info};

/// While no server is there; a missing socket costs one failed connect.
const EAGER: Duration = Duration::from_millis(100);
/// While the append-only file is being switched.
const STEPPING: Duration = Duration::from_millis(250);
/// When all is settled: how soon changed settings are noticed.
const CALM: Duration = Duration::from_secs(1);
/// How often a settled server is compared with the settings, and a failed step is repeated.
const REVIEW: Duration = Duration::from_secs(5);
const CALL_DEADLINE: Duration = Duration::from_secs(2);

/// When the server is checked again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    AtOnce,
    Soon,
    WhenDue,
}

impl Next {
    fn pause(self) -> Duration {
        match self {
            Next::AtOnce => EAGER,
            Next::Soon => STEPPING,
            Next::WhenDue => CALM,
        }
    }
}

pub struct Agent {
    arguments: Arc<RunArguments>,
    shared: Shared,
    settings: Option<NodeSettings>,
    revision: Option<String>,
    stamp: Option<Stamp>,
    record: Record,
    /// As it is on the volume.
    saved: Option<Record>,
    switch: Switch,
    trust: Trust,
    /// Since when valkey.conf waits for a server.
    waiting_since: Instant,
    reviewed: Option<Instant>,
    conf_outdated: bool,
    writes: Writes,
    /// A server was met, and what an earlier sidecar had noted of its stop is known.
    stop_recalled: bool,
}

impl Agent {
    pub fn new(arguments: Arc<RunArguments>, shared: Shared) -> Self {
        Self {
            arguments,
            shared,
            settings: None,
            revision: None,
            stamp: None,
            record: Record::default(),
            saved: None,
            switch: Switch::default(),
            trust: Trust::Hopeful,
            waiting_since: Instant::now(),
            reviewed: None,
            conf_outdated: false,
            writes: Writes::default(),
            stop_recalled: false,
        }
    }

    pub async fn run(mut self) {
        let folder = self.arguments.pod.data_dir.clone();
        self.record = volume::work(move || Record::load(&folder)).await.unwrap_or_default();
        loop {
            let pause = self.tick().await;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shared.review_asked_for() => self.reviewed = None,
            }
        }
    }

    async fn tick(&mut self) -> Duration {
        self.read_settings();
        let Some(settings) = self.settings.clone() else { return CALM };
        // The steps of a review rely on valkey.conf saying what the step before left.
        if self.conf_outdated && !self.write_conf(&settings).await {
            return CALM;
        }
        if self.reviewed.is_some_and(|at| at.elapsed() < REVIEW) {
            return CALM;
        }
        let next = self.review(&settings).await;
        if !self.write_conf(&settings).await {
            return CALM;
        }
        self.reviewed = (next == Next::WhenDue).then(Instant::now);
        next.pause()
    }

    fn read_settings(&mut self) {
        let path = &self.arguments.pod.settings;
        let stamp = Some(settings::stamp(path));
        if self.stamp == stamp {
            return;
        }
        self.stamp = stamp;
        match settings::read_with_revision(path) {
            Ok((settings, revision)) => self.take_settings(settings, revision),
            Err(error) => {
                tracing::error!(%error, "settings cannot be used; the last good ones stay in force");
                self.shared.lock().settings_problem = Some(error.to_string());
            }
        }
    }

    fn take_settings(&mut self, settings: NodeSettings, revision: String) {
        tracing::info!(cluster = %settings.cluster, parameters = settings.parameters.len(), "settings read");
        self.shared.take_settings(settings.clone());
        (self.settings, self.revision) = (Some(settings), Some(revision));
        self.reviewed = None;
        self.shared.lock().settings_problem = None;
    }

    fn version(&self, settings: &NodeSettings) -> ValkeyVersion {
        self.arguments.pod.valkey_version.unwrap_or(settings.valkey_version)
    }

    /// False when it could not be written.
    async fn write_conf(&mut self, settings: &NodeSettings) -> bool {
        let pod = &self.arguments.pod;
        let folder = pod.data_dir.clone();
        let Ok(data) = volume::work(move || DataFolder::read(&folder)).await else { return false };
        let version = self.version(settings);
        let (record, trust) = (&self.record, self.trust);
        let text = render::conf(&Inputs { pod, settings, version, record, data, trust });
        let written = durable_file::write_if_changed(&pod.conf(), &text);
        self.conf_outdated = written.is_err();
        match written {
            Ok(true) => tracing::info!(path = %pod.conf().display(), %version, "valkey.conf written"),
            Ok(false) => {}
            Err(error) => self.report(&error),
        }
        self.shared.lock().rendered |= !self.conf_outdated;
        if !self.conf_outdated {
            self.shared.gate.conf_rendered();
        }
        !self.conf_outdated
    }

    async fn review(&mut self, settings: &NodeSettings) -> Next {
        match self.bring_to(settings).await {
            // What it takes its writes for is settled first.
            Ok(None) => Next::AtOnce,
            Ok(Some(progress)) => {
                let mut state = self.shared.lock();
                (state.apply_problem, state.append_only) = (None, progress);
                if progress == Progress::Settled { Next::WhenDue } else { Next::Soon }
            }
            Err(SwitchError::Call(error)) if error.nobody_listens() => {
                self.nobody_there();
                Next::AtOnce
            }
            Err(error) => {
                self.report(&error);
                Next::WhenDue
            }
        }
    }

    fn report(&self, error: &dyn std::error::Error) {
        let mut text = error.to_string();
        if let Some(source) = error.source() {
            text = format!("{text}: {source}");
        }
        let mut state = self.shared.lock();
        if state.apply_problem.as_deref() != Some(text.as_str()) {
            tracing::warn!(error = %text, "could not bring Valkey to its settings yet");
            state.apply_problem = Some(text);
        }
    }

    fn nobody_there(&mut self) {
        let held_back = self.shared.lock().boot.as_ref().is_some_and(|boot| boot.waiting);
        if held_back {
            self.waiting_since = Instant::now();
        }
        let patience = self.arguments.start_patience;
        if self.trust == Trust::Hopeful && self.waiting_since.elapsed() > patience {
            tracing::warn!(?patience, "Valkey has not come up; leaving out parameters that no server has accepted yet");
            self.trust = Trust::Proven;
        }
    }

    /// `None` while the server must not take writes yet.
    async fn bring_to(&mut self, settings: &NodeSettings) -> Result<Option<Progress>, SwitchError> {
        let pod = &self.arguments.pod;
        let mut connection = Connection::open(&Address::Unix(pod.socket()), CALL_DEADLINE).await?;
        let info = connection.info(&["server", "persistence"]).await?;
        let version = running_version(&info).unwrap_or_else(|| self.version(settings));
        self.record.judged_by(&render::line_of(version));
        self.record.machine_boot = boot::machine_boot().unwrap_or_default();
        let mut wanted = Wanted::new(pod, settings, version);
        let run = info.text("run_id").unwrap_or_default();
        wanted.hold_stop_mark(self.stop_mark(run).await);
        wanted.hold_consent(self.shared.lock().consent.value(run, tokio::time::Instant::now()));
        if self.is_withheld(&mut connection, &info, &wanted, version).await? {
            return Ok(None);
        }
        apply::keep_originals(&mut connection, &wanted, &mut self.record).await?;
        self.save_record().await;
        let applied = apply::apply(&mut connection, &wanted, version, &mut self.record).await?;
        // A sidecar that ends after it has called these settings applied finds them again.
        self.save_record().await;
        self.publish(&info, wanted.ignored, applied);
        if info.flag("loading") {
            return Ok(Some(self.shared.lock().append_only));
        }
        let data = DataDirectory { path: &self.arguments.pod.data_dir, record: &mut self.record };
        self.switch.advance(&mut connection, &info, data, wanted.append_only).await.map(Some)
    }

    async fn save_record(&mut self) {
        if self.saved.as_ref() == Some(&self.record) {
            return;
        }
        match self.record.save(&self.arguments.pod.data_dir).await {
            Ok(()) => self.saved = Some(self.record.clone()),
            Err(error) => self.report(&error),
        }
    }

    async fn is_withheld(
        &mut self,
        connection: &mut Connection,
        info: &Info,
        wanted: &Wanted,
        version: ValkeyVersion,
    ) -> Result<bool, CallError> {
        let reason = self.writes.review(connection, info, &wanted.live, version).await?;
        (self.waiting_since, self.trust) = (Instant::now(), Trust::Hopeful);
        self.shared.lock().withheld = reason;
        Ok(reason.is_some())
    }

    /// The note of a stop is taken away before the next Valkey starts: where there is one beside a Valkey that runs already when this
    /// sidecar begins, an earlier one asked that Valkey to stop.
    async fn stop_mark(&mut self, run_id: &str) -> &'static str {
        let now = tokio::time::Instant::now();
        if !std::mem::replace(&mut self.stop_recalled, true) {
            let folder = self.arguments.pod.data_dir.clone();
            let noted = volume::work(move || StopNote::read(&folder)).await.ok().flatten();
            let age = noted.and_then(|note| note.asked().elapsed().ok());
            if let Some(left) = age.and_then(|age| stop_mark::LONGEST.checked_sub(age)) {
                self.shared.lock().stop_mark.ask_unless_asked(run_id, now + left);
            }
        }
        self.shared.lock().stop_mark.value(run_id, now)
    }

    fn publish(&mut self, info: &Info, ignored: Values, applied: Applied) {
        (self.waiting_since, self.trust) = (Instant::now(), Trust::Hopeful);
        let mut state = self.shared.lock();
        state.seen_valkey = true;
        state.valkey_version = info.text("valkey_version").map(str::to_owned);
        state.settled_run = info.text("run_id").map(str::to_owned);
        let tried = |name: &String| applied.tried.contains_key(name);
        let refused = self.record.refused.iter().filter(|(name, _)| !tried(name));
        state.refused = refused.map(|(name, refused)| (name.clone(), refused.clone())).collect();
        state.settings_revision.clone_from(&self.revision);
        (state.ignored, state.pending_restart, state.tried) = (ignored, applied.pending, applied.tried);
    }
}

fn running_version(info: &Info) -> Option<ValkeyVersion> {
    info.text("valkey_version")?.parse().ok()
}
