//! What the watches have shown of what our objects have, by object. Filled by `watch` and, ahead of the watches, by `act` with what the
//! API server answered: the next pass then sees this operator's own writes and repeats none of them. Of what an answer and a
//! watch say differently, the watch is right in the end.

use super::object::ObjectKey;
use planner::{ChildKey, ChildKind, ClaimFacts, PodFacts};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The answer to a write may arrive this much later than the news that the object is gone; longer than a pass may last.
const REMEMBERED: Duration = Duration::from_secs(180);

/// What is watched, one stream each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    Child(ChildKind),
    Pods,
    Claims,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Child(kind) => kind.as_str(),
            Source::Pods => "Pod",
            Source::Claims => "PersistentVolumeClaim",
        }
    }

    pub fn all() -> Vec<Source> {
        let children = ChildKind::ALL.into_iter().map(Source::Child);
        [Source::Pods, Source::Claims].into_iter().chain(children).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    pub source: Source,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug)]
pub enum Payload {
    Child(Arc<Value>),
    Pod(Arc<PodFacts>),
    /// A pod that only has labels of ours.
    Stranger(Arc<PodFacts>),
    Claim(Arc<ClaimFacts>),
}

/// One object, and which of ours it belongs to.
#[derive(Clone, Debug)]
pub struct Entry {
    pub object: ObjectName,
    pub owner: ObjectKey,
    pub uid: String,
    pub resource_version: String,
    pub payload: Payload,
}

/// All that is known of what one object of ours has.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub children: Vec<(ChildKey, Arc<Value>)>,
    pub pods: Vec<Arc<PodFacts>>,
    pub strangers: Vec<Arc<PodFacts>>,
    pub claims: Vec<Arc<ClaimFacts>>,
}

#[derive(Default)]
struct Contents {
    entries: HashMap<ObjectName, Entry>,
    /// When each entry came.
    since: HashMap<ObjectName, Instant>,
    by_owner: HashMap<ObjectKey, BTreeSet<ObjectName>>,
    not_installed: HashSet<ChildKind>,
    gone: Gone,
    /// When each source was last listed as a whole.
    listed: HashMap<Source, Instant>,
}

/// Objects that left a watch a while ago, with the version they left at. The same object may come back later: it got its label again.
#[derive(Default)]
struct Gone {
    versions: HashMap<String, (Option<u128>, Instant)>,
    by_age: VecDeque<(Instant, String)>,
}

impl Gone {
    fn add(&mut self, entry: &Entry, now: Instant) {
        while self.by_age.front().is_some_and(|(since, _)| now.duration_since(*since) > REMEMBERED) {
            if let Some((_, forgotten)) = self.by_age.pop_front() {
                self.versions.remove(&forgotten);
            }
        }
        self.versions.insert(entry.uid.clone(), (entry.version(), now));
        self.by_age.push_back((now, entry.uid.clone()));
    }

    /// When it went, if that was after this.
    fn after(&self, arriving: &Entry) -> Option<Instant> {
        let (gone, at) = self.versions.get(&arriving.uid)?;
        is_newer(*gone, arriving.version()).then_some(*at)
    }
}

pub struct Cache {
    contents: Mutex<Contents>,
    listed: watch::Sender<HashSet<Source>>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { contents: Mutex::default(), listed: watch::channel(HashSet::new()).0 }
    }
}

impl Cache {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an object in unless a newer version of it, or its end, is known. Answers with the objects of ours that this concerns.
    pub fn insert(&self, entry: Entry) -> Vec<ObjectKey> {
        self.contents().insert(entry, None)
    }

    /// Takes in an object of a list that was asked for at `began`. The list is newer than all that was known by then, also where versions
    /// are lower in it: the API server's state was put back to an older one.
    pub fn insert_listed(&self, entry: Entry, began: Instant) -> Vec<ObjectKey> {
        self.contents().insert(entry, Some(began))
    }

