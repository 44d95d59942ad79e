//! What the sidecars of all clusters have said and which of them are connected. In memory only: a new leader hears it all
//! again within seconds. Written by the service, read by every pass over a cluster.

use super::scopes::Scopes;
use super::significant_fields::significant_fields;
use crate::runtime::ObjectKey;
use crate::shortened::shortened;
use k8s_openapi::jiff::Timestamp;
use link::contract::{HeartbeatRequest, ReportRequest};
use link::server::{ProvenPod, Sidecar};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reports kept of one pod; a repeated one is kept once.
const REPORTS: usize = 8;
/// How long after taking the lead sidecars may be on their way back: ten thousand need 15 s.
const RETURN: Duration = Duration::from_secs(20);

/// A connection that is open beside a newer one of the same pod.
#[derive(Clone, Debug)]
pub struct OlderConnection {
    number: u64,
    certificate: pki::LeafFacts,
}

/// What is known of one pod's sidecar.
#[derive(Clone, Debug)]
pub struct SidecarFacts {
    pub pod: ProvenPod,
    pub connected: bool,
    /// A stream for commands is open.
    pub streaming: bool,
    /// Number of the newest connection.
    pub connection: u64,
    /// What is left if that one ends first; the newest last.
    older: Vec<OlderConnection>,
    /// The same number for as long as there was always a connection: a change of certificates is no absence.
    pub presence: u64,
    pub connected_since: Timestamp,
    /// When the last connection ended, while there is none.
    pub lost: Option<Timestamp>,
    pub last_heartbeat: Timestamp,
    pub beat: HeartbeatRequest,
    pub version: String,
    pub certificate: pki::LeafFacts,
    /// The newest last.
    pub reports: VecDeque<ReportRequest>,
}

/// A pod whose token was refused, and why, in a few words.
struct TurnedAway {
    pod: ProvenPod,
    why: String,
}

#[derive(Default)]
struct Contents {
    by_pod: HashMap<String, Arc<SidecarFacts>>,
    /// By pod, until its sidecar is heard.
    turned_away: HashMap<String, TurnedAway>,
    leading_since: Option<Instant>,
}

pub struct Roster {
    contents: Mutex<Contents>,
    scopes: Arc<Scopes>,
}

impl Roster {
    pub fn new(scopes: Arc<Scopes>) -> Self {
        Self { contents: Mutex::default(), scopes }
    }

    /// All that is known of a cluster's sidecars, connected or not.
    pub fn of_cluster(&self, cluster_uid: &str) -> Vec<Arc<SidecarFacts>> {
        self.lock().by_pod.values().filter(|facts| facts.pod.cluster_uid == cluster_uid).cloned().collect()
    }

    pub fn of_pod(&self, pod_uid: &str) -> Option<Arc<SidecarFacts>> {
        self.lock().by_pod.get(pod_uid).cloned()
    }

    /// How long sidecars that were not heard of may still be on their way, after a change of leader.
    pub fn returning(&self) -> Option<Duration> {
        let since = self.lock().leading_since?;
        RETURN.checked_sub(since.elapsed())
    }

    pub fn leads(&self) {
        self.lock().leading_since = Some(Instant::now());
    }

