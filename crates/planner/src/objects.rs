//! Which objects to write, delete or leave, one by one. Pure; a part of `plan`.

use crate::child::{ChildKey, ChildKind};
use crate::differences::{Difference, DifferenceKind, differences};
use crate::json;
use crate::manifest::Manifests;
use crate::observation::{Observation, Observed};
use crate::ownership::{Ownership, ownership};
use crate::report::{Report, Trouble};
use crate::step::{Apply, Step, Why};
use api::conditions::Reason;
use api::names;
use api::names::annotation::APPLIED_REVISION;
use serde_json::{Value, json};

/// Claims that a message names.
const NAMED: usize = 5;
/// Fields of a StatefulSet that the API server never lets change.
const IMMUTABLE: [&str; 4] =
    ["/spec/volumeClaimTemplates", "/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy"];

/// Steps that bring the objects to what is wanted; what stands in the way goes into the report.
pub fn steps(manifests: &Manifests, observation: &Observation, report: &mut Report) -> Vec<Step> {
    let mut steps: Vec<Step> =
        manifests.iter().filter_map(|(key, manifest)| step(key, manifest, observation, report)).collect();
    hold_back_pods(&mut steps, observation, report);
    leave_foreign_claims(&mut steps, observation, report);
    steps.extend(unwanted(manifests, observation));
    steps
}

/// Pods must not start with somebody else's settings, account or DNS names.
fn hold_back_pods(steps: &mut Vec<Step>, observation: &Observation, report: &mut Report) {
    let name = &observation.cluster.name;
    let needed = [
        ChildKey::new(ChildKind::ConfigMap, names::config_map(name)),
        ChildKey::new(ChildKind::ServiceAccount, names::service_account(name)),
        ChildKey::new(ChildKind::Service, names::headless_service(name)),
    ];
    let missing = needed.iter().find(|key| !is_usable(key, observation)).map(|key| format!("{key} is there"));
    let identity = observation.certificates.ready(report.paused).err().map(str::to_owned);
    let Some(missing) = missing.or(identity) else { return };
    let before = steps.len();
    steps.retain(|step| new_stateful_set(step).is_none());
    if steps.len() < before {
        report.waiting.push(format!("StatefulSet {name} is made once {missing}"));
    }
}

/// A StatefulSet takes every claim of the right name, whosever data is on it.
fn leave_foreign_claims(steps: &mut Vec<Step>, observation: &Observation, report: &mut Report) {
    let taken = |apply: &Apply| -> Vec<String> {
        let taken = observation.foreign_claims.iter().filter(|claim| would_take(&apply.manifest, claim, observation));
        taken.cloned().collect()
    };
    let taken = steps.iter().filter_map(new_stateful_set).flat_map(taken).collect::<Vec<_>>();
    if !taken.is_empty() {
        steps.retain(|step| new_stateful_set(step).is_none());
        let message = foreign_claims_text(&taken, &observation.cluster.name);
        report.trouble(Reason::NameTaken, message);
    }
}

fn new_stateful_set(step: &Step) -> Option<&Apply> {
    match step {
        Step::Apply(apply) if apply.key.kind == ChildKind::StatefulSet && apply.why == Why::Missing => Some(apply),
        _ => None,
    }
}

/// Whether this StatefulSet would make a pod with the claim that does not have it already.
fn would_take(stateful_set: &Value, claim: &str, observation: &Observation) -> bool {
    let has_volumes = stateful_set.pointer("/spec/volumeClaimTemplates/0").is_some();
    let size = stateful_set.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or_default();
    let ordinals = (0..u32::try_from(size).unwrap_or(u32::MAX)).filter(|_| has_volumes);
    let cluster = &observation.cluster.name;
    let mut pods = ordinals.filter(|ordinal| names::volume_claim(cluster, *ordinal) == claim);
    pods.any(|ordinal| !observation.pods.iter().any(|pod| pod.name == names::pod(cluster, ordinal)))
}

fn foreign_claims_text(claims: &[String], cluster: &str) -> String {
    let labels: Vec<String> = names::selector(cluster).iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(
        "PersistentVolumeClaim {} was there before and is not this cluster's, whose pods would take what is on it for their own; none is \
         made. Give the ValkeyCluster another name. If the data on it is this cluster's: kubectl label pvc {} {}. Delete it only if nobody \
         needs what is on it",
        api::text::listed(claims, NAMED),
        claims.iter().take(NAMED).cloned().collect::<Vec<_>>().join(" "),
        labels.join(" "),
    )
}

