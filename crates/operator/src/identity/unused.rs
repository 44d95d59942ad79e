//! Tells each ValkeyCA that nobody acts on: of another name, or in another namespace, where people who apply a file without a namespace
//! make it. IO; the leader's passes over the root call it now and then.

use super::Identities;
use crate::runtime::{self, StatusWrite};
use api::certificates::{ValkeyCA, names};
use api::names::API_VERSION;
use api::stored::Stored;
use certificates::unused_status;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Error, ResourceExt};
use serde_json::json;

impl Identities {
    /// What cannot be told is tried again with the next round, and holds nothing up.
    pub(super) async fn tell_unused(&self, scopes: &[Option<String>]) {
        let own = Some(self.settings.namespace.clone());
        let covered = scopes.iter().any(|scope| scope.is_none() || *scope == own);
        let beside = (!covered).then_some(&own);
        for scope in scopes.iter().chain(beside) {
            if let Err(error) = self.tell_unused_in(scope.as_deref()).await {
                tracing::debug!(%error, ?scope, "ValkeyCAs that nobody acts on could not be told");
            }
        }
    }

    async fn tell_unused_in(&self, scope: Option<&str>) -> Result<(), Error> {
        let listed = runtime::scoped::<Stored<ValkeyCA>>(&self.clients.requests, scope);
        let listed = listed.list(&ListParams::default()).await?;
        let readable = listed.items.iter().filter_map(|authority| authority.0.as_ref().ok());
        for authority in readable.filter(|authority| !self.is_root(authority) && !is_acted_on(authority)) {
            self.tell_that_it_is_unused(authority).await?;
        }
        Ok(())
    }

    fn is_root(&self, authority: &ValkeyCA) -> bool {
        authority.name_any() == names::ROOT && authority.namespace().as_deref() == Some(&self.settings.namespace)
    }

    async fn tell_that_it_is_unused(&self, authority: &ValkeyCA) -> Result<(), Error> {
        let (name, namespace, previous) = (authority.name_any(), authority.namespace(), authority.status.as_ref());
        let now = planner::whole_second(Timestamp::now());
        let next = unused_status(authority.metadata.generation, &self.settings.namespace, previous, now);
        if previous == Some(&next) {
            return Ok(());
        }
        let status = self.clients.installed.known("ValkeyCA", json!(next));
        let write = StatusWrite {
            api: runtime::own_kind(&self.clients.requests, "ValkeyCA", namespace.as_deref().unwrap_or_default()),
            api_version: API_VERSION,
            kind: "ValkeyCA",
            name: &name,
            uid: authority.metadata.uid.as_deref().unwrap_or_default(),
            status: &status,
            beside: &[],
            metrics: &self.metrics,
            written_as: "ValkeyCA/status",
        };
        write.run().await.map(drop)
    }
}

/// By another operator, in whose namespace it is: that one says what it is.
fn is_acted_on(authority: &ValkeyCA) -> bool {
    let status = authority.status.as_ref();
    status
        .is_some_and(|status| status.thumbprint.is_some() || !status.operators.is_empty() || !status.trusted.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::fake_api::FakeApi;
    use crate::identity::nowhere::{NAMESPACE, identities_at};
    use api::certificates::names::ROOT;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn one_that_nobody_acts_on_says_so_and_the_root_is_left_alone() {
        let api = FakeApi::start().await;
        let path =
            |namespace: &str, name: &str| format!("/apis/valkey.io/v1alpha1/namespaces/{namespace}/valkeycas/{name}");
        let put = |namespace: &str, name: &str| {
            let metadata = json!({ "name": name, "namespace": namespace, "generation": 1 });
            let object = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCA", "metadata": metadata,
                "spec": { "caCertSecretRef": "root", "secretType": "Secret", "validForDays": 3650 } });
            api.put(&path(namespace, name), object)
        };
        for (namespace, name) in [(NAMESPACE, ROOT), (NAMESPACE, "mine"), ("team-a", ROOT), ("ops-b", ROOT)] {
            put(namespace, name);
        }
        let mut of_another = api.object(&path("ops-b", ROOT)).unwrap();
        of_another["status"] = json!({ "thumbprint": "ab", "conditions": [] });
        api.put(&path("ops-b", ROOT), of_another);
        let identities = identities_at(api.config.clone());
        identities.tell_unused(&[Some("team-a".to_owned()), Some("ops-b".to_owned())]).await;
        let reason = |namespace: &str, name: &str| {
            let object = api.object(&path(namespace, name)).unwrap();
            object.pointer("/status/conditions/0/reason").and_then(Value::as_str).map(str::to_owned)
        };
        assert_eq!(reason(NAMESPACE, ROOT), None);
        assert_eq!(reason(NAMESPACE, "mine").as_deref(), Some("NotUsed"));
        assert_eq!(reason("team-a", ROOT).as_deref(), Some("NotUsed"));
        assert_eq!(reason("ops-b", ROOT), None, "another operator acts on it");
        let version = || api.object(&path("team-a", ROOT)).unwrap()["metadata"]["resourceVersion"].clone();
        let told = version();
        identities.tell_unused(&[Some("team-a".to_owned())]).await;
        assert_eq!(version(), told, "it is told once");
    }
}
