//! Failover: this replica becomes the primary of its shard.

use super::{Need, Objection, myself};
use topology::{ClusterNode, ClusterNodes};

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

/// `answer`: what the primary sees, if it answers.
pub fn check(nodes: &ClusterNodes, mode: Mode, answer: Option<&ClusterNodes>) -> Result<(), Objection> {
    if mode == Mode::Takeover {
        majority_is_gone(nodes)?;
    }
    match primary_to_ask(nodes, mode) {
        Some(primary) => primary_is_gone(primary, answer),
        None => Ok(()),
    }
}

/// What a primary that answers has acknowledged since its replica last heard of it would be lost.
fn primary_is_gone(primary: &ClusterNode, answer: Option<&ClusterNodes>) -> Result<(), Objection> {
    match answer.and_then(ClusterNodes::myself).filter(|node| node.is_primary()) {
        Some(_) => {
            Err(Objection::unsafe_because(format!("its primary {} answers: use a coordinated failover", primary.id)))
        }
        None => Ok(()),
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
        let allowed = |flags| check(&with_flags(flags), Mode::Takeover, None).is_ok();
        assert!(!allowed(["", "", ""]) && !allowed([",fail", "", ""]));
        assert!(allowed([",fail?", ",fail?", ""]) && allowed([",fail?", ",fail?", ",fail"]));
    }

    #[test]
    fn a_primary_that_answers_as_one_is_not_pushed_aside() {
        let nodes = with_flags([",fail", "", ""]);
        let primary = view("n0 10.0.0.0:6379@16379 myself,master - 0 0 0 connected 0-5\n");
        let demoted = view("n0 10.0.0.0:6379@16379 myself,slave me 0 0 0 connected\n");
        assert!(check(&nodes, Mode::Force, Some(&primary)).is_err());
        assert!(check(&nodes, Mode::Force, Some(&demoted)).is_ok());
        assert!(check(&nodes, Mode::Force, None).is_ok());
        assert!(check(&nodes, Mode::Coordinated, Some(&primary)).is_ok());
        let silent = with_flags([",fail?", ",fail?", ""]);
        assert!(check(&silent, Mode::Takeover, Some(&primary)).is_err());
        assert_eq!(primary_to_ask(&nodes, Mode::Coordinated), None);
        assert_eq!(primary_to_ask(&nodes, Mode::Force).unwrap().id, "n0".into());
    }

    #[test]
    fn a_primary_with_slots_has_nothing_to_take_over_and_one_without_is_no_replica() {
        assert_eq!(need(&view("me :0@0 myself,master - 0 0 0 connected 1\n")), Ok(Need::Nothing));
        assert!(matches!(need(&view("me :0@0 myself,master - 0 0 0 connected\n")), Err(Objection::Invalid(_))));
        assert_eq!(need(&view(ME)), Ok(Need::Change));
    }
}
