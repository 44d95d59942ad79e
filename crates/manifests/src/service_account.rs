//! The ServiceAccount of the pods: it has no rights and its token is not mounted. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use api::names;
use k8s_openapi::api::core::v1::ServiceAccount;

pub fn service_account(cluster: &ValidatedCluster) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata::annotated(
            cluster,
            names::service_account(&cluster.name),
            &cluster.spec.service_account.annotations,
        ),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
