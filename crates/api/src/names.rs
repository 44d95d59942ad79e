//! Every name other people, programs and later versions rely on: child objects, labels, annotations, containers, ports.
//! Pure; nobody spells one of these elsewhere.

use std::collections::BTreeMap;

pub const GROUP: &str = "valkey.io";
pub const VERSION: &str = "v1alpha1";
pub const API_VERSION: &str = "valkey.io/v1alpha1";
pub const KIND: &str = "ValkeyCluster";

/// Field manager of everything the operator applies, value of the managed-by label, and owner mark on our CRDs.
pub const MANAGER: &str = "valkey-operator";

/// Longest name of a ValkeyCluster: `<name>-<revision hash>` must fit a label value, `<name>-headless` a DNS label.
pub const NAME_LIMIT: usize = 48;

pub mod annotation {
    /// Names the ValkeyCluster an object belongs to; removing it from the StatefulSet unbinds.
    pub const CR: &str = "valkey.io/cr";
    /// On our CRDs: who made them. Install refuses to overwrite a CRD of the same name without it.
    pub const OWNER: &str = "valkey.io/owner";
    /// On our CRDs: which schema it is, see `definition::REVISION`.
    pub const SCHEMA_REVISION: &str = "valkey.io/schema-revision";
    /// On the pod template: digest over all that needs a restart.
    pub const RESTART_REVISION: &str = "valkey.io/restart-revision";
    /// On the pod template: the same, field by field, so that what is pending can be named.
    pub const RESTART_INPUTS: &str = "valkey.io/restart-inputs";
    /// On running pods, never on the template: digest of the settings. A changed pod makes the kubelet refresh its volumes at
    /// once instead of within a minute or more.
    pub const SETTINGS_REVISION: &str = "valkey.io/settings-revision";
    /// On running pods, never on the template: which certificate their Secret holds. For the same reason.
    pub const IDENTITY_REVISION: &str = "valkey.io/identity-revision";
    /// On every object the operator applies: digest of the manifest. A field that is no longer in the manifest shows only here.
    pub const APPLIED_REVISION: &str = "valkey.io/applied-revision";
    /// On a StatefulSet whose pods do not come: when its controller was last made to look again.
    pub const NUDGED_AT: &str = "valkey.io/nudged-at";
    /// On a ValkeyCluster, by a person: the build of the operator's sidecar that new pods are to have.
    pub const UPDATE_SIDECARS: &str = "valkey.io/update-sidecars";
    /// On pods and their template: which of their labels and annotations come from the spec.
    pub const POD_METADATA: &str = "valkey.io/pod-metadata";
    /// On the operator's Lease: host:port of the leader's end of the line.
    pub const LINE_ADDRESS: &str = "valkey.io/line-address";
    /// On the operator's Lease: the leader's term, higher with every process that takes the Lease, also after it was deleted.
    pub const EPOCH: &str = "valkey.io/epoch";
    /// Reserved for the guard of the objects: one change by the operator, told from those of others. Nobody else writes it.
    pub const UPDATE_TOKEN: &str = "valkey.io/update-token";
    /// Reserved for the guard of the objects: only the operator changes or deletes what has it, see docs/adr/0013.
    pub const LOCKED: &str = "valkey.io/locked";
}

/// Reserved for objects whose end has to wait for the operator: pods that hand over first, clusters that are tidied up first.
pub const FINALIZER: &str = "valkey.io/finalizer";

pub mod label {
    pub const NAME: &str = "app.kubernetes.io/name";
    pub const INSTANCE: &str = "app.kubernetes.io/instance";
    pub const COMPONENT: &str = "app.kubernetes.io/component";
    pub const PART_OF: &str = "app.kubernetes.io/part-of";
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// On pods: the cluster's name, for affinities that people write by hand. The spec may say otherwise.
    pub const APP: &str = "app";
    /// `primary` or `replica`, kept current on every pod.
    pub const ROLE: &str = "valkey.io/role";
}

pub const ROLE_PRIMARY: &str = "primary";
pub const ROLE_REPLICA: &str = "replica";