    /// Takes in the answer to a write that was sent at `asked`. If everything was listed since, the list knows better whether the
    /// object is there: no watch would ever say that one it has not seen is gone.
    pub fn answered(&self, entry: Entry, asked: Instant) {
        let mut contents = self.contents();
        let listed_since = contents.listed.get(&entry.object.source).is_some_and(|listed| *listed >= asked);
        let known = contents.entries.get(&entry.object).is_some_and(|known| known.uid == entry.uid);
        if known || !listed_since {
            contents.insert(entry, None);
        }
    }

    /// A watch says that the object is gone: an answer to a write before that, which arrives only now, does not bring it back.
    pub fn end(&self, last: &Entry) -> Vec<ObjectKey> {
        self.contents().gone.add(last, Instant::now());
        self.remove(&last.object, &last.uid)
    }

    /// Forgets an object, unless another of the same name has taken its place.
    pub fn remove(&self, object: &ObjectName, uid: &str) -> Vec<ObjectKey> {
        let mut contents = self.contents();
        match contents.entries.get(object) {
            Some(entry) if entry.uid == uid => contents.take(object),
            _ => Vec::new(),
        }
    }

    /// A list is complete: what the source had before and the list has not is gone.
    pub fn listed(&self, source: Source, names: &HashSet<ObjectName>) -> Vec<ObjectKey> {
        let mut contents = self.contents();
        if let Source::Child(kind) = source {
            contents.not_installed.remove(&kind);
        }
        let known = contents.entries.keys().filter(|name| name.source == source && !names.contains(*name));
        let gone: Vec<ObjectName> = known.cloned().collect();
        let concerned = gone.iter().flat_map(|name| contents.take(name)).collect();
        contents.listed.insert(source, Instant::now());
        drop(contents);
        self.mark_listed(source);
        concerned
    }

    /// The API server does not know this kind.
    pub fn set_not_installed(&self, kind: ChildKind) {
        self.contents().not_installed.insert(kind);
        self.mark_listed(Source::Child(kind));
    }

    pub fn is_installed(&self, kind: ChildKind) -> bool {
        !self.contents().not_installed.contains(&kind)
    }

    fn mark_listed(&self, source: Source) {
        self.listed.send_if_modified(|listed| listed.insert(source));
    }

    /// Sources that have not yet been listed once.
    pub fn missing(&self) -> Vec<Source> {
        let listed = self.listed.borrow();
        Source::all().into_iter().filter(|source| !listed.contains(source)).collect()
    }

    /// Returns when every source has been listed once: only then is absent really absent.
    pub async fn complete(&self) {
        let everything = Source::all();
        let mut listed = self.listed.subscribe();
        // The sender lives as long as `self`.
        let _ = listed.wait_for(|listed| everything.iter().all(|source| listed.contains(source))).await;
    }

    /// One object, by its name.
    pub fn find(&self, object: &ObjectName) -> Option<Entry> {
        self.contents().entries.get(object).cloned()
    }

    pub fn snapshot(&self, owner: &ObjectKey) -> Snapshot {
        let contents = self.contents();
        let names = contents.by_owner.get(owner).into_iter().flatten();
        let mut snapshot = Snapshot::default();
        for entry in names.filter_map(|name| contents.entries.get(name)) {
            snapshot.add(entry);
        }
        snapshot
    }
}

impl Snapshot {
    fn add(&mut self, entry: &Entry) {
        match (&entry.payload, entry.object.source) {
            (Payload::Child(value), Source::Child(kind)) => {
                self.children.push((ChildKey::new(kind, &entry.object.name), value.clone()));
            }
            (Payload::Pod(facts), _) => self.pods.push(facts.clone()),
            (Payload::Stranger(facts), _) => self.strangers.push(facts.clone()),
            (Payload::Claim(facts), _) => self.claims.push(facts.clone()),
            (Payload::Child(_), _) => {}
        }
    }
}

