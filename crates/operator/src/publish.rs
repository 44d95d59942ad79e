//! Publish: the only writer of status and Events. Writes when something differs, Events before the status they go with:
//! a process that dies in between writes the same Event again, under the same name.

use crate::context::Context;
use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use api::names::{API_VERSION, KIND, MANAGER};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use planner::{Identity, Notice, Report, notices, status};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the status of ValkeyCluster {name} could not be written")]
    WriteStatus { name: String, source: kube::Error },
    #[error("an Event about ValkeyCluster {name} could not be written")]
    WriteEvent { name: String, source: kube::Error },
}

/// `previous` is the latest status there is.
pub async fn publish(
    report: &Report,
    cluster: &Identity,
    previous: Option<&ValkeyClusterStatus>,
    context: &Context,
) -> Result<(), Error> {
    let now = whole_second(Timestamp::now());
    let next = status(report, cluster, previous, now);
    for event in context.states.of(&cluster.uid).unpublished {
        tell(&notice(&event), cluster, now, context).await?;
        context.states.change(&cluster.uid, |memory| memory.event_published(&event));
    }
    if previous == Some(&next) {
        return Ok(());
    }
    let before = previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    for notice in notices(before, &next.conditions) {
        tell(&notice, cluster, now, context).await?;
    }
    write(next, cluster, context).await
}

/// Begin and end of one orchestration are published once each, also when a successor tells them again.
fn notice(event: &planner::nodes::Event) -> Notice {
    let (reason, message) = (event.reason.to_owned(), event.message.clone());
    Notice { warning: event.warning, reason, replaces: event.about.clone(), message }
}

/// The API server keeps no fractions: a successor that reads them back must come to the same names and texts.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

async fn write(status: ValkeyClusterStatus, cluster: &Identity, context: &Context) -> Result<(), Error> {
    let resource = ApiResource::erase::<ValkeyCluster>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &cluster.namespace, &resource);
    let patch = json!({
        "apiVersion": API_VERSION, "kind": KIND,
        // Of a namesake made in the meantime nothing is known.
        "metadata": { "name": cluster.name, "uid": cluster.uid },
        "status": status,
    });
    context.metrics.write("apply", "ValkeyCluster/status");
    let written = api
        .patch_status(&cluster.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&patch))
        .await
        .map_err(|source| Error::WriteStatus { name: cluster.name.clone(), source })?;
    let version = written.metadata.resource_version.unwrap_or_default();
    context.states.change(&cluster.uid, |memory| memory.published = Some((version, status)));
    Ok(())
}

async fn tell(notice: &Notice, cluster: &Identity, now: Timestamp, context: &Context) -> Result<(), Error> {
    tracing::info!(cluster = cluster.name, namespace = cluster.namespace, reason = notice.reason, "{}", notice.message);
    let api: Api<Event> = Api::namespaced(context.client.clone(), &cluster.namespace);
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    context.metrics.write("create", "Event");
    match api.create(&parameters, &event(notice, cluster, now)).await {
        Ok(_) => Ok(()),
        // Told before this process was restarted.
        Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(()),
        // The namespace is going away, and its Events with it.
        Err(kube::Error::Api(answer)) if answer.code == 403 || answer.code == 404 => Ok(()),
        Err(source) => Err(Error::WriteEvent { name: cluster.name.clone(), source }),
    }
}

fn event(notice: &Notice, cluster: &Identity, now: Timestamp) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(notice, cluster)),
            namespace: Some(cluster.namespace.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(notice.reason.clone()),
        message: Some(notice.message.clone()),
        involved_object: reference(cluster),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(EventSource { component: Some(MANAGER.to_owned()), host: None }),
        reporting_component: Some(MANAGER.to_owned()),
        ..Event::default()
    }
}

/// The same change of the same cluster has the same name, so that it is published once.
fn event_name(notice: &Notice, cluster: &Identity) -> String {
    let change = format!("{} {} {} {}", cluster.uid, notice.warning, notice.reason, notice.replaces);
    format!("{}.{}", cluster.name, planner::digest(&change))
}

fn reference(cluster: &Identity) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(KIND.to_owned()),
        name: Some(cluster.name.clone()),
        namespace: Some(cluster.namespace.clone()),
        uid: Some(cluster.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(about: &str, message: &str) -> String {
        let (about, message) = (about.to_owned(), message.to_owned());
        let event = planner::nodes::Event { about, warning: true, reason: "FailoverStarted", message };
        event_name(&notice(&event), &Identity::default())
    }

    #[test]
    fn a_second_failover_is_another_event_and_the_same_one_told_again_is_not() {
        assert_ne!(started("failover-1", "a primary is down"), started("failover-2", "a primary is down"));
        assert_eq!(started("failover-1", "after 9 ms"), started("failover-1", "after 12 ms"));
    }
}
