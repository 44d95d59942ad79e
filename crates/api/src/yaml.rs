//! YAML that every reader of YAML understands alike. Pure; used where definitions are printed or written to files.

use serde::Serialize;

/// Kubernetes reads YAML 1.1, where a bare `no` is false; the serialiser writes YAML 1.2, where it is a word.
const WORDS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

pub fn to_string(value: &impl Serialize) -> Result<String, serde_yaml_ng::Error> {
    serde_yaml_ng::to_string(value).map(|text| quoted(&text))
}

fn quoted(text: &str) -> String {
    let mut block = None;
    let lines = text.lines().map(|line| {
        let indent = line.len() - line.trim_start().len();
        if block.is_some_and(|start| line.trim().is_empty() || indent > start) {
            return format!("{line}\n");
        }
        block = opens_block(line).then_some(indent);
        format!("{}\n", quote_value(line))
    });
    lines.collect()
}

/// Text over several lines follows; what looks like a word in there is only text.
fn opens_block(line: &str) -> bool {
    let last = line.split_whitespace().next_back().unwrap_or_default();
    last.starts_with(['|', '>']) && last.len() <= 3
}

fn quote_value(line: &str) -> String {
    let split = line.rsplit_once(' ').filter(|(before, _)| before.ends_with(':') || before.ends_with('-'));
    match split {
        Some((before, word)) if WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) => {
            format!("{before} \"{word}\"")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_older_yaml_takes_for_booleans_are_quoted() {
        let text = to_string(&serde_json::json!({"a": "Off", "b": ["always", "no", true]})).unwrap();
        assert_eq!(text, "a: \"Off\"\nb:\n- always\n- \"no\"\n- true\n");
    }

    #[test]
    fn text_over_several_lines_is_left_alone() {
        let text = to_string(&serde_json::json!({"a": "one\n- no\ntwo", "b": "no"})).unwrap();
        assert_eq!(text, "a: |-\n  one\n  - no\n  two\nb: \"no\"\n");
    }
}
