//! Names of the objects behind identities. Pure; the Secret that pods mount is named in [`crate::names`], where the sidecar sees it.

/// The ValkeyCA that the operator makes at its first start, in its own namespace.
pub const ROOT: &str = "valkey-root-ca";
/// Its Secret, unless the user names another.
pub const ROOT_SECRET: &str = "valkey-root-ca-cert";
/// The root that signs now. The same as in [`ROOT_SECRET`] except while one root follows another, and a second copy of it.
pub const SIGNING_SECRET: &str = "valkey-root-ca-signing";
/// The operator's own intermediate with its key, and the roots that are trusted.
pub const OPERATOR_SECRET: &str = "valkey-operator-mtls";

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

pub fn bundle(cluster: &str) -> String {
    format!("{cluster}-cert-bundle")
}

pub fn binding(cluster: &str) -> String {
    format!("{cluster}-cert-binding")
}

/// The intermediate's certificate.
pub fn intermediate_secret(cluster: &str) -> String {
    format!("{cluster}-mtls-ca")
}

/// The intermediate's key, which no pod mounts.
pub fn intermediate_key_secret(cluster: &str) -> String {
    format!("{cluster}-mtls-ca-key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_objects_of_one_kind_share_a_name() {
        let secrets = [intermediate_secret("poc"), intermediate_key_secret("poc"), crate::names::mtls_secret("poc")];
        assert!(secrets.iter().enumerate().all(|(at, name)| !secrets.iter().skip(at + 1).any(|other| other == name)));
        // A second cluster whose name is made to collide: only the Secret of `poc-mtls-ca` could, and it has another ending.
        assert_ne!(crate::names::mtls_secret("poc-mtls-ca"), intermediate_key_secret("poc"));
    }
}
