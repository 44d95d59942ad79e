//! Whether a presented chain is who it says it is. Pure. Called by the TLS verifiers on both ends, which then compare the id with the
//! one they expect. Path and signatures are webpki's; the rules of SPIFFE and of our scopes are checked here.

use crate::bundle::{Bundle, Root};
use crate::certificate::{self, Facts, LeafFacts};
use crate::refusal::{ChainPosition, InvalidId, Refusal};
use crate::spiffe_id::SpiffeId;
use crate::thumbprint::Thumbprint;
use crate::trust::DomainBundles;
use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, VerifiedPath};

/// How far two clocks may be apart before certificates are refused for it.
pub const SKEW: Duration = Duration::from_secs(5 * 60);

/// Ours have a leaf and one intermediate; a SPIFFE server of the user may put some more between.
const LONGEST_CHAIN: usize = 5;

/// The identity of the peer that presented this chain, leaf first, below a root of the built-in authority. Says nothing about
/// whether that peer is the wanted one, and nothing about whether it holds the key: the handshake does.
pub fn verify_peer(
    chain: &[CertificateDer<'_>],
    bundle: &Bundle,
    now: Timestamp,
    skew: Duration,
) -> Result<SpiffeId, Refusal> {
    let (id, signer) = verify_path(chain, &read_chain(chain)?, bundle, (now, skew))?;
    check_scope(&id, signer.as_ref())?;
    Ok(id)
}

/// The same below the roots that SPIFFE gives out: only those of the leaf's own trust domain are used, so that no other
/// domain's root can vouch for it.
pub(crate) fn verify_in_domain(
    chain: &[CertificateDer<'_>],
    domains: &DomainBundles,
    now: Timestamp,
    skew: Duration,
) -> Result<SpiffeId, Refusal> {
    let facts = read_chain(chain)?;
    if facts.leaf.is_authority {
        return Err(Refusal::CertificateAuthorityAsLeaf);
    }
    let claimed = leaf_id(&facts.leaf)?;
    let bundle = domains.of(claimed.trust_domain());
    let bundle = bundle.ok_or_else(|| Refusal::UnknownTrustDomain(claimed.trust_domain().clone()))?;
    verify_path(chain, &facts, bundle, (now, skew)).map(|(id, _)| id)
}

/// Everything but for whom the signers may speak: who the leaf is, and the certificate that signed it if it was not the root.
fn verify_path(
    chain: &[CertificateDer<'_>],
    facts: &ChainFacts,
    bundle: &Bundle,
    (now, skew): (Timestamp, Duration),
) -> Result<(SpiffeId, Option<Facts>), Refusal> {
    let (leaf, issuers) = chain.split_first().ok_or(Refusal::NoCertificate)?;
    let end_entity = EndEntityCert::try_from(leaf).map_err(|error| malformed(ChainPosition::Leaf, &error))?;
    let path = build_path(&end_entity, issuers, bundle, moment_within(facts, now))?;
    check_times(facts, now, skew)?;
    let id = check_leaf(&facts.leaf)?;
    let direct = check_signers(&path)?;
    check_root(bundle.roots_of(path.anchor()), now, skew)?;
    Ok((id, direct))
}

/// What a leaf says about itself, for a status. Verifies nothing.
pub fn inspect_leaf(leaf: &CertificateDer<'_>) -> Result<LeafFacts, Refusal> {
    let facts = certificate::read(leaf).map_err(|why| Refusal::Malformed(ChainPosition::Leaf, why))?;
    Ok(LeafFacts {
        id: leaf_id(&facts)?,
        thumbprint: Thumbprint::of(leaf),
        not_before: facts.not_before,
        not_after: facts.not_after,
    })
}

struct ChainFacts {
    leaf: Facts,
    issuers: Vec<Facts>,
}

impl ChainFacts {
    fn placed(&self) -> impl Iterator<Item = (ChainPosition, &Facts)> {
        let issuers = self.issuers.iter().map(|facts| (ChainPosition::Issuer, facts));
        std::iter::once((ChainPosition::Leaf, &self.leaf)).chain(issuers)
    }
}

fn read_chain(chain: &[CertificateDer<'_>]) -> Result<ChainFacts, Refusal> {
    let (leaf, issuers) = chain.split_first().ok_or(Refusal::NoCertificate)?;
    if chain.len() > LONGEST_CHAIN {
        return Err(Refusal::ChainTooLong(chain.len()));
    }
    let read = |place, der| certificate::read(der).map_err(|why| Refusal::Malformed(place, why));
    let issuers: Result<Vec<_>, _> = issuers.iter().map(|der| read(ChainPosition::Issuer, der)).collect();
    Ok(ChainFacts { leaf: read(ChainPosition::Leaf, leaf)?, issuers: issuers? })
}

/// The moment nearest to now at which the whole chain is valid. webpki knows no tolerance, so it is asked about this moment, and how
/// far that is from now is for [`check_times`].
fn moment_within(facts: &ChainFacts, now: Timestamp) -> Timestamp {
    let begin = facts.placed().map(|(_, facts)| facts.not_before).max().unwrap_or(now);
    let end = facts.placed().map(|(_, facts)| facts.not_after).min().unwrap_or(now);
    if begin <= end { now.clamp(begin, end) } else { now }
}

/// Key purposes are checked with the other rules of the leaf; here they would only be seen for one direction.
struct AnyPurpose;

impl ExtendedKeyUsageValidator for AnyPurpose {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}

fn build_path<'p>(
    leaf: &'p EndEntityCert<'p>,
    issuers: &'p [CertificateDer<'p>],
    bundle: &'p Bundle,
    moment: Timestamp,
) -> Result<VerifiedPath<'p>, Refusal> {
    let since_epoch = Duration::from_secs(u64::try_from(moment.as_second()).unwrap_or(0));
    let time = UnixTime::since_unix_epoch(since_epoch);
    leaf.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, bundle.anchors(), issuers, time, AnyPurpose, None, None)
        .map_err(|error| refusal_of(&error))
}

