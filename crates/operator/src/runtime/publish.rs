//! Publish: the only writer of status and Events. Writes when something differs, Events before the status they go with:
//! a process that dies in between writes the same Event again, under the same name.

use super::act::words;
use super::controller::Controller;
use super::kind::Kind;
use super::object::ObjectId;
use super::plain;
use super::resources;
use super::state::Published;
use super::status::StatusWrite;
use api::names::{API_VERSION, MANAGER};
use api::text;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use planner::{Notice, OtherStatus, notices, whole_second};
use serde_json::json;
use std::time::Instant;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the status of {kind} {name} could not be written: {detail}")]
    WriteStatus { kind: String, name: String, detail: String },
    #[error("an Event about {kind} {name} could not be written: {detail}")]
    WriteEvent { kind: String, name: String, detail: String },
}

/// What there is of a status.
#[derive(Clone, Copy)]
pub struct Before<'a, S> {
    /// As the operator said it last.
    pub previous: Option<&'a S>,
    /// As it is stored, whoever wrote it.
    pub stored: Option<&'a S>,
}

pub async fn publish<K: Kind>(
    id: &ObjectId,
    next: K::Status,
    Before { previous, stored }: Before<'_, K::Status>,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let now = whole_second(Timestamp::now());
    for event in controller.states.of(id).unpublished {
        tell(&event, id, now, controller).await?;
        controller.states.change(id, |state| state.event_published(&event));
    }
    if stored == Some(&next) {
        return Ok(());
    }
    let next = plain::status(next);
    if stored == Some(&next) {
        return Ok(());
    }
    let waits = controller.states.of(id).progress_waits();
    if waits && stored.is_some_and(|stored| K::is_progress(stored, &next)) {
        controller.states.change(id, |state| state.keep_progress());
        return Ok(());
    }
    let before = previous.map(K::conditions).unwrap_or_default();
    for notice in notices(before, K::conditions(&next)) {
        tell(&notice, id, now, controller).await?;
    }
    write(next, id, controller).await
}

/// Statuses of other objects of ours.
pub async fn others<K: Kind>(
    id: &ObjectId,
    statuses: Vec<OtherStatus>,
    controller: &Controller<K>,
) -> Result<(), Error> {
    for OtherStatus { kind, written_as, name, uid, mut status } in statuses {
        plain::value_in_place(&mut status);
        let status = controller.scope.installed.known(kind, status);
        let write = StatusWrite {
            api: resources::own_kind(&controller.scope.client, kind, &id.key.namespace),
            api_version: API_VERSION,
            kind,
            name: &name,
            uid: &uid,
            status: &status,
            beside: &[],
            metrics: &controller.scope.metrics,
            written_as,
        };
        let written = write.run().await;
        let written = written.map_err(|error| not_written(kind, &name, &error))?;
        controller.kind.published(id, &written);
    }
    Ok(())
}

async fn write<K: Kind>(status: K::Status, id: &ObjectId, controller: &Controller<K>) -> Result<(), Error> {
    let resource = ApiResource::erase::<K::Object>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(controller.scope.client.clone(), &id.key.namespace, &resource);
    let (name, kind) = (&id.key.name, &*id.key.kind);
    let write = StatusWrite {
        api,
        api_version: &id.api_version,
        kind,
        name,
        uid: &id.uid,
        status: &controller.scope.installed.known(kind, json!(status)),
        beside: &[],
        metrics: &controller.scope.metrics,
        written_as: K::STATUS,
    };
    let written = write.run().await.map_err(|error| not_written(kind, name, &error))?;
    let (version, at) = (written.metadata.resource_version.unwrap_or_default(), Instant::now());
    controller.states.change(id, |state| state.published = Some(Published { version, status, at }));
    Ok(())
}

fn not_written(kind: &str, name: &str, error: &kube::Error) -> Error {
    Error::WriteStatus { kind: kind.to_owned(), name: name.to_owned(), detail: words(error) }
}

async fn tell<K: Kind>(
    notice: &Notice,
    id: &ObjectId,
    now: Timestamp,
    controller: &Controller<K>,
) -> Result<(), Error> {
    let (kind, name, namespace) = (&*id.key.kind, &id.key.name, &id.key.namespace);
    tracing::info!(kind, name, namespace, reason = notice.reason, "{}", notice.message);
    let api: Api<Event> = Api::namespaced(controller.scope.client.clone(), namespace);
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    controller.scope.metrics.write("create", "Event");
    match api.create(&parameters, &event(notice, id, now)).await {
        Ok(_) => Ok(()),
        // Published before this process was restarted.
        Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(()),
        // The namespace is going away, and its Events with it.
        Err(kube::Error::Api(answer)) if answer.code == 403 || answer.code == 404 => Ok(()),
        Err(error) => Err(Error::WriteEvent { kind: kind.to_owned(), name: name.clone(), detail: words(&error) }),
    }
}

fn event(notice: &Notice, id: &ObjectId, now: Timestamp) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(notice, id)),
            namespace: Some(id.key.namespace.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(notice.reason.clone()),
        message: Some(text::plain(&notice.message).into_owned()),
        involved_object: reference(id),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(EventSource { component: Some(MANAGER.to_owned()), host: None }),
        reporting_component: Some(MANAGER.to_owned()),
        ..Event::default()
    }
}

/// The same change of the same object has the same name, so that it is published once.
fn event_name(notice: &Notice, id: &ObjectId) -> String {
    let change = format!("{} {} {} {}", id.uid, notice.warning, notice.reason, notice.replaces);
    format!("{}.{}", id.key.name, planner::digest(&change))
}

fn reference(id: &ObjectId) -> ObjectReference {
    ObjectReference {
        api_version: Some(id.api_version.to_string()),
        kind: Some(id.key.kind.to_string()),
        name: Some(id.key.name.clone()),
        namespace: Some(id.key.namespace.clone()),
        uid: Some(id.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ObjectKey;

    fn started(about: &str, message: &str) -> String {
        let notice =
            Notice { warning: true, reason: "FailoverStarted".into(), message: message.into(), replaces: about.into() };
        let key = ObjectKey::cluster("test", "poc");
        event_name(&notice, &ObjectId { api_version: "valkey.io/v1alpha1".into(), key, uid: "uid".into() })
    }

    #[test]
    fn an_event_is_one_line_that_steers_no_terminal() {
        let message = "orders-0 says:\u{85}\u{1b}[2Jall is well".to_owned();
        let notice = Notice { warning: true, reason: "SettingRefused".into(), message, replaces: String::new() };
        let key = ObjectKey::cluster("test", "poc");
        let id = ObjectId { api_version: "valkey.io/v1alpha1".into(), key, uid: "uid".into() };
        let told = event(&notice, &id, Timestamp::UNIX_EPOCH).message;
        assert_eq!(told.as_deref(), Some("orders-0 says: \u{fffd}[2Jall is well"));
    }

    #[test]
    fn a_second_failover_is_another_event_and_the_same_one_published_again_is_not() {
        assert_ne!(started("failover-1", "a primary is down"), started("failover-2", "a primary is down"));
        assert_eq!(started("failover-1", "after 9 ms"), started("failover-1", "after 12 ms"));
    }
}
