//! Short-term memory of one object: the status just written, Events not published yet, manifests that others alter, failures in a row.
//! Losing it costs a request or two, never correctness.

use super::backoff::Attempts;
use planner::{ChildKey, Difference, Notice, Step};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct State<S> {
    pub published: Option<Published<S>>,
    /// Events that are not published yet, the oldest first: the pass that decided may have had no occasion to.
    pub unpublished: Vec<Notice>,
    altered: BTreeMap<ChildKey, Altered<Vec<Difference>>>,
    /// By the UIDs of pods and volume claims.
    altered_patches: BTreeMap<String, Altered<Value>>,
    /// At the API server, at all that a pass leaves to be done there.
    pub work: Attempts,
    /// When progress that was not written is.
    progress_due: Option<Instant>,
    tell_after: Option<Duration>,
    /// At the status and Events alone: what cannot be told holds no other write up.
    pub telling: Attempts,
    /// A pass could not begin its work at the API server.
    held_back: bool,
    sizes: Sizes,
}

/// Numbers of pods that writes may bring about yet.
#[derive(Clone, Debug, Default)]
struct Sizes {
    under_way: BTreeMap<ChildKey, u64>,
    /// Of writes that failed, and when: those may come through yet, whatever is written afterwards.
    failed: Vec<(ChildKey, u64, Instant)>,
}

/// The status this process wrote last, with the resource version the object has since, and when that was.
#[derive(Clone, Debug)]
pub struct Published<S> {
    pub version: String,
    pub status: S,
    pub at: Instant,
}

impl<S> Default for State<S> {
    fn default() -> Self {
        Self {
            published: None,
            unpublished: Vec::new(),
            altered: BTreeMap::new(),
            altered_patches: BTreeMap::new(),
            work: Attempts::default(),
            progress_due: None,
            tell_after: None,
            telling: Attempts::default(),
            held_back: false,
            sizes: Sizes::default(),
        }
    }
}

/// What of an object was not as written right after writing it.
#[derive(Clone, Debug)]
struct Altered<T> {
    what: T,
    times: u32,
    last: Instant,
}

impl<T: PartialEq> Altered<T> {
    fn again(before: Option<&Self>, what: T) -> Self {
        let before = before.filter(|altered| altered.what == what);
        Self { what, times: before.map_or(1, |altered| altered.times.saturating_add(1)), last: Instant::now() }
    }

    fn is_habit(&self) -> bool {
        self.times >= HABIT && self.last.elapsed() < FORGOTTEN
    }
}

/// How often the progress of something is written: it changes with every answer of a node.
const PROGRESS: Duration = Duration::from_secs(1);
/// Unpublished Events that are kept; an API server that takes none for so long is told the latest.
const UNPUBLISHED: usize = 32;
/// Once or twice may be somebody's edit at that very moment; again and again is a webhook.
const HABIT: u32 = 3;
/// A request without an answer does not come through later than this.
const LATEST: Duration = Duration::from_secs(60);
/// After this time it is tried again: the webhook may be gone.
const FORGOTTEN: Duration = Duration::from_secs(300);

impl<S> State<S> {
    /// A list that was asked for then shows the object. It knows better what is published, whatever the versions say: the API server's
    /// state may have been put back to an older one.
    pub fn listed(&mut self, began: Instant) {
        self.published.take_if(|published| published.at <= began);
    }

    /// Takes note of the numbers of pods that these steps ask for.
    pub fn begins_to_write(&mut self, steps: &[Step]) {
        let size = |step: &Step| match step {
            Step::Apply(step) => Some((step.key.clone(), step.manifest.pointer("/spec/replicas")?.as_u64()?)),
            _ => None,
        };
        self.sizes.under_way = steps.iter().filter_map(size).collect();
    }

    /// What was written is in the cache; what failed may have come through all the same.
    pub fn has_written(&mut self, all: bool) {
        let under_way = std::mem::take(&mut self.sizes.under_way);
        let now = Instant::now();
        self.sizes.failed.retain(|(_, _, failed)| failed.elapsed() <= LATEST);
        if !all {
            self.sizes.failed.extend(under_way.into_iter().map(|(key, size)| (key, size, now)));
        }
    }

