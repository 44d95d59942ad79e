//! Hash slots: which one a key belongs to, and a short tag for each of them, so that a key can be made for any slot. Pure.

use std::sync::LazyLock;

pub const SLOTS: u16 = 16_384;

/// The slot of a key; only what stands between the first braces counts, if there is anything.
pub fn of_key(key: &str) -> u16 {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    checksum(tagged.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// A text that hashes into this slot, to stand between braces.
pub fn tag(slot: u16) -> &'static str {
    TAGS.get(usize::from(slot % SLOTS)).map_or("", String::as_str)
}

static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); usize::from(SLOTS)];
    let mut missing = SLOTS;
    for text in (0_u32..).map(|number| format!("{number:x}")) {
        if missing == 0 {
            break;
        }
        if let Some(empty) = tags.get_mut(usize::from(of_key(&text))).filter(|tag| tag.is_empty()) {
            *empty = text;
            missing -= 1;
        }
    }
    tags
});

/// CRC16 in its XMODEM form, as the cluster specification names it.
fn checksum(text: &str) -> u16 {
    text.bytes().fold(0, |sum, byte| {
        (0..8)
            .fold(sum ^ (u16::from(byte) << 8), |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 })
    })
}

/// `0-5460` or `0-99,200,300-310…`, for people.
pub fn describe(slots: &[u16]) -> String {
    const SHOWN: usize = 3;
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *slot => *last = *slot,
            _ => ranges.push((*slot, *slot)),
        }
    }
    let range = |(first, last): &(u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let text = ranges.iter().take(SHOWN).map(range).collect::<Vec<_>>().join(",");
    if ranges.len() > SHOWN { format!("{text}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_the_server_hashes_them() {
        // From CLUSTER KEYSLOT of a real server; `real_cluster` asks it again for random keys.
        assert_eq!((of_key("123456789"), of_key("foo"), of_key("")), (12739, 12182, 0));
        assert_eq!(of_key("{user1000}.following"), of_key("user1000"));
        assert_eq!(of_key("a{foo}b{bar}"), of_key("foo"));
        assert_ne!(of_key("foo{}{bar}"), of_key("bar"));
    }

    #[test]
    fn every_slot_has_a_tag_of_its_own() {
        assert!((0..SLOTS).all(|slot| of_key(&format!("load:{{{}}}:x", tag(slot))) == slot));
    }

    #[test]
    fn slots_are_described_as_ranges() {
        assert_eq!(describe(&[0, 1, 2, 7, 9, 10]), "0-2,7,9-10");
        assert_eq!(describe(&[1, 3, 5, 7]), "1,3,5…");
        assert_eq!(describe(&[]), "");
    }
}
