//! The pod is about to end: the operator hears of it once, before Valkey is asked to stop. Pure but for the notice.

use crate::{role::contract_role, state::Shared};
use link::contract::{PodTerminating, report_request::Event};

/// The kubelet's hook, or SIGTERM where there was none.
pub fn report(shared: &Shared) {
    let mut state = shared.lock();
    if std::mem::replace(&mut state.terminating, true) {
        return;
    }
    let role = contract_role(state.role).into();
    drop(state);
    // The pod's grace period is the kubelet's knowledge, not ours.
    shared.report(Event::PodTerminating(PodTerminating { role, grace_seconds: 0 }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{client::Notice, contract};
    use topology::Role;

    #[tokio::test]
    async fn it_is_reported_once_with_the_role() {
        let shared = Shared::default();
        shared.lock().role = Some(Role::Primary);
        report(&shared);
        report(&shared);
        shared.notify_operator(Notice::Changed);
        let Notice::Report(Event::PodTerminating(reported)) = shared.next_notice().await else {
            panic!("another notice")
        };
        assert_eq!(reported.role(), contract::Role::Primary);
        assert!(matches!(shared.next_notice().await, Notice::Changed));
    }
}
