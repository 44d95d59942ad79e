//! The ValkeyCA itself: made when there is none, its status published when it differs.

use super::{Error, Identities, operators::OPERATORS};
use crate::runtime::{StatusWrite, own_kind};
use api::certificates::{SecretType, ValkeyCA, ValkeyCASpec, ValkeyCAStatus, names};
use api::names::{API_VERSION, MANAGER};
use api::stored::Stored;
use kube::api::{Api, PostParams};
use serde_json::json;

const DESCRIPTION: &str = "Root of the identities of operator and sidecars";
/// Ten years; only for a root that the operator makes.
const VALID_FOR_DAYS: i32 = 3650;

impl Identities {
    pub(super) fn authorities(&self) -> Api<Stored<ValkeyCA>> {
        Api::namespaced(self.clients.requests.clone(), &self.settings.namespace)
    }

    /// The ValkeyCA, made if there is none.
    pub(super) async fn authority(&self) -> Result<ValkeyCA, Error> {
        let api = self.authorities();
        let found = api.get_opt(names::ROOT).await.map_err(|error| Error::read(what(), &error))?;
        if let Some(found) = found {
            return Error::unless_readable(what(), found);
        }
        self.metrics.write("create", "ValkeyCA");
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        tracing::info!(name = names::ROOT, "making the ValkeyCA");
        let made: Api<ValkeyCA> = Api::namespaced(self.clients.requests.clone(), &self.settings.namespace);
        let made = match made.create(&parameters, &first()).await {
            Err(kube::Error::Api(status)) if status.code == 409 => api.get(names::ROOT).await,
            made => made.map(|made| Stored(Ok(made))),
        };
        Error::unless_readable(what(), made.map_err(|error| Error::write(what(), &error))?)
    }

    /// `next` says nothing about the replicas: each tells of itself.
    pub(super) async fn publish_authority(&self, found: &ValkeyCA, next: &ValkeyCAStatus) -> Result<(), Error> {
        let before = ValkeyCAStatus { operators: Vec::new(), ..found.status.clone().unwrap_or_default() };
        if found.status.is_some() && json!(before) == json!(next) {
            return Ok(());
        }
        let status = self.clients.installed.known("ValkeyCA", json!(next));
        let write = StatusWrite {
            api: own_kind(&self.clients.requests, "ValkeyCA", &self.settings.namespace),
            api_version: API_VERSION,
            kind: "ValkeyCA",
            name: names::ROOT,
            uid: found.metadata.uid.as_deref().unwrap_or_default(),
            status: &status,
            beside: &[OPERATORS],
            metrics: &self.metrics,
            written_as: "ValkeyCA/status",
        };
        let outcome = write.run().await;
        outcome.map(drop).map_err(|error| Error::write(format!("the status of {}", what()), &error))
    }
}

fn what() -> String {
    format!("the ValkeyCA {}", names::ROOT)
}

fn first() -> ValkeyCA {
    let spec = ValkeyCASpec {
        description: Some(DESCRIPTION.to_owned()),
        secret_type: SecretType::Secret,
        ca_cert_secret_ref: names::ROOT_SECRET.to_owned(),
        valid_for_days: VALID_FOR_DAYS,
    };
    let mut authority = ValkeyCA::new(names::ROOT, spec);
    authority.metadata.labels = Some(super::root_writing::labels());
    authority
}
