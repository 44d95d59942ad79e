//! How lists, digests and what others say are written in statuses, names, annotations and logs. Pure.

use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// The first few of a list, and how many more there are.
pub fn listed<T: AsRef<str>>(items: &[T], most: usize) -> String {
    let first = items.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Not longer than that many characters, with a sign where the rest is missing.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(most.saturating_sub(1)).chain(['…']).collect()),
    }
}

/// The first hexadecimal digits of the SHA-256: which content this is.
pub fn digest(content: &[u8], digits: usize) -> String {
    let all: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}

/// What stands for a character that is not shown.
const HIDDEN: char = '\u{fffd}';

/// What others say, fit for a status, an Event and a line of the log: in one line, without what steers a terminal, turns the order of
/// what is read around, or is changed or refused by the API server's reader of applied objects, which takes U+0085 for a line break.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(shown).collect())
}

fn shown(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_plain(c) => c,
        _ => HIDDEN,
    }
}

pub fn is_plain(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns && is_kept(c)
}

/// Whether the API server stores it in an applied object as it was sent. It reads them as YAML, in which some are line breaks and
/// others must not be.
pub fn is_kept(c: char) -> bool {
    !matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether an object of a kind without rules of its own may be called so.
pub fn is_object_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label =
        |label: &str| label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|c| edge(c) || c == '-');
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_that_steers_no_terminal() {
        assert_eq!(
            plain("a\u{1b}[31mb\r\nc\u{85}d\u{2028}e\u{9b}1m\u{202e}f\u{0}"),
            "a\u{fffd}[31mb  c d e\u{fffd}1m\u{fffd}f\u{fffd}"
        );
    }

    #[test]
    fn words_of_all_scripts_stay_as_they_are() {
        let text = "größe 100 % – „数据“ مرحبا 👩‍💻 …";
        assert!(matches!(plain(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_long_list_tells_how_many_are_left_out() {
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c", "d"], 2), "a, b and 2 more");
    }

    #[test]
    fn a_long_text_ends_between_characters_and_says_so() {
        assert_eq!([shortened("größe", 5), shortened("größer", 5), shortened("", 0)], ["größe", "größ…", ""]);
    }

    #[test]
    fn a_digest_is_the_beginning_of_the_sha_256() {
        assert_eq!(digest(b"abc", 12), "ba7816bf8f01");
    }
}
