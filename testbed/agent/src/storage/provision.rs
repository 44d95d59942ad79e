//! The controller of PersistentVolumeClaims: makes volumes and lets them grow. IO; started by `main`.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PostParams;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use thiserror::Error;

use super::claim::{self, Need, Order, Refusal};
use super::disk::{Disk, DiskError, free_bytes};
use super::growth::{Growth, grow};
use super::report::Report;
use super::{PROVISIONER, size, volume};
use crate::config::Config;
use crate::watching::LocalBackoff;

const FAILED: &str = "ProvisioningFailed";
/// Formatting is quick, but a StatefulSet of thirty should not start thirty mkfs at once on two cores.
const CONCURRENT: u16 = 4;
/// For what may pass by itself, such as a full host disk.
const LATER: Duration = Duration::from_secs(30);

/// What both storage controllers work with.
pub struct Context {
    pub client: Client,
    pub config: Config,
    pub report: Report,
}

#[derive(Debug, Error)]
pub enum ProvisionError {
    #[error("cannot {action}")]
    Api { action: &'static str, source: Box<kube::Error> },
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("cannot build the volume object")]
    Build(#[from] serde_json::Error),
    #[error("volume {0} already exists and belongs to another claim; delete it")]
    Taken(String),
}

impl ProvisionError {
    pub fn api(action: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { action, source: Box::new(source) }
    }

    /// The API server answers again soon; a broken disk or tool does not mend itself so quickly.
    pub fn retry_after(&self) -> Duration {
        if matches!(self, Self::Api { .. }) { Duration::from_secs(1) } else { Duration::from_secs(10) }
    }
}

/// Runs until dropped.
pub async fn run(context: Arc<Context>) {
    let claims: Api<PersistentVolumeClaim> = Api::all(context.client.clone());
    Controller::new(claims, watcher::Config::default())
        .with_config(controller::Config::default().concurrency(CONCURRENT))
        .trigger_backoff(LocalBackoff::default())
        .run(reconcile, |_, error, _| Action::requeue(error.retry_after()), context)
        .for_each(|result| {
            let _ = result.inspect_err(|error| tracing::warn!("claims: {}", chain(error)));
            std::future::ready(())
        })
        .await;
}

/// An error with all its causes in one line; many libraries repeat the cause in their own words already.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    causes.fold(error.to_string(), |line, cause| if line.contains(&cause) { line } else { format!("{line}: {cause}") })
}

async fn reconcile(claim: Arc<PersistentVolumeClaim>, context: Arc<Context>) -> Result<Action, ProvisionError> {
    match claim::need(&claim) {
        Need::Nothing => Ok(Action::await_change()),
        Need::Volume => provision(&context, &claim).await,
        Need::Growth { volume, bytes } => enlarge(&context, &claim, &volume, bytes).await,
    }
}

async fn provision(context: &Context, claim: &PersistentVolumeClaim) -> Result<Action, ProvisionError> {
    let Some(class) = class_of(context, claim).await? else {
        return Ok(Action::await_change());
    };
    let order = match placed(context, claim, &class) {
        Ok(None) => return Ok(Action::await_change()),
        Ok(Some(order)) => order,
        Err(Unserved::Refused(refusal)) => return Ok(refuse(context, claim, FAILED, &refusal).await),
        Err(Unserved::Failed(error)) => return Err(error.into()),
    };
    let made = make(context, claim, &class, &order).await;
    let reference = claim.object_ref(&());
    match &made {
        Ok(()) => context.report.success(&reference, "ProvisioningSucceeded", done(&order)).await,
        Err(error) => context.report.failure(&reference, FAILED, format!("{}; trying again", chain(error))).await,
    }
    made.map(|()| Action::await_change())
}

fn done(order: &Order) -> String {
    format!("made volume {} of {} on {}", order.volume, size::readable(order.bytes), order.node)
}

/// A class that has gone, or was taken over by another provisioner, is none of our business.
async fn class_of(context: &Context, claim: &PersistentVolumeClaim) -> Result<Option<StorageClass>, ProvisionError> {
    let Some(name) = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) else {
        return Ok(None);
    };
    let classes: Api<StorageClass> = Api::all(context.client.clone());
    let class = classes.get_opt(name).await.map_err(ProvisionError::api("read the claim's class"))?;
    Ok(class.filter(|class| class.provisioner == PROVISIONER))
}

enum Unserved {
    Refused(Refusal),
    Failed(DiskError),
}

/// The order, if the host has room for it.
fn placed(context: &Context, claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<Option<Order>, Unserved> {
    let order = claim::order(claim, class, &context.config.nodes).map_err(Unserved::Refused)?;
    if let Some(order) = &order {
        let free = free_bytes(&context.config.volumes_dir).map_err(Unserved::Failed)?;
        claim::check_space(order.bytes, free).map_err(Unserved::Refused)?;
    }
    Ok(order)
}

async fn refuse(context: &Context, claim: &PersistentVolumeClaim, reason: &str, refusal: &Refusal) -> Action {
    let reference: ObjectReference = claim.object_ref(&());
    context.report.failure(&reference, reason, refusal.to_string()).await;
    if refusal.may_pass() { Action::requeue(LATER) } else { Action::await_change() }
}

/// Disk first: a volume object means that its disk is there.
async fn make(
    context: &Context,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    order: &Order,
) -> Result<(), ProvisionError> {
    let disk = Disk::new(&context.config.volumes_dir, &order.volume);
    disk.create(order.bytes).await?;
    let built = volume::build(order, &disk.path().display().to_string(), claim, class)?;
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    match volumes.create(&PostParams::default(), &built).await {
        Err(kube::Error::Api(status)) if status.code == 409 => recognise(&volumes, claim, &order.volume).await,
        other => other.map(drop).map_err(ProvisionError::api("create the volume")),
    }
}

async fn recognise(
    volumes: &Api<PersistentVolume>,
    claim: &PersistentVolumeClaim,
    name: &str,
) -> Result<(), ProvisionError> {
    let existing = volumes.get(name).await.map_err(ProvisionError::api("read the volume"))?;
    if volume::belongs_to(&existing, claim) { Ok(()) } else { Err(ProvisionError::Taken(name.to_owned())) }
}

async fn enlarge(
    context: &Context,
    claim: &PersistentVolumeClaim,
    volume: &str,
    requested: u64,
) -> Result<Action, ProvisionError> {
    let grown = grow(context, claim, volume, requested).await;
    let reference = claim.object_ref(&());
    match &grown {
        Ok(Growth::Done(bytes)) => {
            let note = format!("volume {volume} now has {}", size::readable(*bytes));
            context.report.success(&reference, "VolumeResizeSuccessful", note).await;
        }
        Ok(Growth::Refused(refusal)) => return Ok(refuse(context, claim, "VolumeResizeFailed", refusal).await),
        Ok(Growth::NotTheirs) => {}
        Err(error) => {
            context.report.failure(&reference, "VolumeResizeFailed", format!("{}; trying again", chain(error))).await;
        }
    }
    grown.map(|_| Action::await_change())
}
