//! The log's last step: each event is one line in characters that neither steer a terminal nor begin another line. What others say is in
//! many of them. IO over the given writer.

use api::text::plain;
use std::io::{self, Write};

/// Begins a terminal's colours.
const ESCAPE: &str = "\u{1b}";

pub struct PlainLines<W> {
    pub inner: W,
    /// The log's own; those in what is logged are written out before they come here.
    pub colours: bool,
}

impl<W> PlainLines<W> {
    fn line(&self, text: &str) -> String {
        if !self.colours {
            return plain(text).into_owned();
        }
        let parts: Vec<_> = text.split(ESCAPE).map(plain).collect();
        parts.join(ESCAPE)
    }
}

impl<W: Write> Write for PlainLines<W> {
    /// An event comes in one piece, with the end of its line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        self.inner.write_all(format!("{}{end}", self.line(text)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(event: &str, colours: bool) -> String {
        let mut lines = PlainLines { inner: Vec::new(), colours };
        lines.write_all(event.as_bytes()).unwrap();
        String::from_utf8(lines.inner).unwrap()
    }

    #[test]
    fn an_event_is_one_line_whatever_is_said_in_it() {
        let event = "INFO a sidecar reports event=\"a\u{85}b\nINFO forged\u{9b}1m\u{1b}[2J\"\n";
        assert_eq!(written(event, false), "INFO a sidecar reports event=\"a b INFO forged\u{fffd}1m\u{fffd}[2J\"\n");
    }

    #[test]
    fn a_terminal_has_the_colours_of_the_log() {
        assert_eq!(written("\u{1b}[32mINFO\u{1b}[0m a\u{2028}b\n", true), "\u{1b}[32mINFO\u{1b}[0m a b\n");
    }
}
