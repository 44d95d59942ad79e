//! What one node finds out about another before something is done that is only right if that one is gone. Pure.

use super::meet;
use topology::{ClusterNode, ClusterNodes};

/// What was found at one place where a node may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A node answers, this one or another, and sees this.
    Answers(ClusterNodes),
    /// Somebody took the connection and did not say who it is.
    Hidden(String),
    /// Nobody listens.
    Refused,
    /// No sign.
    Silent,
}

/// What was found at all places where a node may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// At the address it is known by; `None` when none is known.
    pub at_address: Option<Found>,
    /// Where its host name leads now; empty when that leads nowhere.
    pub at_name: Vec<Found>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It answers, and sees this.
    Serves(ClusterNodes),
    /// Its process took the connection and did not say what it sees: it loads, is busy, full, closed to us, or hangs. It may have
    /// acknowledged writes, and may go on to.
    There(String),
    /// Nobody listens wherever it may be, or its pod runs another node now.
    Gone,
    /// It was not found, and nothing says that it is gone: its machine may be, or the network between; or it has moved.
    OutOfReach,
}

impl Presence {
    pub fn of(node: &ClusterNode, findings: &Findings) -> Self {
        let Findings { at_address, at_name } = findings;
        let all = || at_address.iter().chain(at_name);
        let serves = all().find_map(|found| found.view().filter(|_| found.is(node)));
        if let Some(view) = serves {
            return Self::Serves(view.clone());
        }
        if let Some(Found::Hidden(reason)) = all().find(|found| matches!(found, Found::Hidden(_))) {
            return Self::There(reason.clone());
        }
        match at_name.iter().any(|found| found.replaces(node)) || refused_everywhere(at_address.as_ref(), at_name) {
            true => Self::Gone,
            false => Self::OutOfReach,
        }
    }

    /// Why the node cannot be taken for gone. From here a machine without power and a network that is cut look the same. The flag
    /// `fail` tells them apart as far as it matters: a majority of primaries has not heard the node for a node timeout, and a
    /// primary that hears no majority for that long takes no more writes.
    pub fn objection(&self, node: &ClusterNode) -> Option<String> {
        match self {
            Self::Serves(_) => Some(format!("{} answers", node.id)),
            Self::There(reason) => Some(format!("{} is there and may serve ({reason})", node.id)),
            Self::OutOfReach if !node.has_flag("fail") => {
                Some(format!("{} is out of reach from here, and no majority says that it has failed", node.id))
            }
            Self::OutOfReach | Self::Gone => None,
        }
    }
}

impl Found {
    fn view(&self) -> Option<&ClusterNodes> {
        match self {
            Self::Answers(view) => Some(view),
            _ => None,
        }
    }

    fn is(&self, node: &ClusterNode) -> bool {
        self.view().and_then(ClusterNodes::myself).is_some_and(|found| found.id == node.id)
    }

    fn replaces(&self, node: &ClusterNode) -> bool {
        self.view().is_some_and(|view| meet::is_replaced(node, view))
    }
}

/// An address is handed on to other pods: another node at the known one says only that this one is not there. Its name says where
/// it is now, and then nobody may listen there; where that leads to another pod's node, the name is out of date.
fn refused_everywhere(at_address: Option<&Found>, at_name: &[Found]) -> bool {
    let refused = |found: &Found| *found == Found::Refused;
    let not_at_address = at_address.is_none_or(|found| refused(found) || found.view().is_some());
    match at_name {
        [] => at_address.is_some_and(refused),
        at_name => not_at_address && at_name.iter().all(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(line: &str) -> ClusterNodes {
        ClusterNodes::parse(line).unwrap()
    }

    fn known() -> ClusterNode {
        view("n 10.0.0.2:6379@16379,p-1.h master - 0 0 1 disconnected 1-5\n").0.remove(0)
    }

    fn presence(at_address: Option<Found>, at_name: &[Found]) -> Presence {
        Presence::of(&known(), &Findings { at_address, at_name: at_name.to_vec() })
    }

    fn itself() -> ClusterNodes {
        view("n 10.0.0.8:6379@16379,p-1.h myself,master - 0 0 1 connected 1-5\n")
    }

    /// Another pod's node.
    fn another() -> Found {
        Found::Answers(view("x 10.0.0.2:6379@16379,p-7.h myself,master - 0 0 1 connected\n"))
    }

    #[test]
    fn a_node_that_moved_is_found_under_its_name_whatever_its_old_address_says() {
        let moved = [Found::Answers(itself())];
        for at_address in [None, Some(another()), Some(Found::Refused), Some(Found::Silent)] {
            assert_eq!(presence(at_address.clone(), &moved), Presence::Serves(itself()), "{at_address:?}");
            let hidden = presence(at_address, &[Found::Hidden("NOAUTH".into())]);
            assert_eq!(hidden, Presence::There("NOAUTH".into()));
        }
    }

    #[test]
    fn a_node_is_gone_when_every_place_where_it_may_be_refuses() {
        use Found::{Refused, Silent};
        for (at_address, at_name, gone) in [
            (Some(Refused), vec![], true),
            (Some(Refused), vec![Refused], true),
            (Some(another()), vec![Refused], true),
            (None, vec![Refused, Refused], true),
            (None, vec![], false),
            (Some(another()), vec![], false),
            (Some(another()), vec![Refused, Silent], false),
            (Some(Silent), vec![Refused], false),
            (Some(Refused), vec![Silent], false),
            (Some(Refused), vec![another()], false),
        ] {
            let expected = if gone { Presence::Gone } else { Presence::OutOfReach };
            assert_eq!(presence(at_address.clone(), &at_name), expected, "{at_address:?} {at_name:?}");
        }
    }

    #[test]
    fn a_node_whose_pod_runs_another_is_gone_unless_somebody_hides_at_its_address() {
        let successor = [Found::Answers(view("y 10.0.0.9:6379@16379,p-1.h myself,master - 0 0 0 connected\n"))];
        for at_address in [None, Some(another()), Some(Found::Refused), Some(Found::Silent)] {
            assert_eq!(presence(at_address.clone(), &successor), Presence::Gone, "{at_address:?}");
        }
        let hidden = presence(Some(Found::Hidden("hangs".into())), &successor);
        assert_eq!(hidden, Presence::There("hangs".into()));
    }

    fn node(flags: &str) -> ClusterNode {
        ClusterNodes::parse(&format!("n 10.0.0.2:6379@16379 {flags} - 0 0 1 disconnected 1-5\n")).unwrap().0.remove(0)
    }

    #[test]
    fn a_node_is_gone_by_a_refused_connection_or_by_the_majority_and_not_by_silence() {
        let there = || Presence::There("NOAUTH Authentication required.".into());
        for (presence, flags, gone) in [
            (Presence::Gone, "master", true),
            (Presence::Gone, "master,fail?", true),
            (Presence::OutOfReach, "master", false),
            (Presence::OutOfReach, "master,fail?", false),
            (Presence::OutOfReach, "master,fail", true),
            (there(), "master", false),
            (there(), "master,fail", false),
            (Presence::Serves(ClusterNodes(Vec::new())), "master,fail", false),
        ] {
            assert_eq!(presence.objection(&node(flags)).is_none(), gone, "{presence:?} {flags}");
        }
    }
}
