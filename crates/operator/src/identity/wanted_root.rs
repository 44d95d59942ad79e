//! The root in the Secret that the ValkeyCA names: whose it is, and whether it can be used. Pure but for the trial signature.

use super::INTERMEDIATE_VALIDITY;
use super::in_force::Root;
use super::secrets::SecretSeen;
use api::certificates::names;
use api::names::certificate_file::{CHAIN, KEY};
use certificates::{Found, Source, Wanted};
use jiff::Timestamp;
use pki::{Authority, SystemRandomness, Thumbprint, own_authority};
use std::time::Duration;

/// What a root of the user's must still last. An intermediate that does not fit below it is made shorter.
const NEEDED: Duration = Duration::from_secs(INTERMEDIATE_VALIDITY.as_secs() / 12);

/// What is wanted, with its key if it can be used; and whether it is ours and its Secret lacks the note of that.
pub fn judge(
    name: &str,
    seen: Result<Option<SecretSeen>, String>,
    signing: Option<&Root>,
    now: Timestamp,
) -> (Wanted, Option<Root>, bool) {
    let nothing = |source, root| (Wanted { source, root }, None, false);
    let seen = match seen {
        Err(why) => return nothing(Source::Operator, Found::Unreadable(why)),
        Ok(None) => return nothing(Source::Operator, Found::Absent),
        Ok(Some(seen)) => seen,
    };
    let source = source(name, &seen, signing, now);
    match usable(&seen, source, signing, now) {
        Err(why) => nothing(source, Found::Spoilt(why)),
        Ok(authority) => {
            let issued_at = seen.moment(names::ISSUED_AT).unwrap_or_else(|| authority.not_before());
            let root = Root { authority, issued_at, source, came_from: name.to_owned() };
            let unnoted = source == Source::Operator && seen.noted_thumbprint().is_none();
            (Wanted { source, root: Found::Whole(root.stored()) }, Some(root), unnoted)
        }
    }
}

/// Labels and notes stay on a Secret when somebody replaces what is in it, so the note must fit the certificate.
fn source(name: &str, seen: &SecretSeen, signing: Option<&Root>, now: Timestamp) -> Source {
    if !seen.ours {
        return Source::Own;
    }
    let Some(found) = Thumbprint::of_pem(seen.contents.get(CHAIN)) else { return maker_before(name, signing) };
    let in_force = signing.filter(|root| root.authority.thumbprint() == found);
    match (seen.noted_thumbprint(), in_force) {
        (Some(noted), _) if noted == found => Source::Operator,
        (Some(_), _) => Source::Own,
        // Written before the thumbprint was noted.
        (None, Some(root)) => root.source,
        (None, None) if tested(seen, now).is_ok() => Source::Operator,
        (None, None) => Source::Own,
    }
}

/// What is no certificate at all is nobody's root: whose the one before it was decides.
fn maker_before(name: &str, signing: Option<&Root>) -> Source {
    signing.filter(|root| root.came_from == name).map_or(Source::Operator, |root| root.source)
}

/// Somebody's own root is put to every test, unless it is the one in force already: then its end is all there is to tell.
fn usable(seen: &SecretSeen, source: Source, signing: Option<&Root>, now: Timestamp) -> Result<Authority, String> {
    let plain = Authority::from_pem(seen.contents.get(CHAIN), seen.contents.get(KEY));
    let in_force =
        |authority: &Authority| signing.is_some_and(|root| root.authority.thumbprint() == authority.thumbprint());
    match (source, plain) {
        (Source::Operator, Ok(authority)) if authority.scope().is_none() => Ok(authority),
        (Source::Operator, Ok(_)) => Err("it is no root".to_owned()),
        (Source::Operator, Err(error)) => Err(error.to_string()),
        (Source::Own, Ok(authority)) if in_force(&authority) => Ok(authority),
        (Source::Own, _) => tested(seen, now),
    }
}

fn tested(seen: &SecretSeen, now: Timestamp) -> Result<Authority, String> {
    own_authority(seen.contents.map(), NEEDED, now, &SystemRandomness)
        .map_err(|objections| objections.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
#[path = "wanted_root_tests.rs"]
mod tests;
