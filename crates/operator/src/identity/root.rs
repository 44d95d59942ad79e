//! The leader's passes over the root: observe → plan → act → publish, again and again. Runs beside the passes over clusters.

use super::in_force::InForce;
use super::root_reading::RootReading;
use super::{Error, INTERMEDIATE_VALIDITY, Identities};
use crate::client::watch_config;
use crate::runtime::watch_through_restores;
use api::certificates::{TRUSTED_ROOTS, TrustedRoot, ValkeyCA, names};
use certificates::{AuthorityReport, RootPlan, RootView, authority_status, root_plan};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use pki::{Bundle, Party, Thumbprint};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A Secret that is gone is noticed within this time.
const QUIET: Duration = Duration::from_secs(10);
/// How often those are looked for that nobody acts on.
const TELL_UNUSED: Duration = Duration::from_secs(60);
/// While one root follows another.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// A change of root takes fewer steps than this; each is looked at anew.
const STEPS: usize = 8;
/// How many the log names of those who are not waited for.
const NAMED: usize = 20;

impl Identities {
    /// Runs until dropped. `scopes` are the namespaces of the clusters; None stands for all.
    pub async fn lead(&self, scopes: Vec<Option<String>>) {
        if !self.settings.built_in {
            return std::future::pending().await;
        }
        let mut changes = Box::pin(self.authority_changes());
        let mut told: Option<Instant> = None;
        loop {
            let pause = match self.pass_over_root(&scopes).await {
                Ok(under_way) => {
                    if under_way {
                        UNDER_WAY
                    } else {
                        QUIET
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the root of identities cannot be looked after, trying again");
                    *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                    UNDER_WAY
                }
            };
            self.delete_keys_of_ended_clusters().await;
            if told.is_none_or(|at| at.elapsed() > TELL_UNUSED) {
                self.tell_unused(&scopes).await;
                told = Some(Instant::now());
            }
            let _ = tokio::time::timeout(pause.mul_f64(0.8 + fastrand::f64() * 0.2), changes.next()).await;
        }
    }

    /// An item whenever somebody changed or deleted the ValkeyCA.
    fn authority_changes(&self) -> impl Stream<Item = ()> + use<> {
        let mut known = None;
        let only = watch_config().fields(&format!("metadata.name={}", names::ROOT));
        let authorities: Api<PartialObjectMeta<ValkeyCA>> =
            Api::namespaced(self.clients.watches.clone(), &self.settings.namespace);
        watch_through_restores(authorities, only).filter_map(move |event| {
            let news = match event {
                Ok(Event::Apply(authority) | Event::InitApply(authority)) => {
                    let generation = authority.metadata.generation;
                    known.replace(generation).is_some_and(|before| before != generation)
                }
                Ok(Event::Delete(_)) => true,
                _ => false,
            };
            std::future::ready(news.then_some(()))
        })
    }

    /// Whether a change of root is under way.
    async fn pass_over_root(&self, scopes: &[Option<String>]) -> Result<bool, Error> {
        let authority = self.authority().await?;
        let now = Timestamp::now();
        let (reading, plan, parties) = self.take_steps(&authority, scopes, now).await?;
        self.store_again(&reading).await?;
        self.put_in_force(&reading);
        self.show_expirations(&reading);
        let outcome = self.ensure_own_intermediate(&reading, &parties, now).await;
        self.publish_root(&authority, &reading, &plan, outcome.as_ref().err(), now).await?;
        self.forget_gone_replicas(&authority).await;
        outcome?;
        Ok(reading.trusted.thumbprints().len() > 1 || plan.step.is_some())
    }

    async fn take_steps(
        &self,
        authority: &ValkeyCA,
        scopes: &[Option<String>],
        now: Timestamp,
    ) -> Result<(RootReading, RootPlan, Vec<Party>), Error> {
        let mut repaired = None;
        for _ in 0..STEPS {
            let reading = self.read_root(authority, now).await?;
            self.put_stored_in_force(&reading);
            let parties = self.parties_of(&reading, authority, scopes).await?;
            let view = view(&reading, &parties, retire_now(authority))?;
            let mut plan = root_plan(&view, INTERMEDIATE_VALIDITY, now);
            repaired = plan.repaired.take().or(repaired);
            let Some(step) = &plan.step else { return Ok((reading, RootPlan { repaired, ..plan }, parties)) };
            if !plan.without.is_empty() {
                let (count, names) = (plan.without.len(), api::text::listed(&plan.without, NAMED));
                tracing::warn!(count, names, ?step, "not waiting for them: their root is to be retired now");
            }
            self.act_on_root(step, &reading, authority, now).await?;
        }
        Err(Error::Issue("the root does not settle: somebody else changes its Secrets".to_owned()))
    }

    /// Asked for only while more than one root is about: it takes a list.
    async fn parties_of(
        &self,
        reading: &RootReading,
        authority: &ValkeyCA,
        scopes: &[Option<String>],
    ) -> Result<Vec<Party>, Error> {
        let signing = reading.signing.as_ref().map(|root| root.authority.thumbprint());
        let wanted = reading.wanted_root.as_ref().map(|root| root.authority.thumbprint());
        let settled = reading.trusted.thumbprints().len() <= 1 && (wanted.is_none() || wanted == signing);
        let below_another = reading.own.whole().is_some_and(|own| own.root != signing);
        if settled && !below_another {
            return Ok(Vec::new());
        }
        let mut parties = self.replicas(authority);
        parties.extend(self.sidecars(scopes).await?);
        Ok(parties)
    }

    /// What this process still knows and its Secret has lost.
    async fn store_again(&self, reading: &RootReading) -> Result<(), Error> {
        if let Some(root) = reading.signing.as_ref().filter(|_| !reading.signing_is_stored) {
            tracing::warn!("the Secret with the root in force was gone or spoilt: writing it again");
            self.write_signing(root).await?;
        }
        if !reading.trusted_is_stored && !reading.trusted.thumbprints().is_empty() {
            self.write_trusted(&reading.trusted, reading).await?;
        }
        if let Some(root) = reading.wanted_root.as_ref().filter(|_| reading.wanted_is_unnoted) {
            tracing::info!(secret = reading.secret, "noting which root the operator made");
            self.write_named(&reading.secret, root).await?;
        }
        Ok(())
    }

    fn show_expirations(&self, reading: &RootReading) {
        if let Some(root) = &reading.signing {
            self.metrics.certificate_ends("root", root.authority.not_after());
        }
        if let Some(own) = reading.own.whole() {
            self.metrics.certificate_ends("intermediate", own.lifetime.expires_at);
        }
    }

    /// Before anything is done: whatever may come of that, what is below the stored root goes on being renewed.
    fn put_stored_in_force(&self, reading: &RootReading) {
        let trusted = reading.trusted.thumbprints();
        let signing = reading.signing.as_ref().filter(|_| reading.signing_is_stored);
        if signing.is_some_and(|root| trusted.contains(&root.authority.thumbprint())) {
            self.put_in_force(reading);
        }
    }

    fn put_in_force(&self, reading: &RootReading) {
        let Some(root) = reading.signing.clone() else { return };
        let next = InForce { root, trusted: reading.trusted.clone() };
        self.in_force.send_if_modified(|current| {
            let other = !current.as_ref().is_some_and(|current| current.is_as(&next));
            if other {
                *current = Some(Arc::new(next));
            }
            other
        });
    }

    async fn publish_root(
        &self,
        authority: &ValkeyCA,
        reading: &RootReading,
        plan: &RootPlan,
        failure: Option<&Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let signing = reading.signing.as_ref().map(|root| root.signing());
        let report = AuthorityReport {
            generation: authority.metadata.generation,
            plan,
            signing: signing.as_ref(),
            trusted: trusted(&reading.trusted)?,
            retire_now: retire_now(authority),
            failure: failure.map(ToString::to_string),
        };
        let previous = authority.status.clone().unwrap_or_default();
        let next = authority_status(&report, &previous, planner::whole_second(now));
        let trouble = next.conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status != "True");
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) =
            trouble.map(|condition| condition.message.clone());
        self.publish_authority(authority, &next).await
    }
}

