//! One connection's sidecar: who its certificate says it is, which pod its token proved, and what it has open.

use super::{
    Limits, PodProof, ProofError, ProvenPod, Refusal, Sidecar, Wakeups,
    bucket::Bucket,
    shares::{Holder, Kind, Place, Shares},
    wakeups::Wakeup,
};
use crate::{PROOF_METADATA, PROOF_PREFIX, contract::Sender};
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use pki::identity::Naming;
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::timeout,
};

pub struct Admitted {
    pub sidecar: Sidecar,
    pub wakeup: Wakeup,
}

/// The pod that a connection's token proved.
pub struct Proven {
    pub pod: ProvenPod,
    pub holder: Holder,
    _connection: Place,
}

pub struct Peer {
    pub number: u64,
    pub address: SocketAddr,
    pub certificate: pki::LeafFacts,
    naming: Naming,
    /// True once the connection is to end: calls that wait come back.
    pub closing: watch::Sender<bool>,
    pub streaming: AtomicBool,
    pub waiting: AtomicBool,
    /// Whose certificate it shows.
    pub cluster: Holder,
    shares: Arc<Shares>,
    _connection: Place,
    /// Given back with the proof.
    unproven: Mutex<Option<[Place; 2]>>,
    /// Until there is one nothing of a message is read.
    proven: OnceLock<Proven>,
    proving: AsyncMutex<()>,
    /// Once its words fitted, too.
    admitted: OnceLock<Admitted>,
    /// Its token was refused. A sidecar dials again then; no other token is checked on this connection.
    refused: AtomicBool,
    bucket: Mutex<Bucket>,
    last_call: Mutex<Instant>,
}

impl Peer {
    pub fn new(
        number: u64,
        address: SocketAddr,
        (certificate, naming): (pki::LeafFacts, Naming),
        (shares, limits): (&Arc<Shares>, &Limits),
    ) -> Result<Self, Refusal> {
        let (now, cluster) = (Instant::now(), Holder::from(certificate.id.to_string()));
        let connection = shares.take(&cluster, Kind::Connection, limits.connections_per_cluster);
        let connection = connection.ok_or(Refusal::TooManyFromCluster)?;
        let unproven = unproven(&cluster, address.ip(), (shares, limits)).ok_or(Refusal::TooManyUnproven)?;
        Ok(Self {
            number,
            address,
            certificate,
            naming,
            closing: watch::Sender::new(false),
            streaming: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            cluster,
            shares: shares.clone(),
            _connection: connection,
            unproven: Mutex::new(Some(unproven)),
            proven: OnceLock::new(),
            proving: AsyncMutex::new(()),
            admitted: OnceLock::new(),
            refused: AtomicBool::new(false),
            bucket: Mutex::new(Bucket::full(limits.calls_burst, now)),
            last_call: Mutex::new(now),
        })
    }

    /// Counts a call; false when there were too many.
    pub fn called(&self, limits: &Limits) -> bool {
        let now = Instant::now();
        *self.last_call.lock() = now;
        let mut bucket = self.bucket.lock();
        bucket.take(limits.calls_burst, limits.calls_per_second, now)
    }

    pub fn last_call(&self) -> Instant {
        *self.last_call.lock()
    }

    pub fn proven(&self) -> Option<&Proven> {
        self.proven.get()
    }

    pub fn admitted(&self) -> Option<&Admitted> {
        self.admitted.get()
    }

