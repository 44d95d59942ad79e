//! One volume's disk: an image file with XFS, mounted through a loop device. IO, and every verb may be repeated
//! after being cut short at any point. Called by `provision`, `growth` and `reclaim`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statvfs, statx};
use thiserror::Error;
use tokio::fs;

use crate::command::{CommandError, run};

#[derive(Debug, Error)]
pub enum DiskError {
    #[error("cannot {action} {path}")]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Tool(#[from] CommandError),
    #[error("the image {0} is gone, and with it the volume's data; delete the claim and its volume")]
    ImageLost(PathBuf),
    #[error("no loop device is attached to {0}, although it should be mounted")]
    Detached(PathBuf),
}

/// Where a volume's disk is. Having this says nothing about whether the disk exists.
#[derive(Clone, Debug)]
pub struct Disk {
    image: PathBuf,
    mount_point: PathBuf,
}

impl Disk {
    pub fn new(volumes_dir: &Path, volume: &str) -> Self {
        Self { image: volumes_dir.join(format!("{volume}.img")), mount_point: volumes_dir.join(volume) }
    }

    /// The directory that pods get.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// The size of the image; nothing while there is none.
    pub async fn size(&self) -> Result<Option<u64>, DiskError> {
        match fs::metadata(&self.image).await {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.file_error("read", source)),
        }
    }

    /// Makes and mounts the disk; an image that is there already is kept as it is.
    pub async fn create(&self, bytes: u64) -> Result<(), DiskError> {
        if self.size().await?.is_none() {
            self.format(bytes).await?;
        }
        self.mount().await
    }

    /// Under another name until it is complete, so that an image which exists is one that can be mounted.
    async fn format(&self, bytes: u64) -> Result<(), DiskError> {
        let unfinished = self.image.with_extension("img.new");
        // A new file, not the old one emptied: the mkfs of an agent that was killed may still be writing to that.
        gone(fs::remove_file(&unfinished).await).map_err(|error| self.file_error("remove", error))?;
        let file = fs::File::create(&unfinished).await.map_err(|error| self.file_error("create", error))?;
        file.set_len(bytes).await.map_err(|error| self.file_error("size", error))?;
        // `-K`: a sparse file has no blocks to discard.
        run("mkfs.xfs", &["-q", "-f", "-K", &text(&unfinished)]).await?;
        fs::rename(&unfinished, &self.image).await.map_err(|error| self.file_error("name", error))
    }

    /// Mounts the disk unless it is mounted. A lost image is never replaced by an empty one.
    pub async fn mount(&self) -> Result<(), DiskError> {
        if self.size().await?.is_none() {
            return Err(DiskError::ImageLost(self.image.clone()));
        }
        fs::create_dir_all(&self.mount_point)
            .await
            .map_err(|error| self.file_error("make the mount point of", error))?;
        if self.is_mounted()? {
            return Ok(());
        }
        // `loop` frees the device with the last unmount; `discard` gives the space of deleted files back to the host.
        let options = ["-t", "xfs", "-o", "loop,discard", &text(&self.image), &text(&self.mount_point)];
        run("mount", &options).await?;
        Ok(())
    }

    pub fn is_mounted(&self) -> Result<bool, DiskError> {
        match statx(CWD, &self.mount_point, AtFlags::empty(), StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(self.file_error("look at the mount point of", error.into())),
        }
    }

    /// Grows image, device and file system while in use. Never shrinks. All three steps always run: an earlier
    /// attempt may have ended between any two of them.
    pub async fn grow(&self, bytes: u64) -> Result<(), DiskError> {
        self.mount().await?;
        if self.size().await?.is_some_and(|size| size < bytes) {
            let file = fs::OpenOptions::new().write(true).open(&self.image).await;
            let file = file.map_err(|error| self.file_error("open", error))?;
            file.set_len(bytes).await.map_err(|error| self.file_error("extend", error))?;
        }
        run("losetup", &["-c", &self.device().await?]).await?;
        run("xfs_growfs", &[&text(&self.mount_point)]).await?;
        Ok(())
    }

    async fn device(&self) -> Result<String, DiskError> {
        let devices = run("losetup", &["-n", "-O", "NAME", "-j", &text(&self.image)]).await?;
        let device = devices.lines().next().map(|line| line.trim().to_owned());
        device.ok_or_else(|| DiskError::Detached(self.image.clone()))
    }

    /// Leaves the image. A mount that is busy is an error, to be tried again.
    pub async fn unmount(&self) -> Result<(), DiskError> {
        while self.is_mounted()? {
            run("umount", &[&text(&self.mount_point)]).await?;
        }
        gone(fs::remove_dir(&self.mount_point).await)
            .map_err(|error| self.file_error("remove the mount point of", error))
    }

    pub async fn destroy(&self) -> Result<(), DiskError> {
        self.unmount().await?;
        for file in [&self.image, &self.image.with_extension("img.new")] {
            gone(fs::remove_file(file).await).map_err(|error| self.file_error("remove", error))?;
        }
        Ok(())
    }

    fn file_error(&self, action: &'static str, source: std::io::Error) -> DiskError {
        DiskError::File { action, path: self.image.clone(), source }
    }
}

/// Bytes that the file system below `directory` still has.
pub fn free_bytes(directory: &Path) -> Result<u64, DiskError> {
    let found = statvfs(directory);
    let found = found.map_err(|error| DiskError::File {
        action: "measure",
        path: directory.to_path_buf(),
        source: error.into(),
    })?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn gone(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
