//! What others say, cut to what a line of the log or of a status bears, and in characters that it bears. Pure.

use std::fmt::{self, Write};

/// Enough for a sentence of Valkey's; a tenant's sidecar may send a MiB.
const MOST: usize = 512;

struct Cut {
    text: String,
}

impl Write for Cut {
    /// Fails when it is full, so that the rest is not even written out.
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = MOST.saturating_sub(self.text.len());
        let end = (0..=room.min(piece.len())).rev().find(|end| piece.is_char_boundary(*end)).unwrap_or_default();
        self.text.push_str(piece.get(..end).unwrap_or_default());
        if end < piece.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

pub fn shortened(said: fmt::Arguments<'_>) -> String {
    let mut cut = Cut { text: String::new() };
    if cut.write_fmt(said).is_err() {
        cut.text.push('…');
    }
    api::text::plain(&cut.text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_a_short_one_is_whole() {
        assert_eq!(shortened(format_args!("{}", "short")), "short");
        let long = shortened(format_args!("{:?}", "ä".repeat(100_000)));
        assert!(long.len() <= MOST + '…'.len_utf8() && long.ends_with("ä…"), "{long}");
    }

    #[test]
    fn what_would_steer_a_terminal_or_begin_a_line_of_its_own_is_not_passed_on() {
        let said = "a\u{1b}[31mb\nc\u{85}d\u{2028}e\u{9b}1mf\u{202e}g";
        assert_eq!(shortened(format_args!("{said}")), "a�[31mb c d e�1mf�g");
    }
}