/// Ours, or about to be made.
fn is_usable(key: &ChildKey, observation: &Observation) -> bool {
    match observation.children.get(key) {
        None => true,
        Some(Observed::Object(live)) => {
            let leaves = json::text(live, "/metadata/deletionTimestamp").is_some();
            !leaves && !matches!(ownership(live, &observation.cluster), Ownership::Foreign(_) | Ownership::Unbound)
        }
        Some(Observed::Unknown(_) | Observed::NotInstalled) => false,
    }
}

fn step(key: &ChildKey, manifest: &Value, observation: &Observation, report: &mut Report) -> Option<Step> {
    match observation.children.get(key) {
        None => Some(apply(key, manifest, Why::Missing, None, Vec::new())),
        Some(Observed::Unknown(why)) => {
            report.trouble(Reason::ObservationFailed, format!("{key} cannot be looked at: {why}"));
            None
        }
        Some(Observed::NotInstalled) => {
            report.trouble(Reason::ObjectRefused, not_installed(key));
            None
        }
        Some(Observed::Object(live)) => existing(key, manifest, live, observation, report),
    }
}

fn not_installed(key: &ChildKey) -> String {
    let (group, _, _) = key.kind.resource();
    format!(
        "{key} is wanted but this Kubernetes has no kind {} of {group}: install its CRDs or switch it off in the spec",
        key.kind
    )
}

fn existing(
    key: &ChildKey,
    manifest: &Value,
    live: &Value,
    observation: &Observation,
    report: &mut Report,
) -> Option<Step> {
    if json::text(live, "/metadata/deletionTimestamp").is_some() {
        report.waiting.push(format!("{key} is being deleted and will be made anew"));
        return None;
    }
    match ownership(live, &observation.cluster) {
        Ownership::Foreign(owner) => {
            report.troubles.push(name_taken(key, &owner));
            None
        }
        Ownership::Unbound => {
            report.troubles.push(unbound(key, &observation.cluster.name));
            None
        }
        Ownership::Orphaned => Some(apply(key, manifest, Why::Adopted, Some(live), Vec::new())),
        Ownership::Ours => repair(key, manifest, live, observation, report),
    }
}

fn name_taken(key: &ChildKey, owner: &str) -> Trouble {
    let message = if is_the_api_servers(key) {
        format!("{key} is how programs reach the API server: never delete it. Give the ValkeyCluster another name")
    } else {
        format!(
            "{key} is in the way and is left alone; it belongs to {owner}. Give the ValkeyCluster another name, or delete that object \
             once it is certain that nobody needs it"
        )
    };
    Trouble { reason: Reason::NameTaken, message }
}

/// Kubernetes makes it again, and whatever talks to the API server is cut off until then.
fn is_the_api_servers(key: &ChildKey) -> bool {
    key.kind == ChildKind::Service && key.name == "kubernetes"
}

/// Its pods may hold the only copies: nobody is advised to delete it.
fn unbound(key: &ChildKey, cluster: &str) -> Trouble {
    let kind = key.kind.as_str().to_lowercase();
    let message = format!(
        "{key} runs pods of this cluster and its marks were taken off, so it is left alone. To give it back: kubectl label {kind} {} \
         {}={} and kubectl annotate {kind} {} {}={cluster}. Deleting it ends its pods",
        key.name,
        names::label::MANAGED_BY,
        names::MANAGER,
        key.name,
        names::annotation::CR,
    );
    Trouble { reason: Reason::NameTaken, message }
}

fn repair(
    key: &ChildKey,
    manifest: &Value,
    live: &Value,
    observation: &Observation,
    report: &mut Report,
) -> Option<Step> {
    let found = differences(manifest, live);
    let first = found.first()?;
    if key.kind == ChildKind::StatefulSet && found.iter().any(is_immutable) {
        return release(key, live);
    }
    if observation.altered_on_arrival.get(key) == Some(&found) {
        report.trouble(
            Reason::ObjectRefused,
            format!(
                "an admission webhook or policy changes {key} at {}: exempt the operator's objects from it",
                first.path
            ),
        );
        return None;
    }
    Some(apply(key, manifest, why(manifest, live, first), Some(live), evictions(&found, live)))
}

fn is_immutable(difference: &Difference) -> bool {
    IMMUTABLE.iter().any(|path| difference.path.starts_with(path))
}

fn release(key: &ChildKey, live: &Value) -> Option<Step> {
    Some(Step::Release { key: key.clone(), uid: json::text(live, "/metadata/uid")?.to_owned() })
}

fn why(manifest: &Value, live: &Value, first: &Difference) -> Why {
    let same = json::annotation(manifest, APPLIED_REVISION) == json::annotation(live, APPLIED_REVISION);
    if same { Why::Drifted(first.path.clone()) } else { Why::Changed }
}

fn apply(key: &ChildKey, manifest: &Value, why: Why, live: Option<&Value>, evict: Vec<Value>) -> Step {
    let uid = live.and_then(|live| json::text(live, "/metadata/uid")).map(str::to_owned);
    Step::Apply(Apply { key: key.clone(), manifest: manifest.clone(), why, uid, evict })
}

