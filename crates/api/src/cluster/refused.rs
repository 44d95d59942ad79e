//! Fields that people write and that are none: declared, so that they are refused with what to write instead. The API server would
//! drop them in silence, and somebody would wait for what they ask for. Pure; the definition gets them beside those of the types.

use super::rules::forbidden;
use serde_json::{Value, json};

/// A field that is none.
#[derive(Clone, Copy, Debug)]
pub struct RefusedField {
    /// Below the spec; its last part is what is declared.
    pub path: &'static [&'static str],
    kind: &'static str,
    /// What `kubectl explain` shows.
    description: &'static str,
    /// Why it is refused and what to write instead.
    remedy: &'static str,
}

/// Those of a ValkeyCluster.
pub const OF_CLUSTER: &[RefusedField] = &[
    RefusedField {
        path: &["clusterType"],
        kind: "string",
        description: "Refused: a ValkeyCluster is always sharded.",
        remedy: "a ValkeyCluster is always sharded, and Sentinel and single instances are kinds of their own: leave clusterType out",
    },
    RefusedField {
        path: &["clusterPassword"],
        kind: "string",
        description: "Refused: whoever may read the object would know the password.",
        remedy: "a password does not belong in an object that many can read, and the nodes have none yet: leave clusterPassword \
                 out, and change it wherever else it is in use, because this request may be in a log",
    },
    RefusedField {
        path: &["podAntiAffinity", "enabled"],
        kind: "boolean",
        description: "Refused: rules are on when they are written.",
        remedy: "podAntiAffinity holds rules and no switch: leave podAntiAffinity out, and the pods of the cluster avoid each other's \
                 node and zone where they can; write podAntiAffinity: {} for no such rules, or rules of your own",
    },
];

/// Those of a ValkeyCA.
pub const OF_AUTHORITY: &[RefusedField] = &[RefusedField {
    path: &["caKeySecretRef"],
    kind: "string",
    description: "Refused: the key lies beside the certificate.",
    remedy: "the key lies beside the certificate, in the Secret that caCertSecretRef names: put tls.crt and tls.key there and leave \
             caKeySecretRef out",
}];

impl RefusedField {
    pub fn schema(&self) -> Value {
        json!({
            "type": self.kind,
            "description": self.description,
            "x-kubernetes-validations": [forbidden("false", self.remedy)],
        })
    }
}
