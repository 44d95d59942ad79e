//! The parameters of Valkey: which exist, how they change, which are ours. Pure; the schema, `manifests` and the sidecar ask it.

mod ownership;
mod parameter;
mod table;

pub use ownership::{GROUPS, Group, refusal};
pub use parameter::{Change, Facts, Parameter};

/// All parameters that Valkey 8.1 or 9.1 lists, by name.
pub fn all() -> &'static [Parameter] {
    table::TABLE
}

/// The parameter of that name; None when neither version line lists it.
pub fn find(name: &str) -> Option<&'static Parameter> {
    let position = all().binary_search_by(|parameter| parameter.name.cmp(name)).ok()?;
    all().get(position)
}

/// Most letters that a slip of the pen changes; half of them in the shortest names.
const SLIP: usize = 3;

/// The parameter that somebody may have meant who wrote a name that nobody knows.
pub fn nearest(name: &str) -> Option<&'static str> {
    let free = all().iter().map(|parameter| parameter.name).filter(|known| refusal(known).is_none());
    let distances = free.map(|known| (strsim::osa_distance(name, known), known));
    let (distance, known) = distances.min()?;
    (distance <= SLIP.min(name.len() / 2)).then_some(known)
}

/// Valkey takes names in any case, and we compare them: only this one form is a name here.
pub fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(plain)
}

/// Modules put their own before the parameter's.
pub const LONGEST_NAME: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::valkey_version::ValkeyVersion;

    #[test]
    fn every_row_of_the_table_is_found_by_its_name() {
        assert!(all().len() > 200);
        assert!(all().iter().all(|parameter| find(parameter.name) == Some(parameter)));
        assert_eq!(find("no-such-parameter"), None);
    }

    #[test]
    fn the_nearest_known_spelling_is_found_and_nothing_far_away() {
        let cases = [
            ("maxmemroy", Some("maxmemory")),
            ("maxmemory-polcy", Some("maxmemory-policy")),
            ("io-thread", Some("io-threads")),
            ("hzz", Some("hz")),
            ("search.timeout", None),
            ("x", None),
            ("warp-drive", None),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_has_one_spelling() {
        assert!(["hz", "search.on-timeout", "aof_rewrite_cpulist"].into_iter().all(is_name));
        assert!(!["", "Port", "hz ", "h*", "a\nb", "größe"].into_iter().any(is_name) && !is_name(&"a".repeat(129)));
        assert!(all().iter().all(|parameter| is_name(parameter.name)));
    }

    #[test]
    fn a_version_knows_only_its_own_parameters() {
        let version = |text: &str| ValkeyVersion::from_tag(text).unwrap();
        let (old, middle, new) = (version("8.1"), version("9.0.1"), version("9.1.2"));
        let mptcp = find("mptcp").unwrap();
        assert!(mptcp.facts(old).is_none() && mptcp.facts(middle).is_none() && mptcp.facts(new).is_some());
        let io_threads = find("io-threads").unwrap();
        assert!(io_threads.needs_restart(old) && io_threads.needs_restart(middle) && !io_threads.needs_restart(new));
    }
}
