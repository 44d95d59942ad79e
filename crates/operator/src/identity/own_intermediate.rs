//! The operator's own intermediate, below which every replica makes its leaf. It changes to a new root only when the sidecars trust that.

use super::root_reading::RootReading;
use super::{Error, Identities, OWN_VALIDITY, RENEW_BEFORE};
use certificates::{Found, Why, intermediate_step};
use jiff::Timestamp;
use pki::Party;

impl Identities {
    pub(super) async fn ensure_own_intermediate(
        &self,
        reading: &RootReading,
        parties: &[Party],
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(root) = &reading.signing else { return Ok(()) };
        let signing = root.authority.thumbprint();
        let why = intermediate_step(&reading.own, &signing, Some(RENEW_BEFORE), OWN_VALIDITY, now);
        let trusts = |party: &Party| party.trusts.as_ref().is_some_and(|roots| roots.contains(&signing));
        let Some(why) = why.filter(|why| *why != Why::NewAuthority || parties.iter().all(trusts)) else {
            return Ok(());
        };
        if let Found::Unreadable(detail) = &reading.own {
            return Err(Error::Read { what: "the operator's intermediate".to_owned(), detail: detail.clone() });
        }
        tracing::info!(%why, "making the operator's intermediate");
        self.issue_own_intermediate(&root.authority, &reading.trusted, now).await
    }
}
