//! The certificate, its key and the trusted roots, from the folder where the kubelet mounts their Secret. IO; one task checks
//! once a second. What cannot be used leaves the last good set in force.

use crate::settings::{self, Stamp};
use api::names::certificate_file as file;
use futures::{FutureExt, future::BoxFuture};
use link::{Credentials, CredentialsError, Current, IdentitySource};
use parking_lot::Mutex;
use pki::SpiffeId;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};
use zeroize::Zeroizing;

const INTERVAL: Duration = Duration::from_secs(1);
/// The kubelet's link to the files of one revision of the Secret.
const REVISION_LINK: &str = "..data";

#[derive(Debug, thiserror::Error)]
pub enum ReadIdentity {
    #[error("there is no certificate in {folder} yet: the operator puts it into the cluster's mtls Secret")]
    Missing { folder: PathBuf },
    #[error("could not read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the certificate in {folder} cannot be used")]
    Use { folder: PathBuf, source: CredentialsError },
    #[error("the certificate in {folder} is for {found}, this sidecar is {expected}")]
    SomebodyElse { folder: PathBuf, found: SpiffeId, expected: SpiffeId },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Revision {
    folder: PathBuf,
    stamps: [Stamp; 3],
}

/// Reads until it is dropped.
pub struct MountedFiles {
    ready: watch::Receiver<Option<Current>>,
    problem: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl MountedFiles {
    pub fn start(folder: PathBuf, expected: SpiffeId) -> Self {
        let (announce, ready) = watch::channel(None);
        let problem = Arc::new(Mutex::new(None));
        let reader = Reader { folder, expected, seen: None, given: None, announce, problem: problem.clone() };
        Self { ready, problem, task: tokio::spawn(reader.run()) }
    }
}

impl IdentitySource for MountedFiles {
    fn current(&self) -> BoxFuture<'_, Current> {
        let mut ready = self.ready.clone();
        async move {
            match ready.wait_for(Option::is_some).await.ok().and_then(|current| current.clone()) {
                Some(current) => current,
                // The reader ends only with this very value.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }
}

impl Drop for MountedFiles {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reader {
    folder: PathBuf,
    expected: SpiffeId,
    seen: Option<Revision>,
    given: Option<watch::Sender<Arc<Credentials>>>,
    announce: watch::Sender<Option<Current>>,
    problem: Arc<Mutex<Option<String>>>,
}

impl Reader {
    async fn run(mut self) {
        loop {
            self.check();
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn check(&mut self) {
        let now = revision(&self.folder);
        if self.seen.as_ref() == Some(&now) {
            return;
        }
        let read = read(&now.folder, &self.expected);
        self.take(now, read);
    }

    /// What could not be read is read again: the disk may have failed it for a moment, without any change of the files.
    fn take(&mut self, revision: Revision, read: Result<Credentials, ReadIdentity>) {
        self.seen = read.is_ok().then_some(revision);
        let problem = match read {
            Ok(credentials) => {
                self.give(credentials);
                None
            }
            Err(error) => Some(link::sentence::of(&error)),
        };
        self.note(problem);
    }

    fn give(&mut self, credentials: Credentials) {
        let (expires, thumbprint) = (credentials.expires(), credentials.thumbprint().to_string());
        tracing::info!(%expires, thumbprint, "certificate for the line to the operator read");
        match &self.given {
            Some(sender) => drop(sender.send_replace(Arc::new(credentials))),
            None => {
                let (sender, current) = watch::channel(Arc::new(credentials));
                self.given = Some(sender);
                self.announce.send_replace(Some(current));
            }
        }
    }

    fn note(&self, problem: Option<String>) {
        let mut noted = self.problem.lock();
        if let Some(problem) = problem.as_ref().filter(|problem| noted.as_ref() != Some(problem)) {
            let kept = self.given.is_some();
            tracing::warn!(problem, last_good_stays = kept, "no good certificate for the line to the operator");
        }
        *noted = problem;
    }
}

/// All files are taken from the one folder the link pointed to, so that no leaf meets another revision's key.
fn revision(folder: &Path) -> Revision {
    let resolved = fs::canonicalize(folder.join(REVISION_LINK)).unwrap_or_else(|_| folder.to_owned());
    let stamps = [file::CHAIN, file::KEY, file::ROOTS].map(|name| settings::stamp(&resolved.join(name)));
    Revision { folder: resolved, stamps }
}

fn read(folder: &Path, expected: &SpiffeId) -> Result<Credentials, ReadIdentity> {
    let text = |name: &str| match fs::read(folder.join(name)) {
        Ok(bytes) => Ok(Zeroizing::new(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ReadIdentity::Missing { folder: folder.into() }),
        Err(source) => Err(ReadIdentity::Read { path: folder.join(name), source }),
    };
    let (chain, key, roots) = (text(file::CHAIN)?, text(file::KEY)?, text(file::ROOTS)?);
    let credentials = Credentials::from_pem(&chain, &key, &roots)
        .map_err(|source| ReadIdentity::Use { folder: folder.into(), source })?;
    if credentials.id() != expected {
        let (found, expected) = (credentials.id().clone(), expected.clone());
        return Err(ReadIdentity::SomebodyElse { folder: folder.into(), found, expected });
    }
    Ok(credentials)
}

#[cfg(test)]
#[path = "mounted_files_tests.rs"]
mod tests;