    /// Takes a heartbeat in; the cluster is looked at when it says something new.
    pub fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) {
        let mut contents = self.lock();
        let before = contents.by_pod.get(&sidecar.pod.pod_uid).cloned();
        let facts = next(before.as_deref(), sidecar, beat, Timestamp::now());
        let news = before.is_none_or(|before| is_news(&before, &facts));
        contents.turned_away.remove(&sidecar.pod.pod_uid);
        contents.by_pod.insert(sidecar.pod.pod_uid.clone(), Arc::new(facts));
        drop(contents);
        if news {
            self.wake(&sidecar.pod);
        }
    }

    /// Takes a report in; every one is worth a pass.
    pub fn report(&self, pod: &ProvenPod, report: ReportRequest) {
        let known = self.change(&pod.pod_uid, |facts| {
            facts.reports.retain(|other| other.event_id != report.event_id);
            facts.reports.push_back(report);
            while facts.reports.len() > REPORTS {
                facts.reports.pop_front();
            }
        });
        if known.is_some() {
            self.wake(pod);
        }
    }

    /// The cluster is looked at when there is another reason than before.
    pub fn turned_away(&self, pod: &ProvenPod, why: &str) {
        let why = shortened(format_args!("{why}"));
        let (uid, now) = (pod.pod_uid.clone(), TurnedAway { pod: pod.clone(), why: why.clone() });
        let before = self.lock().turned_away.insert(uid, now);
        if before.is_none_or(|before| before.why != why) {
            self.wake(pod);
        }
    }

    /// Pods of a cluster whose tokens were refused, by UID, each with the reason.
    pub fn refusals(&self, cluster_uid: &str) -> Vec<(String, String)> {
        let contents = self.lock();
        let of_cluster = contents.turned_away.values().filter(|refused| refused.pod.cluster_uid == cluster_uid);
        of_cluster.map(|refused| (refused.pod.pod_uid.clone(), refused.why.clone())).collect()
    }

    /// One of a pod's connections ended; an older one than the newest is no news.
    pub fn disconnected(&self, sidecar: &Sidecar) {
        let end = |facts: &mut SidecarFacts| facts.end(sidecar.connection, Timestamp::now());
        if self.change(&sidecar.pod.pod_uid, end) == Some(true) {
            self.wake(&sidecar.pod);
        }
    }

    /// How long the one that was silent longest has been.
    pub fn longest_silence(&self, now: Timestamp) -> Option<Duration> {
        let oldest = self.lock().by_pod.values().map(|facts| facts.last_heartbeat).min()?;
        Some(now.duration_since(oldest).try_into().unwrap_or_default())
    }

    pub fn streaming(&self, pod_uid: &str, streaming: bool) {
        let _unknown = self.change(pod_uid, |facts| facts.streaming = streaming);
    }

    /// Forgets pods of one scope whose clusters are gone.
    pub fn keep_clusters(&self, scope: Option<&str>, uids: &[String]) {
        let elsewhere = |pod: &ProvenPod| scope.is_some_and(|namespace| namespace != pod.namespace);
        let kept = |pod: &ProvenPod| elsewhere(pod) || uids.contains(&pod.cluster_uid);
        let mut contents = self.lock();
        contents.by_pod.retain(|_, facts| kept(&facts.pod));
        contents.turned_away.retain(|_, refused| kept(&refused.pod));
    }

    /// Forgets pods of a cluster that are no longer there.
    pub fn keep_pods(&self, cluster_uid: &str, pod_uids: &[&str]) {
        let gone = |pod: &ProvenPod| pod.cluster_uid == cluster_uid && !pod_uids.contains(&pod.pod_uid.as_str());
        let mut contents = self.lock();
        contents.by_pod.retain(|_, facts| facts.connected || !gone(&facts.pod));
        contents.turned_away.retain(|_, refused| !gone(&refused.pod));
    }

    /// None when the pod is not known.
    fn change<T>(&self, pod_uid: &str, change: impl FnOnce(&mut SidecarFacts) -> T) -> Option<T> {
        self.lock().by_pod.get_mut(pod_uid).map(|facts| change(Arc::make_mut(facts)))
    }

    fn wake(&self, pod: &ProvenPod) {
        self.scopes.wake(&ObjectKey::cluster(pod.namespace.clone(), pod.cluster.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SidecarFacts {
    /// Takes the end of a connection in; whether it is news. The next older one that is still open takes the place of the newest.
    fn end(&mut self, connection: u64, now: Timestamp) -> bool {
        if self.connection != connection {
            self.older.retain(|older| older.number != connection);
            return false;
        }
        match self.older.pop() {
            Some(older) => (self.connection, self.certificate) = (older.number, older.certificate),
            None => (self.connected, self.streaming, self.lost) = (false, false, Some(now)),
        }
        true
    }

    /// The connections that stay open beside this one. Only those that were heard before a newer one: what comes later on an older
    /// one may be the last word of a connection whose end is known already.
    fn beside(&self, connection: u64) -> Vec<OlderConnection> {
        let mut older = self.older.clone();
        if self.connection < connection {
            older.push(OlderConnection { number: self.connection, certificate: self.certificate.clone() });
        }
        older
    }
}

fn next(before: Option<&SidecarFacts>, sidecar: &Sidecar, beat: HeartbeatRequest, now: Timestamp) -> SidecarFacts {
    let present = before.filter(|before| before.connected);
    // A heartbeat of an older connection may arrive after the first of the newer one: it says nothing new.
    if let Some(present) = present.filter(|present| present.connection > sidecar.connection) {
        return present.clone();
    }
    let same = present.filter(|present| present.connection == sidecar.connection);
    SidecarFacts {
        pod: sidecar.pod.clone(),
        connected: true,
        streaming: same.is_some_and(|before| before.streaming),
        connection: same.map_or(sidecar.connection, |before| before.connection),
        older: present.map(|before| before.beside(sidecar.connection)).unwrap_or_default(),
        presence: present.map_or(sidecar.connection, |before| before.presence),
        connected_since: present.map_or(now, |before| before.connected_since),
        lost: None,
        last_heartbeat: now,
        beat,
        version: sidecar.version.clone(),
        certificate: same.map_or_else(|| sidecar.certificate.clone(), |before| before.certificate.clone()),
        reports: before.map(|before| before.reports.clone()).unwrap_or_default(),
    }
}

/// Whether anybody would decide or say something else after this.
fn is_news(before: &SidecarFacts, after: &SidecarFacts) -> bool {
    let connection =
        |facts: &SidecarFacts| (facts.connected, facts.version.clone(), facts.certificate.thumbprint.clone());
    connection(before) != connection(after) || significant_fields(&before.beat) != significant_fields(&after.beat)
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