impl Contents {
    fn insert(&mut self, entry: Entry, listed: Option<Instant>) -> Vec<ObjectKey> {
        let known = [self.known_newer(&entry), self.gone.after(&entry)];
        if known.into_iter().flatten().any(|at| listed.is_none_or(|began| at > began)) {
            return Vec::new();
        }
        let mut concerned = self.take(&entry.object);
        concerned.retain(|owner| *owner != entry.owner);
        concerned.push(entry.owner.clone());
        self.put(entry);
        concerned
    }

    /// When a newer version of it came.
    fn known_newer(&self, arriving: &Entry) -> Option<Instant> {
        let known = self.entries.get(&arriving.object).filter(|known| known.uid == arriving.uid)?;
        is_newer(known.version(), arriving.version()).then(|| self.since.get(&arriving.object).copied())?
    }

    fn put(&mut self, entry: Entry) {
        self.since.insert(entry.object.clone(), Instant::now());
        self.by_owner.entry(entry.owner.clone()).or_default().insert(entry.object.clone());
        self.entries.insert(entry.object.clone(), entry);
    }

    fn take(&mut self, object: &ObjectName) -> Vec<ObjectKey> {
        self.since.remove(object);
        let Some(entry) = self.entries.remove(object) else { return Vec::new() };
        if let Some(names) = self.by_owner.get_mut(&entry.owner) {
            names.remove(object);
            if names.is_empty() {
                self.by_owner.remove(&entry.owner);
            }
        }
        vec![entry.owner]
    }
}

impl Entry {
    /// Resource versions are numbers that grow; a server where they are not gets no help from comparing them.
    fn version(&self) -> Option<u128> {
        self.resource_version.parse().ok()
    }
}

