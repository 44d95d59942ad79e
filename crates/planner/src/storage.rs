//! Volumes that are to grow, and the mark on their claims that says whose they are. Pure; a part of `plan`.

use crate::claim_facts::ClaimFacts;
use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::report::Report;
use crate::step::Step;
use crate::vain::without_vain;
use api::names::{self, annotation, label};
use api::quantity::Quantity;
use manifests::{Shape, ValidatedCluster};
use serde_json::{Map, Value, json};

/// Whether the claim of every pod is seen and asks for at least `size`. Only then may the StatefulSet say so too:
/// it has to be replaced for it, and a replaced one must not promise what the volumes refuse.
pub fn all_grown(size: Quantity, pods: &[PodFacts], claims: &[ClaimFacts]) -> bool {
    let has_grown = |pod: &PodFacts| claims.iter().any(|claim| claim.belongs_to(&pod.name) && !is_smaller(claim, size));
    pods.iter().all(has_grown)
}

pub fn steps(cluster: &ValidatedCluster, shape: &Shape, observation: &Observation, report: &mut Report) -> Vec<Step> {
    let mut steps = growth(cluster, shape, observation, report);
    steps.extend(without_vain(marks(observation), observation, report));
    steps
}

/// The StatefulSet's template of the claims cannot say it: it cannot be changed where it exists. So claims of every age get it here. The
/// label that says the same is put back: without it the claim is taken for somebody else's when the StatefulSet is made anew.
fn marks(observation: &Observation) -> Vec<Step> {
    let cluster = &observation.cluster.name;
    let mark = |claim: &ClaimFacts| {
        let mut metadata = Map::new();
        if claim.cluster.as_ref() != Some(cluster) {
            metadata.insert("annotations".to_owned(), json!({ annotation::CR: cluster }));
        }
        if claim.mislabelled {
            metadata.insert("labels".to_owned(), json!({ label::INSTANCE: cluster }));
        }
        let (name, uid) = (claim.name.clone(), claim.uid.clone());
        (!metadata.is_empty()).then_some(Step::PatchClaim { claim: name, uid, metadata: Value::Object(metadata) })
    };
    let ours = observation.stateful_set().map(|_| observation.claims.iter().filter_map(mark));
    ours.into_iter().flatten().collect()
}

fn growth(cluster: &ValidatedCluster, shape: &Shape, observation: &Observation, report: &mut Report) -> Vec<Step> {
    let Some((storage, pvc)) = cluster.storage.as_ref().zip(cluster.spec.pvc.as_ref()) else { return Vec::new() };
    let wanted =
        |claim: &&ClaimFacts| (0..shape.pods).any(|ordinal| names::volume_claim(&cluster.name, ordinal) == claim.name);
    let small = observation.claims.iter().filter(wanted).filter(|claim| is_smaller(claim, storage.size));
    let (bound, unbound): (Vec<_>, Vec<_>) = small.partition(|claim| claim.bound);
    // The API server refuses to grow a claim that has no volume yet.
    let waiting = |claim: &ClaimFacts| format!("PersistentVolumeClaim {} grows once it has a volume", claim.name);
    report.waiting.extend(unbound.into_iter().map(waiting));
    let grow = |claim: &ClaimFacts| Step::GrowClaim {
        claim: claim.name.clone(),
        uid: claim.uid.clone(),
        storage: pvc.storage_size.clone(),
    };
    bound.into_iter().map(grow).collect()
}

fn is_smaller(claim: &ClaimFacts, size: Quantity) -> bool {
    Quantity::parse(&claim.requested).map_or(true, |requested| requested < size)
}