    /// The smallest number of pods that a write under way asks for.
    pub fn size_under_way(&self, key: &ChildKey) -> Option<u64> {
        let failed = self.sizes.failed.iter().filter(|(of, _, failed)| of == key && failed.elapsed() <= LATEST);
        failed.map(|(_, size, _)| *size).chain(self.sizes.under_way.get(key).copied()).min()
    }

    pub fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// Whether a pass was held back since this was last asked.
    pub fn held_back(&mut self) -> bool {
        std::mem::take(&mut self.held_back)
    }

    /// How long until a failure is waited out, the first of both.
    pub fn next_attempt(&self) -> Option<Duration> {
        self.work.left().into_iter().chain(self.telling.left()).min()
    }

    /// Whether progress has to wait, the last status was written a moment ago.
    pub fn progress_waits(&self) -> bool {
        self.published.as_ref().is_some_and(|published| published.at.elapsed() < PROGRESS)
    }

    /// Takes note that progress waits.
    pub fn keep_progress(&mut self) {
        let now = Instant::now();
        let due = self.published.as_ref().map_or(now, |published| published.at + PROGRESS);
        // Whoever noted an earlier time comes back then, and finds that it is too early.
        if self.progress_due.is_none_or(|noted| noted <= now) {
            self.progress_due = Some(due);
            self.tell_after = Some(due.saturating_duration_since(now));
        }
    }

    /// After which time a pass has to come back for progress, told once.
    pub fn tell_after(&mut self) -> Option<Duration> {
        self.tell_after.take()
    }

    pub fn keep_events(&mut self, events: &[Notice]) {
        self.unpublished.extend(events.iter().cloned());
        self.unpublished.drain(..self.unpublished.len().saturating_sub(UNPUBLISHED));
    }

    pub fn event_published(&mut self, event: &Notice) {
        self.unpublished.retain(|other| other != event);
    }

    /// Takes note of what was left after an apply.
    pub fn applied(&mut self, key: &ChildKey, differences: Vec<Difference>) {
        if differences.is_empty() {
            self.altered.remove(key);
            return;
        }
        let altered = Altered::again(self.altered.get(key), differences);
        self.altered.insert(key.clone(), altered);
    }

    /// Takes note of the labels and annotations that a pod or volume claim did not get.
    pub fn patched(&mut self, uid: &str, left: Option<Value>) {
        let Some(left) = left else { return drop(self.altered_patches.remove(uid)) };
        let altered = Altered::again(self.altered_patches.get(uid), left);
        // Pods come and go.
        self.altered_patches.retain(|_, altered| altered.last.elapsed() < FORGOTTEN);
        self.altered_patches.insert(uid.to_owned(), altered);
    }

    /// What somebody alters every time.
    pub fn altered_on_arrival(&self) -> BTreeMap<ChildKey, Vec<Difference>> {
        let habits = self.altered.iter().filter(|(_, altered)| altered.is_habit());
        habits.map(|(key, altered)| (key.clone(), altered.what.clone())).collect()
    }

