//! What is remembered of objects from one pass to the next. It ends with the object: a successor of the same name starts anew.
//! Nothing remembered is needed for correctness; a new process starts without it.

use super::object::{ObjectId, ObjectKey};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Memories<T> {
    by_object: Mutex<HashMap<ObjectKey, Memory<T>>>,
}

struct Memory<T> {
    uid: String,
    content: T,
}

impl<T> Default for Memories<T> {
    fn default() -> Self {
        Self { by_object: Mutex::default() }
    }
}

impl<T: Default> Memories<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory<T>>> {
        self.by_object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, object: &ObjectId) -> T
    where
        T: Clone,
    {
        let memories = self.lock();
        let own = memories.get(&object.key).filter(|memory| memory.uid == object.uid);
        own.map(|memory| memory.content.clone()).unwrap_or_default()
    }

    pub fn change<R>(&self, object: &ObjectId, change: impl FnOnce(&mut T) -> R) -> R {
        let mut memories = self.lock();
        let new = || Memory { uid: object.uid.clone(), content: T::default() };
        let memory = memories.entry(object.key.clone()).or_insert_with(new);
        if memory.uid != object.uid {
            *memory = new();
        }
        change(&mut memory.content)
    }

    /// None when nothing is remembered, which stays so: what comes after the end of an object brings it not back.
    pub fn change_known<R>(&self, object: &ObjectId, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut memories = self.lock();
        let own = memories.get_mut(&object.key).filter(|memory| memory.uid == object.uid);
        own.map(|memory| change(&mut memory.content))
    }

    /// Answers with what was remembered of it.
    pub fn end(&self, object: &ObjectKey) -> Option<T> {
        self.lock().remove(object).map(|memory| memory.content)
    }

    /// Objects that are remembered and are not among these: a pass that was under way when its object ended remembers it once more,
    /// and an end in a time without a watch is never shown.
    pub fn strangers(&self, known: &HashSet<ObjectKey>) -> Vec<ObjectKey> {
        self.lock().keys().filter(|key| !known.contains(*key)).cloned().collect()
    }

    pub fn count(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str) -> ObjectId {
        let key = ObjectKey::cluster("test", name);
        ObjectId { api_version: "valkey.io/v1alpha1".into(), key, uid: uid.into() }
    }

    #[test]
    fn a_successor_of_the_same_name_inherits_nothing() {
        let memories = Memories::<u32>::default();
        memories.change(&object("a", "1"), |memory| *memory = 7);
        assert_eq!((memories.of(&object("a", "1")), memories.of(&object("a", "2"))), (7, 0));
        memories.change(&object("a", "2"), |memory| assert_eq!(*memory, 0));
        assert_eq!(memories.count(), 1);
    }

    #[test]
    fn kinds_of_the_same_name_are_kept_apart() {
        let memories = Memories::<u32>::default();
        let mut other = object("a", "1");
        other.key.kind = "ValkeyClusterTls".into();
        memories.change(&object("a", "1"), |memory| *memory = 7);
        assert_eq!(memories.of(&other), 0);
    }

    #[test]
    fn the_end_of_an_object_ends_what_is_remembered() {
        let memories = Memories::<u32>::default();
        memories.change(&object("a", "1"), |memory| *memory = 7);
        assert_eq!(memories.end(&object("a", "1").key), Some(7));
        assert_eq!(memories.change_known(&object("a", "1"), |memory| *memory = 8), None);
        memories.change(&object("b", "2"), |_| ());
        assert_eq!(memories.strangers(&HashSet::new()), [object("b", "2").key]);
        assert!(memories.strangers(&HashSet::from([object("b", "2").key])).is_empty());
    }
}
