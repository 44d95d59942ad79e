//! Modules as the spec names them. Pure.

use super::rules::rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A module that Valkey loads when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// The module's file in the Valkey image, for example /usr/lib/valkey/libjson.so.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = path_rules()))]
    pub path: String,
    /// Its arguments, at most 32. No secrets: whoever may read this object or the pods can read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(max = 512)), extend("x-kubernetes-validations" = argument_rules()))]
    pub args: Option<Vec<String>>,
}

impl From<&Module> for crate::module::Module {
    fn from(module: &Module) -> Self {
        Self { path: module.path.clone(), args: module.args.clone().unwrap_or_default() }
    }
}

fn path_rules() -> Value {
    json!([rule(
        "self.matches('^(/[A-Za-z0-9][-A-Za-z0-9._+]*)+$')",
        "modules holds a path that is none: write the whole path of the file in the Valkey image, for example /usr/lib/valkey/libjson.so"
    )])
}

fn argument_rules() -> Value {
    json!([rule(
        "self.all(argument, argument.matches('^[\\\\x20-\\\\x7e]*$'))",
        "modules holds an argument with a character that is not printed: write printable characters of ASCII"
    )])
}
