//! Which address to dial next: the leader's, when a replica named it, else the configured ones in turn. Pure.

/// Replicas that point at each other are not followed in circles.
const MOST_HINTS: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub address: String,
    /// By a replica, as the leader's. It may be gone since: there are others to ask.
    pub named: bool,
}

#[derive(Debug)]
pub struct Route {
    addresses: Vec<String>,
    turn: usize,
    hint: Option<String>,
    followed: u32,
}

impl Route {
    pub fn new(addresses: Vec<String>) -> Self {
        Self { addresses, turn: 0, hint: None, followed: 0 }
    }

    pub fn pick(&mut self) -> Option<Target> {
        if let Some(address) = self.hint.take() {
            return Some(Target { address, named: true });
        }
        let picked = self.addresses.get(self.turn % self.addresses.len().max(1)).cloned();
        self.turn = self.turn.wrapping_add(1);
        picked.map(|address| Target { address, named: false })
    }

    /// A replica said it does not lead. True when it named who does and that is to be dialled at once.
    pub fn not_leader(&mut self, leader: &str) -> bool {
        let follow = !leader.is_empty() && self.followed < MOST_HINTS;
        if follow {
            self.hint = Some(leader.to_owned());
            self.followed += 1;
        } else {
            self.followed = 0;
        }
        follow
    }

    /// The leader was found.
    pub fn settled(&mut self) {
        self.followed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        Route::new(vec!["one:1".into(), "two:2".into()])
    }

    #[test]
    fn addresses_are_tried_in_turn() {
        let mut route = route();
        let picks: Vec<_> = (0..3).filter_map(|_| route.pick()).map(|target| target.address).collect();
        assert_eq!(picks, ["one:1", "two:2", "one:1"]);
    }

    #[test]
    fn a_named_leader_is_dialled_at_once_and_once() {
        let mut route = route();
        assert!(route.not_leader("leader:3"));
        assert_eq!(route.pick(), Some(Target { address: "leader:3".into(), named: true }));
        assert_eq!(route.pick(), Some(Target { address: "one:1".into(), named: false }));
    }

    #[test]
    fn replicas_that_point_at_each_other_are_not_followed_in_circles() {
        let mut route = route();
        let followed = (0..6).filter(|_| route.not_leader("other:4")).count();
        assert_eq!(followed, 4, "every third hint is answered by waiting");
        assert!(!route.not_leader(""), "no name, nothing to follow");
    }

    #[test]
    fn without_addresses_there_is_nothing_to_dial() {
        assert_eq!(Route::new(Vec::new()).pick(), None);
    }
}
