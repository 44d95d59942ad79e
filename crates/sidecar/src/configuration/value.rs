//! Whether two spellings of a parameter's value mean the same to Valkey. Pure.

/// `64mb` and `67108864`, `Yes` and `yes`, differing blanks.
pub fn same(one: &str, other: &str) -> bool {
    let canonical = |text: &str| text.split_whitespace().map(canonical_word).collect::<Vec<_>>();
    canonical(one) == canonical(other)
}

fn canonical_word(word: &str) -> String {
    let word = word.to_ascii_lowercase();
    bytes(&word).map_or(word, |bytes| bytes.to_string())
}

/// A number with one of Valkey's memory units: `k` is a thousand, `kb` is 1024.
fn bytes(word: &str) -> Option<u64> {
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at_checked(end)?;
    let factor = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_are_the_same() {
        let cases =
            [("64mb", "67108864"), ("1K", "1000"), ("Yes", "yes"), ("60  100", "60 100"), ("", ""), ("1gb", "1024mb")];
        for (one, other) in cases {
            assert!(same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn different_values_are_different() {
        let cases =
            [("64mb", "64m"), ("yes", "no"), ("60 100", "60"), ("", "0"), ("99999999999999gb", "1"), ("-1", "1")];
        for (one, other) in cases {
            assert!(!same(one, other), "{one} {other}");
        }
    }
}