pub mod container {
    pub const VALKEY: &str = "valkey";
    pub const SIDECAR: &str = "sidecar";
    pub const EXPORTER: &str = "exporter";
}

pub mod port {
    pub const VALKEY: i32 = 6379;
    pub const VALKEY_NAME: &str = "valkey";
    /// Valkey's cluster bus: always the client port plus 10000.
    pub const BUS: i32 = 16379;
    pub const BUS_NAME: &str = "bus";
    pub const HEALTH: i32 = 8081;
    pub const HEALTH_NAME: &str = "health";
    pub const EXPORTER: i32 = 9121;
    pub const EXPORTER_NAME: &str = "metrics";
    /// The operator's, for the sidecars.
    pub const LINE: i32 = 8443;
}

/// What the sidecar answers on its health port.
pub mod probe {
    pub const SIDECAR: &str = "/healthz";
    pub const STARTUP: &str = "/valkey/startup";
    pub const LIVENESS: &str = "/valkey/liveness";
    pub const READINESS: &str = "/valkey/readiness";
    /// The cluster's UID follows.
    pub const PRE_STOP: &str = "/valkey/pre-stop/";

    pub fn pre_stop(cluster_uid: &str) -> String {
        format!("{PRE_STOP}{cluster_uid}")
    }
}

pub mod directory {
    pub const DATA: &str = "/data";
    pub const TMP: &str = "/tmp";
    /// In memory: valkey.conf and the Unix socket.
    pub const RUN: &str = "/run/valkey";
    /// The certificate the sidecar shows the operator, and whom it believes; the sidecar's alone.
    pub const MTLS: &str = "/etc/valkey-operator-mtls";
    /// The token that proves to the operator which pod this is; the sidecar's alone.
    pub const LINE_TOKEN: &str = "/var/run/secrets/valkey-operator";
}

/// The Service in the operator's namespace that sidecars dial.
pub const LINE_SERVICE: &str = "valkey-operator-line";
/// The only audience of the pods' tokens: no Kubernetes API accepts it.
pub const LINE_AUDIENCE: &str = "valkey-operator.valkey.io";
/// Under [`directory::LINE_TOKEN`].
pub const LINE_TOKEN_FILE: &str = "token";

/// Keys of a Secret with a certificate, and names of the files it becomes.
pub mod certificate_file {
    /// The leaf, then its intermediates.
    pub const CHAIN: &str = "tls.crt";
    pub const KEY: &str = "tls.key";
    /// Every root that is trusted now.
    pub const ROOTS: &str = "ca.crt";
}

/// Environment variables of the sidecar container.
pub mod environment {
    pub const POD_NAME: &str = "POD_NAME";
    pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
    pub const POD_IP: &str = "POD_IP";
    pub const POD_UID: &str = "POD_UID";
    pub const NODE_NAME: &str = "NODE_NAME";
    /// The version of the Valkey image beside it, bound to the pod, whatever the settings say by then.
    pub const VALKEY_VERSION: &str = "VALKEY_VERSION";
    /// The modules that the pod's Valkey loads, as JSON; bound to the pod for the same reason. Only there when there are any.
    pub const VALKEY_MODULES: &str = "VALKEY_MODULES";
    /// Bytes; only there when the valkey container has a memory limit.
    pub const VALKEY_MEMORY_LIMIT: &str = "VALKEY_MEMORY_LIMIT";
    /// All of these: nobody else gives them another meaning in our pods.
    pub const OWN: [&str; 8] =
        [POD_NAME, POD_NAMESPACE, POD_IP, POD_UID, NODE_NAME, VALKEY_VERSION, VALKEY_MODULES, VALKEY_MEMORY_LIMIT];
    /// Read by the entry point of Valkey's image, which does not run in our pods.
    pub const ENTRY_POINT_FLAGS: &str = "VALKEY_EXTRA_FLAGS";
}

pub fn headless_service(cluster: &str) -> String {
    format!("{cluster}-headless")
}

pub fn read_service(cluster: &str) -> String {
    format!("{cluster}-read")
}

pub fn config_map(cluster: &str) -> String {
    format!("{cluster}-config")
}

