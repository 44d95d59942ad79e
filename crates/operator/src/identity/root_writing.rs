//! Does what was decided about the root: each step is one or two writes, and may be done again.

use super::contents::Contents;
use super::in_force::Root;
use super::root_reading::{RootReading, text};
use super::secrets::{OPAQUE, SecretWanted, TLS};
use super::{Error, INTERMEDIATE_VALIDITY, Identities};
use api::certificates::{ValkeyCA, names};
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use api::names::{MANAGER, label};
use certificates::{RootStep, Source};
use jiff::Timestamp;
use pki::{Authority, Bundle, Scope, SystemRandomness};
use planner::whole_second;
use std::collections::BTreeMap;
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// By which our Secrets outside of clusters are known.
pub fn labels() -> BTreeMap<String, String> {
    [(label::NAME, MANAGER), (label::PART_OF, MANAGER), (label::MANAGED_BY, MANAGER)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

pub fn notes(issued_at: Timestamp) -> BTreeMap<String, String> {
    BTreeMap::from([(names::ISSUED_AT.to_owned(), issued_at.to_string())])
}

impl Identities {
    pub(super) async fn act_on_root(
        &self,
        step: &RootStep,
        reading: &RootReading,
        authority: &ValkeyCA,
        now: Timestamp,
    ) -> Result<(), Error> {
        tracing::info!(secret = reading.secret, ?step, "root");
        match (step, &reading.wanted_root, &reading.signing) {
            (RootStep::Make, ..) => self.make_root(reading, authority, now).await,
            (RootStep::WriteBack, _, Some(root)) => self.write_named(&reading.secret, root).await,
            (RootStep::Trust, Some(root), _) => {
                let trusted = reading.trusted.clone().merge(root.authority.bundle().map_err(Error::issue)?);
                self.write_trusted(&trusted, reading).await
            }
            (RootStep::Trust, None, Some(root)) => {
                let trusted = reading.trusted.clone().merge(root.authority.bundle().map_err(Error::issue)?);
                self.write_trusted(&trusted, reading).await
            }
            (RootStep::Sign, Some(root), _) => self.write_signing(root).await,
            (RootStep::RetireOthers, _, Some(root)) => {
                self.write_trusted(&reading.trusted.only(&root.authority.thumbprint()), reading).await
            }
            (RootStep::Retire(root), ..) => self.write_trusted(&reading.trusted.without(root), reading).await,
            _ => Ok(()),
        }
    }

    async fn make_root(&self, reading: &RootReading, authority: &ValkeyCA, now: Timestamp) -> Result<(), Error> {
        let scope = Scope::operator(&self.settings.namespace)?;
        let days = u64::try_from(authority.spec.valid_for_days).unwrap_or_default().max(1);
        let validity = Duration::from_secs(days * DAY);
        let made = Authority::root(&scope.trust_domain(), validity, now, &SystemRandomness).map_err(Error::issue)?;
        let (source, came_from) = (Source::Operator, reading.secret.clone());
        let root = Root { authority: made, issued_at: whole_second(now), source, came_from };
        self.write_named(&reading.secret, &root).await
    }

    pub(super) async fn write_named(&self, name: &str, root: &Root) -> Result<(), Error> {
        self.write_root(name, root, notes(root.issued_at)).await
    }

    pub(super) async fn write_signing(&self, root: &Root) -> Result<(), Error> {
        let mut annotations = notes(root.issued_at);
        annotations.insert(names::CAME_FROM.to_owned(), root.came_from.clone());
        annotations.insert(names::SOURCE.to_owned(), text(root.source).to_owned());
        self.write_root(names::SIGNING_SECRET, root, annotations).await
    }

    async fn write_root(
        &self,
        name: &str,
        root: &Root,
        mut annotations: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        annotations.insert(names::THUMBPRINT.to_owned(), root.authority.thumbprint().to_string());
        let certificate = root.authority.certificate_pem().map_err(Error::issue)?;
        let key = root.authority.key_pem().map_err(Error::issue)?;
        let contents = Contents::default().with(CHAIN, &certificate).with(KEY, &key);
        self.write_own(SecretWanted { annotations, ..own_secret(name, TLS, contents) }).await
    }

    /// Beside the operator's intermediate, where every replica finds both.
    pub(super) async fn write_trusted(&self, trusted: &Bundle, reading: &RootReading) -> Result<(), Error> {
        let issued_at = reading.own.whole().map_or(Timestamp::UNIX_EPOCH, |found| found.lifetime.issued_at);
        self.write_operator(reading.own_authority.as_ref(), issued_at, trusted).await
    }

    pub(super) async fn issue_own_intermediate(
        &self,
        root: &Authority,
        trusted: &Bundle,
        now: Timestamp,
    ) -> Result<(), Error> {
        let scope = Scope::operator(&self.settings.namespace)?;
        let made = root.intermediate(&scope, INTERMEDIATE_VALIDITY, now, &SystemRandomness).map_err(Error::issue)?;
        self.write_operator(Some(&made), whole_second(now), trusted).await
    }

    async fn write_operator(
        &self,
        intermediate: Option<&Authority>,
        issued_at: Timestamp,
        trusted: &Bundle,
    ) -> Result<(), Error> {
        let mut contents = Contents::default().with(ROOTS, &trusted.to_pem().map_err(Error::issue)?);
        if let Some(intermediate) = intermediate {
            let certificate = intermediate.certificate_pem().map_err(Error::issue)?;
            contents = contents.with(CHAIN, &certificate).with(KEY, &intermediate.key_pem().map_err(Error::issue)?);
        }
        let wanted = own_secret(names::OPERATOR_SECRET, OPAQUE, contents);
        self.write_own(SecretWanted { annotations: notes(issued_at), ..wanted }).await?;
        self.own.refresh();
        Ok(())
    }

    /// Over what the operator made for itself, and nothing else.
    async fn write_own(&self, wanted: SecretWanted) -> Result<(), Error> {
        let (namespace, what) = (&self.settings.namespace, || format!("the Secret {}", wanted.name));
        let there = self.secrets.read(namespace, &wanted.name).await;
        match there.map_err(|detail| Error::Read { what: what(), detail })? {
            None => self.secrets.write(namespace, &wanted, None).await,
            Some(seen) if seen.is_operators() => self.secrets.write_anew(namespace, &wanted, &seen.uid).await,
            Some(_) => {
                let detail =
                    "one of that name is there which the operator did not make for itself: delete or rename it";
                Err(Error::Write { what: what(), detail: detail.to_owned(), terminating: false })
            }
        }
    }
}

fn own_secret(name: &str, kind: &'static str, contents: Contents) -> SecretWanted {
    let annotations = BTreeMap::new();
    SecretWanted { name: name.to_owned(), kind, contents, labels: labels(), annotations, owner: None }
}
