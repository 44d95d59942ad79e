//! A watch that survives a restore of the API server's state. What is watched then has lower versions than the one the watch goes on
//! from, and a server tells nothing of them: the watch would follow a past that never was until the server has caught up. So each is
//! asked from time to time how far it is; when it is behind what was seen, everything is listed anew.

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::api::{Api, ListParams};
use kube::core::Status;
use kube::runtime::watcher::{self, Config, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// How often a server is asked how far it is.
const PERIOD: Duration = Duration::from_secs(60);
/// What an API server says that has not come as far as the version it is asked for.
const TOO_LARGE: &str = "ResourceVersionTooLarge";

/// Watches for ever, with pauses after errors.
pub fn watch_through_restores<K>(api: Api<K>, config: Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    asking_every(PERIOD, api, config)
}

fn asking_every<K>(
    period: Duration,
    api: Api<K>,
    config: Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let following = Following {
        events: watch(api.clone(), config.clone()).boxed(),
        inquiries: inquiries(period, api.clone(), config.clone()).boxed(),
        api,
        config,
        seen: 0,
        seen_before: 0,
    };
    stream::unfold(following, |mut following| async { Some((following.next().await?, following)) }).default_backoff()
}

struct Following<K> {
    api: Api<K>,
    config: Config,
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    inquiries: BoxStream<'static, Inquiry>,
    /// The highest version that the server told.
    seen: u128,
    /// The same when it was last asked: what came while it answered may be newer than its answer.
    seen_before: u128,
}

enum Inquiry {
    Begins,
    Answered(u128),
}

impl<K> Following<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(&mut self) -> Option<watcher::Result<Event<K>>> {
        loop {
            tokio::select! {
                event = self.events.next() => return event.inspect(|event| self.note(event)),
                inquiry = self.inquiries.next() => self.learn(inquiry?),
            }
        }
    }

    fn note(&mut self, event: &watcher::Result<Event<K>>) {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => {
                self.seen = self.seen.max(version(object.resource_version()).unwrap_or_default());
            }
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) if cannot_go_on(error) => self.begin_anew(),
            Err(_) => {}
        }
    }

    fn learn(&mut self, inquiry: Inquiry) {
        match inquiry {
            Inquiry::Begins => self.seen_before = self.seen,
            Inquiry::Answered(version) if version < self.seen_before => {
                let (kind, seen) = (std::any::type_name::<K>(), self.seen_before);
                tracing::warn!(kind, seen, version, "the API server was put back to an older state, listing anew");
                self.begin_anew();
                self.seen = version;
            }
            Inquiry::Answered(version) => self.seen = self.seen.max(version),
        }
    }

    fn begin_anew(&mut self) {
        self.events = watch(self.api.clone(), self.config.clone()).boxed();
    }
}

/// One after the other. A server that does not answer is asked again.
fn inquiries<K>(period: Duration, api: Api<K>, config: Config) -> impl Stream<Item = Inquiry> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // One object of whatever labels will do: with labels, a server without any that fits would read them all.
    let one = ListParams { limit: Some(1), field_selector: config.field_selector, ..ListParams::default() };
    stream::unfold((), move |()| async move {
        tokio::time::sleep(period.mul_f64(0.8 + fastrand::f64() * 0.4)).await;
        Some(((), ()))
    })
    .flat_map(move |()| {
        let (api, one) = (api.clone(), one.clone());
        let answer = async move { api.list_metadata(&one).await.ok()?.metadata.resource_version };
        let answer = stream::once(answer).filter_map(|text| std::future::ready(version(text).map(Inquiry::Answered)));
        stream::iter([Inquiry::Begins]).chain(answer)
    })
}

/// Versions are numbers that grow; a server where they are not gets no help from comparing them.
fn version(text: Option<String>) -> Option<u128> {
    text?.parse().ok()
}

/// After these a watch would ask for the same version for ever. One that is told so in the middle begins anew by itself.
fn cannot_go_on(error: &watcher::Error) -> bool {
    let gone = |status: &Status| status.code == 410 || is_too_large(status);
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => gone(status),
        watcher::Error::WatchError(status) => is_too_large(status),
        _ => false,
    }
}

fn is_too_large(status: &Status) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == TOO_LARGE)
}

#[cfg(test)]
#[path = "restores_tests.rs"]
mod tests;
