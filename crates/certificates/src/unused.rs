//! What is said of a ValkeyCA that nobody acts on. Pure.

use api::certificates::names::ROOT;
use api::certificates::{CertificateCondition, CertificateFinding, CertificateReason, ValkeyCAStatus, advance};
use jiff::Timestamp;

/// The status of one that is not the root; `namespace` is the operator's.
pub fn unused_status(
    generation: Option<i64>,
    namespace: &str,
    previous: Option<&ValkeyCAStatus>,
    now: Timestamp,
) -> ValkeyCAStatus {
    let before = previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let finding = |condition| CertificateFinding {
        condition,
        status: Some(false),
        reason: CertificateReason::NotUsed,
        message: format!(
            "nobody acts on this: the operator uses the ValkeyCA {ROOT} in namespace {namespace} alone. For a root of your own, put it \
             into a Secret there and name that in spec.caCertSecretRef of {ROOT}; then delete this one"
        ),
    };
    let findings: Vec<_> = CertificateCondition::ALL.iter().copied().map(finding).collect();
    let conditions = advance(before, &findings, generation, now);
    ValkeyCAStatus { observed_generation: generation, conditions, ..ValkeyCAStatus::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_what_is_used_instead() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = unused_status(Some(1), "system", None, at(1));
        assert_eq!(first.conditions.len(), CertificateCondition::ALL.len());
        let ready = &first.conditions[0];
        assert_eq!((ready.type_.as_str(), ready.status.as_str(), ready.reason.as_str()), ("Ready", "False", "NotUsed"));
        assert!(ready.message.contains("valkey-root-ca in namespace system"), "{}", ready.message);
        assert_eq!(unused_status(Some(1), "system", Some(&first), at(2)), first);
    }
}
