//! Makes a bound volume larger while it is in use. IO; called by `provision` for claims that ask for more.
//!
//! Nobody else expands these volumes. The expand controller of kube-controller-manager has no plugin for `local`
//! and says it waits for an external controller, which is us. The kubelet has one, but for a directory it does
//! nothing and at once declares the claim as large as the volume object says. Therefore the disk grows first, the
//! PersistentVolume says so next, and the claim's status comes last, whoever of us two writes it: no status is
//! ever ahead of the disk.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::claim::{Refusal, check_space};
use super::disk::{Disk, free_bytes};
use super::provision::{Context, ProvisionError};
use super::size;
use super::volume::belongs_to;

/// What came of a request to grow.
pub enum Growth {
    Done(u64),
    Refused(Refusal),
    /// The volume is not (or no longer) the claim's.
    NotTheirs,
}

pub async fn grow(
    context: &Context,
    claim: &PersistentVolumeClaim,
    volume_name: &str,
    requested: u64,
) -> Result<Growth, ProvisionError> {
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let volume = volumes.get(volume_name).await.map_err(ProvisionError::api("read the volume"))?;
    if !belongs_to(&volume, claim) {
        return Ok(Growth::NotTheirs);
    }
    let disk = Disk::new(&context.config.volumes_dir, volume_name);
    let Some(bytes) = size::disk_size(requested) else {
        return Ok(Growth::Refused(Refusal::Size(requested.to_string())));
    };
    let additional = bytes.saturating_sub(disk.size().await?.unwrap_or(0));
    if let Err(refusal) = check_space(additional, free_bytes(&context.config.volumes_dir)?) {
        return Ok(Growth::Refused(refusal));
    }
    disk.grow(bytes).await?;
    say_size(&volumes, &volume, bytes).await?;
    confirm(context, claim, bytes).await?;
    Ok(Growth::Done(bytes))
}

async fn say_size(
    volumes: &Api<PersistentVolume>,
    volume: &PersistentVolume,
    bytes: u64,
) -> Result<(), ProvisionError> {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    if capacity.and_then(size::bytes).is_some_and(|capacity| capacity >= bytes) {
        return Ok(());
    }
    let patch = json!({"spec": {"capacity": {"storage": size::quantity(bytes)}}});
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let written = volumes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    written.map(drop).map_err(ProvisionError::api("write the volume's new capacity"))
}

async fn confirm(context: &Context, claim: &PersistentVolumeClaim, bytes: u64) -> Result<(), ProvisionError> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), namespace);
    let patch = json!({
        "metadata": {"uid": claim.metadata.uid},
        "status": {"capacity": {"storage": size::quantity(bytes)}},
    });
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let written = claims.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    written.map(drop).map_err(ProvisionError::api("write the claim's new capacity"))
}