    pub fn patches_altered_on_arrival(&self) -> BTreeMap<String, Value> {
        let habits = self.altered_patches.iter().filter(|(_, altered)| altered.is_habit());
        habits.map(|(uid, altered)| (uid.clone(), altered.what.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::{Apply, ChildKind, DifferenceKind, Why};
    use serde_json::json;

    fn difference(path: &str) -> Vec<Difference> {
        vec![Difference { path: path.to_owned(), kind: DifferenceKind::Changed }]
    }

    fn event(number: usize) -> Notice {
        let (reason, replaces) = ("FailoverStarted".to_owned(), format!("failover-{number}"));
        Notice { warning: true, reason, message: String::new(), replaces }
    }

    #[test]
    fn an_event_waits_until_it_is_published_whatever_is_decided_meanwhile() {
        let mut memory = State::<()>::default();
        memory.keep_events(&[event(1)]);
        memory.keep_events(&[]);
        assert_eq!(memory.unpublished, [event(1)]);
        memory.event_published(&event(1));
        assert_eq!(memory.unpublished, []);
    }

    #[test]
    fn a_list_knows_better_what_was_published_before_it_was_asked_for() {
        let now = Instant::now();
        let published = |at| Some(Published { version: "900".into(), status: (), at });
        let mut memory = State { published: published(now), ..State::default() };
        memory.listed(now);
        assert!(memory.published.is_none(), "restored from an older state, it may not be there any more");
        memory.published = published(now + Duration::from_millis(1));
        memory.listed(now);
        assert!(memory.published.is_some());
    }

    #[test]
    fn a_size_may_come_about_until_its_write_is_known_to_have_ended() {
        let (key, mut memory) = (ChildKey::new(ChildKind::StatefulSet, "poc"), State::<()>::default());
        let apply = |size: u64| {
            let manifest = json!({ "spec": { "replicas": size } });
            Step::Apply(Apply { key: key.clone(), manifest, why: Why::Missing, evict: Vec::new(), uid: None })
        };
        memory.begins_to_write(&[apply(3)]);
        assert_eq!(memory.size_under_way(&key), Some(3));
        memory.has_written(true);
        assert_eq!(memory.size_under_way(&key), None);
        memory.begins_to_write(&[apply(6)]);
        memory.has_written(false);
        memory.begins_to_write(&[]);
        memory.has_written(true);
        assert_eq!(memory.size_under_way(&key), Some(6), "the answer may have been lost");
    }

    #[test]
    fn progress_is_told_once_a_second_and_never_forgotten() {
        let published = |at| Some(Published { version: "900".into(), status: (), at });
        let mut memory = State { published: published(Instant::now()), ..State::default() };
        assert!(memory.progress_waits());
        memory.keep_progress();
        assert!(memory.tell_after().is_some_and(|time| time <= PROGRESS));
        memory.keep_progress();
        assert_eq!(memory.tell_after(), None, "one pass comes back for it, not each");
        memory.progress_due = Some(Instant::now());
        memory.keep_progress();
        assert!(memory.tell_after().is_some(), "a later write moved it on, and who came back waits again");
        memory.published = Instant::now().checked_sub(PROGRESS).and_then(published);
        assert!(!memory.progress_waits());
    }

    #[test]
    fn unpublished_events_do_not_pile_up() {
        let mut memory = State::<()>::default();
        (0..UNPUBLISHED + 5).for_each(|number| memory.keep_events(&[event(number)]));
        assert_eq!((memory.unpublished.len(), memory.unpublished.first()), (UNPUBLISHED, Some(&event(5))));
    }

    #[test]
    fn only_what_is_altered_again_and_again_is_a_habit() {
        let (key, mut memory) = (ChildKey::new(ChildKind::Service, "poc"), State::<()>::default());
        memory.applied(&key, difference("/a"));
        memory.applied(&key, difference("/b"));
        memory.applied(&key, difference("/b"));
        assert!(memory.altered_on_arrival().is_empty());
        memory.applied(&key, difference("/b"));
        assert_eq!(memory.altered_on_arrival(), BTreeMap::from([(key.clone(), difference("/b"))]));
        memory.applied(&key, Vec::new());
        assert!(memory.altered_on_arrival().is_empty());
    }

    #[test]
    fn a_pod_that_never_gets_its_label_is_a_habit_too() {
        let (left, mut memory) = (json!({ "labels": { "team": "a" } }), State::<()>::default());
        (0..HABIT).for_each(|_| memory.patched("uid", Some(left.clone())));
        assert_eq!(memory.patches_altered_on_arrival(), BTreeMap::from([("uid".to_owned(), left)]));
        memory.patched("uid", None);
        assert!(memory.patches_altered_on_arrival().is_empty());
    }
}
