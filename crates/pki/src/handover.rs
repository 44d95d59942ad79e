//! From an old authority to a new one without a moment in which two parties do not believe each other. Pure and level-triggered: the
//! next step follows from who trusts and who presents what, so it is the same after any crash.

use crate::thumbprint::Thumbprint;
use std::collections::BTreeSet;

/// One who verifies and is verified: an operator replica or a sidecar. `None` is what could not be learnt, and counts as not switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    pub name: String,
    /// The roots it believes.
    pub trusts: Option<BTreeSet<Thumbprint>>,
    /// The authority below which its current leaf is.
    pub presents: Option<Thumbprint>,
}

/// A change of authority under way, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    pub old: Thumbprint,
    pub new: Thumbprint,
    /// The roots in the published trust bundle.
    pub published: BTreeSet<Thumbprint>,
    /// The authority that signs now.
    pub signing: Thumbprint,
    /// The old authority has expired: nobody believes it any more, so nothing is gained by waiting for it.
    pub old_expired: bool,
    pub parties: Vec<Party>,
}

/// What to do next. The waiting ones name whom they wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put the new root beside the old one into the trust bundle.
    Publish,
    /// These do not believe the new root yet.
    AwaitTrust(Vec<String>),
    /// Sign with the new authority from now on.
    SignWithNew,
    /// These still present a leaf below the old authority.
    AwaitUse(Vec<String>),
    /// Take the old root out of the trust bundle, and destroy its key.
    RetireOld,
    Done,
}

impl Handover {
    /// For a change of root: everybody must believe the new one before anybody presents it.
    pub fn next_for_root(&self) -> Step {
        if !self.published.contains(&self.new) {
            return Step::Publish;
        }
        let distrustful =
            self.names_where(|party| !party.trusts.as_ref().is_some_and(|roots| roots.contains(&self.new)));
        if self.signing != self.new && !distrustful.is_empty() && !self.old_expired {
            return Step::AwaitTrust(distrustful);
        }
        match self.next_for_intermediate() {
            Step::RetireOld if !self.published.contains(&self.old) => Step::Done,
            step => step,
        }
    }

    /// For a change of intermediate below one root: it travels in the chain, so nobody needs to learn of it first.
    /// Ends with [`Step::RetireOld`], which the caller knows to be done when it has no old intermediate left.
    pub fn next_for_intermediate(&self) -> Step {
        if self.signing != self.new {
            return Step::SignWithNew;
        }
        let behind = self.names_where(|party| party.presents.as_ref() != Some(&self.new));
        if !behind.is_empty() && !self.old_expired {
            return Step::AwaitUse(behind);
        }
        Step::RetireOld
    }

    fn names_where(&self, applies: impl Fn(&Party) -> bool) -> Vec<String> {
        self.parties.iter().filter(|party| applies(party)).map(|party| party.name.clone()).collect()
    }
}
