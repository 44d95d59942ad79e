//! What was last read of each cluster's certificates, so that a pass a moment later reads nothing again. Losing it costs requests,
//! never correctness.

use super::cluster_reading::Reading;
use crate::runtime::ObjectKey;
use pki::Party;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Passes follow each other closely while pods start; Secrets do not change that fast.
const FRESH: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Memory {
    reading: Option<(Instant, Arc<Reading>)>,
    parties: Option<(String, Vec<Party>)>,
}

#[derive(Default)]
pub struct Memories(Mutex<HashMap<ObjectKey, Memory>>);

impl Memories {
    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last reading, if it is recent and of this very cluster.
    pub fn fresh(&self, cluster: &ObjectKey, uid: &str) -> Option<Arc<Reading>> {
        let all = self.all();
        let (read, reading) = all.get(cluster)?.reading.as_ref()?;
        (read.elapsed() < FRESH && reading.cluster_uid == uid).then(|| reading.clone())
    }

    pub fn remember(&self, cluster: &ObjectKey, reading: Arc<Reading>) {
        self.all().entry(cluster.clone()).or_default().reading = Some((Instant::now(), reading));
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

    /// An object of this cluster was seen in this version. True if that is news, and then nothing is taken for fresh.
    pub fn noticed(&self, cluster: &ObjectKey, name: &str, version: Option<&str>) -> bool {
        let mut all = self.all();
        let Some(memory) = all.get_mut(cluster) else { return false };
        let known = memory.reading.as_ref().is_some_and(|(_, reading)| reading.has_seen(name, version));
        if !known {
            memory.reading = None;
        }
        !known
    }

    pub fn forget(&self, cluster: &ObjectKey) {
        self.all().remove(cluster);
    }

    /// Forgets clusters of one scope that are no longer there: an end in a time without a watch is not told, and a pass that was
    /// under way remembers its cluster once more.
    pub fn keep(&self, scope: Option<&str>, clusters: &HashSet<ObjectKey>) {
        let elsewhere = |cluster: &ObjectKey| scope.is_some_and(|namespace| namespace != cluster.namespace);
        self.all().retain(|cluster, _| elsewhere(cluster) || clusters.contains(cluster));
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
