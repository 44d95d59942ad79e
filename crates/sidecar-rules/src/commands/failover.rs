//! Failover: this replica becomes the primary of its shard.

use super::{Need, Objection, Presence, myself};
use topology::{ClusterNode, ClusterNodes, Position};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The primary agrees, and nothing is lost.
    Coordinated,
    /// The primary is gone; a majority of the others agrees.
    Force,
    /// No node is asked: the majority is gone too.
    Takeover,
}

/// Whether there is something to take over at all.
pub fn need(nodes: &ClusterNodes) -> Result<Need, Objection> {
    let myself = myself(nodes)?;
    match (myself.is_primary(), myself.slots.is_empty()) {
        (true, false) => Ok(Need::Nothing),
        (true, true) => Err(Objection::invalid("this node is not a replica, and it serves no slots")),
        (false, _) => Ok(Need::Change),
    }
}

/// The primary that has to be gone; `None` when it decides itself, or is not known any more.
pub fn primary_to_ask(nodes: &ClusterNodes, mode: Mode) -> Option<&ClusterNode> {
    match mode {
        Mode::Coordinated => None,
        Mode::Force | Mode::Takeover => nodes.find(nodes.myself()?.primary.as_ref()?),
    }
}

/// `presence`: what was found out about the primary to ask.
pub fn check(nodes: &ClusterNodes, mode: Mode, presence: &Presence) -> Result<(), Objection> {
    if mode == Mode::Takeover {
        majority_is_gone(nodes)?;
    }
    match primary_to_ask(nodes, mode) {
        Some(primary) => primary_is_gone(primary, mode, presence),
        None => Ok(()),
    }
}

/// What a primary that is there has acknowledged since its replica last heard of it would be lost.
fn primary_is_gone(primary: &ClusterNode, mode: Mode, presence: &Presence) -> Result<(), Objection> {
    let objection = match presence {
        Presence::Serves(view) if !view.myself().is_some_and(ClusterNode::is_primary) => None,
        // Without a majority nobody can say that it has failed.
        Presence::OutOfReach if mode == Mode::Takeover => None,
        presence => presence.objection(primary),
    };
    objection.map_or(Ok(()), |reason| Err(Objection::unsafe_because(format!("its primary {reason}"))))
}

/// Whether this replica has what its primary was seen to have. False: not yet, for a primary that ended has sent things that are still
/// coming in. Without a link nothing comes any more. In another history nothing can be compared.
pub fn has_all(own: &Position, needed: &Position, link_up: bool) -> Result<bool, Objection> {
    match own.replication_id != needed.replication_id || own.offset >= needed.offset {
        true => Ok(true),
        false if link_up => Ok(false),
        false => Err(Objection::unsafe_because(format!(
            "its primary was seen at offset {} and may come back with that, and this node is at {}",
            needed.offset, own.offset
        ))),
    }
}

fn majority_is_gone(nodes: &ClusterNodes) -> Result<(), Objection> {
    let voters = nodes.voters().count();
    let there = nodes.voters().filter(|node| node.is_sound() && node.connected).count();
    match there > voters / 2 {
        true => Err(Objection::unsafe_because(format!("{there} of {voters} primaries are there to vote: use force"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str = "me 10.0.0.9:6379@16379 myself,slave n0 0 0 1 connected\n";

    fn with_flags(flags: [&str; 3]) -> ClusterNodes {
        let lines = ["0-5", "6-9", "10-12"].iter().zip(flags).enumerate();
        let lines = lines.map(|(index, (slots, flags))| {
            format!("n{index} 10.0.0.{index}:6379@16379 master{flags} - 0 0 {index} connected {slots}\n")
        });
        ClusterNodes::parse(&format!("{ME}{}", lines.collect::<String>())).unwrap()
    }

    fn view(line: &str) -> ClusterNodes {
        ClusterNodes::parse(line).unwrap()
    }

    #[test]
    fn no_replica_takes_over_by_itself_while_a_majority_can_vote() {
        let allowed = |flags| check(&with_flags(flags), Mode::Takeover, &Presence::OutOfReach).is_ok();
        assert!(!allowed(["", "", ""]) && !allowed([",fail", "", ""]));
        assert!(allowed([",fail?", ",fail?", ""]) && allowed([",fail?", ",fail?", ",fail"]));
    }

    #[test]
    fn a_primary_that_answers_as_one_is_not_pushed_aside() {
        let nodes = with_flags([",fail", "", ""]);
        let primary = Presence::Serves(view("n0 10.0.0.0:6379@16379 myself,master - 0 0 0 connected 0-5\n"));
        let demoted = Presence::Serves(view("n0 10.0.0.0:6379@16379 myself,slave me 0 0 0 connected\n"));
        assert!(check(&nodes, Mode::Force, &primary).is_err());
        assert!(check(&nodes, Mode::Force, &demoted).is_ok());
        assert!(check(&nodes, Mode::Force, &Presence::Gone).is_ok());
        assert!(check(&nodes, Mode::Coordinated, &primary).is_ok());
        let silent = with_flags([",fail?", ",fail?", ""]);
        assert!(check(&silent, Mode::Takeover, &primary).is_err());
        assert_eq!(primary_to_ask(&nodes, Mode::Coordinated), None);
        assert_eq!(primary_to_ask(&nodes, Mode::Force).unwrap().id, "n0".into());
    }

    #[test]
    fn a_primary_that_is_busy_or_out_of_reach_is_not_pushed_aside_before_the_majority_says_so() {
        let busy = Presence::There("BUSY".into());
        let allowed = |flags, presence| check(&with_flags(flags), Mode::Force, presence).is_ok();
        for flags in [["", "", ""], [",fail?", "", ""]] {
            assert!(!allowed(flags, &busy) && !allowed(flags, &Presence::OutOfReach));
            assert!(allowed(flags, &Presence::Gone));
        }
        assert!(!allowed([",fail", "", ""], &busy) && allowed([",fail", "", ""], &Presence::OutOfReach));
    }

    #[test]
    fn a_replica_that_has_less_than_its_primary_had_does_not_take_over_unless_the_rest_may_still_come() {
        let at = |history: &str, offset| Position { replication_id: history.to_owned(), offset };
        let has_all = |offset, link_up| has_all(&at("h", offset), &at("h", 100), link_up);
        assert_eq!([has_all(100, false), has_all(101, true)], [Ok(true), Ok(true)]);
        assert_eq!(has_all(99, true), Ok(false));
        assert!(matches!(has_all(99, false), Err(Objection::Unsafe(_))));
        assert_eq!(
            super::has_all(&at("other", 1), &at("h", 100), false),
            Ok(true),
            "offsets of two histories say nothing"
        );
    }

    #[test]
    fn a_primary_with_slots_has_nothing_to_take_over_and_one_without_is_no_replica() {
        assert_eq!(need(&view("me :0@0 myself,master - 0 0 0 connected 1\n")), Ok(Need::Nothing));
        assert!(matches!(need(&view("me :0@0 myself,master - 0 0 0 connected\n")), Err(Objection::Invalid(_))));
        assert_eq!(need(&view(ME)), Ok(Need::Change));
    }
}
