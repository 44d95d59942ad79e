//! When an intermediate is made anew. Pure; the same for a cluster's and for the operator's own.

use crate::found::Found;
use crate::leaf::Why;
use jiff::Timestamp;
use pki::{Lifetime, Rotation, Thumbprint, intermediate_rotation};
use std::time::Duration;

/// A stored intermediate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intermediate {
    pub thumbprint: Thumbprint,
    /// The trusted root above it; None when no trusted root is.
    pub root: Option<Thumbprint>,
    pub lifetime: Lifetime,
}

/// Why it is to be replaced now, if so. `renew_before` is None where that is the user's to do.
pub fn intermediate_step(
    found: &Found<Intermediate>,
    signing: &Thumbprint,
    renew_before: Option<Duration>,
    leaf_validity: Duration,
    now: Timestamp,
) -> Option<Why> {
    let Found::Whole(intermediate) = found else { return found.lack().map(Why::of_lack(found)) };
    match &intermediate.root {
        None => Some(Why::Repair("it leads to no trusted root".to_owned())),
        Some(root) if root != signing => Some(Why::NewAuthority),
        Some(_) => due(rotation(intermediate, renew_before, leaf_validity, now)),
    }
}

pub fn rotation(
    intermediate: &Intermediate,
    renew_before: Option<Duration>,
    leaf_validity: Duration,
    now: Timestamp,
) -> Rotation {
    intermediate_rotation(intermediate.lifetime, renew_before, leaf_validity, now)
}

fn due(rotation: Rotation) -> Option<Why> {
    match rotation {
        Rotation::Due(_) => Some(Why::Due),
        Rotation::Expired(_) => Some(Why::Expired),
        Rotation::Scheduled(_) | Rotation::Manual(_) => None,
    }
}
