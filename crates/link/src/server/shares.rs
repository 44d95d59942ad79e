//! What each cluster and each pod has open, so that none takes the share of others. No IO.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Connection,
    /// A connection whose pod is not proven yet.
    Unproven,
    Stream,
    /// A call that is read and answered; not one that is held.
    Call,
}

/// A cluster by the SPIFFE id of its certificate, also together with an address; a pod by its UID.
pub type Holder = Arc<str>;

#[derive(Default)]
pub struct Shares {
    taken: Mutex<HashMap<(Holder, Kind), usize>>,
}

impl Shares {
    /// One more for this holder, until the place is dropped; None when that is more than `most`.
    pub fn take(self: &Arc<Self>, holder: &Holder, kind: Kind, most: usize) -> Option<Place> {
        let mut taken = self.taken.lock();
        let key = (holder.clone(), kind);
        let count = taken.get(&key).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        taken.insert(key.clone(), count + 1);
        Some(Place { shares: self.clone(), key })
    }
}

pub struct Place {
    shares: Arc<Shares>,
    key: (Holder, Kind),
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_has_its_own_share_of_each_kind_and_nothing_is_remembered_when_all_is_given_back() {
        let shares = Arc::new(Shares::default());
        let (one, other): (Holder, Holder) = ("one".into(), "other".into());
        let held: Vec<_> = (0..2).map_while(|_| shares.take(&one, Kind::Call, 2)).collect();
        assert_eq!(held.len(), 2);
        assert!(shares.take(&one, Kind::Call, 2).is_none());
        assert!(shares.take(&one, Kind::Stream, 2).is_some() && shares.take(&other, Kind::Call, 2).is_some());
        drop(held);
        assert!(shares.take(&one, Kind::Call, 2).is_some());
        assert!(shares.taken.lock().is_empty());
    }
}