fn refusal_of(error: &webpki::Error) -> Refusal {
    use webpki::Error;
    match error {
        Error::CaUsedAsEndEntity => Refusal::CertificateAuthorityAsLeaf,
        Error::CertExpired { not_after, .. } => Refusal::Expired(ChainPosition::Issuer, timestamp(*not_after)),
        Error::CertNotValidYet { not_before, .. } => {
            Refusal::NotYetValid(ChainPosition::Issuer, timestamp(*not_before))
        }
        Error::UnknownIssuer => Refusal::UnknownIssuer,
        Error::InvalidSignatureForPublicKey => Refusal::BadSignature,
        Error::EndEntityUsedAsCa => Refusal::IssuerMayNotSign("it is no certificate authority"),
        Error::PathLenConstraintViolated => Refusal::IssuerMayNotSign("its path length is used up"),
        Error::NameConstraintViolation => Refusal::IssuerMayNotSign("its name constraints forbid it"),
        other => malformed(ChainPosition::Leaf, other),
    }
}

fn malformed(place: ChainPosition, error: &webpki::Error) -> Refusal {
    Refusal::Malformed(place, error.to_string())
}

fn timestamp(time: UnixTime) -> Timestamp {
    i64::try_from(time.as_secs()).ok().and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(Timestamp::MAX)
}

fn check_times(facts: &ChainFacts, now: Timestamp, skew: Duration) -> Result<(), Refusal> {
    facts.placed().try_for_each(|(place, facts)| check_time(place, facts, now, skew))
}

fn check_time(place: ChainPosition, facts: &Facts, now: Timestamp, skew: Duration) -> Result<(), Refusal> {
    let latest = now.checked_add(skew).unwrap_or(Timestamp::MAX);
    let earliest = now.checked_sub(skew).unwrap_or(Timestamp::MIN);
    if latest < facts.not_before {
        return Err(Refusal::NotYetValid(place, facts.not_before));
    }
    if earliest > facts.not_after {
        return Err(Refusal::Expired(place, facts.not_after));
    }
    Ok(())
}

