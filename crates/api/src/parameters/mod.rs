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
    fn a_version_knows_only_its_own_parameters() {
        let version = |text: &str| ValkeyVersion::from_tag(text).unwrap();
        let (old, middle, new) = (version("8.1"), version("9.0.1"), version("9.1.2"));
        let mptcp = find("mptcp").unwrap();
        assert!(mptcp.facts(old).is_none() && mptcp.facts(middle).is_none() && mptcp.facts(new).is_some());
        let io_threads = find("io-threads").unwrap();
        assert!(io_threads.needs_restart(old) && io_threads.needs_restart(middle) && !io_threads.needs_restart(new));
    }
}
