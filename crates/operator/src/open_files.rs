//! Room for a fleet: a container begins with 1,024 open files, and each sidecar takes one. IO, once, at the start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What everything else needs: the API server's connections, probes, files.
const OTHERS: u64 = 200;

/// Takes as many as this process may have, and says so when they are fewer than the line would serve.
pub fn allow(sidecars: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    if let Some(allowed) = shortage(getrlimit(Resource::Nofile).current, sidecars) {
        tracing::warn!(
            allowed,
            sidecars,
            "too few open files are allowed for that many sidecars: raise the hard limit (nofile)"
        );
    }
}

/// The limit, when it is too low.
fn shortage(allowed: Option<u64>, sidecars: usize) -> Option<u64> {
    let wanted = u64::try_from(sidecars).unwrap_or(u64::MAX).saturating_add(OTHERS);
    allowed.filter(|allowed| *allowed < wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_may_open_as_many_files_as_its_hard_limit_allows() {
        allow(10_000);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }

    #[test]
    fn a_limit_below_the_fleet_and_the_rest_is_told() {
        assert_eq!(shortage(Some(1_024), 1_000), Some(1_024));
        assert_eq!(shortage(Some(1_200), 1_000), None);
        assert_eq!(shortage(None, 1_000), None, "unlimited");
    }
}
