//! Names of namespaces and clusters as they come into identities: DNS labels, so that none can forge a path. Pure.

const LIMIT: usize = 63;

/// A DNS label: 1 to 63 characters out of a-z, 0-9 and '-', with no '-' at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {text:?} cannot be part of an identity: use 1 to {LIMIT} characters out of a-z, 0-9 and '-', with no '-' at either end"
)]
pub struct InvalidLabel {
    what: &'static str,
    text: String,
}

impl Label {
    pub fn parse(what: &'static str, text: &str) -> Result<Self, InvalidLabel> {
        let characters = text.chars().all(|character| matches!(character, 'a'..='z' | '0'..='9' | '-'));
        let ends = text.starts_with('-') || text.ends_with('-');
        if characters && !ends && (1..=LIMIT).contains(&text.len()) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidLabel { what, text: text.to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dns_labels_pass() {
        for text in ["a", "team-a", "0", &"n".repeat(63)] {
            assert_eq!(Label::parse("namespace", text).unwrap().as_str(), text);
        }
        for text in ["", "-a", "a-", "A", "a.b", "a_b", "a/b", &"n".repeat(64)] {
            assert!(Label::parse("namespace", text).is_err(), "{text}");
        }
    }
}