/// Which root an administrator wants gone: its thumbprint, also as openssl prints it. The whole of it, so that it means no other root,
/// now or later.
fn retire_now(authority: &ValkeyCA) -> Option<Thumbprint> {
    let text = authority.annotations().get(names::RETIRE_NOW)?;
    Some(Thumbprint::recorded(&text.trim().replace(':', "")))
}

fn view(reading: &RootReading, parties: &[Party], retire_now: Option<Thumbprint>) -> Result<RootView, Error> {
    let listed = reading.trusted.listed().map_err(Error::issue)?;
    Ok(RootView {
        secret: reading.secret.clone(),
        wanted: reading.wanted.clone(),
        signing: reading.signing.as_ref().map(|root| root.signing()),
        trusted: listed.into_iter().map(|(thumbprint, end, _)| (thumbprint, end)).collect::<BTreeMap<_, _>>(),
        parties: parties.to_vec(),
        retire_now,
    })
}

fn trusted(bundle: &Bundle) -> Result<Vec<TrustedRoot>, Error> {
    let entry = |(thumbprint, end, certificate): (pki::Thumbprint, Timestamp, String)| TrustedRoot {
        thumbprint: thumbprint.to_string(),
        expires_at: Time(end),
        certificate,
    };
    // More than two are there only while somebody changes the root again and again.
    Ok(bundle.listed().map_err(Error::issue)?.into_iter().map(entry).take(TRUSTED_ROOTS).collect())
}

#[cfg(test)]
#[path = "root_tests.rs"]
mod tests;
