//! Who a change of root waits for: the operator's replicas, which tell of themselves in the status of the ValkeyCA, and the sidecars
//! of every cluster.

use super::{Error, Identities, own::OwnFacts};
use crate::client::Clients;
use crate::runtime;
use crate::runtime::ObjectKey;
use api::certificates::{OperatorReplica, TRUSTED_ROOTS, ValkeyCA, ValkeyCertificateBundle, names};
use api::names::{API_VERSION, MANAGER};
use api::stored::Stored;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use pki::{Party, Thumbprint};
use serde_json::json;

/// The field of the status that the replicas write.
pub const OPERATORS: &str = "operators";
/// The name under which a process outside of Kubernetes is waited for.
const UNNAMED: &str = "this operator";

fn entries(authority: &ValkeyCA) -> &[OperatorReplica] {
    authority.status.as_ref().map(|status| status.operators.as_slice()).unwrap_or_default()
}

fn party(entry: &OperatorReplica) -> Party {
    Party {
        name: entry.name.clone(),
        trusts: Some(entry.trusted_roots.iter().map(|text| Thumbprint::recorded(text)).collect()),
        presents: entry.presents.as_deref().map(Thumbprint::recorded),
    }
}

impl Identities {
    /// This process knows about itself at first hand.
    pub(super) fn replicas(&self, authority: &ValkeyCA) -> Vec<Party> {
        let name = self.settings.replica.clone().unwrap_or_else(|| UNNAMED.to_owned());
        let others: Vec<Party> = entries(authority).iter().filter(|entry| entry.name != name).map(party).collect();
        let facts = self.own.facts();
        // On the very first start there is nothing yet that anybody could trust or show.
        let own = facts.map(|facts| Party { name, trusts: Some(facts.trusts), presents: facts.presents });
        others.into_iter().chain(own).collect()
    }

    /// One entry for each pod; for a cluster that was not looked at yet, one for it as a whole.
    pub(super) async fn sidecars(&self, scopes: &[Option<String>]) -> Result<Vec<Party>, Error> {
        let mut parties = Vec::new();
        for scope in scopes {
            let api = runtime::scoped::<ValkeyCertificateBundle>(&self.clients.requests, scope.as_deref());
            let bundles = api.list_metadata(&ListParams::default()).await;
            let bundles = bundles.map_err(|error| Error::read("the list of ValkeyCertificateBundles", &error))?;
            parties.extend(bundles.items.iter().flat_map(|bundle| self.sidecars_of(bundle)));
        }
        Ok(parties)
    }

    fn sidecars_of(&self, bundle: &PartialObjectMeta<ValkeyCertificateBundle>) -> Vec<Party> {
        let Some(owner) = bundle.owner_references().iter().find(|owner| owner.kind == api::names::KIND) else {
            return Vec::new();
        };
        let cluster = ObjectKey::cluster(bundle.namespace().unwrap_or_default(), owner.name.clone());
        let unknown =
            || Party { name: format!("{}/{}", cluster.namespace, cluster.name), trusts: None, presents: None };
        self.memories.parties(&cluster, &owner.uid).unwrap_or_else(|| vec![unknown()])
    }

    /// Entries of pods that are no more; their own process cannot take them out.
    pub(super) async fn forget_gone_replicas(&self, authority: &ValkeyCA) {
        let Some(replica) = &self.settings.replica else { return };
        let others = entries(authority).iter().filter(|entry| entry.name != *replica);
        let api: Api<Pod> = Api::namespaced(self.clients.requests.clone(), &self.settings.namespace);
        let looks = others.map(|entry| async { (entry.name.clone(), api.get_opt(&entry.name).await) });
        for (name, found) in join_all(looks).await {
            if found.is_ok_and(|pod| pod.is_none_or(|pod| is_over(&pod))) {
                self.forget_replica(authority, &name).await;
            }
        }
    }

    /// Applying nothing in its name takes the entry out, unless somebody else wrote it.
    async fn forget_replica(&self, authority: &ValkeyCA, name: &str) {
        tracing::info!(replica = name, "a replica of the operator is gone");
        self.metrics.write("apply", "ValkeyCA/status");
        let forgotten = match apply(&self.clients, authority, name, Vec::new()).await {
            Ok(left) => self.take_out(&left, name).await,
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            tracing::debug!(%error, "its entry stays until the next pass");
        }
    }

    async fn take_out(&self, stored: &Stored<ValkeyCA>, name: &str) -> kube::Result<()> {
        let Some(place) = place(stored, name) else { return Ok(()) };
        let path = format!("/status/{OPERATORS}/{place}");
        let operations = json!([
            { "op": "test", "path": format!("{path}/name"), "value": name },
            { "op": "remove", "path": path },
        ]);
        let patch = Patch::Json::<()>(serde_json::from_value(operations).map_err(kube::Error::SerdeError)?);
        self.metrics.write("patch", "ValkeyCA/status");
        self.authorities().patch_status(names::ROOT, &PatchParams::default(), &patch).await.map(drop)
    }
}

/// Where it is in what is stored.
fn place(authority: &Stored<ValkeyCA>, name: &str) -> Option<usize> {
    entries(authority.0.as_ref().ok()?).iter().position(|entry| entry.name == name)
}

/// An evicted pod stays as an object, and nothing runs in it ever again.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Writes the entry of one replica, each under a field manager of its own.
pub async fn tell(clients: &Clients, namespace: &str, replica: &str, facts: &OwnFacts) -> kube::Result<bool> {
    let entry = OperatorReplica {
        name: replica.to_owned(),
        trusted_roots: facts.trusts.iter().map(ToString::to_string).take(TRUSTED_ROOTS).collect(),
        presents: facts.presents.as_ref().map(ToString::to_string),
    };
    let api: Api<Stored<ValkeyCA>> = Api::namespaced(clients.requests.clone(), namespace);
    let Some(Stored(Ok(authority))) = api.get_opt(names::ROOT).await? else { return Ok(false) };
    if entries(&authority).contains(&entry) {
        return Ok(false);
    }
    apply(clients, &authority, replica, vec![entry]).await.map(|_| true)
}

async fn apply(
    clients: &Clients,
    authority: &ValkeyCA,
    replica: &str,
    entries: Vec<OperatorReplica>,
) -> kube::Result<Stored<ValkeyCA>> {
    let namespace = authority.namespace().unwrap_or_default();
    let api: Api<Stored<ValkeyCA>> = Api::namespaced(clients.requests.clone(), &namespace);
    let metadata = json!({ "name": names::ROOT, "uid": authority.metadata.uid });
    let status = if entries.is_empty() { json!({}) } else { json!({ OPERATORS: entries }) };
    let status = clients.installed.known("ValkeyCA", status);
    let patch = json!({ "apiVersion": API_VERSION, "kind": "ValkeyCA", "metadata": metadata, "status": status });
    let parameters = PatchParams::apply(&format!("{MANAGER}-{replica}")).force();
    api.patch_status(names::ROOT, &parameters, &Patch::Apply(&patch)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_whose_pod_was_evicted_is_not_waited_for_and_one_that_is_starting_is() {
        let pod = |phase: &str| -> Pod { serde_json::from_value(json!({ "status": { "phase": phase } })).unwrap() };
        assert!(["Failed", "Succeeded"].into_iter().all(|phase| is_over(&pod(phase))));
        assert!(!["Pending", "Running", "Unknown"].into_iter().any(|phase| is_over(&pod(phase))));
        assert!(!is_over(&Pod::default()));
    }
}
