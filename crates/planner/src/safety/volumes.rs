//! Volumes of which nobody knows what they hold: without a record only the nodes on them tell. Pure.

use crate::claim_facts::ClaimFacts;
use crate::nodes::{PodObservation, Valkey};
use crate::observation::Observation;
use topology::PodName;

/// A claim whose node was not heard, of those with such an ordinal.
pub(super) fn unread(observation: &Observation, such: impl Fn(usize) -> bool) -> Option<&ClaimFacts> {
    if observation.nodes.as_ref().is_some_and(|nodes| !nodes.recorded.is_empty()) {
        return None;
    }
    let heard = |seen: &PodObservation| seen.connected && matches!(seen.valkey, Valkey::Answers(_));
    let is_read = |claim: &ClaimFacts| {
        let mut pods = observation.nodes.iter().flat_map(|nodes| &nodes.pods);
        pods.any(|pod| heard(pod) && claim.belongs_to(pod.name.as_str()))
    };
    let concerned = |claim: &ClaimFacts| PodName::from(claim.name.as_str()).ordinal().is_some_and(&such);
    observation.claims.iter().find(|claim| concerned(claim) && !is_read(claim))
}
