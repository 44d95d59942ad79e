//! Names of the objects behind identities. Pure; the Secret that pods mount is named in [`crate::names`], where the sidecar sees it.

/// The ValkeyCA that the operator makes at its first start, in its own namespace.
pub const ROOT: &str = "valkey-root-ca";
/// Its Secret, unless the user names another.
pub const ROOT_SECRET: &str = "valkey-root-ca-cert";
/// The root that signs now. The same as in [`ROOT_SECRET`] except while one root follows another, and a second copy of it.
pub const SIGNING_SECRET: &str = "valkey-root-ca-signing";
/// The operator's own intermediate with its key, and the roots that are trusted. The dot keeps it apart: names of clusters have none,
/// so no cluster's Secret is ever called like this.
pub const OPERATOR_SECRET: &str = "valkey-operator.intermediate";

/// On the Secret with an intermediate's key: namespace and name of the cluster it signs for.
pub const KEY_OF: &str = "valkey.io/key-of";
/// On the Secret with an intermediate's key: the UID of that cluster. It is in another namespace, so it cannot be an owner.
pub const KEY_OF_UID: &str = "valkey.io/key-of-uid";

/// On our Secrets: when the certificate in it was made. The certificate itself says a few minutes earlier.
pub const ISSUED_AT: &str = "valkey.io/issued-at";
/// On our Secrets with a root: which root we put into it. Another one in its place is not ours, whatever the labels say.
pub const THUMBPRINT: &str = "valkey.io/thumbprint";
/// On the Secret that pods mount: when it was last written.
pub const WRITTEN_AT: &str = "valkey.io/written-at";
/// On the Secret with the signing root: from which Secret it came.
pub const CAME_FROM: &str = "valkey.io/came-from";
/// On the Secret with the signing root: who made it, as in the status of the ValkeyCA.
pub const SOURCE: &str = "valkey.io/authority-source";
/// On the ValkeyCA, by an administrator: the thumbprint of the one root that goes without waiting for anybody.
pub const RETIRE_NOW: &str = "valkey.io/retire-now";

pub fn bundle(cluster: &str) -> String {
    format!("{cluster}-cert-bundle")
}

pub fn binding(cluster: &str) -> String {
    format!("{cluster}-cert-binding")
}

/// The intermediate's certificate, in the cluster's namespace.
pub fn intermediate_secret(cluster: &str) -> String {
    format!("{cluster}-mtls-ca")
}

/// The intermediate's key, in the operator's namespace. Neither part holds a dot, so no two clusters of any namespaces share one.
pub fn intermediate_key_secret(namespace: &str, cluster: &str) -> String {
    format!("{namespace}.{cluster}.mtls-ca-key")
}

/// Every Secret of a cluster in its own namespace. A new one belongs here: names that could meet others' are found by a test.
pub fn cluster_secrets(cluster: &str) -> [String; 2] {
    [crate::names::mtls_secret(cluster), intermediate_secret(cluster)]
}

/// Every Secret of the operator itself, in its namespace.
pub const OPERATOR_SECRETS: [&str; 3] = [ROOT_SECRET, SIGNING_SECRET, OPERATOR_SECRET];

/// Whether a Secret is called like one of these, of whichever cluster.
pub fn is_certificate_secret(name: &str) -> bool {
    let endings = ["-mtls", "-mtls-ca", ".mtls-ca-key"];
    OPERATOR_SECRETS.contains(&name) || endings.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_with_certificates_are_known_by_their_names() {
        let of_cluster = cluster_secrets("poc").into_iter().chain([intermediate_key_secret("default", "poc")]);
        assert!(of_cluster.chain(OPERATOR_SECRETS.map(str::to_owned)).all(|name| is_certificate_secret(&name)));
        assert!(!is_certificate_secret("poc") && !is_certificate_secret("passwords"));
    }
    use crate::names::NAME_LIMIT;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// What a name could be made to collide with: whatever our names begin or end with.
    const PARTS: [&str; 12] = [
        "x",
        "mtls",
        "mtls-ca",
        "mtls-ca-key",
        "valkey-operator",
        "valkey-operator-mtls",
        "valkey-root-ca",
        "valkey-root-ca-cert",
        "valkey-root-ca-signing",
        "ca",
        "key",
        "intermediate",
    ];

    /// As the definition allows it: a DNS label that begins with a letter.
    fn cluster() -> impl Strategy<Value = String> {
        let made =
            proptest::collection::vec(proptest::sample::select(PARTS.to_vec()), 1..4).prop_map(|parts| parts.join("-"));
        let any = "[a-z]([-a-z0-9]{0,46}[a-z0-9])?";
        prop_oneof![made, any].prop_filter("too long", |name| name.len() <= NAME_LIMIT)
    }

    /// A namespace is a DNS label.
    fn namespace() -> impl Strategy<Value = String> {
        prop_oneof![cluster(), "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"]
    }

    /// All that two clusters and the operator have in one namespace, if both clusters are in the operator's own.
    fn all(namespaces: [&str; 2], clusters: [&str; 2]) -> Vec<String> {
        let own = clusters.iter().flat_map(|cluster| cluster_secrets(cluster));
        let keys =
            namespaces.iter().zip(clusters).map(|(namespace, cluster)| intermediate_key_secret(namespace, cluster));
        own.chain(keys).chain(OPERATOR_SECRETS.map(str::to_owned)).collect()
    }

    proptest! {
        #[test]
        fn no_name_of_a_cluster_reaches_a_secret_that_is_not_its_own(
            (here, there, one, other) in (namespace(), namespace(), cluster(), cluster())
        ) {
            prop_assume!(one != other);
            for namespaces in [[here.as_str(), there.as_str()], [here.as_str(), here.as_str()]] {
                let names = all(namespaces, [one.as_str(), other.as_str()]);
                prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{:?}", names);
                prop_assert!(names.iter().all(|name| name.len() <= 253), "{:?}", names);
            }
            // The same name in two namespaces: only the keys meet in one.
            prop_assert!(here == there || intermediate_key_secret(&here, &one) != intermediate_key_secret(&there, &one));
        }
    }

    #[test]
    fn a_cluster_called_like_the_operator_does_not_reach_the_operators_secret() {
        assert!(cluster_secrets(crate::names::MANAGER).iter().all(|name| !OPERATOR_SECRETS.contains(&name.as_str())));
    }
}
