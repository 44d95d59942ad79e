//! Names that must not be mixed up. Pure.

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> $name {
                $name(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                $name(text.to_owned())
            }
        }
    };
}

name!(
    /// What a Valkey node calls itself: forty hexadecimal digits, kept in its nodes.conf.
    NodeId
);
name!(
    /// The name of a pod; a StatefulSet gives the same name to the pod's successor.
    PodName
);
name!(
    /// The uid of a pod; its successor has another.
    PodUid
);
name!(
    /// Our name for a shard, kept through failovers.
    ShardId
);

impl NodeId {
    /// None unless it looks like a node id: what answers nonsense is not talked about.
    pub fn parse(text: &str) -> Option<NodeId> {
        let hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == 40 && hexadecimal).then(|| NodeId::new(text))
    }

    /// Enough of it for people.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl PodName {
    /// The number at the end of a StatefulSet pod's name.
    pub fn ordinal(&self) -> Option<usize> {
        self.0.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forty_hexadecimal_digits_are_a_node_id() {
        assert!(NodeId::parse(&"0a".repeat(20)).is_some());
        assert!(["", "0a", &"0A".repeat(20), &"0g".repeat(20)].iter().all(|text| NodeId::parse(text).is_none()));
    }

    #[test]
    fn the_ordinal_is_the_number_after_the_last_dash() {
        assert_eq!(PodName::new("my-cache-12").ordinal(), Some(12));
        assert_eq!(PodName::new("other").ordinal(), None);
    }
}
