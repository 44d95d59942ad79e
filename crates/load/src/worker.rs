//! Those who write: writers that wait for each answer, probers that do not. IO. Each belongs to one shard, so that a dead shard
//! stops its own writers and nobody else's.

use crate::{
    client::{Answer, Client, Commands},
    failure::Failure,
    ledger::{Attempt, Ledger},
    written::Run,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};
use valkey::Reply;

/// After a failure, so that a shard that refuses everything is not hammered.
const PAUSE: Duration = Duration::from_millis(5);
/// How far behind its pace a writer may be and still make up for it.
const CATCH_UP: Duration = Duration::from_millis(10);
/// A prober's writes under way at once. They are given up before there are more, so that there is always one about to be sent.
const OUTSTANDING: u32 = 200;

/// What all workers share. Cheap to clone.
#[derive(Clone)]
pub struct Workshop {
    pub client: Arc<Client>,
    pub ledger: Arc<Ledger>,
    pub run: Arc<Run>,
    pub replicas: u32,
    pub timeout: Duration,
    /// True from the moment on when nothing new is to be written.
    pub stopped: watch::Receiver<bool>,
}

impl Workshop {
    fn is_stopped(&self) -> bool {
        // The end of the sender is the end of the load.
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }

    /// Writes one after the other, at most one per `pace`.
    pub async fn write(self, shard: usize, slots: Arc<Vec<u16>>, pace: Option<Duration>) {
        let mut next = Instant::now() + pace.unwrap_or_default().mul_f64(fastrand::f64());
        while !self.is_stopped() {
            if let Some(pace) = pace {
                sleep_until(next).await;
                // What timers round up is made up for, what was missed in a gap is not.
                next = (next + pace).max(Instant::now().checked_sub(CATCH_UP).unwrap_or(next));
            }
            let Some(slot) = fastrand::choice(slots.iter()) else { return };
            if !self.once(self.ledger.attempt(shard, *slot), self.timeout).await {
                sleep(PAUSE).await;
            }
        }
    }

    /// Sends a write every so often, whatever became of the ones before.
    pub async fn probe(mut self, shard: usize, slots: Arc<Vec<u16>>, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let within = self.timeout.min(every * OUTSTANDING);
        let mut outstanding = JoinSet::new();
        loop {
            tokio::select! {
                _ = self.stopped.changed() => break,
                Some(_) = outstanding.join_next() => continue,
                _ = ticks.tick() => {}
            }
            let Some(slot) = fastrand::choice(slots.iter()).copied() else { return };
            let (workshop, attempt) = (self.clone(), self.ledger.attempt(shard, slot));
            outstanding.spawn(async move { workshop.once(attempt, within).await });
        }
        while outstanding.join_next().await.is_some() {}
    }

    /// True when it was acknowledged.
    async fn once(&self, attempt: Attempt, within: Duration) -> bool {
        match self.set(attempt, within).await {
            Ok(answer) => {
                self.ledger.acknowledged(attempt, answer.node);
                true
            }
            Err(failure) => {
                self.ledger.failed(attempt, &failure);
                false
            }
        }
    }

    async fn set(&self, attempt: Attempt, within: Duration) -> Result<Answer, Failure> {
        let (key, value) = (self.run.key(attempt.sequence, attempt.slot), self.run.value(attempt.sequence));
        let (wanted, patience) = (self.replicas.to_string(), (within.as_millis() / 2).max(1).to_string());
        let wait: &[&str] = &["WAIT", &wanted, &patience];
        let commands = Commands {
            first: &["SET", &key, &value],
            answered: &|| self.ledger.answered(attempt),
            then: (self.replicas > 0).then_some(wait),
        };
        let answer = self.client.send_within(attempt.slot, commands, within).await?;
        match answer.reply {
            _ if self.replicas == 0 => Ok(answer),
            Reply::Integer(got) if got >= i64::from(self.replicas) => Ok(answer),
            Reply::Integer(got) => Err(Failure::TooFewReplicas { address: answer.node, got, wanted: self.replicas }),
            _ => Err(Failure::TooFewReplicas { address: answer.node, got: 0, wanted: self.replicas }),
        }
    }
}