    /// Whether the words fit the certificate: exactly the identity of the cluster that the sender names.
    pub fn recognise<'a>(&self, sender: Option<&'a Sender>) -> Result<&'a Sender, Refusal> {
        let sender = complete(sender)?;
        self.is_of(&sender.namespace, &sender.cluster)?;
        // A job that runs is not cut off by the clock; the sidecar changes certificates when it ends.
        let streaming = self.streaming.load(Ordering::Relaxed);
        let skew = SignedDuration::try_from(pki::SKEW).unwrap_or_default();
        let outlived = Timestamp::now().duration_since(self.certificate.not_after) > skew;
        if outlived && !streaming { Err(Refusal::OutlivedCertificate) } else { Ok(sender) }
    }

    /// Whether the certificate is exactly that cluster's.
    fn is_of(&self, namespace: &str, cluster: &str) -> Result<(), Refusal> {
        let expected = self.naming.sidecar(namespace, cluster).ok();
        if expected.as_ref() == Some(&self.certificate.id) { Ok(()) } else { Err(Refusal::OtherCluster) }
    }

    /// Which pod speaks, by the token beside its first call. From the headers alone: all pods of a cluster share its certificate, so
    /// whoever has no more than that is not read.
    pub async fn prove(&self, headers: &HeaderMap, proof: &dyn PodProof, limits: &Limits) -> Result<&Proven, Refusal> {
        if let Some(proven) = self.proven.get() {
            return Ok(proven);
        }
        let Ok(_turn) = self.proving.try_lock() else { return Err(Refusal::ProofUnderWay) };
        if self.refused.load(Ordering::Relaxed) {
            return Err(Refusal::RefusedBefore);
        }
        let proven = prove(proof, headers, limits).await;
        let proven = proven.and_then(|pod| self.is_of(&pod.namespace, &pod.cluster).map(|()| pod));
        let refused = matches!(proven, Err(Refusal::PodProof(_) | Refusal::OtherCluster));
        self.refused.store(refused, Ordering::Relaxed);
        self.take_share(proven?, limits)
    }

    /// The pod of its own cluster that its token says it is of.
    pub fn claims(&self, headers: &HeaderMap, proof: &dyn PodProof) -> Option<ProvenPod> {
        let claimed = proof.claims(bearer(headers)?)?;
        self.is_of(&claimed.namespace, &claimed.cluster).is_ok().then_some(claimed)
    }

    fn take_share(&self, pod: ProvenPod, limits: &Limits) -> Result<&Proven, Refusal> {
        let holder = Holder::from(pod.pod_uid.as_str());
        let place = self.shares.take(&holder, Kind::Connection, limits.connections_per_pod);
        let _connection = place.ok_or(Refusal::TooManyFromPod)?;
        *self.unproven.lock() = None;
        Ok(self.proven.get_or_init(|| Proven { pod, holder, _connection }))
    }

    /// Whether the words fit the pod that was proven, and whether that pod is still there.
    pub fn admit(&self, sender: &Sender, proof: &dyn PodProof, wakeups: &Wakeups) -> Result<&Admitted, Refusal> {
        let pod = &self.proven.get().ok_or(Refusal::NoPodProof)?.pod;
        fits(pod, sender)?;
        let admitted = self.admitted.get_or_init(|| {
            let wakeup = wakeups.connect(&pod.pod_uid, self.number);
            Admitted { sidecar: self.sidecar(pod.clone(), sender), wakeup }
        });
        proof.holds(pod).map_err(refusal)?;
        Ok(admitted)
    }

    fn sidecar(&self, pod: ProvenPod, sender: &Sender) -> Sidecar {
        Sidecar {
            pod,
            version: sender.sidecar_version.clone(),
            certificate: self.certificate.clone(),
            address: self.address,
            connection: self.number,
        }
    }
}

/// Of its cluster, and of its cluster at its address.
fn unproven(cluster: &Holder, address: IpAddr, (shares, limits): (&Arc<Shares>, &Limits)) -> Option<[Place; 2]> {
    let here = Holder::from(format!("{cluster} {address}"));
    let of_address = shares.take(&here, Kind::Unproven, limits.unproven_per_cluster_and_address)?;
    Some([of_address, shares.take(cluster, Kind::Unproven, limits.unproven_per_cluster)?])
}

