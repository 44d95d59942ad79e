//! Whom to obey: commands for this cluster, from a leader no older than any seen, at a step no older than any obeyed.
//! Pure but for the memory, which the sidecar keeps on its volume.

use crate::contract::{self, Refused, RefusedReason};
use parking_lot::Mutex;
use std::io;

/// Where the highest epoch survives a restart of the sidecar.
pub trait EpochMemory: Send + Sync + 'static {
    fn load(&self, cluster_uid: &str) -> io::Result<u64>;
    fn store(&self, cluster_uid: &str, epoch: u64) -> io::Result<Kept>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    ForGood,
    /// It outlives a restart of the sidecar, which may be quicker than a replaced leader learns of it; a new pod takes longer
    /// than that. It is stored again until it is kept for good.
    WhileThePodLives,
}

struct Nowhere;

impl EpochMemory for Nowhere {
    fn load(&self, _: &str) -> io::Result<u64> {
        Ok(0)
    }

    fn store(&self, _: &str, _: u64) -> io::Result<Kept> {
        Ok(Kept::ForGood)
    }
}

#[derive(Default)]
struct Seen {
    epoch: u64,
    written: u64,
    orchestration: String,
    step: u64,
}

impl Seen {
    fn take(&mut self, fence: &contract::Fence) {
        self.orchestration.clone_from(&fence.orchestration_id);
        self.step = fence.step_version;
    }
}

pub struct Fence {
    cluster_uid: String,
    memory: Box<dyn EpochMemory>,
    seen: Mutex<Seen>,
}

/// The operator that replied has been replaced by another.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operator's epoch {offered} is lower than {highest}, which was seen before: it leads no more")]
pub struct StaleLeader {
    pub offered: u64,
    pub highest: u64,
}

impl Fence {
    pub fn open(cluster_uid: String, memory: Box<dyn EpochMemory>) -> io::Result<Self> {
        let epoch = memory.load(&cluster_uid)?;
        let seen = Mutex::new(Seen { epoch, written: epoch, ..Seen::default() });
        Ok(Self { cluster_uid, memory, seen })
    }

    /// One that outlives no restart, having seen this epoch: for benches and tests, whose sidecars have no volume.
    pub fn unwritten(cluster_uid: String, epoch: u64) -> Self {
        let seen = Mutex::new(Seen { epoch, written: epoch, ..Seen::default() });
        Self { cluster_uid, memory: Box::new(Nowhere), seen }
    }

    pub fn highest(&self) -> u64 {
        self.seen.lock().epoch
    }

    /// An epoch in a reply.
    pub fn observe(&self, epoch: u64) -> Result<(), StaleLeader> {
        let mut seen = self.seen.lock();
        if epoch < seen.epoch {
            return Err(StaleLeader { offered: epoch, highest: seen.epoch });
        }
        if epoch > seen.epoch {
            // Its predecessor may have ended before it wrote down how far it had come: a new leader counts steps from what it read.
            (seen.orchestration, seen.step) = (String::new(), 0);
        }
        seen.epoch = epoch;
        // Before a command is obeyed it is written for certain.
        let _ = self.write(&mut seen);
        Ok(())
    }

    /// Whether a command may be obeyed.
    pub fn admit(&self, fence: Option<&contract::Fence>) -> Result<(), Refused> {
        let mut seen = self.seen.lock();
        let before = seen.epoch;
        let fence = self.check(&mut seen, fence)?;
        self.write(&mut seen).map_err(|error| Refused {
            reason: RefusedReason::NotDurable.into(),
            detail: format!("could not write the epoch: {error}"),
            highest_epoch: before,
        })?;
        seen.take(fence);
        Ok(())
    }

    /// The same for one that changes nothing: forgetting whose it was does no harm, so it does not wait for the memory.
    pub fn admit_reading(&self, fence: Option<&contract::Fence>) -> Result<(), Refused> {
        let mut seen = self.seen.lock();
        let fence = self.check(&mut seen, fence)?;
        seen.take(fence);
        Ok(())
    }

    fn check<'a>(&self, seen: &mut Seen, fence: Option<&'a contract::Fence>) -> Result<&'a contract::Fence, Refused> {
        let refuse = |reason: RefusedReason, detail: String, highest: u64| {
            Err(Refused { reason: reason.into(), detail, highest_epoch: highest })
        };
        let highest = seen.epoch;
        let Some(fence) = fence else {
            return refuse(RefusedReason::Invalid, "fence is missing".into(), highest);
        };
        if fence.cluster_uid != self.cluster_uid {
            let detail = format!("this node belongs to cluster {}, not {}", self.cluster_uid, fence.cluster_uid);
            return refuse(RefusedReason::OtherCluster, detail, highest);
        }
        if fence.epoch < highest {
            let detail = StaleLeader { offered: fence.epoch, highest }.to_string();
            return refuse(RefusedReason::StaleEpoch, detail, highest);
        }
        if fence.epoch == highest && fence.orchestration_id == seen.orchestration && fence.step_version < seen.step {
            let detail = format!("step {} came after step {}", fence.step_version, seen.step);
            return refuse(RefusedReason::StaleStep, detail, highest);
        }
        seen.epoch = fence.epoch;
        Ok(fence)
    }

    fn write(&self, seen: &mut Seen) -> io::Result<()> {
        if seen.written < seen.epoch && self.memory.store(&self.cluster_uid, seen.epoch)? == Kept::ForGood {
            seen.written = seen.epoch;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "fence_tests.rs"]
mod tests;
