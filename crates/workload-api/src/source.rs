//! The identity source: one task that follows the Workload API for as long as the process lives. IO.
//! Losing the socket costs nothing until the certificate ends; only the API itself takes an identity back.

use crate::{
    answer, backoff,
    contract::X509svidResponse,
    endpoint::Endpoint,
    follow::{FollowError, Followed},
};
use futures::future::{BoxFuture, FutureExt, pending};
use jiff::Timestamp;
use link::{Credentials, Current, IdentitySource};
use pki::{LeafFacts, SpiffeId};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

#[derive(Clone, Debug)]
pub struct Times {
    /// How long the API may take to connect and to send its first answer.
    pub answer: Duration,
    /// How long a denial must last until it counts: an agent that has just started denies what it does not know yet.
    pub denial: Duration,
    /// A stream that lasted this long did not fail: the next one is opened at once.
    pub lasting: Duration,
    /// After an answer that would be the same again; another agent may be behind the socket by then.
    pub lasting_refusal: Duration,
    /// How soon a stream without news is given up at the earliest.
    pub shortest_look: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            answer: seconds(10),
            denial: seconds(15),
            lasting: seconds(10),
            lasting_refusal: seconds(300),
            shortest_look: seconds(60),
        }
    }
}

/// Ends its task when dropped; who holds it keeps the identity fresh.
pub struct Source {
    current: watch::Receiver<Option<Current>>,
    problem: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Source {
    /// Starts to follow; the identity with exactly this id is the one that is used.
    pub fn follow(endpoint: Endpoint, wanted: SpiffeId, times: Times) -> Self {
        let (first, current) = watch::channel(None);
        let (problem, problems) = watch::channel(Some("the Workload API was not asked yet".to_owned()));
        let follower = Follower { endpoint, wanted, times, first, force: None, problem, denied_since: None };
        Self { current, problem: problems, task: tokio::spawn(follower.run()) }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl IdentitySource for Source {
    fn current(&self) -> BoxFuture<'_, Current> {
        let mut first = self.current.clone();
        async move {
            let found = first.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
            match found {
                Some(current) => current,
                None => pending().await,
            }
        }
        .boxed()
    }

    fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }
}

struct Follower {
    endpoint: Endpoint,
    wanted: SpiffeId,
    times: Times,
    first: watch::Sender<Option<Current>>,
    /// What is in force, once there was something.
    force: Option<watch::Sender<Arc<Credentials>>>,
    problem: watch::Sender<Option<String>>,
    denied_since: Option<Instant>,
}

impl Follower {
    async fn run(mut self) {
        let mut failures: u32 = 0;
        loop {
            let began = Instant::now();
            let ended = self.follow().await;
            failures = if began.elapsed() >= self.times.lasting { 0 } else { failures.saturating_add(1) };
            self.judge(&ended);
            self.note(&ended);
            let lasting = ended.is_lasting().then_some(self.times.lasting_refusal);
            sleep(lasting.unwrap_or_else(|| backoff::delay(failures, fastrand::f64()))).await;
        }
    }

    /// One stream to its end, and why it ended.
    async fn follow(&mut self) -> FollowError {
        let mut stream = match Followed::open(&self.endpoint, self.times.answer).await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        let (limit, endpoint) = (self.times.answer, self.endpoint.clone());
        let mut answer = timeout(limit, stream.next()).await.unwrap_or(Err(FollowError::Silent { endpoint, limit }));
        loop {
            match answer {
                Ok(found) => self.take(found),
                Err(error) => return error,
            }
            // Certificates are renewed about half-way. A stream that has slept through that is asked anew.
            answer = timeout(self.patience(), stream.next()).await.unwrap_or(Err(FollowError::Stale));
        }
    }

    fn patience(&self) -> Duration {
        let leaf = self.force.as_ref().map(|force| force.borrow().leaf().clone());
        let patience = leaf.map_or(Duration::ZERO, |leaf| until_late(&leaf, Timestamp::now()));
        patience.max(self.times.shortest_look)
    }

    fn take(&mut self, found: X509svidResponse) {
        self.denied_since = None;
        if !found.crl.is_empty() {
            tracing::debug!(lists = found.crl.len(), "revocation lists are not checked");
        }
        match answer::read(found, &self.wanted) {
            Ok((credentials, left_out)) => {
                self.put_in_force(credentials);
                self.set_problem(left_out.first().map(|error| sentence(error)));
            }
            Err(error) => {
                if error.takes_back() {
                    self.withdraw();
                }
                self.set_problem(Some(sentence(&error)));
            }
        }
    }

    fn put_in_force(&mut self, credentials: Credentials) {
        let (id, expires, thumbprint) = (credentials.id(), credentials.expires(), credentials.thumbprint());
        tracing::info!(%id, %expires, %thumbprint, "identity received from the Workload API");
        match &self.force {
            Some(force) => {
                force.send_if_modified(|now| {
                    let changed = !now.is_same(&credentials);
                    if changed {
                        *now = Arc::new(credentials);
                    }
                    changed
                });
            }
            None => {
                let force = watch::Sender::new(Arc::new(credentials));
                self.first.send_replace(Some(force.subscribe()));
                self.force = Some(force);
            }
        }
    }

    /// Ends in a denial that lasted, and only then, with the identity taken back.
    fn judge(&mut self, ended: &FollowError) {
        if !matches!(ended, FollowError::Denied(_)) {
            return;
        }
        let since = *self.denied_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.times.denial {
            self.withdraw();
        }
    }

    fn withdraw(&self) {
        let Some(force) = &self.force else { return };
        force.send_if_modified(|now| {
            let held = !now.is_withdrawn();
            if held {
                tracing::warn!(id = %now.id(), "the Workload API took the identity back; no new connection is made with it");
                *now = Arc::new(now.withdrawn());
            }
            held
        });
    }

    /// A stream that just ended is no problem; one that cannot be opened again is.
    fn note(&self, ended: &FollowError) {
        if !matches!(ended, FollowError::Ended | FollowError::Stale) {
            self.set_problem(Some(sentence(ended)));
        }
    }

    fn set_problem(&self, problem: Option<String>) {
        self.problem.send_if_modified(|now| {
            let changed = *now != problem;
            if changed {
                if let Some(problem) = &problem {
                    tracing::warn!(endpoint = %self.endpoint, problem, "no identity from the Workload API for now");
                }
                *now = problem;
            }
            changed
        });
    }
}

/// Until four fifths of a leaf's life are over.
fn until_late(leaf: &LeafFacts, now: Timestamp) -> Duration {
    let late = leaf.not_before + leaf.not_after.duration_since(leaf.not_before) * 4 / 5;
    Duration::try_from(late.duration_since(now)).unwrap_or_default()
}

/// The error and what it was about, on one line.
fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use pki::Thumbprint;

    #[test]
    fn a_leaf_is_late_when_four_fifths_of_its_life_are_over() {
        let now = Timestamp::now();
        let leaf = LeafFacts {
            id: "spiffe://team-a/x".parse().unwrap(),
            thumbprint: Thumbprint::recorded("00"),
            not_before: now,
            not_after: now + SignedDuration::from_secs(100),
        };
        assert_eq!(until_late(&leaf, now).as_secs(), 80);
        assert_eq!(until_late(&leaf, now + SignedDuration::from_secs(90)), Duration::ZERO);
    }
}
