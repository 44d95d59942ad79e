//! Leader election by a Lease: one process works, the others stand by. A process that cannot renew in time must end at once,
//! since another will take over; one that stops gives the Lease back, so that nobody waits.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// What is tried for, and how eagerly.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    pub identity: String,
    pub duration: Duration,
    pub interval: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the Lease {name} could not be renewed for {held:?}, so another operator may lead now")]
    Expired { name: String, held: Duration },
    #[error("the Lease {name} is held by {holder} now")]
    Taken { name: String, holder: String },
}

/// The election as this process sees it.
pub struct Election {
    api: Api<Lease>,
    settings: Settings,
    /// The last version seen and when: clocks of different machines are not compared.
    seen: Option<(String, Instant)>,
}

impl Election {
    pub fn new(api: Api<Lease>, settings: Settings) -> Self {
        Self { api, settings, seen: None }
    }

    /// Returns once this process holds the Lease.
    pub async fn win(&mut self) {
        loop {
            match self.try_once().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(lease = self.settings.name, %error, "cannot try for the Lease, trying again")
                }
            }
            tokio::time::sleep(jittered(self.settings.interval)).await;
        }
    }

    /// Renews until that fails for too long, or somebody else has the Lease.
    pub async fn keep(&mut self) -> Error {
        let mut renewed = Instant::now();
        // Stop working well before another may begin.
        let deadline = self.settings.duration.mul_f64(2.0 / 3.0);
        loop {
            tokio::time::sleep(jittered(self.settings.interval)).await;
            let left = deadline.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.renew()).await {
                Ok(Ok(None)) => renewed = Instant::now(),
                Ok(Ok(Some(holder))) => return Error::Taken { name: self.settings.name.clone(), holder },
                Ok(Err(error)) => tracing::warn!(lease = self.settings.name, %error, "the Lease was not renewed"),
                Err(_) => return Error::Expired { name: self.settings.name.clone(), held: renewed.elapsed() },
            }
        }
    }

    /// Gives the Lease back.
    pub async fn release(&self) {
        let patch = json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } });
        let held = self.api.get_opt(&self.settings.name).await.ok().flatten();
        if held.as_ref().and_then(holder) == Some(self.settings.identity.as_str()) {
            let version = held.and_then(|lease| lease.metadata.resource_version);
            let released = self.patch(patch, version).await;
            tracing::info!(lease = self.settings.name, released = released.is_ok(), "stopped leading");
        }
    }

    async fn try_once(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else { return self.create().await };
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        if holder(&lease) != Some(self.settings.identity.as_str()) && !self.is_free(&lease) {
            return Ok(false);
        }
        let now = now();
        let patch = json!({ "spec": {
            "holderIdentity": self.settings.identity, "leaseDurationSeconds": self.seconds(),
            "acquireTime": now, "renewTime": now, "leaseTransitions": transitions + 1,
        } });
        won(self.patch(patch, lease.metadata.resource_version).await.map(drop))
    }

    /// Nobody's, or not renewed for its duration while this process was watching.
    fn is_free(&mut self, lease: &Lease) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let unchanged = self.seen.as_ref().filter(|(seen, _)| *seen == version).map(|(_, since)| since.elapsed());
        if unchanged.is_none() {
            self.seen = Some((version, Instant::now()));
        }
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        holder(lease).is_none() || unchanged.is_some_and(|unchanged| unchanged > duration)
    }

    async fn create(&self) -> kube::Result<bool> {
        let now = now();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": self.settings.name },
            "spec": { "holderIdentity": self.settings.identity, "leaseDurationSeconds": self.seconds(),
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0 },
        });
        let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
        won(self.api.create(&PostParams::default(), &lease).await.map(drop))
    }

    /// Some other holder, or None when it was renewed.
    async fn renew(&self) -> kube::Result<Option<String>> {
        let lease = self.api.get_opt(&self.settings.name).await?;
        match lease.as_ref().and_then(holder) {
            Some(holder) if holder == self.settings.identity => {
                let version = lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
                self.patch(json!({ "spec": { "renewTime": now() } }), version).await.map(|_| None)
            }
            Some(other) => Ok(Some(other.to_owned())),
            // Deleted or emptied by hand: take it again, unless somebody is faster.
            None => Ok(Some("nobody".to_owned())),
        }
    }

    /// Only if the Lease is still as it was read.
    async fn patch(&self, mut patch: Value, version: Option<String>) -> kube::Result<Lease> {
        if let (Some(map), Some(version)) = (patch.as_object_mut(), version) {
            map.insert("metadata".to_owned(), json!({ "resourceVersion": version }));
        }
        self.api.patch(&self.settings.name, &PatchParams::default(), &Patch::Merge(&patch)).await
    }

    fn seconds(&self) -> u64 {
        self.settings.duration.as_secs()
    }
}

/// Losing a race is no error.
fn won(result: kube::Result<()>) -> kube::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

/// Three quarters to all of it, so that several processes do not ask in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.75 + fastrand::f64() * 0.25)
}
