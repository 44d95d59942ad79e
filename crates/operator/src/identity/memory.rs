//! What was last read of each cluster's certificates, so that a pass a moment later reads nothing again. Losing it costs requests,
//! never correctness.

use super::cluster_reading::Reading;
use crate::runtime::ObjectKey;
use pki::Party;
use planner::Made;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Passes follow each other closely while pods start; Secrets do not change that fast.
const FRESH: Duration = Duration::from_secs(5);

/// What was read, or why it could not be.
pub type LastReading = Result<Arc<Reading>, String>;

/// Of a cluster with a certain uid, as everything here.
struct Known {
    uid: String,
    at: Instant,
    /// Somebody changed it since.
    outdated: bool,
    reading: LastReading,
}

#[derive(Default)]
struct Memory {
    known: Option<Known>,
    made: Option<(String, Made)>,
    parties: Option<(String, Vec<Party>)>,
}

#[derive(Default)]
pub struct Memories {
    by_cluster: Mutex<HashMap<ObjectKey, Memory>>,
    /// Clusters that are gone, each with its uid, whose keys nobody has looked for yet.
    ended: Mutex<HashSet<(ObjectKey, String)>>,
}

impl Memories {
    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        self.by_cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, HashSet<(ObjectKey, String)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clusters that have gone since this was last asked.
    pub fn take_ended(&self) -> HashSet<(ObjectKey, String)> {
        std::mem::take(&mut self.ended())
    }

    /// Has to be asked for again.
    pub fn has_ended(&self, cluster: ObjectKey, uid: String) {
        self.ended().insert((cluster, uid));
    }

    /// The last reading of this very cluster.
    pub fn known(&self, cluster: &ObjectKey, uid: &str) -> Option<LastReading> {
        let all = self.all();
        let known = all.get(cluster)?.known.as_ref().filter(|known| known.uid == uid)?;
        Some(known.reading.clone())
    }

    /// Whether it was read a moment ago and nothing happened to it since.
    pub fn is_fresh(&self, cluster: &ObjectKey, uid: &str) -> bool {
        let all = self.all();
        let known = all.get(cluster).and_then(|memory| memory.known.as_ref()).filter(|known| known.uid == uid);
        known.is_some_and(|known| known.reading.is_ok() && !known.outdated && known.at.elapsed() < FRESH)
    }

    /// True when it is other than what was known.
    pub fn remember(&self, cluster: &ObjectKey, uid: &str, reading: LastReading) -> bool {
        let mut all = self.all();
        let memory = all.entry(cluster.clone()).or_default();
        let same = memory.known.as_ref().is_some_and(|known| known.uid == uid && known.reading == reading);
        memory.known = Some(Known { uid: uid.to_owned(), at: Instant::now(), outdated: false, reading });
        !same
    }

    /// It has to be read again.
    pub fn outdated(&self, cluster: &ObjectKey) {
        if let Some(known) = self.all().get_mut(cluster).and_then(|memory| memory.known.as_mut()) {
            known.outdated = true;
        }
    }

    pub fn set_made(&self, cluster: &ObjectKey, uid: &str, made: Made) {
        self.all().entry(cluster.clone()).or_default().made = Some((uid.to_owned(), made));
    }

    /// What this process made last for this cluster.
    pub fn made(&self, cluster: &ObjectKey, uid: &str) -> Option<Made> {
        let all = self.all();
        let (of, made) = all.get(cluster)?.made.as_ref()?;
        (of == uid).then(|| made.clone())
    }

    /// How the sidecars of this cluster, by its uid, stand.
    pub fn set_parties(&self, cluster: &ObjectKey, uid: &str, parties: Vec<Party>) {
        self.all().entry(cluster.clone()).or_default().parties = Some((uid.to_owned(), parties));
    }

    /// None when the cluster was not looked at yet.
    pub fn parties(&self, cluster: &ObjectKey, uid: &str) -> Option<Vec<Party>> {
        let all = self.all();
        let (of, parties) = all.get(cluster)?.parties.as_ref()?;
        (of == uid).then(|| parties.clone())
    }

    /// An object of this cluster was seen in this version. True if that is news, and then all is read again.
    pub fn noticed(&self, cluster: &ObjectKey, name: &str, version: Option<&str>) -> bool {
        let mut all = self.all();
        let Some(memory) = all.get_mut(cluster) else { return false };
        let Some(known) = memory.known.as_mut() else { return true };
        let seen = known.reading.as_ref().is_ok_and(|reading| reading.has_seen(name, version));
        known.outdated |= !seen;
        !seen
    }

    pub fn forget(&self, cluster: &ObjectKey) {
        let memory = self.all().remove(cluster);
        if let Some(known) = memory.and_then(|memory| memory.known) {
            self.has_ended(cluster.clone(), known.uid);
        }
    }

    /// Forgets clusters of one scope that are no longer there: an end in a time without a watch is not told, and a pass that was
    /// under way remembers its cluster once more.
    pub fn keep(&self, scope: Option<&str>, clusters: &HashSet<ObjectKey>) {
        let elsewhere = |cluster: &ObjectKey| scope.is_some_and(|namespace| namespace != cluster.namespace);
        let gone: Vec<ObjectKey> =
            self.all().keys().filter(|cluster| !elsewhere(cluster) && !clusters.contains(*cluster)).cloned().collect();
        gone.iter().for_each(|cluster| self.forget(cluster));
    }

    pub fn len(&self) -> usize {
        self.all().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::cluster(namespace, name)
    }

    #[test]
    fn clusters_that_are_gone_are_forgotten_and_those_of_other_scopes_are_not() {
        let (memories, kept) = (Memories::default(), cluster("a", "kept"));
        for cluster in [&kept, &cluster("a", "gone"), &cluster("b", "elsewhere")] {
            memories.set_parties(cluster, "uid", Vec::new());
        }
        memories.keep(Some("a"), &HashSet::from([kept.clone()]));
        assert_eq!(memories.len(), 2);
        memories.keep(None, &HashSet::from([kept.clone()]));
        assert!(memories.len() == 1 && memories.parties(&kept, "uid").is_some());
    }
}
