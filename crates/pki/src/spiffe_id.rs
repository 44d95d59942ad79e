//! SPIFFE ids: parsed once by the rules of the specification, exact afterwards. Pure.

use crate::trust_domain::{InvalidTrustDomain, TrustDomain};
use std::{fmt, str::FromStr};

const SCHEME: &str = "spiffe://";
const LIMIT: usize = 2048;

/// `spiffe://<trust domain><path>`. The path is empty (a trust domain's own id) or begins with a slash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    trust_domain: TrustDomain,
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSpiffeId {
    #[error("a SPIFFE id has at most {LIMIT} characters, this one has {0}: shorten its path")]
    TooLong(usize),
    #[error("a SPIFFE id begins with {SCHEME}")]
    Scheme,
    #[error("the trust domain of the SPIFFE id is invalid")]
    TrustDomain(#[from] InvalidTrustDomain),
    #[error("the path of a SPIFFE id has no empty segment and does not end in a slash: remove the slash")]
    EmptySegment,
    #[error("the path of a SPIFFE id has no segment \".\" or \"..\": write the path out")]
    DotSegment,
    #[error(
        "the path of a SPIFFE id cannot hold {0:?}: use only letters, digits, '.', '-' and '_' between the slashes"
    )]
    Character(char),
}

impl SpiffeId {
    /// An id below a trust domain; the path is empty or begins with a slash.
    pub fn new(trust_domain: &TrustDomain, path: &str) -> Result<Self, InvalidSpiffeId> {
        let length = SCHEME.len() + trust_domain.as_str().len() + path.len();
        if length > LIMIT {
            return Err(InvalidSpiffeId::TooLong(length));
        }
        check_path(path)?;
        Ok(Self { trust_domain: trust_domain.clone(), path: path.to_owned() })
    }

    /// The id of the trust domain itself, which its signing certificates carry.
    pub fn of_trust_domain(trust_domain: &TrustDomain) -> Self {
        Self { trust_domain: trust_domain.clone(), path: String::new() }
    }

    /// For segments that are known to be valid.
    pub(crate) fn of_segments(trust_domain: &TrustDomain, segments: &[&str]) -> Self {
        let path = segments.iter().map(|segment| format!("/{segment}")).collect();
        Self { trust_domain: trust_domain.clone(), path }
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    pub fn path(&self) -> &str {
        &self.path
    }
}

fn check_path(path: &str) -> Result<(), InvalidSpiffeId> {
    if path.is_empty() {
        return Ok(());
    }
    // The caller of `new` may hand in a path without its slash; it would melt into the trust domain.
    let segments = path.strip_prefix('/').ok_or(InvalidSpiffeId::EmptySegment)?;
    segments.split('/').try_for_each(check_segment)
}

fn check_segment(segment: &str) -> Result<(), InvalidSpiffeId> {
    match segment {
        "" => return Err(InvalidSpiffeId::EmptySegment),
        "." | ".." => return Err(InvalidSpiffeId::DotSegment),
        _ => {}
    }
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    match segment.chars().find(|character| !is_allowed(*character)) {
        Some(character) => Err(InvalidSpiffeId::Character(character)),
        None => Ok(()),
    }
}

impl FromStr for SpiffeId {
    type Err = InvalidSpiffeId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > LIMIT {
            return Err(InvalidSpiffeId::TooLong(text.len()));
        }
        let rest = text.strip_prefix(SCHEME).ok_or(InvalidSpiffeId::Scheme)?;
        let (trust_domain, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self::new(&trust_domain.parse()?, path)
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}{}", self.trust_domain, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_valid_id_is_taken_apart() {
        let id: SpiffeId = "spiffe://team-a/valkeycluster/poc/sidecar".parse().unwrap();
        assert_eq!((id.trust_domain().as_str(), id.path()), ("team-a", "/valkeycluster/poc/sidecar"));
        let own: SpiffeId = "spiffe://team-a".parse().unwrap();
        assert_eq!((own.path(), &own), ("", &SpiffeId::of_trust_domain(&"team-a".parse().unwrap())));
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        let domain = |reason| InvalidSpiffeId::TrustDomain(reason);
        let cases = [
            ("", InvalidSpiffeId::Scheme),
            ("https://a/b", InvalidSpiffeId::Scheme),
            ("SPIFFE://a/b", InvalidSpiffeId::Scheme),
            ("spiffe:/a/b", InvalidSpiffeId::Scheme),
            ("spiffe:///b", domain(InvalidTrustDomain::Empty)),
            ("spiffe://", domain(InvalidTrustDomain::Empty)),
            ("spiffe://A/b", domain(InvalidTrustDomain::Character('A'))),
            ("spiffe://a:1/b", domain(InvalidTrustDomain::Character(':'))),
            ("spiffe://u@a/b", domain(InvalidTrustDomain::Character('@'))),
            ("spiffe://a?b", domain(InvalidTrustDomain::Character('?'))),
            ("spiffe://a/", InvalidSpiffeId::EmptySegment),
            ("spiffe://a/b/", InvalidSpiffeId::EmptySegment),
            ("spiffe://a//b", InvalidSpiffeId::EmptySegment),
            ("spiffe://a/../b", InvalidSpiffeId::DotSegment),
            ("spiffe://a/./b", InvalidSpiffeId::DotSegment),
            ("spiffe://a/b?c", InvalidSpiffeId::Character('?')),
            ("spiffe://a/b#c", InvalidSpiffeId::Character('#')),
            ("spiffe://a/%62", InvalidSpiffeId::Character('%')),
            ("spiffe://a/b c", InvalidSpiffeId::Character(' ')),
            ("spiffe://a/é", InvalidSpiffeId::Character('é')),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<SpiffeId>(), Err(reason), "{text}");
        }
    }

    #[test]
    fn the_length_is_limited_to_2048() {
        let longest = format!("spiffe://a/{}", "b".repeat(LIMIT - 11));
        assert!(longest.parse::<SpiffeId>().is_ok());
        assert_eq!(format!("{longest}b").parse::<SpiffeId>(), Err(InvalidSpiffeId::TooLong(2049)));
    }

    #[test]
    fn a_path_without_its_slash_does_not_melt_into_the_trust_domain() {
        assert_eq!(SpiffeId::new(&"a".parse().unwrap(), "b"), Err(InvalidSpiffeId::EmptySegment));
    }

    proptest! {
        #[test]
        fn what_is_parsed_prints_as_it_was_written(domain in "[a-z0-9._-]{1,20}", path in "(/[a-zA-Z0-9_-]{1,9}){0,4}") {
            let text = format!("spiffe://{domain}{path}");
            prop_assert_eq!(text.parse::<SpiffeId>().unwrap().to_string(), text);
        }
    }
}