fn complete(sender: Option<&Sender>) -> Result<&Sender, Refusal> {
    let sender = sender.ok_or(Refusal::Missing { field: "sender" })?;
    let fields = [
        ("sender.namespace", &sender.namespace),
        ("sender.cluster", &sender.cluster),
        ("sender.cluster_uid", &sender.cluster_uid),
        ("sender.pod", &sender.pod),
        ("sender.pod_uid", &sender.pod_uid),
    ];
    match fields.into_iter().find(|(_, value)| value.is_empty()) {
        Some((field, _)) => Err(Refusal::Missing { field }),
        None => Ok(sender),
    }
}

fn fits(pod: &ProvenPod, sender: &Sender) -> Result<(), Refusal> {
    let cluster =
        [&pod.namespace, &pod.cluster, &pod.cluster_uid] == [&sender.namespace, &sender.cluster, &sender.cluster_uid];
    if !cluster {
        return Err(Refusal::OtherCluster);
    }
    if [&pod.pod, &pod.pod_uid] == [&sender.pod, &sender.pod_uid] { Ok(()) } else { Err(Refusal::OtherPod) }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(PROOF_METADATA)?.to_str().ok()?.strip_prefix(PROOF_PREFIX)
}

async fn prove(proof: &dyn PodProof, headers: &HeaderMap, limits: &Limits) -> Result<ProvenPod, Refusal> {
    let token = bearer(headers).ok_or(Refusal::NoPodProof)?;
    match timeout(limits.call_time, proof.prove(token)).await {
        Ok(Ok(pod)) => Ok(pod),
        Ok(Err(error)) => Err(refusal(error)),
        Err(_) => Err(Refusal::PodProofUnavailable("no answer in time".into())),
    }
}

fn refusal(error: ProofError) -> Refusal {
    match error {
        ProofError::Refused(why) => Refusal::PodProof(why),
        ProofError::Unavailable(why) => Refusal::PodProofUnavailable(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pki::Thumbprint;

    fn peer(expired_for: SignedDuration) -> Peer {
        let certificate = pki::LeafFacts {
            id: pki::identity::sidecar("team-a", "orders").expect("an identity"),
            thumbprint: Thumbprint::recorded("00"),
            not_before: Timestamp::UNIX_EPOCH,
            not_after: Timestamp::now() - expired_for,
        };
        let (address, shown) = (([127, 0, 0, 1], 1).into(), (certificate, Naming::Namespaces));
        Peer::new(1, address, shown, (&Arc::default(), &Limits::default())).expect("there is room")
    }

    fn sender(cluster: &str, pod_uid: &str) -> Sender {
        Sender {
            namespace: "team-a".into(),
            cluster: cluster.into(),
            cluster_uid: "uid".into(),
            pod: "orders-0".into(),
            pod_uid: pod_uid.into(),
            sidecar_version: String::new(),
        }
    }

    #[test]
    fn a_connection_that_outlived_its_certificate_is_refused_unless_a_job_runs_on_it() {
        let said = sender("orders", "uid");
        assert!(peer(SignedDuration::from_mins(1)).recognise(Some(&said)).is_ok(), "clocks differ by minutes");
        let old = peer(SignedDuration::from_hours(1));
        assert_eq!(old.recognise(Some(&said)), Err(Refusal::OutlivedCertificate));
        old.streaming.store(true, Ordering::Relaxed);
        assert!(old.recognise(Some(&said)).is_ok());
    }

    #[test]
    fn incomplete_words_are_refused_by_the_name_of_the_field() {
        let peer = peer(SignedDuration::ZERO);
        assert_eq!(peer.recognise(None), Err(Refusal::Missing { field: "sender" }));
        assert_eq!(peer.recognise(Some(&sender("orders", ""))), Err(Refusal::Missing { field: "sender.pod_uid" }));
        assert_eq!(peer.recognise(Some(&sender("payments", "uid"))), Err(Refusal::OtherCluster));
    }
}
