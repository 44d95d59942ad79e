//! The conditions that ValkeyCA, ValkeyCertificateBundle and ValkeyCertificateBinding always have, and the reasons they give. Pure.
//! `docs/conditions.md` explains each for users; a test keeps both equal.

use crate::conditions::{Statement, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

names! {
    /// What can be said about an authority or about leaves. Both types are in each status at all times.
    CertificateCondition {
        /// There is a valid certificate, with its key, and it is in use.
        Ready,
        /// A newer one is taking its place.
        Rotating,
    }
}

names! {
    /// Why a condition has its status.
    CertificateReason {
        /// It is there and valid.
        Valid,
        /// It is being made for the first time.
        Issuing,
        /// It was replaced or repaired, because its Secret was gone or spoilt.
        Repaired,
        /// It ended before it could be replaced.
        CertificateExpired,
        /// It will end, and nobody is to replace it.
        RotationManual,
        /// The Secret cannot be read.
        SecretUnreadable,
        /// The user's own authority cannot be used; the message has every reason.
        OwnAuthorityRefused,
        /// The authority above it is missing or not ready.
        AuthorityNotReady,
        /// Nothing is being replaced.
        NotDue,
        /// The new root is being made known.
        AwaitingTrust,
        /// The new certificate is there, and some still present the old one.
        AwaitingUse,
        /// An orchestration is open; the change waits for its end.
        AwaitingOrchestration,
        /// Nobody acts on it: it is not the root.
        NotUsed,
    }
}

/// What is now true of one condition type; the times are added by [`advance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFinding {
    pub condition: CertificateCondition,
    /// None is Unknown.
    pub status: Option<bool>,
    pub reason: CertificateReason,
    pub message: String,
}

/// The new list of conditions: one for each finding, in the findings' order.
/// The transition time stays as long as the status does.
pub fn advance(
    previous: &[Condition],
    findings: &[CertificateFinding],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let statement = |finding: &CertificateFinding| {
        let CertificateFinding { condition, status, reason, message } = finding;
        Statement { condition: condition.as_str(), status: *status, reason: reason.as_str(), message }
            .condition(previous, generation, now)
    };
    findings.iter().map(statement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// First cells of the table below the heading, without the code quotes.
    fn documented(heading: &str) -> BTreeSet<String> {
        let text = include_str!("../../../../docs/conditions.md");
        let section = text.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        cells.map(str::to_owned).collect()
    }

    #[test]
    fn every_condition_and_reason_is_documented_and_nothing_else_is() {
        let names = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        let conditions = CertificateCondition::ALL.iter().map(|condition| condition.as_str());
        assert_eq!(documented("Certificates: conditions"), names(conditions.collect()));
        let reasons = CertificateReason::ALL.iter().map(|reason| reason.as_str());
        assert_eq!(documented("Certificates: reasons"), names(reasons.collect()));
    }

    #[test]
    fn the_transition_time_stays_as_long_as_the_status_does() {
        let finding = |status, reason| CertificateFinding {
            condition: CertificateCondition::Rotating,
            status,
            reason,
            message: String::new(),
        };
        let [start, later] = [1_000, 2_000].map(|second| Timestamp::from_second(second).unwrap());
        let first = advance(&[], &[finding(Some(true), CertificateReason::AwaitingTrust)], Some(1), start);
        let second = advance(&first, &[finding(Some(true), CertificateReason::AwaitingUse)], Some(1), later);
        let third = advance(&second, &[finding(Some(false), CertificateReason::NotDue)], Some(1), later);
        assert_eq!(second[0].last_transition_time.0, start);
        assert_eq!((third[0].last_transition_time.0, third[0].reason.as_str()), (later, "NotDue"));
    }
}
