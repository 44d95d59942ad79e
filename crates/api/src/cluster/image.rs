//! Container images as the spec names them. Pure.

use super::rules::{at, rule};
use k8s_openapi::api::core::v1::LocalObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The Valkey image. Tag or version say which Valkey it holds, because the configuration is written for that version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = version_rules()))]
pub struct ValkeyImage {
    /// Repository of the image, without a tag. Default: docker.io/valkey/valkey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = name_rules()))]
    pub name: Option<String>,
    /// Tag of the image. It begins with the Valkey version, 8.1 or newer: "9.1", "9.1.2", "9.1.2-alpine", also with a digest
    /// ("9.1.2@sha256:…"); any other tag, or a digest alone ("sha256:…"), goes with the field version. Write it in quotes: YAML takes
    /// 8.1 for a number. Default: 9.1.2. A cluster that runs an earlier default, or a later version, keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = tag_rules("valkeyImage.tag")))]
    pub tag: Option<String>,
    /// The Valkey version in the image, 8.1 or newer ("9.1", "9.1.2"), for a tag that does not begin with it. It must be true:
    /// parameters are chosen by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = valkey_version_rules()))]
    pub version: Option<String>,
    /// Secrets of this namespace with the registry's credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
}

/// A container image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Repository of the image, without a tag.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = name_rules()))]
    pub name: String,
    /// Tag of the image, also with a digest ("v1.0@sha256:…"), or a digest alone ("sha256:…"). Write it in quotes if it looks like a
    /// number.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = tag_rules("tag")))]
    pub tag: String,
    /// Secrets of this namespace with the registry's credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
}

/// The image of the Prometheus exporter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExporterImage {
    /// Repository of the image, without a tag. Default: docker.io/oliver006/redis_exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = name_rules()))]
    pub name: Option<String>,
    /// Tag of the image, also with a digest ("v1.69.0@sha256:…"), or a digest alone ("sha256:…"). Default: v1.69.0. A cluster that runs an earlier default keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = tag_rules("tag")))]
    pub tag: Option<String>,
    /// Secrets of this namespace with the registry's credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
}

fn name_rules() -> Value {
    json!([rule(
        "self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?/)?[a-z0-9]([-a-z0-9._/]*[a-z0-9])?$')",
        "name must be an image repository without a tag, for example docker.io/valkey/valkey: write the tag into the field tag"
    )])
}

/// Of 8.1 or newer.
const VERSION: &str = "(8[.][1-9]|9[.][0-9]|[1-9][0-9][.][0-9])[0-9]?([.][0-9]{1,4})?";

fn version_rules() -> Value {
    json!([
        at(
            ".tag",
            rule(
                &format!("!has(self.tag) || has(self.version) || self.tag.matches('^v?{VERSION}([-_@].*)?$')"),
                "valkeyImage.tag must begin with a Valkey version of 8.1 or newer, for example \"9.1.2\" or \"9.1-alpine\": choose such a tag, or say in valkeyImage.version what the image holds"
            )
        ),
        at(
            ".version",
            rule(
                "!has(self.version) || has(self.tag)",
                "valkeyImage.version says what the image of valkeyImage.tag holds: write the tag as well, or leave the version out"
            )
        ),
    ])
}

fn valkey_version_rules() -> Value {
    json!([rule(
        &format!("self.matches('^{VERSION}$')"),
        "valkeyImage.version must be a Valkey version of 8.1 or newer, for example \"9.1\" or \"9.1.2\": write numbers with dots"
    )])
}

fn tag_rules(field: &str) -> Value {
    json!([rule(
        "self.matches('^([A-Za-z0-9_][A-Za-z0-9_.-]*(@sha256:[0-9a-f]{64})?|sha256:[0-9a-f]{64})$')",
        &format!(
            "{field} must be an image tag, for example \"v1.0\", optionally with @sha256:… behind it, or sha256:… alone: correct it"
        )
    )])
}
