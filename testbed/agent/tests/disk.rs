//! The disk verbs on real loop devices. Needs root; without it every test says so and passes.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;
use testbed_agent::storage::disk::{Disk, DiskError, free_bytes};

const MEBIBYTE: u64 = 1 << 20;
const SMALL: u64 = 300 * MEBIBYTE;

/// A folder for disks; whatever a failed test left mounted goes with it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn disk(&self) -> Disk {
        Disk::new(self.0.path(), "pvc-test")
    }

    fn image(&self) -> std::path::PathBuf {
        self.0.path().join("pvc-test.img")
    }

    fn loop_devices(&self) -> String {
        let output = Command::new("losetup").args(["-n", "-O", "NAME", "-j"]).arg(self.image()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mount_point = self.0.path().join("pvc-test");
        let _ = Command::new("umount").arg(mount_point).stderr(std::process::Stdio::null()).status();
    }
}

/// Nothing, after saying why, when the test cannot run here.
fn folder(test: &str) -> Option<Folder> {
    if !geteuid().is_root() {
        eprintln!("skipped {test}: mounting disks needs root");
        return None;
    }
    tempfile::tempdir().ok().map(Folder)
}

/// Writes until the disk is full; the number of whole MiB that fitted, and why it ended.
fn fill(path: &Path) -> (u64, std::io::Error) {
    let block = vec![7_u8; 1 << 20];
    let written = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let mut file = match written {
        Ok(file) => file,
        Err(error) => return (0, error),
    };
    let mut count = 0;
    loop {
        if let Err(error) = file.write_all(&block).and_then(|()| file.sync_data()) {
            return (count, error);
        }
        count += 1;
    }
}

#[tokio::test]
async fn a_disk_has_its_real_size_grows_in_use_and_leaves_nothing_behind() {
    let Some(folder) = folder("a_disk_has_its_real_size_grows_in_use_and_leaves_nothing_behind") else { return };
    let disk = folder.disk();
    disk.create(SMALL).await.unwrap();
    assert!(disk.is_mounted().unwrap());
    std::fs::write(disk.path().join("kept"), "precious").unwrap();

    let filler = disk.path().join("filler");
    let (first, error) = fill(&filler);
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!((150..300).contains(&first), "{first} MiB fitted into 300 MiB");

    disk.grow(SMALL + 200 * MEBIBYTE).await.unwrap();
    let (more, error) = fill(&filler);
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!((150..=200).contains(&more), "{more} MiB more fitted after growing by 200 MiB");
    assert_eq!(std::fs::read_to_string(disk.path().join("kept")).unwrap(), "precious");

    disk.destroy().await.unwrap();
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 0, "no image and no mount point are left");
    assert_eq!(folder.loop_devices(), "");
    disk.destroy().await.unwrap();
}

#[tokio::test]
async fn creating_again_and_remounting_keep_the_data() {
    let Some(folder) = folder("creating_again_and_remounting_keep_the_data") else { return };
    let disk = folder.disk();
    disk.create(SMALL).await.unwrap();
    std::fs::write(disk.path().join("kept"), "precious").unwrap();
    disk.create(SMALL).await.unwrap();
    disk.unmount().await.unwrap();
    assert!(!disk.is_mounted().unwrap());
    assert_eq!(folder.loop_devices(), "", "the loop device goes with the mount");
    disk.mount().await.unwrap();
    assert_eq!(std::fs::read_to_string(disk.path().join("kept")).unwrap(), "precious");
}

#[tokio::test]
async fn a_format_that_was_cut_short_is_started_over() {
    let Some(folder) = folder("a_format_that_was_cut_short_is_started_over") else { return };
    std::fs::write(folder.0.path().join("pvc-test.img.new"), "half a file system").unwrap();
    folder.disk().create(SMALL).await.unwrap();
    assert!(folder.disk().is_mounted().unwrap());
    assert_eq!(folder.disk().size().await.unwrap(), Some(SMALL));
}

#[tokio::test]
async fn a_growth_that_was_cut_short_is_finished() {
    let Some(folder) = folder("a_growth_that_was_cut_short_is_finished") else { return };
    let disk = folder.disk();
    disk.create(SMALL).await.unwrap();
    // The image is already longer, but neither the device nor the file system knows.
    let file = std::fs::OpenOptions::new().write(true).open(folder.image()).unwrap();
    file.set_len(2 * SMALL).unwrap();
    let before = free_bytes(disk.path()).unwrap();
    disk.grow(2 * SMALL).await.unwrap();
    let after = free_bytes(disk.path()).unwrap();
    assert!(after - before > 250 * MEBIBYTE, "free space went from {before} to {after}");
}

#[tokio::test]
async fn a_lost_image_is_reported_and_not_replaced_by_an_empty_one() {
    let Some(folder) = folder("a_lost_image_is_reported_and_not_replaced_by_an_empty_one") else { return };
    let disk = folder.disk();
    disk.create(SMALL).await.unwrap();
    disk.unmount().await.unwrap();
    std::fs::remove_file(folder.image()).unwrap();
    assert!(matches!(disk.mount().await, Err(DiskError::ImageLost(_))));
    assert!(matches!(disk.grow(2 * SMALL).await, Err(DiskError::ImageLost(_))));
    assert!(!folder.image().exists());
}
