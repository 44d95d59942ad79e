//! How lists and digests are written in statuses, names and annotations. Pure.

use sha2::{Digest, Sha256};

/// The first few of a list, and how many more there are.
pub fn listed<T: AsRef<str>>(items: &[T], most: usize) -> String {
    let first = items.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The first hexadecimal digits of the SHA-256: which content this is.
pub fn digest(content: &[u8], digits: usize) -> String {
    let all: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_tells_how_many_are_left_out() {
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c", "d"], 2), "a, b and 2 more");
    }

    #[test]
    fn a_digest_is_the_beginning_of_the_sha_256() {
        assert_eq!(digest(b"abc", 12), "ba7816bf8f01");
    }
}
