//! What this replica shows and trusts: a leaf in memory, made below the operator's intermediate, and the trusted roots. No IO: it is
//! told what is stored and what time it is.

use super::OWN_VALIDITY;
use super::contents::Contents;
use super::own::{OwnFacts, Shared};
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use jiff::Timestamp;
use link::Credentials;
use pki::{Authority, Bundle, Lifetime, Percent, SystemRandomness, leaf_rotation};
use std::fmt::Display;
use std::sync::{Arc, PoisonError};
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
#[error("the operator's intermediate cannot be used: {0}")]
pub struct Unusable(String);

impl Unusable {
    fn because(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// What the leaf is made from and when the next is due.
struct Held {
    intermediate: Authority,
    trusted: Bundle,
    lifetime: Lifetime,
    sender: watch::Sender<Arc<Credentials>>,
}

pub struct OwnLeaf {
    /// The operator's.
    namespace: String,
    pub shared: Arc<Shared>,
    held: Option<Held>,
}

impl OwnLeaf {
    pub fn new(namespace: String, shared: Arc<Shared>) -> Self {
        Self { namespace, shared, held: None }
    }

    pub fn is_shown(&self) -> bool {
        self.held.is_some()
    }

    /// When the leaf that is shown ends.
    pub fn ends(&self) -> Option<Timestamp> {
        self.held.as_ref().map(|held| held.lifetime.expires_at)
    }

    /// Makes a leaf if the stored intermediate or roots are others than before.
    pub fn take(&mut self, stored: &Contents, now: Timestamp) -> Result<(), Unusable> {
        let trusted = Bundle::from_pem(stored.get(ROOTS)).map_err(Unusable::because)?;
        let authority = Authority::from_pem(stored.get(CHAIN), stored.get(KEY)).map_err(Unusable::because)?;
        let same = self.held.as_ref().is_some_and(|held| {
            held.intermediate.thumbprint() == authority.thumbprint()
                && held.trusted.thumbprints() == trusted.thumbprints()
        });
        if same { Ok(()) } else { self.show(authority, trusted, now) }
    }

    /// Makes the next leaf when it is due, also while nothing can be read.
    pub fn renew(&mut self, now: Timestamp) -> Result<(), Unusable> {
        let due = |held: &&Held| leaf_rotation(held.lifetime, Percent::EARLIEST, now).is_due();
        let Some(held) = self.held.as_ref().filter(due) else { return Ok(()) };
        let (intermediate, trusted) = (held.intermediate.clone(), held.trusted.clone());
        self.show(intermediate, trusted, now)
    }

    fn show(&mut self, intermediate: Authority, trusted: Bundle, now: Timestamp) -> Result<(), Unusable> {
        let id = pki::identity::operator(&self.namespace).map_err(Unusable::because)?;
        let leaf = intermediate.leaf(&id, OWN_VALIDITY, now, &SystemRandomness).map_err(Unusable::because)?;
        let credentials = Credentials::with_bundle(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes(), trusted.clone());
        let credentials = Arc::new(credentials.map_err(Unusable::because)?);
        tracing::info!(thumbprint = %leaf.thumbprint, expires = %leaf.not_after, "the operator has a new certificate");
        self.publish(&intermediate, &trusted, now);
        let sender = match self.held.take() {
            Some(held) => {
                held.sender.send_replace(credentials);
                held.sender
            }
            None => {
                let (sender, receiver) = watch::channel(credentials);
                self.shared.current.send_replace(Some(receiver));
                sender
            }
        };
        self.held = Some(Held { intermediate, trusted, lifetime: leaf.lifetime(), sender });
        Ok(())
    }

    fn publish(&self, intermediate: &Authority, trusted: &Bundle, now: Timestamp) {
        let presents = intermediate.root_among(trusted, now, &SystemRandomness).ok().flatten();
        let facts = OwnFacts { trusts: trusted.thumbprints().into_iter().collect(), presents };
        *self.shared.facts.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use pki::{Scope, TrustDomain};
    use std::time::Duration;

    const NAMESPACE: &str = "valkey-system";
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn stored(now: Timestamp) -> Contents {
        let scope = Scope::operator(NAMESPACE).unwrap();
        let domain: TrustDomain = scope.trust_domain();
        let root = Authority::root(&domain, 90 * DAY, now, &SystemRandomness).unwrap();
        let intermediate = root.intermediate(&scope, 30 * DAY, now, &SystemRandomness).unwrap();
        Contents::default()
            .with(CHAIN, &intermediate.certificate_pem().unwrap())
            .with(KEY, &intermediate.key_pem().unwrap())
            .with(ROOTS, &root.certificate_pem().unwrap())
    }

    fn shown(leaf: &OwnLeaf) -> Arc<Credentials> {
        leaf.shared.current.borrow().as_ref().unwrap().borrow().clone()
    }

    fn later(now: Timestamp, hours: i64) -> Timestamp {
        now + SignedDuration::from_hours(hours)
    }

    #[test]
    fn the_operators_own_leaf_is_made_anew_when_two_thirds_of_it_are_over_and_not_before() {
        let now = Timestamp::now();
        let mut leaf = OwnLeaf::new(NAMESPACE.to_owned(), Arc::default());
        leaf.renew(now).unwrap();
        assert!(!leaf.is_shown(), "there is nothing to make it from");
        leaf.take(&stored(now), now).unwrap();
        let first = shown(&leaf);
        leaf.renew(later(now, 3)).unwrap();
        assert!(shown(&leaf).is_same(&first));
        leaf.renew(later(now, 4)).unwrap();
        let second = shown(&leaf);
        assert!(!second.is_same(&first));
        assert_eq!(second.expires().duration_since(first.expires()).as_hours(), 4);
        assert_eq!(second.trusted_roots(), first.trusted_roots());
    }

    #[test]
    fn what_is_stored_again_unchanged_makes_no_new_leaf_and_nonsense_leaves_the_old_one() {
        let now = Timestamp::now();
        let (mut leaf, stored) = (OwnLeaf::new(NAMESPACE.to_owned(), Arc::default()), stored(now));
        leaf.take(&stored, now).unwrap();
        let first = shown(&leaf);
        leaf.take(&stored, later(now, 1)).unwrap();
        assert!(leaf.take(&stored.with(KEY, "nonsense"), later(now, 1)).is_err());
        assert!(shown(&leaf).is_same(&first));
    }
}
