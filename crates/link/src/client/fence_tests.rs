use super::*;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[derive(Default, Clone)]
struct Disk {
    epoch: Arc<AtomicU64>,
    full: Arc<AtomicBool>,
}

impl EpochMemory for Disk {
    fn load(&self, _: &str) -> io::Result<u64> {
        Ok(self.epoch.load(Ordering::Relaxed))
    }

    fn store(&self, _: &str, epoch: u64) -> io::Result<Kept> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.epoch.store(epoch, Ordering::Relaxed);
        Ok(Kept::ForGood)
    }
}

/// A volume that is full, beside a memory that lives as long as the pod.
#[derive(Default, Clone)]
struct Fallback(Arc<AtomicU64>);

impl EpochMemory for Fallback {
    fn load(&self, _: &str) -> io::Result<u64> {
        Ok(0)
    }

    fn store(&self, _: &str, _: u64) -> io::Result<Kept> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Kept::WhileThePodLives)
    }
}

fn open(disk: &Disk) -> Fence {
    Fence::open("uid".into(), Box::new(disk.clone())).expect("the memory is readable")
}

fn asked(cluster: &str, job: &str, step_version: u64, epoch: u64) -> contract::Fence {
    contract::Fence { cluster_uid: cluster.into(), orchestration_id: job.into(), step_version, epoch }
}

fn ask(fence: &Fence, cluster: &str, job: &str, step: u64, epoch: u64) -> Result<(), RefusedReason> {
    fence.admit(Some(&asked(cluster, job, step, epoch))).map_err(|refused| refused.reason())
}

fn ask_to_read(fence: &Fence, step: u64, epoch: u64) -> Result<(), RefusedReason> {
    fence.admit_reading(Some(&asked("uid", "job", step, epoch))).map_err(|refused| refused.reason())
}

#[test]
fn a_lower_epoch_is_refused_and_the_same_or_a_higher_one_obeyed() {
    let fence = open(&Disk::default());
    assert_eq!(ask(&fence, "uid", "job", 1, 5), Ok(()));
    assert_eq!(ask(&fence, "uid", "job", 2, 4), Err(RefusedReason::StaleEpoch));
    assert_eq!(ask(&fence, "uid", "job", 2, 5), Ok(()));
    assert_eq!(ask(&fence, "uid", "job", 1, 6), Ok(()), "a new leader starts from what it finds");
}

#[test]
fn a_lower_epoch_is_refused_after_a_restart_too() {
    let disk = Disk::default();
    assert_eq!(ask(&open(&disk), "uid", "job", 1, 5), Ok(()));
    assert_eq!(ask(&open(&disk), "uid", "job", 9, 4), Err(RefusedReason::StaleEpoch));
}

#[test]
fn an_epoch_seen_in_a_heartbeat_counts() {
    let fence = open(&Disk::default());
    assert_eq!(fence.observe(7), Ok(()));
    assert_eq!(ask(&fence, "uid", "job", 1, 6), Err(RefusedReason::StaleEpoch));
    assert_eq!(fence.observe(6), Err(StaleLeader { offered: 6, highest: 7 }));
}

#[test]
fn a_step_is_repeated_but_an_earlier_one_is_not() {
    let fence = open(&Disk::default());
    assert_eq!(ask(&fence, "uid", "job", 3, 1), Ok(()));
    assert_eq!(ask(&fence, "uid", "job", 3, 1), Ok(()));
    assert_eq!(ask(&fence, "uid", "job", 2, 1), Err(RefusedReason::StaleStep));
    assert_eq!(ask(&fence, "uid", "next job", 1, 1), Ok(()));
}

#[test]
fn another_clusters_command_is_refused() {
    assert_eq!(ask(&open(&Disk::default()), "other", "job", 1, 1), Err(RefusedReason::OtherCluster));
}

#[test]
fn what_cannot_be_written_down_is_not_obeyed() {
    let disk = Disk::default();
    disk.full.store(true, Ordering::Relaxed);
    let fence = open(&disk);
    assert_eq!(ask(&fence, "uid", "job", 1, 5), Err(RefusedReason::NotDurable));
    disk.full.store(false, Ordering::Relaxed);
    assert_eq!(ask(&fence, "uid", "job", 1, 5), Ok(()));
    assert_eq!(disk.epoch.load(Ordering::Relaxed), 5);
}

#[test]
fn what_only_reads_is_obeyed_while_nothing_can_be_written_down_but_not_for_a_stale_leader() {
    let disk = Disk::default();
    disk.full.store(true, Ordering::Relaxed);
    let fence = open(&disk);
    assert_eq!(ask_to_read(&fence, 2, 5), Ok(()));
    assert_eq!(ask_to_read(&fence, 2, 4), Err(RefusedReason::StaleEpoch));
    assert_eq!(ask_to_read(&fence, 1, 5), Err(RefusedReason::StaleStep));
    assert_eq!(ask(&fence, "uid", "job", 2, 4), Err(RefusedReason::StaleEpoch));
    assert_eq!(ask(&fence, "uid", "job", 2, 5), Err(RefusedReason::NotDurable));
}

#[test]
fn what_is_kept_only_while_the_pod_lives_is_obeyed_and_stored_again() {
    let memory = Fallback::default();
    let fence = Fence::open("uid".into(), Box::new(memory.clone())).unwrap();
    assert_eq!([ask(&fence, "uid", "job", 1, 5), ask(&fence, "uid", "job", 1, 5)], [Ok(()); 2]);
    assert_eq!(memory.0.load(Ordering::Relaxed), 2);
    assert_eq!(ask(&fence, "uid", "job", 1, 4), Err(RefusedReason::StaleEpoch));
}

#[test]
fn a_command_without_a_fence_is_refused() {
    let refused = open(&Disk::default()).admit(None).map_err(|refused| refused.reason());
    assert_eq!(refused, Err(RefusedReason::Invalid));
}

#[test]
fn a_new_leader_known_from_a_heartbeat_may_repeat_an_earlier_step() {
    let fence = open(&Disk::default());
    assert_eq!(ask(&fence, "uid", "job", 2, 5), Ok(()));
    assert_eq!(fence.observe(6), Ok(()));
    assert_eq!(ask(&fence, "uid", "job", 1, 6), Ok(()), "its predecessor had not written the second step down");
    assert_eq!(ask(&fence, "uid", "job", 2, 5), Err(RefusedReason::StaleEpoch));
}
