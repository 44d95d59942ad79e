//! What a spec refers to by name, and what is known of it. Pure data; the operator's runtime watches each by itself.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a spec names; in the namespace of the object that does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceKey {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    Known(Arc<Value>),
    Absent,
    /// Not heard of yet, or not readable: why.
    Unknown(String),
}

/// All that one spec refers to.
pub type References = BTreeMap<ReferenceKey, Reference>;
