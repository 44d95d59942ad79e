//! Parameters of `spec.config` that no version we know has: on which pods they are in effect, by what the sidecars found out. Pure; a
//! part of `plan` and of `status`.

use crate::observation::Observation;
use crate::report::Report;
use api::conditions::{ConditionType, Finding, Reason};
use api::parameters;
use api::text::listed;
use manifests::ValidatedCluster;

/// Parameters, and pods of each, that a message names.
const NAMED: usize = 5;

/// One such parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownParameter {
    pub name: String,
    /// Pods whose server does not have it or does not take it.
    pub refused_by: Vec<String>,
    /// What the first of them says.
    pub refusal: String,
    /// Pods that have not told.
    pub untold: Vec<String>,
}

/// In the order of their names.
pub fn unknown(cluster: &ValidatedCluster, observation: &Observation) -> Vec<UnknownParameter> {
    let names = cluster.spec.config.keys().filter(|name| parameters::find(name).is_none());
    names.map(|name| judged(name, observation)).collect()
}

fn judged(name: &str, observation: &Observation) -> UnknownParameter {
    let mut found = UnknownParameter { name: name.to_owned(), ..UnknownParameter::default() };
    for pod in observation.pods.iter().filter(|pod| !pod.terminating) {
        let sidecar = observation.line.sidecars.iter().find(|sidecar| sidecar.pod_uid == pod.uid);
        match sidecar.and_then(|sidecar| sidecar.tried.get(name)) {
            None => found.untold.push(pod.name.clone()),
            Some(refusal) if refusal.is_empty() => {}
            Some(refusal) => {
                if found.refused_by.is_empty() {
                    found.refusal.clone_from(refusal);
                }
                found.refused_by.push(pod.name.clone());
            }
        }
    }
    found
}

pub fn in_effect(report: &Report) -> Finding {
    let all = &report.unknown_parameters;
    let refused: Vec<String> = all.iter().filter(|one| !one.refused_by.is_empty()).map(not_in_effect).collect();
    let untold: Vec<&str> = all.iter().filter(|one| !one.untold.is_empty()).map(|one| one.name.as_str()).collect();
    let (status, reason, message) = match () {
        () if report.asked.is_none() => (None, Reason::NotHeard, "the spec is not valid".to_owned()),
        () if !refused.is_empty() => (Some(false), Reason::ParametersNotInEffect, sentences(&refused)),
        () if !untold.is_empty() => {
            (None, Reason::NotHeard, format!("not every pod has told of {}", listed(&untold, NAMED)))
        }
        () => (
            Some(true),
            Reason::AllParametersInEffect,
            "every parameter of spec.config is known or in effect".to_owned(),
        ),
    };
    Finding { condition: ConditionType::ParametersInEffect, status, reason, message }
}

fn sentences(all: &[String]) -> String {
    let first = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

fn not_in_effect(one: &UnknownParameter) -> String {
    let nearest = parameters::nearest(&one.name).map(|known| format!("; the nearest that is known is {known}"));
    let (pods, nearest) = (listed(&one.refused_by, NAMED), nearest.unwrap_or_default());
    format!("{} is not in effect on {pods}: {}{nearest}", one.name, one.refusal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_facts::PodFacts;
    use crate::report::Asked;
    use crate::sidecars::SidecarState;

    fn observation(told: &[Option<&[(&str, &str)]>]) -> Observation {
        let mut observation = Observation::default();
        for (ordinal, tried) in told.iter().enumerate() {
            let (name, uid) = (format!("orders-{ordinal}"), format!("uid-{ordinal}"));
            observation.pods.push(PodFacts { name, uid: uid.clone(), ..PodFacts::default() });
            let Some(tried) = tried else { continue };
            let tried = tried.iter().map(|(name, why)| ((*name).to_owned(), (*why).to_owned())).collect();
            observation.line.sidecars.push(SidecarState { pod_uid: uid, tried, ..SidecarState::default() });
        }
        observation
    }

    fn finding(names: &[&str], observation: &Observation) -> (Option<bool>, Reason, String) {
        let version = api::valkey_version::ValkeyVersion::from_tag("9.1").unwrap();
        let asked = Some(Asked { version, replicas_per_master: 1, pods: 6, exporter: None, platform_ids: false });
        let unknown_parameters = names.iter().map(|name| judged(name, observation)).collect();
        let found = in_effect(&Report { asked, unknown_parameters, ..Report::default() });
        (found.status, found.reason, found.message)
    }

    #[test]
    fn a_parameter_that_no_server_has_is_named_with_the_pods_and_the_nearest_spelling() {
        let none: &[_] = &[("maxmemroy", "this Valkey has no such parameter")];
        let found = finding(&["maxmemroy"], &observation(&[Some(none); 7]));
        let message = "maxmemroy is not in effect on orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more: this Valkey has no such \
                       parameter; the nearest that is known is maxmemory";
        assert_eq!(found, (Some(false), Reason::ParametersNotInEffect, message.to_owned()));
    }

    #[test]
    fn one_that_some_servers_have_is_told_for_the_others() {
        let (has, lacks): (&[_], &[_]) = (&[("search.timeout", "")], &[("search.timeout", "no such parameter")]);
        let found = finding(&["search.timeout"], &observation(&[Some(has), Some(lacks), None]));
        assert_eq!(found.2, "search.timeout is not in effect on orders-1: no such parameter");
        assert_eq!(finding(&["search.timeout"], &observation(&[Some(has); 2])).0, Some(true));
    }

    #[test]
    fn what_a_pod_has_not_told_is_not_known_and_without_such_parameters_all_are_in_effect() {
        let (has, older): (&[_], &[_]) = (&[("search.timeout", "")], &[]);
        let found = finding(&["search.timeout"], &observation(&[Some(has), Some(older)]));
        assert_eq!((found.0, found.1), (None, Reason::NotHeard));
        assert_eq!(finding(&[], &observation(&[None])).0, Some(true));
    }
}
