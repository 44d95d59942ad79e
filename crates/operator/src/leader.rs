//! Leader election by a Lease: one process works, the others stand by. A process that cannot renew in time must end at once,
//! since another will take over; one that stops gives the Lease back, so that nobody waits. The Lease also holds the leader's
//! term, which fences its commands, and where its end of the line is. No request may hold up the election: each attempt has a
//! deadline, and the next may reach another replica of the API server.

use api::names::annotation;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use link::server::Leadership;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Bits of a term below its second: how often a second's claims can differ.
const WITHIN_A_SECOND: u32 = 20;

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
    /// What the line knows of the election.
    leadership: watch::Sender<Leadership>,
}

impl Election {
    pub fn new(api: Api<Lease>, settings: Settings, leadership: watch::Sender<Leadership>) -> Self {
        Self { api, settings, seen: None, leadership }
    }

    /// Returns once this process holds the Lease.
    pub async fn win(&mut self) {
        loop {
            match timeout(self.attempt(), self.try_once()).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.settings.name, %error, "cannot try for the Lease, trying again")
                }
                Err(_) => tracing::warn!(lease = self.settings.name, "no answer about the Lease, trying again"),
            }
            tokio::time::sleep(jittered(self.settings.interval)).await;
        }
    }

    /// Renews until that fails for too long, or somebody else has the Lease.
    pub async fn keep(&mut self) -> Error {
        let mut renewed = Instant::now();
        loop {
            let left = self.patience().saturating_sub(renewed.elapsed());
            tokio::time::sleep(jittered(self.settings.interval).min(left)).await;
            let left = self.patience().saturating_sub(renewed.elapsed());
            if left.is_zero() {
                return Error::Expired { name: self.settings.name.clone(), held: renewed.elapsed() };
            }
            let begun = Instant::now();
            match timeout(left.min(self.attempt()), self.renew()).await {
                Ok(Ok(None)) => renewed = begun,
                Ok(Ok(Some(holder))) => return Error::Taken { name: self.settings.name.clone(), holder },
                Ok(Err(error)) => tracing::warn!(lease = self.settings.name, %error, "the Lease was not renewed"),
                Err(_) => tracing::warn!(lease = self.settings.name, "no answer about the Lease, asking again"),
            }
        }
    }

    /// How long to go on without a renewal: well before another may begin.
    fn patience(&self) -> Duration {
        self.settings.duration.mul_f64(2.0 / 3.0)
    }

    /// What one attempt may take: a request that gets no answer leaves time for two more.
    fn attempt(&self) -> Duration {
        self.patience() / 3
    }

    /// Leads no more: the line sends its sidecars away.
    pub fn resign(&self) {
        self.leadership.send_replace(Leadership::Follower { leader: None });
    }

    /// Gives the Lease back; if that cannot be done soon, it ends by itself.
    pub async fn release(&self) {
        self.resign();
        if timeout(self.attempt(), self.give_back()).await.is_err() {
            tracing::warn!(lease = self.settings.name, "no answer about the Lease: it is left to expire");
        }
    }

    async fn give_back(&self) {
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
        let claimed = match self.api.get_opt(&self.settings.name).await? {
            None => self.create().await,
            Some(lease) if holder(&lease) != Some(self.settings.identity.as_str()) && !self.is_free(&lease) => {
                self.follow(&lease);
                return Ok(false);
            }
            Some(lease) => self.claim(lease).await,
        };
        match won(claimed)? {
            Some(claimed) => self.begin(claimed).await,
            None => Ok(false),
        }
    }

    async fn claim(&self, lease: Lease) -> kube::Result<Lease> {
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let now = now();
        // Whoever led before is no longer where it was.
        let patch = json!({ "metadata": { "annotations": { annotation::LINE_ADDRESS: null } }, "spec": {
            "holderIdentity": self.settings.identity, "leaseDurationSeconds": self.seconds(),
            "acquireTime": now, "renewTime": now, "leaseTransitions": transitions + 1,
        } });
        self.patch(patch, lease.metadata.resource_version).await
    }

    async fn create(&self) -> kube::Result<Lease> {
        let now = now();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": self.settings.name },
            "spec": { "holderIdentity": self.settings.identity, "leaseDurationSeconds": self.seconds(),
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0 },
        });
        let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
        self.api.create(&PostParams::default(), &lease).await
    }

    /// Leads once its term is written down: what is not in the Lease is no term.
    async fn begin(&self, claimed: Lease) -> kube::Result<bool> {
        let epoch = term(&claimed);
        let patch = json!({ "metadata": { "annotations": self.annotations(epoch) } });
        let began = won(self.patch(patch, claimed.metadata.resource_version).await)?.is_some();
        if began {
            self.leadership.send_replace(Leadership::Leader { epoch });
        }
        Ok(began)
    }

    fn follow(&self, lease: &Lease) {
        let leader = lease.metadata.annotations.as_ref().and_then(|all| all.get(annotation::LINE_ADDRESS)).cloned();
        let now = Leadership::Follower { leader };
        self.leadership.send_if_modified(|before| {
            let other = *before != now;
            *before = now;
            other
        });
    }

    fn annotations(&self, epoch: u64) -> Value {
        json!({ annotation::EPOCH: epoch.to_string(), annotation::LINE_ADDRESS: self.settings.line_address })
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

    /// Some other holder, or None when it was renewed.
    async fn renew(&self) -> kube::Result<Option<String>> {
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else { return Ok(Some("nobody".to_owned())) };
        match holder(&lease) {
            Some(holder) if holder == self.settings.identity => {
                let patch = json!({ "spec": { "renewTime": now() } });
                self.patch(patch, lease.metadata.resource_version).await.map(|_| None)
            }
            Some(other) => Ok(Some(other.to_owned())),
            // Emptied by hand: the next process takes it.
            None => Ok(Some("nobody".to_owned())),
        }
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
fn won(result: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The term of whoever just claimed this Lease: when the API server took the claim, and which of its writes that was. No two writes
/// are the same, also not one before the Lease was deleted and one after; and after a restore of an old state the time goes on.
/// Nobody's clock but the API server's is looked at, and nobody but it has a say.
fn term(claimed: &Lease) -> u64 {
    let times = claimed.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.time.as_ref());
    let at = times.chain(&claimed.metadata.creation_timestamp).map(|time| time.0.as_second()).max().unwrap_or_default();
    let version: u64 =
        claimed.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
    let within = version & ((1 << WITHIN_A_SECOND) - 1);
    // An API server whose clock is behind another's must not lead back.
    (first_term_at(at) | within).max(epoch(claimed).saturating_add(1))
}

/// Of all terms that could begin in this second of the world, the lowest.
pub fn first_term_at(second: i64) -> u64 {
    u64::try_from(second).unwrap_or_default() << WITHIN_A_SECOND
}

/// The term in the Lease; one made by an operator that wrote none has had its transitions.
fn epoch(lease: &Lease) -> u64 {
    let written = lease.metadata.annotations.as_ref().and_then(|all| all.get(annotation::EPOCH)?.parse().ok());
    let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    written.unwrap_or(u64::try_from(transitions).unwrap_or_default())
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

/// Three quarters to all of it, so that several processes do not ask in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.75 + fastrand::f64() * 0.25)
}

#[cfg(test)]
#[path = "leader_tests.rs"]
mod tests;
