//! Objects that specs refer to by name: ConfigMaps and kinds of ours. Each is watched by itself, as long as some object refers to it;
//! what others have in the namespace is never loaded. Secrets of users are not read at all: pods mount them.

use super::object::ObjectKey;
use super::restores::watch_through_restores;
use super::scope::Queues;
use crate::client::watch_config;
use futures::StreamExt;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use planner::{Reference, ReferenceKey};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

type Place = (String, ReferenceKey);

pub struct WatchedReferences {
    client: Client,
    queues: Queues,
    watched: Arc<Mutex<HashMap<Place, Watched>>>,
}

struct Watched {
    seen: Reference,
    users: BTreeSet<ObjectKey>,
    task: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WatchedReferences {
    pub fn new(client: Client, queues: Queues) -> Self {
        Self { client, queues, watched: Arc::default() }
    }

    /// What is known of these now. From here on the object gets a pass whenever one of them changes, and for no others.
    pub fn follow(&self, user: &ObjectKey, keys: &[ReferenceKey]) -> planner::References {
        let mut watched = lock(&self.watched);
        release(&mut watched, user, keys);
        let follow = |key: &ReferenceKey| {
            let place = (user.namespace.clone(), key.clone());
            let new = || Watched {
                seen: Reference::Unknown("it is being looked up".to_owned()),
                users: BTreeSet::new(),
                task: self.watch(&place),
            };
            let entry = watched.entry(place.clone()).or_insert_with(new);
            entry.users.insert(user.clone());
            (key.clone(), entry.seen.clone())
        };
        keys.iter().map(follow).collect()
    }

    /// The object is gone, and refers to nothing any more.
    pub fn end(&self, user: &ObjectKey) {
        release(&mut lock(&self.watched), user, &[]);
    }

    fn watch(&self, (namespace, key): &Place) -> AbortHandle {
        let (group, version) = key.api_version.rsplit_once('/').unwrap_or(("", &key.api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: key.api_version.clone(),
            kind: key.kind.clone(),
            plural: key.plural.clone(),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let one = watch_config().fields(&format!("metadata.name={}", key.name));
        let (watched, queues, place) = (self.watched.clone(), self.queues.clone(), (namespace.clone(), key.clone()));
        let task = tokio::spawn(async move {
            let mut events = watch_through_restores(api, one).boxed();
            let mut listed = None;
            while let Some(event) = events.next().await {
                if let Some(seen) = read(event, &mut listed) {
                    changed(&watched, &place, seen).iter().for_each(|user| queues.wake(user));
                }
            }
        });
        task.abort_handle()
    }
}

/// What an event says, once that is clear.
fn read(event: watcher::Result<Event<DynamicObject>>, listed: &mut Option<Reference>) -> Option<Reference> {
    match event {
        Ok(Event::Init) => {
            *listed = Some(Reference::Absent);
            None
        }
        Ok(Event::InitApply(object)) => {
            *listed = Some(known(object));
            None
        }
        Ok(Event::InitDone) => listed.take(),
        Ok(Event::Apply(object)) => Some(known(object)),
        Ok(Event::Delete(_)) => Some(Reference::Absent),
        Err(error) => Some(Reference::Unknown(error.to_string())),
    }
}

fn known(mut object: DynamicObject) -> Reference {
    object.metadata.managed_fields = None;
    Reference::Known(Arc::new(serde_json::to_value(&object).unwrap_or_default()))
}

/// Takes it in; whom it concerns.
fn changed(watched: &Mutex<HashMap<Place, Watched>>, place: &Place, seen: Reference) -> Vec<ObjectKey> {
    let mut watched = lock(watched);
    let Some(entry) = watched.get_mut(place).filter(|entry| entry.seen != seen) else { return Vec::new() };
    // What was known stays known while it cannot be read again: the watch goes on by itself.
    if matches!((&entry.seen, &seen), (Reference::Known(_), Reference::Unknown(_))) {
        return Vec::new();
    }
    entry.seen = seen;
    entry.users.iter().cloned().collect()
}

fn release(watched: &mut HashMap<Place, Watched>, user: &ObjectKey, kept: &[ReferenceKey]) {
    watched.retain(|(_, key), entry| {
        if !kept.contains(key) {
            entry.users.remove(user);
        }
        !entry.users.is_empty()
    });
}

fn lock(watched: &Mutex<HashMap<Place, Watched>>) -> MutexGuard<'_, HashMap<Place, Watched>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(data: &str) -> DynamicObject {
        serde_json::from_value(serde_json::json!({ "metadata": { "name": "a" }, "data": { "a": data } })).unwrap()
    }

    #[test]
    fn a_list_without_the_object_says_that_it_is_absent() {
        let mut listed = None;
        assert_eq!(read(Ok(Event::Init), &mut listed), None);
        assert_eq!(read(Ok(Event::InitDone), &mut listed), Some(Reference::Absent));
        assert_eq!(read(Ok(Event::Init), &mut listed), None);
        assert_eq!(read(Ok(Event::InitApply(object("1"))), &mut listed), None);
        assert_eq!(read(Ok(Event::InitDone), &mut listed), Some(known(object("1"))));
        assert_eq!(read(Ok(Event::Delete(object("1"))), &mut listed), Some(Reference::Absent));
    }
}
