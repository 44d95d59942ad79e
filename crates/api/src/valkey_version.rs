//! The version of Valkey a pod runs, read from an image tag or an environment variable. Pure; everybody uses it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// `9.1.2`, `9.1` (patch level unknown). Ordered; an unknown patch level sorts before every known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValkeyVersion {
    pub major: u16,
    pub minor: u16,
    pub patch: Option<u16>,
}

/// The text does not begin with `major.minor`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" does not begin with a Valkey version such as 8.1 or 9.1.2")]
pub struct InvalidValkeyVersion(pub String);

impl ValkeyVersion {
    /// The oldest version line that is supported.
    pub const OLDEST: ValkeyVersion = ValkeyVersion { major: 8, minor: 1, patch: None };

    /// True from `major.minor` on, whatever the patch level.
    pub fn at_least(self, major: u16, minor: u16) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Reads `9.1.2`, `v9.1`, `9.1-alpine`, `9.1.2@sha256:…`; what follows the numbers is ignored.
    pub fn from_tag(tag: &str) -> Result<Self, InvalidValkeyVersion> {
        parse(tag).ok_or_else(|| InvalidValkeyVersion(tag.to_owned()))
    }
}

fn parse(tag: &str) -> Option<ValkeyVersion> {
    let text = tag.strip_prefix('v').unwrap_or(tag);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at_checked(end)?;
    if !(rest.is_empty() || rest.starts_with(['-', '@', '+', '_'])) {
        return None;
    }
    let mut parts = numbers.split('.').map(|part| part.parse::<u16>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    let patch = match parts.next() {
        None => None,
        Some(part) => Some(part?),
    };
    parts.next().is_none().then_some(ValkeyVersion { major, minor, patch })
}

impl FromStr for ValkeyVersion {
    type Err = InvalidValkeyVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_tag(text)
    }
}

impl fmt::Display for ValkeyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

impl Serialize for ValkeyVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ValkeyVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_front_of_a_tag() {
        let cases = [
            ("9.1.2", "9.1.2"),
            ("8.1", "8.1"),
            ("v9.0", "9.0"),
            ("9.1-alpine", "9.1"),
            ("9.1.2-bookworm", "9.1.2"),
            ("9.1.2@sha256:0123", "9.1.2"),
        ];
        for (tag, expected) in cases {
            assert_eq!(ValkeyVersion::from_tag(tag).unwrap().to_string(), expected, "{tag}");
        }
    }

    #[test]
    fn tags_without_a_version_in_front_are_refused() {
        for tag in ["", "latest", "9", "9.", "9.x", "bundle-9.1", "9.1.2.3", "9.1rc1", "99999.1"] {
            assert_eq!(ValkeyVersion::from_tag(tag), Err(InvalidValkeyVersion(tag.into())), "{tag}");
        }
    }

    #[test]
    fn nine_is_newer_than_eight_one_whatever_the_patch_level() {
        let nine = ValkeyVersion::from_tag("9.0").unwrap();
        assert!(nine > ValkeyVersion::from_tag("8.1.9").unwrap());
        assert!(nine.at_least(8, 1) && nine.at_least(9, 0) && !nine.at_least(9, 1));
    }
}
