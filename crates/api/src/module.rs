//! Modules that a Valkey loads when it starts. Pure; the operator writes them into the pod's template, the sidecar into valkey.conf.

use serde::{Deserialize, Serialize};

/// Where the image `valkey-bundle` keeps its modules.
const BUNDLE_FOLDER: &str = "/usr/lib/valkey";
/// What that image's own entry point loads, in its order.
const BUNDLE: [&str; 4] = ["libjson.so", "libsearch.so", "libvalkey_bloom.so", "libvalkey_ldap.so"];

/// One line `loadmodule` of valkey.conf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// The file in the image.
    pub path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

impl Module {
    pub fn at(path: impl Into<String>) -> Self {
        Self { path: path.into(), args: Vec::new() }
    }
}

/// Whether an image is the bundle, from whatever registry.
pub fn is_bundle(image: &str) -> bool {
    image.rsplit('/').next() == Some("valkey-bundle")
}

/// The modules that an image's own entry point would load.
pub fn of_image(image: &str) -> Vec<Module> {
    let bundle = BUNDLE.iter().filter(|_| is_bundle(image));
    bundle.map(|file| Module::at(format!("{BUNDLE_FOLDER}/{file}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_known_by_its_name_from_any_registry() {
        for image in ["valkey-bundle", "valkey/valkey-bundle", "registry.example:5000/mirror/valkey-bundle"] {
            assert_eq!(of_image(image)[0], Module::at("/usr/lib/valkey/libjson.so"), "{image}");
        }
        for image in ["valkey/valkey", "valkey-bundle/valkey", "my-valkey-bundle"] {
            assert_eq!(of_image(image), [], "{image}");
        }
    }
}
