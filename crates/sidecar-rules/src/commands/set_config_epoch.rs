//! SetConfigEpoch: a new node gets an epoch of its own before it meets others.

use super::{Need, Objection};

/// `known_nodes` counts this node too.
pub fn check(wanted: u64, my_epoch: u64, known_nodes: u64) -> Result<Need, Objection> {
    if wanted == 0 {
        return Err(Objection::invalid("config_epoch is 0: epochs begin with 1"));
    }
    if my_epoch == wanted {
        return Ok(Need::Nothing);
    }
    if my_epoch != 0 || known_nodes > 1 {
        return Err(Objection::unsafe_because(format!(
            "this node has epoch {my_epoch} and knows {known_nodes} nodes: only a node that is new and alone takes an epoch"
        )));
    }
    Ok(Need::Change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_is_new_and_alone_takes_an_epoch() {
        assert_eq!(check(3, 0, 1), Ok(Need::Change));
        assert_eq!(check(3, 3, 6), Ok(Need::Nothing));
        for (wanted, mine, known) in [(3, 2, 1), (3, 0, 2)] {
            assert!(matches!(check(wanted, mine, known), Err(Objection::Unsafe(_))), "{wanted} {mine} {known}");
        }
        assert!(matches!(check(0, 0, 1), Err(Objection::Invalid(_))));
    }
}
