//! What the status of the ValkeyCA says, printed from the plan alone. Pure.

use crate::root::{RootPlan, Signing, Source};
use crate::words::{moment, names};
use api::certificates::names::RETIRE_NOW;
use api::certificates::{
    AuthoritySource, CertificateCondition, CertificateFinding, CertificateReason, RetireNow, TrustedRoot,
    ValkeyCAStatus, advance,
};
use api::conditions::LONGEST_TEXT;
use api::text::{self, shortened};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pki::Thumbprint;

/// A thumbprint has 64 characters.
const LONGEST_NAMED: usize = 128;

/// What there is to say.
#[derive(Clone, Debug)]
pub struct AuthorityReport<'a> {
    pub generation: Option<i64>,
    pub plan: &'a RootPlan,
    /// The root in force after the plan's step.
    pub signing: Option<&'a Signing>,
    pub trusted: Vec<TrustedRoot>,
    /// The root that the annotation names.
    pub retire_now: Option<Thumbprint>,
    /// A step that did not come through.
    pub failure: Option<String>,
}

/// `operators` stays empty: each replica writes its own entry.
pub fn authority_status(report: &AuthorityReport<'_>, previous: &ValkeyCAStatus, now: Timestamp) -> ValkeyCAStatus {
    let signing = report.signing;
    let findings = [ready(report, previous, now), rotating(report)];
    let waiting = report.plan.distrustful.len() + report.plan.behind.len();
    ValkeyCAStatus {
        observed_generation: report.generation,
        source: signing.map(|signing| source(signing.source).to_string()),
        thumbprint: signing.map(|signing| signing.root.thumbprint.to_string()),
        issued_at: signing.map(|signing| Time(signing.root.lifetime.issued_at)),
        expires_at: signing.map(|signing| Time(signing.root.lifetime.expires_at)),
        next_rotation: report.plan.next.map(Time),
        trusted: report.trusted.clone(),
        operators: Vec::new(),
        retire_now: report.retire_now.as_ref().map(|root| retire_now(root, report)),
        waiting_for: i32::try_from(waiting).unwrap_or(i32::MAX),
        plan: plan(report).map(|plan| shortened(&plan, LONGEST_TEXT).into_owned()),
        conditions: advance(&previous.conditions, &findings, report.generation, now),
    }
}

fn source(source: Source) -> AuthoritySource {
    match source {
        Source::Operator => AuthoritySource::Operator,
        Source::Own => AuthoritySource::Own,
    }
}

/// The answer to an administrator's wish: what is true of the root it names.
fn retire_now(root: &Thumbprint, report: &AuthorityReport<'_>) -> RetireNow {
    let outcome = if report.signing.is_some_and(|signing| signing.root.thumbprint == *root) {
        "InForce"
    } else if report.trusted.iter().any(|trusted| trusted.thumbprint == root.as_str()) {
        "Trusted"
    } else {
        "NotTrusted"
    };
    // Whatever was written there: a status is no place for all of it.
    let named = shortened(&text::plain(root.as_str()), LONGEST_NAMED).into_owned();
    RetireNow { thumbprint: named, outcome: outcome.to_owned() }
}

fn ready(report: &AuthorityReport<'_>, previous: &ValkeyCAStatus, now: Timestamp) -> CertificateFinding {
    let stays = if report.signing.is_some() { "; the root before it stays in use" } else { "" };
    let (status, reason, message) = match (report.signing, report.plan) {
        (_, plan) if plan.refused.is_some() => {
            let why = plan.refused.clone().unwrap_or_default();
            (Some(false), CertificateReason::OwnAuthorityRefused, format!("{why}{stays}"))
        }
        (_, plan) if plan.unreadable.is_some() => (
            None,
            CertificateReason::SecretUnreadable,
            format!("{}{stays}", plan.unreadable.clone().unwrap_or_default()),
        ),
        (None, _) => (Some(false), CertificateReason::Issuing, "the root is being made".to_owned()),
        (Some(signing), _) if now >= signing.root.lifetime.expires_at => {
            let end = moment(signing.root.lifetime.expires_at);
            (Some(false), CertificateReason::CertificateExpired, format!("the root ended at {end}"))
        }
        (Some(signing), plan) => whole(signing, plan, previous),
    };
    CertificateFinding { condition: CertificateCondition::Ready, status, reason, message }
}

fn whole(signing: &Signing, plan: &RootPlan, previous: &ValkeyCAStatus) -> (Option<bool>, CertificateReason, String) {
    let same = previous.thumbprint.as_deref() == Some(signing.root.thumbprint.as_str());
    let repaired = previous.conditions.iter().find(|condition| condition.type_ == "Ready" && same);
    let repaired = repaired.filter(|condition| condition.reason == CertificateReason::Repaired.as_str());
    match (&plan.repaired, repaired) {
        (Some(why), _) => (Some(true), CertificateReason::Repaired, format!("made good again: {why}")),
        // It stays told until the next root, so that somebody gets to read it.
        (None, Some(condition)) => (Some(true), CertificateReason::Repaired, condition.message.clone()),
        (None, None) => {
            let end = moment(signing.root.lifetime.expires_at);
            (Some(true), CertificateReason::Valid, format!("the root is valid until {end}"))
        }
    }
}

fn rotating(report: &AuthorityReport<'_>) -> CertificateFinding {
    let RootPlan { distrustful, behind, .. } = report.plan;
    let (status, reason, message) = if !distrustful.is_empty() {
        let message = format!("{} do not trust the new root yet: {}", distrustful.len(), names(distrustful));
        (true, CertificateReason::AwaitingTrust, message + &going_on(report.plan))
    } else if !behind.is_empty() {
        let message = format!("{} still show a certificate below the old root: {}", behind.len(), names(behind));
        (true, CertificateReason::AwaitingUse, message + &going_on(report.plan))
    } else if report.signing.is_some_and(|signing| signing.source == Source::Own) {
        (false, CertificateReason::RotationManual, "the root is your own: replace it before it ends".to_owned())
    } else {
        (false, CertificateReason::NotDue, "nothing is being replaced".to_owned())
    };
    CertificateFinding { condition: CertificateCondition::Rotating, status: Some(status), reason, message }
}

fn plan(report: &AuthorityReport<'_>) -> Option<String> {
    let RootPlan { distrustful, behind, .. } = report.plan;
    match () {
        () if report.failure.is_some() => report.failure.clone(),
        () if !distrustful.is_empty() => {
            let text = format!("the new root signs as soon as it is trusted by {}", names(distrustful));
            Some(text + &going_on(report.plan))
        }
        () if !behind.is_empty() => {
            let text = format!("the old root goes as soon as nobody uses it: {}", names(behind));
            Some(text + &going_on(report.plan))
        }
        () => None,
    }
}

/// How an administrator ends the waiting.
fn going_on(plan: &RootPlan) -> String {
    let Some(kept) = &plan.kept else { return String::new() };
    let another = if plan.another_named { ", which names another root now" } else { "" };
    format!("; to go on without them, annotate this ValkeyCA with {RETIRE_NOW}={kept}{another}")
}
