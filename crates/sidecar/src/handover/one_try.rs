//! One try to pass the role on, the only time in which clients are held back for it. All waits in it end with the try, whatever hangs.
//! Generic over the two nodes; `handover` brings the real ones.

use sidecar_rules::handover::{
    GIVES_UP_WITHIN, HEARD_OF_WITHIN, HOLD_AFTER, LAST_WORD, LONGEST_TRY, PATIENCE_PER_REPLICA, Progress, Writes,
    writes,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use topology::Role;
use valkey::CallError;

const POLL: Duration = Duration::from_millis(20);

/// Both nodes, and any call may hang.
pub(super) trait Nodes {
    /// Asks the replica to take over.
    async fn ask_replica(&mut self) -> Result<(), CallError>;
    /// What the replica says that it is.
    async fn role_of_replica(&mut self) -> Option<Role>;
    /// Another node serves what this one served.
    async fn is_handed_over(&mut self) -> bool;
    /// Ends by itself after that time.
    async fn hold_writes(&mut self, longest: Duration) -> Result<(), CallError>;
    async fn release_writes(&mut self) -> Result<(), CallError>;
    /// The newest epoch that the replica can have won, if most voters say that nobody follows it.
    async fn newest_if_nobody_follows(&mut self) -> Option<u64>;
    /// True when this node has a newer one: if the replica comes back with its claim to the slots nobody follows it, and what was
    /// acknowledged meanwhile is kept.
    async fn outbid(&mut self, epoch: u64) -> Result<bool, CallError>;
}

pub(super) struct Try<'a, N> {
    nodes: &'a mut N,
    asked: Instant,
    holds: bool,
}

impl<'a, N: Nodes> Try<'a, N> {
    /// `Err`: why this node is still the primary.
    pub(super) async fn run(nodes: &'a mut N) -> Result<(), String> {
        let mut this = Self { nodes, asked: Instant::now(), holds: false };
        match timeout_at(this.at(HOLD_AFTER), this.nodes.ask_replica()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.refusal().is_some() => {
                this.act_on(Progress::Refused).await;
                return Err(error.to_string());
            }
            Ok(Err(_)) | Err(_) => this.act_on(Progress::NoAnswer).await,
        }
        let progress = this.end().await;
        this.act_on(progress).await;
        match progress {
            Progress::Done => Ok(()),
            Progress::Won if this.hears_of_it().await => Ok(()),
            Progress::Unknown if this.clears_up().await => Ok(()),
            _ => Err("this node was still the primary when the time was over".into()),
        }
    }

    async fn end(&mut self) -> Progress {
        if self.is_handed_over_in_time().await {
            return Progress::Done;
        }
        let said = timeout_at(self.at(LAST_WORD), self.last_word()).await.ok().flatten();
        match said {
            Some(Role::Replica) => Progress::NotWon,
            Some(Role::Primary) => Progress::Won,
            None if self.is_handed_over_by(self.at(LONGEST_TRY)).await => Progress::Done,
            None => Progress::Unknown,
        }
    }

    /// Until the replica should have given up.
    async fn is_handed_over_in_time(&mut self) -> bool {
        while self.asked.elapsed() < PATIENCE_PER_REPLICA {
            let next = if self.holds { PATIENCE_PER_REPLICA } else { HOLD_AFTER };
            if self.is_handed_over_by(self.at(next).max(Instant::now() + POLL)).await {
                return true;
            }
            self.act_on(Progress::StillPrimary(self.asked.elapsed())).await;
            sleep(POLL).await;
        }
        false
    }

    /// One whose time is over, and that is a replica, cannot become the primary by what it was asked for.
    async fn last_word(&mut self) -> Option<Role> {
        let first = self.nodes.role_of_replica().await?;
        if first == Role::Replica {
            sleep(GIVES_UP_WITHIN).await;
            return self.nodes.role_of_replica().await;
        }
        Some(first)
    }

    async fn hears_of_it(&mut self) -> bool {
        let until = Instant::now() + HEARD_OF_WITHIN;
        while Instant::now() < until {
            if self.is_handed_over_by(until).await {
                self.release(until).await;
                return true;
            }
            sleep(POLL).await;
        }
        false
    }

    /// True when it was handed over. Until that is known, or that it cannot be any more, clients wait: what they wrote here would be lost to
    /// a winner that others follow. A node that hears of neither for so long hears nobody and takes no writes.
    async fn clears_up(&mut self) -> bool {
        let until = Instant::now() + HEARD_OF_WITHIN;
        while Instant::now() < until {
            if self.is_handed_over_by(until).await {
                self.release(until).await;
                return true;
            }
            if self.is_outbid(until).await {
                tracing::warn!("a replica that was asked to take over is silent; its claim would come too late now");
                self.release(until).await;
                return false;
            }
            sleep(POLL).await;
        }
        tracing::error!("a replica that was asked to take over is silent, and may have done so");
        false
    }

    async fn is_outbid(&mut self, until: Instant) -> bool {
        let newest = timeout_at(until, self.nodes.newest_if_nobody_follows()).await.ok().flatten();
        let Some(epoch) = newest else { return false };
        match timeout_at(until, self.nodes.outbid(epoch)).await {
            Ok(Ok(outbid)) => outbid,
            Ok(Err(error)) => {
                tracing::warn!(error = link::sentence::of(&error), "could not take a newer epoch");
                false
            }
            Err(_) => false,
        }
    }

    async fn is_handed_over_by(&mut self, until: Instant) -> bool {
        timeout_at(until, self.nodes.is_handed_over()).await.unwrap_or(false)
    }

