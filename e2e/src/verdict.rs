//! What a condition says about the world, and the error of a wait that did not come true. Pure; used by `wait` and by every test.

use std::time::Duration;
use thiserror::Error;

/// The answer of one look at the world. The reason is what a person reads when the wait runs out of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<T> {
    Met(T),
    NotYet(String),
    /// No amount of waiting will help; the wait ends at once.
    Never(String),
}

impl<T> Verdict<T> {
    pub fn not_yet(reason: impl Into<String>) -> Self {
        Self::NotYet(reason.into())
    }

    pub fn never(reason: impl Into<String>) -> Self {
        Self::Never(reason.into())
    }

    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Self::Met(value) => Verdict::Met(convert(value)),
            Self::NotYet(reason) => Verdict::NotYet(reason),
            Self::Never(reason) => Verdict::Never(reason),
        }
    }
}

impl Verdict<()> {
    pub fn when(holds: bool, otherwise: impl FnOnce() -> String) -> Self {
        if holds { Self::Met(()) } else { Self::NotYet(otherwise()) }
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum WaitError {
    #[error("waited {} for {what}; last seen: {last_reason}", seconds(.waited))]
    TimedOut { what: String, waited: Duration, last_reason: String },
    #[error("{what} cannot come true any more (after {}): {reason}", seconds(.waited))]
    Hopeless { what: String, waited: Duration, reason: String },
}

fn seconds(duration: &Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_names_the_condition_the_time_and_the_last_reason() {
        let error = WaitError::TimedOut {
            what: "three pods Ready".into(),
            waited: Duration::from_millis(30_040),
            last_reason: "2/3 pods Ready; web-2: ContainerCreating".into(),
        };
        assert_eq!(
            error.to_string(),
            "waited 30.0 s for three pods Ready; last seen: 2/3 pods Ready; web-2: ContainerCreating"
        );
    }

    #[test]
    fn a_hopeless_wait_says_why() {
        let error = WaitError::Hopeless { what: "job done".into(), waited: Duration::ZERO, reason: "it failed".into() };
        assert_eq!(error.to_string(), "job done cannot come true any more (after 0.0 s): it failed");
    }

    #[test]
    fn mapping_keeps_the_reason() {
        assert_eq!(Verdict::<u8>::not_yet("no").map(u16::from), Verdict::NotYet("no".into()));
        assert_eq!(Verdict::Met(1u8).map(u16::from), Verdict::Met(1u16));
    }

    #[test]
    fn a_plain_condition_gives_its_reason_only_when_it_does_not_hold() {
        assert_eq!(Verdict::when(true, || "unused".into()), Verdict::Met(()));
        assert_eq!(Verdict::when(false, || "still three".into()), Verdict::NotYet("still three".into()));
    }
}