fn is_newer(known: Option<u128>, arriving: Option<u128>) -> bool {
    known.zip(arriving).is_some_and(|(known, arriving)| known > arriving)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ObjectKey {
        ObjectKey::cluster("test", name)
    }

    fn pod(name: &str) -> ObjectName {
        ObjectName { source: Source::Pods, namespace: "test".into(), name: name.into() }
    }

    fn entry(name: &str, of: &str, uid: &str, version: &str) -> Entry {
        let facts = PodFacts { name: name.into(), uid: uid.into(), ..PodFacts::default() };
        Entry {
            object: pod(name),
            owner: cluster(of),
            uid: uid.into(),
            resource_version: version.into(),
            payload: Payload::Pod(Arc::new(facts)),
        }
    }

    fn uids(cache: &Cache, of: &str) -> Vec<String> {
        cache.snapshot(&cluster(of)).pods.iter().map(|pod| pod.uid.clone()).collect()
    }

    #[test]
    fn what_a_watch_brings_late_does_not_undo_what_is_known() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "1", "9"));
        assert_eq!(cache.insert(entry("a", "poc", "1", "8")), []);
        assert_eq!(cache.insert(entry("a", "poc", "1", "10")), [cluster("poc")]);
        assert_eq!(cache.insert(entry("a", "poc", "2", "7")), [cluster("poc")], "another object under the same name");
        assert_eq!(uids(&cache, "poc"), ["2"]);
    }

    #[test]
    fn the_end_of_an_object_does_not_take_its_successor_with_it() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "2", "9"));
        assert_eq!(cache.remove(&pod("a"), "1"), []);
        assert_eq!(cache.remove(&pod("a"), "2"), [cluster("poc")]);
        assert!(uids(&cache, "poc").is_empty());
    }

    #[test]
    fn the_late_answer_to_a_write_does_not_raise_the_dead() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "1", "1"));
        cache.end(&entry("a", "poc", "1", "9"));
        assert_eq!(cache.insert(entry("a", "poc", "1", "8")), [], "deleted, then answered");
        cache.end(&entry("b", "poc", "2", "9"));
        assert_eq!(cache.insert(entry("b", "poc", "2", "8")), [], "created, deleted, then answered");
        assert_eq!(cache.insert(entry("a", "poc", "3", "7")), [cluster("poc")], "a successor is welcome");
        assert_eq!(cache.insert(entry("b", "poc", "2", "10")), [cluster("poc")], "it only had lost its label");
        assert_eq!(uids(&cache, "poc"), ["3", "2"]);
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_a_list_since_then_has_not() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "1", "1"));
        cache.insert(entry("b", "poc", "2", "1"));
        let before = Instant::now();
        cache.listed(Source::Pods, &HashSet::from([pod("b")]));
        cache.answered(entry("a", "poc", "1", "8"), before);
        cache.answered(entry("b", "poc", "2", "8"), before);
        assert_eq!(uids(&cache, "poc"), ["2"]);
        assert_eq!(cache.find(&pod("b")).unwrap().resource_version, "8", "what the list has may be newer");
        cache.answered(entry("c", "poc", "3", "9"), Instant::now());
        assert_eq!(uids(&cache, "poc"), ["2", "3"]);
    }

    #[test]
    fn after_a_restore_the_cache_follows_a_list_with_lower_versions() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "1", "900"));
        cache.insert(entry("b", "poc", "2", "901"));
        cache.end(&entry("b", "poc", "2", "902"));
        let began = Instant::now();
        cache.insert(entry("c", "poc", "3", "903"));
        assert_eq!(cache.insert_listed(entry("a", "poc", "1", "40"), began), [cluster("poc")]);
        assert_eq!(cache.insert_listed(entry("b", "poc", "2", "41"), began), [cluster("poc")], "it is there again");
        assert_eq!(cache.insert_listed(entry("c", "poc", "3", "42"), began), [], "what is answered meanwhile is newer");
        let version = |name| cache.find(&pod(name)).unwrap().resource_version;
        assert_eq!([version("a"), version("b"), version("c")], ["40", "41", "903"]);
        assert_eq!(cache.insert(entry("a", "poc", "1", "50")), [cluster("poc")], "and the watch goes on from there");
    }

    #[test]
    fn what_is_gone_is_not_remembered_for_ever() {
        let (mut gone, now) = (Gone::default(), Instant::now());
        gone.add(&entry("a", "poc", "1", "1"), now);
        gone.add(&entry("a", "poc", "2", "2"), now + REMEMBERED * 2);
        assert_eq!((gone.versions.len(), gone.by_age.len()), (1, 1));
    }

    #[test]
    fn an_object_that_changes_hands_concerns_both_clusters() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "1", "1"));
        assert_eq!(cache.insert(entry("a", "other", "1", "2")), [cluster("poc"), cluster("other")]);
        assert!(uids(&cache, "poc").is_empty());
        assert_eq!(uids(&cache, "other"), ["1"]);
    }

    #[test]
    fn a_new_list_forgets_what_it_does_not_hold() {
        let cache = Cache::default();
        cache.insert(entry("a", "poc", "1", "1"));
        cache.insert(entry("b", "poc", "2", "2"));
        assert_eq!(cache.listed(Source::Pods, &HashSet::from([pod("b")])), [cluster("poc")]);
        assert_eq!(uids(&cache, "poc"), ["2"]);
    }

    #[tokio::test]
    async fn the_cache_is_complete_when_every_source_was_listed_or_is_not_installed() {
        let cache = Cache::default();
        for source in Source::all().into_iter().filter(|source| *source != Source::Child(ChildKind::ServiceMonitor)) {
            cache.listed(source, &HashSet::new());
        }
        assert_eq!(cache.missing(), [Source::Child(ChildKind::ServiceMonitor)]);
        cache.set_not_installed(ChildKind::ServiceMonitor);
        cache.complete().await;
        assert!(!cache.is_installed(ChildKind::ServiceMonitor));
        cache.listed(Source::Child(ChildKind::ServiceMonitor), &HashSet::new());
        assert!(cache.is_installed(ChildKind::ServiceMonitor));
    }
}
