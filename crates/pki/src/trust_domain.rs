//! The trust domain of a SPIFFE id. Ours mirror Kubernetes namespaces; those of others may be any the specification allows. Pure.

use crate::label::Label;
use std::{fmt, str::FromStr};

const LIMIT: usize = 255;

/// A name of 1 to 255 characters out of a-z, 0-9, '.', '-' and '_'.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrustDomain {
    #[error("a trust domain cannot be empty: write at least one character")]
    Empty,
    #[error("a trust domain has at most {LIMIT} characters, this one has {0}: shorten it")]
    TooLong(usize),
    #[error("a trust domain cannot hold {0:?}: use only a-z, 0-9, '.', '-' and '_'")]
    Character(char),
}

impl TrustDomain {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '.' | '-' | '_')
}

/// Every namespace name is a trust domain.
impl From<&Label> for TrustDomain {
    fn from(label: &Label) -> Self {
        Self(label.as_str().to_owned())
    }
}

impl FromStr for TrustDomain {
    type Err = InvalidTrustDomain;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(InvalidTrustDomain::Empty);
        }
        if text.len() > LIMIT {
            return Err(InvalidTrustDomain::TooLong(text.len()));
        }
        match text.chars().find(|character| !is_allowed(*character)) {
            Some(character) => Err(InvalidTrustDomain::Character(character)),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_name_is_a_trust_domain() {
        for text in ["default", "team-a", "0", "a.b_c", &"n".repeat(255)] {
            assert_eq!(text.parse::<TrustDomain>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        let cases = [
            ("", InvalidTrustDomain::Empty),
            ("Default", InvalidTrustDomain::Character('D')),
            ("a:80", InvalidTrustDomain::Character(':')),
            ("user@a", InvalidTrustDomain::Character('@')),
            ("a/b", InvalidTrustDomain::Character('/')),
            ("%61", InvalidTrustDomain::Character('%')),
            ("ä", InvalidTrustDomain::Character('ä')),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<TrustDomain>(), Err(reason), "{text}");
        }
        assert_eq!("n".repeat(256).parse::<TrustDomain>(), Err(InvalidTrustDomain::TooLong(256)));
    }
}
