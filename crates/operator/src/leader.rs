//! Leader election by a Lease: one process works, the others stand by. A process that cannot renew in time must end at once,
//! since another will take over; one that stops gives the Lease back, so that nobody waits. The Lease also holds the leader's
//! term, which fences its commands, and where its end of the line is.

use api::names::annotation;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use link::server::Leadership;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The term of whoever makes the Lease.
const FIRST: u64 = 1;

/// What is tried for, and how eagerly.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    pub identity: String,
    pub duration: Duration,
    pub interval: Duration,
    /// host:port of this process's end of the line, for the others to name.
    pub line_address: Option<String>,
}

/// What the line must know of the election, and tells it.
pub struct Terms {
    pub leadership: watch::Sender<Leadership>,
    /// The highest term any sidecar has seen. Higher than the Lease's when the Lease was deleted.
    pub seen: watch::Receiver<u64>,
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
    terms: Terms,
}

impl Election {
    pub fn new(api: Api<Lease>, settings: Settings, terms: Terms) -> Self {
        Self { api, settings, seen: None, terms }
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
            let begun = Instant::now();
            match tokio::time::timeout(left, self.renew()).await {
                Ok(Ok(None)) => renewed = begun,
                Ok(Ok(Some(holder))) => return Error::Taken { name: self.settings.name.clone(), holder },
                Ok(Err(error)) => tracing::warn!(lease = self.settings.name, %error, "the Lease was not renewed"),
                Err(_) => return Error::Expired { name: self.settings.name.clone(), held: renewed.elapsed() },
            }
        }
    }

    /// Leads no more: the line sends its sidecars away.
    pub fn resign(&self) {
        self.terms.leadership.send_replace(Leadership::Follower { leader: None });
    }

    /// Gives the Lease back.
    pub async fn release(&self) {
        self.resign();
        // Nobody is sent here any more.
        let patch = json!({
            "metadata": { "annotations": { annotation::LINE_ADDRESS: null } },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 },
        });
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
            self.follow(&lease);
            return Ok(false);
        }
        let (now, epoch) = (now(), epoch(&lease) + 1);
        let patch = json!({ "metadata": { "annotations": self.annotations(epoch) }, "spec": {
            "holderIdentity": self.settings.identity, "leaseDurationSeconds": self.seconds(),
            "acquireTime": now, "renewTime": now, "leaseTransitions": transitions + 1,
        } });
        let won = won(self.patch(patch, lease.metadata.resource_version).await.map(drop))?;
        Ok(won && self.begin(epoch))
    }

    fn begin(&self, epoch: u64) -> bool {
        self.terms.leadership.send_replace(Leadership::Leader { epoch });
        true
    }

    fn follow(&self, lease: &Lease) {
        let leader = lease.metadata.annotations.as_ref().and_then(|all| all.get(annotation::LINE_ADDRESS)).cloned();
        let now = Leadership::Follower { leader };
        self.terms.leadership.send_if_modified(|before| {
            let other = *before != now;
            *before = now;
            other
        });
    }

    fn annotations(&self, epoch: u64) -> Value {
        json!({ annotation::EPOCH: epoch.to_string(), annotation::LINE_ADDRESS: self.settings.line_address })
    }

    /// The term to take, when a sidecar has seen a higher one than this.
    fn raised(&self, lease: &Lease) -> Option<u64> {
        above(epoch(lease), *self.terms.seen.borrow())
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
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": self.settings.name, "annotations": self.annotations(FIRST) },
            "spec": { "holderIdentity": self.settings.identity, "leaseDurationSeconds": self.seconds(),
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0 },
        });
        let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
        let won = won(self.api.create(&PostParams::default(), &lease).await.map(drop))?;
        Ok(won && self.begin(FIRST))
    }

    /// Some other holder, or None when it was renewed.
    async fn renew(&self) -> kube::Result<Option<String>> {
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else { return Ok(Some("nobody".to_owned())) };
        match holder(&lease) {
            Some(holder) if holder == self.settings.identity => self.extend(&lease).await.map(|()| None),
            Some(other) => Ok(Some(other.to_owned())),
            // Emptied by hand: the next process takes it.
            None => Ok(Some("nobody".to_owned())),
        }
    }

    async fn extend(&self, lease: &Lease) -> kube::Result<()> {
        let raised = self.raised(lease);
        let mut patch = json!({ "spec": { "renewTime": now() } });
        if let (Some(epoch), Some(map)) = (raised, patch.as_object_mut()) {
            map.insert("metadata".to_owned(), json!({ "annotations": self.annotations(epoch) }));
        }
        self.patch(patch, lease.metadata.resource_version.clone()).await?;
        if let Some(epoch) = raised {
            tracing::info!(epoch, "a sidecar has seen a higher term: this one goes on above it");
            self.begin(epoch);
        }
        Ok(())
    }

    /// Only if the Lease is still as it was read.
    async fn patch(&self, mut patch: Value, version: Option<String>) -> kube::Result<Lease> {
        let metadata = patch.as_object_mut().map(|map| map.entry("metadata").or_insert_with(|| json!({})));
        if let (Some(metadata), Some(version)) = (metadata.and_then(Value::as_object_mut), version) {
            metadata.insert("resourceVersion".to_owned(), json!(version));
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

/// The term in the Lease; one made by an operator that wrote none has had its transitions.
fn epoch(lease: &Lease) -> u64 {
    let written = lease.metadata.annotations.as_ref().and_then(|all| all.get(annotation::EPOCH)?.parse().ok());
    let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    written.unwrap_or(u64::try_from(transitions).unwrap_or_default())
}

fn above(ours: u64, seen: u64) -> Option<u64> {
    (seen > ours).then(|| seen.saturating_add(1))
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

/// Three quarters to all of it, so that several processes do not ask in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.75 + fastrand::f64() * 0.25)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(annotations: Value) -> Lease {
        serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": { "leaseTransitions": 4 } }))
            .unwrap()
    }

    #[test]
    fn the_term_is_the_annotations_or_what_an_older_operator_left() {
        assert_eq!(epoch(&lease(json!({ annotation::EPOCH: "9" }))), 9);
        assert_eq!(epoch(&lease(json!({}))), 4);
        assert_eq!(epoch(&lease(json!({ annotation::EPOCH: "nonsense" }))), 4);
        assert_eq!(epoch(&Lease::default()), 0);
    }

    #[test]
    fn a_term_that_sidecars_have_seen_is_passed_and_no_other_is_touched() {
        assert_eq!((above(1, 50), above(50, 50), above(51, 50), above(1, 0)), (Some(51), None, None, None));
    }
}