/// The Secret with the certificate its sidecars show the operator.
pub fn mtls_secret(cluster: &str) -> String {
    format!("{cluster}-mtls")
}

/// Not the bare name: every namespace has a ServiceAccount `default`, and a cluster may be called so.
pub fn service_account(cluster: &str) -> String {
    format!("{cluster}-valkey")
}

/// Where Prometheus finds the exporters of all pods.
pub fn metrics_endpoint(cluster: &str, namespace: &str) -> String {
    format!("http://{}.{namespace}.svc:{}/metrics", headless_service(cluster), port::EXPORTER)
}

pub fn pod(cluster: &str, ordinal: u32) -> String {
    format!("{cluster}-{ordinal}")
}

pub fn volume_claim(cluster: &str, ordinal: u32) -> String {
    format!("data-{cluster}-{ordinal}")
}

/// The cluster that a pod of this name would be of. Names of clusters may themselves end in a number: `a-1-0` would be of `a-1`.
pub fn cluster_of_pod(name: &str) -> Option<&str> {
    let (cluster, ordinal) = name.rsplit_once('-')?;
    (pod(cluster, ordinal.parse().ok()?) == name).then_some(cluster)
}

/// The cluster whose pod would take a claim of this name.
pub fn cluster_of_claim(name: &str) -> Option<&str> {
    cluster_of_pod(name.strip_prefix("data-")?)
}

/// The labels that select this cluster's pods. They never change: a StatefulSet's selector is immutable.
pub fn selector(cluster: &str) -> BTreeMap<String, String> {
    [(label::NAME, "valkey"), (label::INSTANCE, cluster), (label::COMPONENT, "cluster")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// The labels every object of this cluster carries.
pub fn labels(cluster: &str) -> BTreeMap<String, String> {
    let mut labels = selector(cluster);
    labels.insert(label::PART_OF.to_owned(), "valkey".to_owned());
    labels.insert(label::MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The selector of all pods in one line: `a=b,c=d`.
pub fn selector_text(cluster: &str) -> String {
    text_of(&selector(cluster))
}

/// What the scale subresource selects: as many pods as `masterCount` counts, so that an autoscaler's average is over these.
pub fn primaries_selector_text(cluster: &str) -> String {
    let mut selector = selector(cluster);
    selector.insert(label::ROLE.to_owned(), ROLE_PRIMARY.to_owned());
    text_of(&selector)
}

fn text_of(selector: &BTreeMap<String, String>) -> String {
    selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_keeps_every_child_within_63_characters() {
        let name = "n".repeat(NAME_LIMIT);
        let revision_label = format!("{name}-{}", "0".repeat(10));
        let children = [
            headless_service(&name),
            read_service(&name),
            mtls_secret(&name),
            service_account(&name),
            pod(&name, 9999),
        ];
        for child in children.iter().chain([&revision_label]) {
            assert!(child.len() <= 63, "{child} has {} characters", child.len());
        }
    }

    #[test]
    fn a_name_says_whose_pod_or_claim_it_would_be() {
        let pods =
            ["a-0", "a-1-0", "a-1", "a", "a-01", "a-x", "a--1", "-0", "a-+1", "a-4294967296"].map(cluster_of_pod);
        assert_eq!(pods, [Some("a"), Some("a-1"), Some("a"), None, None, None, Some("a-"), Some(""), None, None]);
        let claims = ["data-a-1-0", "data-a", "logs-a-0"].map(cluster_of_claim);
        assert_eq!(claims, [Some("a-1"), None, None]);
    }

    #[test]
    fn the_selector_is_part_of_the_labels() {
        let labels = labels("poc");
        assert!(selector("poc").iter().all(|(key, value)| labels.get(key) == Some(value)));
        assert_eq!(
            selector_text("poc"),
            "app.kubernetes.io/component=cluster,app.kubernetes.io/instance=poc,app.kubernetes.io/name=valkey"
        );
        assert_eq!(primaries_selector_text("poc"), format!("{},valkey.io/role=primary", selector_text("poc")));
    }
}
