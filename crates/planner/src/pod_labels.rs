//! Pods that are found by labels they should not have, or not found by those they should: Services, NetworkPolicy and StatefulSet
//! go by labels, and everybody may change them. Pure; a part of `plan`.

use crate::json;
use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::pods::asked_for;
use crate::report::Trouble;
use api::conditions::Reason;
use api::names::{self, label};
use api::text::listed;

/// Pods that a message names.
const NAMED: usize = 5;

/// Whoever may make pods in the namespace may make such a one, and no selector can tell it from ours.
pub fn foreign(observation: &Observation) -> Option<Trouble> {
    let (cluster, pods) = (&observation.cluster.name, &observation.strangers);
    let message = || {
        format!(
            "pods with the labels of {cluster} that are none of its pods: {}. The Services send them its clients, and the NetworkPolicy lets \
             them reach its nodes. To end that: kubectl label pod {} {}-, and the same in the template of whatever makes them",
            listed(pods, NAMED),
            pods.iter().take(NAMED).cloned().collect::<Vec<_>>().join(" "),
            label::INSTANCE,
        )
    };
    (!pods.is_empty()).then(|| Trouble { reason: Reason::ForeignPod, message: message() })
}

/// For a time in which nobody puts the labels back.
pub fn mislabelled(observation: &Observation) -> Option<Trouble> {
    let cluster = &observation.cluster.name;
    let labels = names::labels(cluster);
    let has_all = |pod: &&PodFacts| labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
    let living = observation.pods.iter().filter(|pod| !pod.terminating);
    let pods: Vec<String> = living.filter(|pod| !has_all(pod)).map(|pod| pod.name.clone()).collect();
    let wanted: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let message = || {
        format!(
            "pods of {cluster} without its labels: {}. Services, NetworkPolicy and StatefulSet may not find them. The operator puts the labels \
             back once it may write; by hand: kubectl label pod {} --overwrite {}",
            listed(&pods, NAMED),
            pods.iter().take(NAMED).cloned().collect::<Vec<_>>().join(" "),
            wanted.join(" "),
        )
    };
    (!pods.is_empty()).then(|| Trouble { reason: Reason::PodMislabelled, message: message() })
}

/// A StatefulSet lets go of a pod whose labels are changed, and takes it back once they are right; a new one takes over those it finds.
pub fn released(observation: &Observation) -> Option<String> {
    let set = observation.stateful_set().filter(|_| observation.stateful_set_is_noticed())?;
    let lacks_some = json::integer(set, "/status/replicas").unwrap_or_default() < i64::from(asked_for(set));
    let alone = observation.pods.iter().filter(|pod| !pod.terminating && pod.controller.is_none());
    let alone: Vec<&str> = alone.map(|pod| pod.name.as_str()).collect();
    let told = || format!("StatefulSet {} has yet to take back {}", observation.cluster.name, listed(&alone, NAMED));
    (lacks_some && !alone.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{ChildKey, ChildKind};
    use crate::observation::{Identity, Observed};
    use serde_json::json;

    fn observation(made: u32) -> Observation {
        let owner = json!([{ "uid": "u", "controller": true }]);
        let set = json!({ "metadata": { "uid": "s", "generation": 1, "ownerReferences": owner }, "spec": { "replicas": 2 },
            "status": { "observedGeneration": 1, "replicas": made } });
        let pod = |ordinal, controller: Option<&str>| PodFacts {
            name: names::pod("orders", ordinal),
            labels: names::labels("orders"),
            controller: controller.map(str::to_owned),
            ..PodFacts::default()
        };
        Observation {
            cluster: Identity { name: "orders".into(), uid: "u".into(), ..Identity::default() },
            children: [(ChildKey::new(ChildKind::StatefulSet, "orders"), Observed::Object(set))].into(),
            pods: vec![pod(0, Some("s")), pod(1, None)],
            ..Observation::default()
        }
    }

    #[test]
    fn a_pod_that_its_stateful_set_let_go_is_told_until_it_is_taken_back() {
        assert_eq!(released(&observation(1)).as_deref(), Some("StatefulSet orders has yet to take back orders-1"));
        assert_eq!(released(&observation(2)), None);
    }

    #[test]
    fn changed_labels_are_named_with_the_way_to_put_them_back() {
        let mut seen = observation(2);
        assert_eq!(mislabelled(&seen), None);
        seen.pods[1].labels.insert(label::INSTANCE.to_owned(), "other".to_owned());
        let message = mislabelled(&seen).unwrap().message;
        let remedy = "kubectl label pod orders-1 --overwrite app.kubernetes.io/component=cluster app.kubernetes.io/instance=orders";
        assert!(message.contains(remedy), "{message}");
        seen.pods[1].terminating = true;
        assert_eq!(mislabelled(&seen), None);
    }

    #[test]
    fn pods_of_others_with_our_labels_are_named_with_the_way_to_end_that() {
        let mut seen = observation(2);
        assert_eq!(foreign(&seen), None);
        seen.strangers = vec!["web-1".into(), "web-2".into()];
        let message = foreign(&seen).unwrap().message;
        assert!(message.contains("kubectl label pod web-1 web-2 app.kubernetes.io/instance-"), "{message}");
    }
}