    async fn act_on(&mut self, progress: Progress) {
        let until = self.at(LONGEST_TRY);
        match writes(progress) {
            Writes::Leave => {}
            Writes::Hold if self.holds => {}
            Writes::Hold => self.hold(until, self.at(PATIENCE_PER_REPLICA)).await,
            Writes::HoldOn => self.hold(Instant::now() + HEARD_OF_WITHIN, until).await,
            Writes::Release => self.release(until).await,
        }
    }

    async fn hold(&mut self, until: Instant, deadline: Instant) {
        let longest = until.saturating_duration_since(Instant::now());
        match timeout_at(deadline, self.nodes.hold_writes(longest)).await {
            Ok(Ok(())) => self.holds = true,
            Ok(Err(error)) => {
                tracing::warn!(error = link::sentence::of(&error), "could not hold back the clients' writes")
            }
            Err(_) => {
                // They may be held all the same.
                self.holds = true;
                tracing::warn!("could not hold back the clients' writes in time");
            }
        }
    }

    /// What is not released in time ends by itself.
    async fn release(&mut self, until: Instant) {
        if std::mem::take(&mut self.holds) {
            let _ = timeout_at(until, self.nodes.release_writes()).await;
        }
    }

    fn at(&self, time: Duration) -> Instant {
        self.asked + time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// Which calls hang, and what the replica is when it answers.
    #[derive(Default)]
    struct Fake {
        hanging: Vec<&'static str>,
        replica: Option<Role>,
        voters: Option<u64>,
        /// After it has taken a newer one.
        own_epoch: u64,
        /// How long what was last held is held.
        held_until: Option<Instant>,
        done: Vec<&'static str>,
    }

    impl Fake {
        async fn call(&mut self, name: &'static str) {
            if self.hanging.contains(&name) {
                pending::<()>().await;
            }
            self.done.push(name);
        }
    }

    impl Nodes for Fake {
        async fn ask_replica(&mut self) -> Result<(), CallError> {
            self.call("ask").await;
            Ok(())
        }

        async fn role_of_replica(&mut self) -> Option<Role> {
            self.call("role").await;
            self.replica
        }

        async fn is_handed_over(&mut self) -> bool {
            self.call("look").await;
            false
        }

        async fn hold_writes(&mut self, longest: Duration) -> Result<(), CallError> {
            self.held_until = Some(Instant::now() + longest);
            self.call("hold").await;
            Ok(())
        }

        async fn release_writes(&mut self) -> Result<(), CallError> {
            self.call("release").await;
            self.held_until = Some(Instant::now());
            Ok(())
        }

        async fn newest_if_nobody_follows(&mut self) -> Option<u64> {
            self.call("voters").await;
            self.voters
        }

        async fn outbid(&mut self, epoch: u64) -> Result<bool, CallError> {
            self.call("outbid").await;
            Ok(self.own_epoch > epoch)
        }
    }

    const CALLS: [&str; 7] = ["ask", "role", "look", "hold", "release", "voters", "outbid"];

    fn silent_replica() -> Fake {
        Fake { hanging: vec!["role"], voters: Some(8), own_epoch: 9, ..Fake::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_held_back_for_at_most_a_second_unless_nobody_says_who_has_won() {
        for set in 0..1_u32 << CALLS.len() {
            let hangs = |(bit, name): (u32, &&'static str)| (set & (1 << bit) != 0).then_some(*name);
            let hanging: Vec<_> = (0..).zip(&CALLS).filter_map(hangs).collect();
            for replica in [None, Some(Role::Replica)] {
                let mut nodes = Fake { hanging: hanging.clone(), replica, ..silent_replica() };
                let began = Instant::now();
                assert!(Try::run(&mut nodes).await.is_err());
                // Nobody says whether it has won: whoever wrote here might write to the loser. Or nobody lets them go: it ends by itself.
                let known = replica.is_some() && !hanging.contains(&"role");
                let outbid = !hanging.iter().any(|call| ["voters", "outbid", "look", "release"].contains(call));
                let longest = if known || outbid { LONGEST_TRY } else { LONGEST_TRY + HEARD_OF_WITHIN };
                assert!(began.elapsed() <= longest + POLL, "{hanging:?}: {:?}", began.elapsed());
                let held = nodes.held_until.map(|until| until.duration_since(began));
                assert!(held.is_some_and(|held| held <= longest), "{hanging:?}: {held:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn writes_go_on_after_a_silent_replica_only_in_a_newer_epoch() {
        let after_the_hold =
            |nodes: &Fake| nodes.done.iter().filter(|call| **call != "look").copied().collect::<Vec<_>>();
        let mut silent = silent_replica();
        assert!(Try::run(&mut silent).await.is_err());
        assert_eq!(after_the_hold(&silent), ["ask", "hold", "hold", "voters", "outbid", "release"]);
        for lacking in [Fake { voters: None, ..silent_replica() }, Fake { own_epoch: 8, ..silent_replica() }] {
            let (mut unclear, began) = (lacking, Instant::now());
            assert!(Try::run(&mut unclear).await.is_err());
            assert!(!unclear.done.contains(&"release") && began.elapsed() > HEARD_OF_WITHIN, "{:?}", unclear.done);
        }
        let mut gave_up = Fake { replica: Some(Role::Replica), ..Fake::default() };
        assert!(Try::run(&mut gave_up).await.is_err());
        assert_eq!(after_the_hold(&gave_up), ["ask", "hold", "role", "role", "release"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_says_it_has_won_is_waited_for_and_never_outbid() {
        let mut won = Fake { replica: Some(Role::Primary), ..Fake::default() };
        assert!(Try::run(&mut won).await.is_err());
        assert!(!won.done.contains(&"outbid") && !won.done.contains(&"release"), "{:?}", won.done);
    }
}
