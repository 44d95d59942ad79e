//! What is stored of the root: the one that is wanted, the one in force, who is trusted, and the operator's own intermediate.

use super::in_force::Root;
use super::secrets::SecretSeen;
use super::wanted_root::judge;
use super::{Error, Identities};
use api::certificates::{AuthoritySource, ValkeyCA, names};
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use certificates::{Found, Intermediate, Source, Wanted};
use jiff::Timestamp;
use pki::{Authority, Bundle, Lifetime, SKEW, SystemRandomness};

pub struct RootReading {
    pub secret: String,
    pub wanted: Wanted,
    /// With its key, when it can be used.
    pub wanted_root: Option<Root>,
    /// It is the operator's, and its Secret does not say so yet: it was written before that was noted.
    pub wanted_is_unnoted: bool,
    pub signing: Option<Root>,
    /// Whether the root in force is in its Secret, or only in this process's memory.
    pub signing_is_stored: bool,
    pub trusted: Bundle,
    pub trusted_is_stored: bool,
    pub own: Found<Intermediate>,
    pub own_authority: Option<Authority>,
}

impl Identities {
    /// Err when something could not be looked at: nothing is decided on that.
    pub(super) async fn read_root(&self, authority: &ValkeyCA, now: Timestamp) -> Result<RootReading, Error> {
        let (namespace, named) = (&self.settings.namespace, &authority.spec.ca_cert_secret_ref);
        let (wanted, signing, operator) = futures::join!(
            self.secrets.read(namespace, named),
            self.secrets.read(namespace, names::SIGNING_SECRET),
            self.secrets.read(namespace, names::OPERATOR_SECRET),
        );
        let unknown = |detail| Error::Read { what: "a Secret of the operator".to_owned(), detail };
        let (signing, operator) = (signing.map_err(unknown)?, operator.map_err(unknown)?);
        let memory = self.in_force.borrow().clone();
        let stored = signing.as_ref().and_then(stored_signing);
        let signing_is_stored = stored.is_some();
        let signing = stored.or_else(|| memory.as_ref().map(|memory| memory.root.clone()));
        let kept = operator.as_ref().and_then(|seen| Bundle::from_pem(seen.contents.get(ROOTS)).ok());
        let trusted_is_stored = kept.is_some();
        let trusted =
            kept.or_else(|| memory.map(|memory| memory.trusted.clone())).unwrap_or_else(|| recorded(authority));
        let (wanted, wanted_root, wanted_is_unnoted) = judge(named, wanted, signing.as_ref(), now);
        let (own, own_authority) = self.own_intermediate(operator, &trusted, now);
        let secret = named.clone();
        Ok(RootReading {
            secret,
            wanted,
            wanted_root,
            wanted_is_unnoted,
            signing,
            signing_is_stored,
            trusted,
            trusted_is_stored,
            own,
            own_authority,
        })
    }

    fn own_intermediate(
        &self,
        seen: Option<SecretSeen>,
        trusted: &Bundle,
        now: Timestamp,
    ) -> (Found<Intermediate>, Option<Authority>) {
        let Some(seen) = seen.filter(|seen| !seen.contents.get(CHAIN).is_empty()) else { return (Found::Absent, None) };
        let scope = pki::Scope::operator(&self.settings.namespace).ok();
        match Authority::from_pem(seen.contents.get(CHAIN), seen.contents.get(KEY)) {
            Ok(authority) if authority.scope() == scope.as_ref() => {
                let found = intermediate(&authority, seen.moment(names::ISSUED_AT), trusted, now);
                (Found::Whole(found), Some(authority))
            }
            Ok(_) => (Found::Spoilt("it is somebody else's intermediate".to_owned()), None),
            Err(error) => (Found::Spoilt(error.to_string()), None),
        }
    }
}

/// What the rules look at in an intermediate.
pub fn intermediate(
    authority: &Authority,
    issued_at: Option<Timestamp>,
    trusted: &Bundle,
    now: Timestamp,
) -> Intermediate {
    let root = authority.root_among(trusted, now, &SystemRandomness).ok().flatten();
    let issued_at = issued_at.unwrap_or_else(|| made(authority.not_before()));
    let lifetime = Lifetime { issued_at, expires_at: authority.not_after() };
    Intermediate { thumbprint: authority.thumbprint(), root, lifetime }
}

/// Certificates of ours are dated back by the tolerated difference of clocks.
pub fn made(not_before: Timestamp) -> Timestamp {
    not_before.checked_add(SKEW).unwrap_or(not_before)
}

/// The roots that the status of the ValkeyCA still tells, when every Secret is lost.
fn recorded(authority: &ValkeyCA) -> Bundle {
    let roots = authority.status.iter().flat_map(|status| &status.trusted).map(|root| root.certificate.as_str());
    Bundle::from_pem(roots.collect::<String>().as_bytes()).unwrap_or_default()
}

/// None also when somebody put another certificate into it: only what was taken over step by step may sign.
pub fn stored_signing(seen: &SecretSeen) -> Option<Root> {
    let authority = Authority::from_pem(seen.contents.get(CHAIN), seen.contents.get(KEY)).ok()?;
    if seen.noted_thumbprint().is_some_and(|noted| noted != authority.thumbprint()) {
        return None;
    }
    let own = seen.annotation(names::SOURCE) == Some(text(Source::Own));
    let issued_at = seen.moment(names::ISSUED_AT).unwrap_or_else(|| made(authority.not_before()));
    let came_from = seen.annotation(names::CAME_FROM).unwrap_or(names::ROOT_SECRET).to_owned();
    Some(Root { authority, issued_at, source: if own { Source::Own } else { Source::Operator }, came_from })
}

/// As the status of the ValkeyCA spells it.
pub fn text(source: Source) -> &'static str {
    match source {
        Source::Operator => AuthoritySource::Operator.as_str(),
        Source::Own => AuthoritySource::Own.as_str(),
    }
}
