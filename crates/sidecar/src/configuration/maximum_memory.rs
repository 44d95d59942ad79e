//! How much of the container's memory limit Valkey may fill with data. Pure.
//!
//! Valkey does not look at cgroups, and several things it needs do not count against maxmemory: pages copied while a
//! child writes a snapshot, the output buffers of replicas, the allocator's unused space, the program itself.

const MEBIBYTE: u64 = 1024 * 1024;
const LEAST_HEADROOM: u64 = 64 * MEBIBYTE;

/// A quarter of the limit stays free, at least 64 MiB, and never more than half.
pub fn from_limit(limit: u64) -> u64 {
    let headroom = (limit / 4).max(LEAST_HEADROOM).min(limit / 2);
    limit - headroom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_a_quarter_with_a_floor_and_a_ceiling() {
        for (limit, expected) in [(64, 32), (128, 64), (256, 192), (1024, 768), (65536, 49152)] {
            assert_eq!(from_limit(limit * MEBIBYTE), expected * MEBIBYTE, "{limit} MiB");
        }
        assert_eq!(from_limit(0), 0);
    }
}
