//! The controller of PersistentVolumes: keeps the disks of living ones mounted, also after the whole testbed was
//! started again, and disposes of those that are no longer wanted. IO; started by `main`.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::disk::Disk;
use super::provision::{Context, ProvisionError, chain};
use super::volume::{self, Care};
use crate::watching::LocalBackoff;

/// Runs until dropped.
pub async fn run(context: Arc<Context>) {
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    Controller::new(volumes, watcher::Config::default())
        .trigger_backoff(LocalBackoff::default())
        .run(reconcile, |_, error, _| Action::requeue(error.retry_after()), context)
        .for_each(|result| {
            let _ = result.inspect_err(|error| tracing::warn!("volumes: {}", chain(error)));
            std::future::ready(())
        })
        .await;
}

async fn reconcile(volume: Arc<PersistentVolume>, context: Arc<Context>) -> Result<Action, ProvisionError> {
    let disk = Disk::new(&context.config.volumes_dir, &volume.name_any());
    match volume::care(&volume) {
        Care::NotOurs => {}
        Care::KeepMounted => keep_mounted(&context, &volume, &disk).await?,
        Care::Release => release(&context, &volume).await?,
        Care::Dispose { destroy } => dispose(&context, &volume, &disk, destroy).await?,
    }
    Ok(Action::await_change())
}

async fn keep_mounted(context: &Context, volume: &PersistentVolume, disk: &Disk) -> Result<(), ProvisionError> {
    let mounted = disk.mount().await;
    if let Err(error) = &mounted {
        let reference = volume.object_ref(&());
        context.report.failure(&reference, "VolumeUnavailable", chain(error)).await;
    }
    Ok(mounted?)
}

async fn release(context: &Context, volume: &PersistentVolume) -> Result<(), ProvisionError> {
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    // Exactly the object that was seen released: its policy may have become Retain a moment ago.
    let seen = Preconditions { uid: volume.uid(), resource_version: volume.resource_version() };
    let deleted = volumes.delete(&volume.name_any(), &DeleteParams::default().preconditions(seen)).await;
    match deleted {
        // Gone already, or changed since: then the change brings us back here.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop).map_err(ProvisionError::api("delete the released volume")),
    }
}

async fn dispose(
    context: &Context,
    volume: &PersistentVolume,
    disk: &Disk,
    destroy: bool,
) -> Result<(), ProvisionError> {
    if destroy {
        disk.destroy().await?;
    } else {
        disk.unmount().await?;
    }
    tracing::info!(volume = volume.name_any(), destroyed = destroy, "disk disposed of");
    let_go(context, volume).await
}

async fn let_go(context: &Context, volume: &PersistentVolume) -> Result<(), ProvisionError> {
    let others: Vec<&String> = volume.finalizers().iter().filter(|name| *name != volume::FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": others, "resourceVersion": volume.resource_version()}});
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let patched = volumes.patch(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    match patched {
        // Gone already, or changed since: then the change brings us back here.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop).map_err(ProvisionError::api("remove the volume's finalizer")),
    }
}
