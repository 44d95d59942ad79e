//! A cache of certificate chains that were verified a moment ago. All pods of a cluster present the same one, and after a restart
//! they all come together: the signatures of a chain are verified once, not once for each. Possession of the key is proved in
//! every handshake.

use crate::credentials::Credentials;
use parking_lot::Mutex;
use pki::SpiffeId;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Short against the tolerance for clocks that differ, so that no certificate is accepted noticeably longer.
const MOMENT: Duration = Duration::from_secs(60);
/// Above the clusters of one operator; strangers' chains are never in it.
const MOST: usize = 4096;

type Key = [u8; 32];

#[derive(Debug, Default)]
struct Cache {
    /// What they were verified against; another bundle starts anew.
    against: Option<Arc<Credentials>>,
    chains: HashMap<Key, (SpiffeId, Instant)>,
}

#[derive(Debug, Default)]
pub struct VerifiedChains(Mutex<Cache>);

pub fn key(chain: &[CertificateDer<'_>]) -> Key {
    let mut hash = Sha256::new();
    for certificate in chain {
        hash.update(certificate.len().to_be_bytes());
        hash.update(certificate.as_ref());
    }
    hash.finalize().into()
}

impl VerifiedChains {
    pub fn find(&self, key: &Key, against: &Arc<Credentials>, now: Instant) -> Option<SpiffeId> {
        let cache = self.0.lock();
        let same = cache.against.as_ref().is_some_and(|then| Arc::ptr_eq(then, against));
        let (id, at) = cache.chains.get(key).filter(|_| same)?;
        (now.saturating_duration_since(*at) < MOMENT).then(|| id.clone())
    }

    pub fn remember(&self, key: Key, against: &Arc<Credentials>, id: &SpiffeId, now: Instant) {
        let mut cache = self.0.lock();
        let same = cache.against.as_ref().is_some_and(|then| Arc::ptr_eq(then, against));
        if !same || cache.chains.len() >= MOST {
            cache.chains.clear();
            cache.against = Some(against.clone());
        }
        cache.chains.insert(key, (id.clone(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use pki::{Authority, Scope, SystemRandomness};

    fn credentials() -> Arc<Credentials> {
        let (now, hour) = (Timestamp::now(), Duration::from_secs(3600));
        let domain = "valkey-system".parse().expect("a trust domain");
        let root = Authority::root(&domain, 9 * hour, now, &SystemRandomness).expect("a root");
        let scope = Scope::operator("valkey-system").expect("a scope");
        let below = root.intermediate(&scope, 9 * hour, now, &SystemRandomness).expect("an intermediate");
        let leaf = below.leaf(&scope.identity(), hour, now, &SystemRandomness).expect("a leaf");
        let bundle = root.bundle().expect("a bundle");
        let made = Credentials::with_bundle(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes(), bundle);
        Arc::new(made.expect("credentials"))
    }

    #[test]
    fn a_chain_is_known_for_a_moment_and_only_against_the_same_bundle() {
        let (chains, now) = (VerifiedChains::default(), Instant::now());
        let (one, other) = (credentials(), credentials());
        let chain = key(&[CertificateDer::from(vec![1, 2]), CertificateDer::from(vec![3])]);
        assert_eq!(chains.find(&chain, &one, now), None);
        chains.remember(chain, &one, one.id(), now);
        assert_eq!(chains.find(&chain, &one, now).as_ref(), Some(one.id()));
        assert_eq!(chains.find(&chain, &other, now), None, "another bundle may not trust it");
        assert_eq!(chains.find(&chain, &one, now + MOMENT), None, "it may have expired since");
        let shifted = key(&[CertificateDer::from(vec![1]), CertificateDer::from(vec![2, 3])]);
        assert_eq!(chains.find(&shifted, &one, now), None, "the same bytes, another chain");
    }
}
