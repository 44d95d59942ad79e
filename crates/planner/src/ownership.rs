//! Whose an object is. Pure; nothing is written to an object before this was asked.

use crate::json;
use crate::observation::Identity;
use api::names::{KIND, MANAGER, annotation, label};
use serde_json::Value;

/// Who an object of a name we want belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Controlled by this very ValkeyCluster.
    Ours,
    /// Nobody's now, and marked as made for a cluster of this name: it was orphaned and may be taken back.
    Orphaned,
    /// It makes pods for a cluster of this name, and the marks on itself were taken off: somebody unbound it, or meant to.
    Unbound,
    /// Somebody else's; the text says whose.
    Foreign(String),
}

pub fn ownership(object: &Value, cluster: &Identity) -> Ownership {
    let controller = json::items(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.get("controller").and_then(Value::as_bool).unwrap_or_default());
    match controller {
        Some(owner) if json::text(owner, "/uid") == Some(&cluster.uid) => Ownership::Ours,
        Some(owner) => Ownership::Foreign(describe(owner, cluster)),
        None if is_marked(object, cluster) => Ownership::Orphaned,
        None if makes_our_pods(object, cluster) => Ownership::Unbound,
        None => Ownership::Foreign(describe_unowned(object)),
    }
}

/// Made by this operator for a cluster of this name, which was deleted without its objects.
fn is_marked(object: &Value, cluster: &Identity) -> bool {
    json::label(object, label::MANAGED_BY) == Some(MANAGER)
        && json::annotation(object, annotation::CR) == Some(&cluster.name)
}

fn makes_our_pods(object: &Value, cluster: &Identity) -> bool {
    let Some(template) = object.pointer("/spec/template") else { return false };
    json::label(template, label::MANAGED_BY) == Some(MANAGER)
        && json::label(template, label::INSTANCE) == Some(&cluster.name)
}

fn describe(owner: &Value, cluster: &Identity) -> String {
    let part = |pointer| json::text(owner, pointer).unwrap_or("unknown");
    let (kind, name) = (part("/kind"), part("/name"));
    if kind == KIND && name == cluster.name {
        return format!("an earlier {KIND} {name} (uid {}) that is being cleaned up", part("/uid"));
    }
    format!("{kind} {name}")
}

fn describe_unowned(object: &Value) -> String {
    match json::label(object, label::MANAGED_BY) {
        Some(manager) => format!("no controller; its label says it is managed by {manager}"),
        None => "no controller: somebody made it by hand".to_owned(),
    }
}