fn check_leaf(facts: &Facts) -> Result<SpiffeId, Refusal> {
    let usage = facts.usage.ok_or(Refusal::WrongKeyUsage("it has no key usage"))?;
    if usage.certificate_sign || usage.list_sign {
        return Err(Refusal::WrongKeyUsage("it may sign certificates or revocation lists"));
    }
    if !usage.digital_signature {
        return Err(Refusal::WrongKeyUsage("it may not make digital signatures"));
    }
    if facts.purposes.is_some_and(|purposes| !purposes.server || !purposes.client) {
        return Err(Refusal::WrongKeyUsage("it is not for both serving and calling"));
    }
    leaf_id(facts)
}

fn leaf_id(facts: &Facts) -> Result<SpiffeId, Refusal> {
    let invalid = |why| Refusal::InvalidSpiffeId(ChainPosition::Leaf, why);
    match facts.uri_names.as_slice() {
        [] => Err(Refusal::NoUriName),
        [name] => {
            let id: SpiffeId = name.parse().map_err(|error| invalid(InvalidId::Text(error)))?;
            if id.path().is_empty() { Err(invalid(InvalidId::LeafWithoutPath)) } else { Ok(id) }
        }
        names => Err(Refusal::SeveralUriNames(names.len())),
    }
}

/// Checks every intermediate on the path; gives back the one that signed the leaf.
fn check_signers(path: &VerifiedPath<'_>) -> Result<Option<Facts>, Refusal> {
    let mut direct = None;
    for signer in path.intermediate_certificates() {
        let facts = certificate::read(&signer.der()).map_err(|why| Refusal::Malformed(ChainPosition::Issuer, why))?;
        check_signer(&facts)?;
        direct.get_or_insert(facts);
    }
    Ok(direct)
}

fn check_signer(facts: &Facts) -> Result<(), Refusal> {
    if !facts.usage.is_some_and(|usage| usage.certificate_sign) {
        return Err(Refusal::IssuerMayNotSign("its key usage does not say that it signs certificates"));
    }
    let invalid = |why| Refusal::InvalidSpiffeId(ChainPosition::Issuer, why);
    match facts.uri_names.as_slice() {
        [] => Ok(()),
        [name] => {
            let id: SpiffeId = name.parse().map_err(|error| invalid(InvalidId::Text(error)))?;
            if id.path().is_empty() { Ok(()) } else { Err(invalid(InvalidId::SignerWithPath)) }
        }
        _ => Err(invalid(InvalidId::SignerWithPath)),
    }
}

/// One of the roots the path may have ended at must be alive.
fn check_root<'a>(roots: impl Iterator<Item = &'a Root>, now: Timestamp, skew: Duration) -> Result<(), Refusal> {
    let mut verdict = Err(Refusal::UnknownIssuer);
    for root in roots {
        verdict = check_time(ChainPosition::Root, &root.facts, now, skew);
        if verdict.is_ok() {
            break;
        }
    }
    verdict
}

/// The leaf may claim only what its intermediate was made for: this is what keeps the namespaces below one root apart.
fn check_scope(id: &SpiffeId, signer: Option<&Facts>) -> Result<(), Refusal> {
    let facts = signer.ok_or(Refusal::IssuerMayNotSign("a root signs no leaf"))?;
    let scope =
        facts.scope.as_ref().ok_or(Refusal::IssuerMayNotSign("its subject names no operator and no cluster"))?;
    let own = SpiffeId::of_trust_domain(&scope.trust_domain()).to_string();
    if facts.uri_names != [own] {
        return Err(Refusal::IssuerMayNotSign("its SPIFFE id is not that of the namespace in its subject"));
    }
    if scope.trust_domain() != *id.trust_domain() {
        return Err(Refusal::OtherTrustDomain { claimed: id.clone(), issuer: scope.to_string() });
    }
    if scope.identity() != *id {
        return Err(Refusal::OtherWorkload { claimed: id.clone(), issuer: scope.clone() });
    }
    Ok(())
}