/// Apply leaves what somebody else put into our lists and maps, so it is taken out first. Paths may lead through places in lists, so each
/// is tested to be still what was judged.
fn evictions(found: &[Difference], live: &Value) -> Vec<Value> {
    let operation = |difference: &Difference| match &difference.kind {
        DifferenceKind::Changed => None,
        DifferenceKind::ExcessKey => {
            Some((difference.path.clone(), json!({ "op": "remove", "path": difference.path })))
        }
        DifferenceKind::ExcessItems(list) => {
            let replace = json!({ "op": "replace", "path": difference.path, "value": list });
            Some((difference.path.clone(), replace))
        }
    };
    let (paths, operations): (Vec<String>, Vec<Value>) = found.iter().filter_map(operation).unzip();
    if operations.is_empty() {
        return operations;
    }
    let on_the_way = |path: &String| names_on_the_way(path, live).into_iter().chain(test(path, live));
    let tests = test("/metadata/uid", live).into_iter().chain(paths.iter().flat_map(on_the_way));
    tests.chain(operations).collect()
}

fn test(path: &str, live: &Value) -> Option<Value> {
    Some(json!({ "op": "test", "path": path, "value": live.pointer(path)? }))
}

/// Tests of the names of the list elements that a path leads through: elsewhere the same value may be right.
fn names_on_the_way(path: &str, live: &Value) -> Vec<Value> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    let prefixes = ends.filter_map(|end| path.get(..end));
    let elements = prefixes.filter(|prefix| is_in_a_list(prefix, live));
    elements.filter_map(|element| test(&format!("{element}/name"), live)).collect()
}

fn is_in_a_list(path: &str, live: &Value) -> bool {
    path.rsplit_once('/').and_then(|(list, _)| live.pointer(list)).is_some_and(Value::is_array)
}

/// Objects of ours that the spec no longer asks for.
fn unwanted(manifests: &Manifests, observation: &Observation) -> Vec<Step> {
    let spare = observation.children.iter().filter(|(key, _)| !manifests.contains_key(key));
    spare.filter_map(|(key, observed)| delete(key, observed, observation)).collect()
}

fn delete(key: &ChildKey, observed: &Observed, observation: &Observation) -> Option<Step> {
    let Observed::Object(live) = observed else { return None };
    let gone = json::text(live, "/metadata/deletionTimestamp").is_some();
    if gone || ownership(live, &observation.cluster) != Ownership::Ours {
        return None;
    }
    Some(Step::Delete { key: key.clone(), uid: json::text(live, "/metadata/uid")?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_advised_to_delete_the_service_of_the_api_server() {
        let advice = |name: &str| name_taken(&ChildKey::new(ChildKind::Service, name), "nobody").message;
        let (theirs, others) = (advice("kubernetes"), advice("orders"));
        assert!(theirs.contains("never delete it") && !theirs.contains("or delete"), "{theirs}");
        assert!(others.find("another name") < others.find("delete"), "the harmless way comes first: {others}");
    }

    #[test]
    fn what_is_taken_out_by_its_place_in_a_list_is_tested_to_be_still_there() {
        let live = json!({ "metadata": { "uid": "set" }, "spec": { "template": { "spec": { "containers": [
            { "name": "valkey", "resources": { "limits": { "cpu": "1", "evil": "9" } } },
            { "name": "exporter", "env": [{ "name": "EVIL", "value": "1" }] } ] } } } });
        let containers = "/spec/template/spec/containers";
        let found = [
            Difference { path: format!("{containers}/0/resources/limits/evil"), kind: DifferenceKind::ExcessKey },
            Difference { path: format!("{containers}/1/env"), kind: DifferenceKind::ExcessItems(json!([])) },
            Difference { path: "/spec/replicas".to_owned(), kind: DifferenceKind::Changed },
        ];
        let test = |path: &str, value: Value| json!({ "op": "test", "path": path, "value": value });
        let expected = [
            test("/metadata/uid", json!("set")),
            test(&format!("{containers}/0/name"), json!("valkey")),
            test(&format!("{containers}/0/resources/limits/evil"), json!("9")),
            test(&format!("{containers}/1/name"), json!("exporter")),
            test(&format!("{containers}/1/env"), json!([{ "name": "EVIL", "value": "1" }])),
            json!({ "op": "remove", "path": format!("{containers}/0/resources/limits/evil") }),
            json!({ "op": "replace", "path": format!("{containers}/1/env"), "value": [] }),
        ];
        assert_eq!(evictions(&found, &live), expected);
        assert_eq!(evictions(&found[2..], &live), Vec::<Value>::new());
    }
}
