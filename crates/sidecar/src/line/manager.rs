//! Keeps up the line while the settings name an operator, and copies its state for /status. IO; one task, started by `main`.
//! Without an operator, or without a certificate, it does not dial and the pod works alone.

use super::{config::LineConfig, epoch_file::EpochFile, mounted_files::MountedFiles, node::LineNode};
use crate::{arguments::RunArguments, process::ProcessWatch, state::Shared, volume};
use api::node_settings::NodeSettings;
use link::{
    Current, IdentitySource,
    client::{Fence, Line, LineParts, LineState, Notice, Times},
    sentence,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use workload_api::Source;

type Settings = watch::Receiver<Option<Arc<NodeSettings>>>;

/// How soon what the source says is seen in /status, and an epoch file that cannot be read is tried again.
const INTERVAL: Duration = Duration::from_secs(1);
/// Notices on their way; more wait in `Shared`.
const ON_THE_WAY: usize = 4;

pub struct LineManager {
    arguments: Arc<RunArguments>,
    shared: Shared,
    process: ProcessWatch,
}

impl LineManager {
    pub fn new(arguments: Arc<RunArguments>, shared: Shared, process: ProcessWatch) -> Self {
        Self { arguments, shared, process }
    }

    pub async fn run(self) {
        let mut settings = self.shared.settings();
        loop {
            match self.config(&settings) {
                Ok(config) => {
                    let changed = self.until_changed(&config, &mut settings);
                    tokio::select! {
                        () = self.keep(&config) => {}
                        () = changed => {}
                    }
                }
                Err(problem) => {
                    self.down(problem);
                    if settings.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn config(&self, settings: &Settings) -> Result<LineConfig, String> {
        LineConfig::of(settings.borrow().as_deref(), &self.arguments.pod)
    }

    /// Returns when the settings name another operator, another cluster, or none.
    async fn until_changed(&self, config: &LineConfig, settings: &mut Settings) {
        while self.config(settings).as_ref() == Ok(config) {
            if settings.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns when the line has to be made anew.
    async fn keep(&self, config: &LineConfig) {
        self.shared.lock().line.certificate = None;
        let source = self.source(config);
        tokio::select! {
            () = self.mirror_source(source.as_ref()) => {}
            () = async {
                let credentials = source.current().await;
                tokio::select! {
                    () = self.mirror_credentials(credentials.clone()) => {}
                    () = self.hold(config, credentials) => {}
                }
            } => {}
        }
    }

    fn source(&self, config: &LineConfig) -> Box<dyn IdentitySource> {
        let own = config.own.clone();
        match &config.workload_api {
            Some(endpoint) => Box::new(Source::follow(endpoint.clone(), own, workload_api::Times::default())),
            None => Box::new(MountedFiles::start(self.arguments.mtls_dir.clone(), own)),
        }
    }

    async fn hold(&self, config: &LineConfig, credentials: Current) {
        let line = match self.line(config, credentials).await {
            Ok(line) => line,
            Err(problem) => {
                self.down(problem);
                return sleep(INTERVAL).await;
            }
        };
        let (notices, receiver) = mpsc::channel(ON_THE_WAY);
        let state = line.state();
        tokio::select! {
            () = line.run(receiver) => {}
            () = self.pass_on(notices) => {}
            () = self.mirror_line(state) => {}
        }
    }

    async fn line(&self, config: &LineConfig, credentials: Current) -> Result<Line<LineNode>, String> {
        let pod = &self.arguments.pod;
        let memory = EpochFile::new(&pod.data_dir, &pod.run_dir, self.shared.clone());
        let cluster_uid = config.sender.cluster_uid.clone();
        let opened = volume::work(move || Fence::open(cluster_uid, Box::new(memory))).await;
        let fence = opened.flatten().map_err(|error| format!("the remembered epoch cannot be read: {error}"))?;
        self.shared.lock().line.epoch = fence.highest();
        let (arguments, shared, sender) = (self.arguments.clone(), self.shared.clone(), config.sender.clone());
        let parts = LineParts {
            node: Arc::new(LineNode { arguments, shared, process: self.process.clone(), sender }),
            fence: Arc::new(fence),
            addresses: config.addresses.clone(),
            operator: config.operator.clone(),
            credentials,
            times: Times::default(),
        };
        Line::new(parts).map_err(|error| sentence::of(&error))
    }

    async fn pass_on(&self, notices: mpsc::Sender<Notice>) {
        // Room first: a notice that was taken must not be lost with this line.
        while let Ok(room) = notices.reserve().await {
            room.send(self.shared.next_notice().await);
        }
    }

    async fn mirror_line(&self, mut state: watch::Receiver<LineState>) {
        loop {
            let now = state.borrow_and_update().clone();
            self.shared.lock().line.follow(&now);
            if state.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn mirror_credentials(&self, mut credentials: Current) {
        loop {
            let now = credentials.borrow_and_update().clone();
            self.shared.lock().line.certificate = Some(now.as_ref().into());
            if credentials.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn mirror_source(&self, source: &dyn IdentitySource) {
        loop {
            {
                let (problem, mut state) = (source.problem(), self.shared.lock());
                if state.line.certificate.is_none() {
                    state.line.problem.clone_from(&problem);
                }
                state.line.certificate_problem = problem;
            }
            sleep(INTERVAL).await;
        }
    }

    fn down(&self, problem: String) {
        tracing::info!(problem, "no line to the operator");
        self.shared.lock().line.down(problem);
    }
}
