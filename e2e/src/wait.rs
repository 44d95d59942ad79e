//! Waiting for a condition with a deadline. IO only through what the caller passes in. Objects are watched; anything else is polled.
//! An error while looking is no failure of the wait: it becomes the reason, because API servers restart in these tests.

use crate::{
    patience::stretched,
    verdict::{Verdict, WaitError},
};
use futures::{Stream, StreamExt};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};
use tokio::time::Instant;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// One wait under way: what for, since when, and the last reason seen.
struct Wait {
    what: String,
    started: Instant,
    within: Duration,
    last_reason: String,
}

impl Wait {
    fn begin(what: &str, within: Duration) -> Self {
        let last_reason = "nothing, the first look did not finish".to_owned();
        Self { what: what.to_owned(), started: Instant::now(), within: stretched(within), last_reason }
    }

    /// `Some` ends the wait; `None` means look again.
    fn weigh<T>(&mut self, verdict: Verdict<T>) -> Option<Result<T, WaitError>> {
        match verdict {
            Verdict::Met(value) => Some(Ok(value)),
            Verdict::NotYet(reason) => {
                self.last_reason = reason;
                None
            }
            Verdict::Never(reason) => {
                let (what, waited) = (self.what.clone(), self.started.elapsed());
                Some(Err(WaitError::Hopeless { what, waited, reason }))
            }
        }
    }

    fn timed_out(self) -> WaitError {
        WaitError::TimedOut { what: self.what, waited: self.started.elapsed(), last_reason: self.last_reason }
    }
}

/// Polls `look` until it is met or `within` has passed.
pub async fn wait_for<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Verdict<T>>,
) -> Result<T, WaitError> {
    let mut wait = Wait::begin(what, within);
    let deadline = wait.started + wait.within;
    while let Ok(answer) = tokio::time::timeout_at(deadline, look()).await {
        let verdict = answer.unwrap_or_else(|error| Verdict::NotYet(format!("{error:#}")));
        if let Some(outcome) = wait.weigh(verdict) {
            return outcome;
        }
        if Instant::now() + POLL_INTERVAL >= deadline {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(wait.timed_out())
}

/// Looks again and again for as long as `during`; the first error ends it. For what must not happen.
pub async fn hold(during: Duration, mut look: impl AsyncFnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let until = Instant::now() + during;
    loop {
        look().await?;
        if Instant::now() >= until {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Watches one object; `judge` sees `None` while it does not exist.
pub async fn wait_for_object<K, T>(
    api: Api<K>,
    name: &str,
    what: &str,
    within: Duration,
    judge: impl Fn(Option<&K>) -> Verdict<T>,
) -> Result<T, WaitError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let verdicts = watcher::watch_object(api, name).default_backoff().map(|seen| match seen {
        Ok(object) => judge(object.as_ref()),
        Err(error) => Verdict::NotYet(format!("the watch failed: {error}")),
    });
    first_met(Wait::begin(what, within), verdicts).await
}

/// Watches the objects of a selection; `judge` sees all of them, by name, whenever one changes.
pub async fn wait_for_list<K, T>(
    api: Api<K>,
    labels: &str,
    what: &str,
    within: Duration,
    judge: impl Fn(&[K]) -> Verdict<T>,
) -> Result<T, WaitError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut seen = BTreeMap::new();
    let verdicts = watcher(api, watcher::Config::default().labels(labels)).default_backoff().map(|event| match event {
        Ok(event) => match absorb(&mut seen, event) {
            Complete::Yes => judge(&seen.values().cloned().collect::<Vec<_>>()),
            Complete::No => Verdict::NotYet("the first list is not complete".to_owned()),
        },
        Err(error) => Verdict::NotYet(format!("the watch failed: {error}")),
    });
    first_met(Wait::begin(what, within), verdicts).await
}

enum Complete {
    Yes,
    No,
}

fn absorb<K: Resource>(seen: &mut BTreeMap<String, K>, event: watcher::Event<K>) -> Complete {
    let key = |object: &K| format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
    match event {
        watcher::Event::Init => {
            seen.clear();
            return Complete::No;
        }
        watcher::Event::InitApply(object) => {
            seen.insert(key(&object), object);
            return Complete::No;
        }
        watcher::Event::Apply(object) => drop(seen.insert(key(&object), object)),
        watcher::Event::Delete(object) => drop(seen.remove(&key(&object))),
        watcher::Event::InitDone => {}
    }
    Complete::Yes
}

async fn first_met<T>(mut wait: Wait, verdicts: impl Stream<Item = Verdict<T>>) -> Result<T, WaitError> {
    let deadline = wait.started + wait.within;
    let mut verdicts = pin!(verdicts);
    while let Ok(Some(verdict)) = tokio::time::timeout_at(deadline, verdicts.next()).await {
        if let Some(outcome) = wait.weigh(verdict) {
            return outcome;
        }
    }
    Err(wait.timed_out())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::PATIENCE;

    #[tokio::test]
    async fn a_timeout_carries_the_last_reason_not_the_first() {
        let mut looks = 0;
        let error = wait_for::<()>("the impossible", Duration::from_millis(350), async || {
            looks += 1;
            Ok(Verdict::not_yet(format!("look {looks}")))
        })
        .await
        .unwrap_err();
        let WaitError::TimedOut { what, last_reason, .. } = error else { panic!("{error}") };
        assert_eq!(what, "the impossible");
        assert_ne!(last_reason, "look 1");
    }

    #[tokio::test]
    async fn an_error_while_looking_is_a_reason_and_the_wait_goes_on() {
        let mut looks = 0;
        let value = wait_for("the third look", PATIENCE, async || {
            looks += 1;
            if looks < 3 { anyhow::bail!("connection refused") } else { Ok(Verdict::Met(looks)) }
        })
        .await;
        assert_eq!(value, Ok(3));
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_cut_off_at_the_deadline() {
        let error = wait_for::<()>("an answer", Duration::from_millis(50), async || std::future::pending().await)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("first look did not finish"), "{error}");
    }

    #[tokio::test]
    async fn hopeless_ends_the_wait_at_once() {
        let error = wait_for::<()>("success", Duration::from_secs(3600), async || Ok(Verdict::never("it failed")))
            .await
            .unwrap_err();
        assert!(matches!(error, WaitError::Hopeless { .. }), "{error}");
    }
}
