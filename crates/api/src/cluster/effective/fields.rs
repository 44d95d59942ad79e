//! How each field is put together from the layers. Pure.

use super::resolver::Resolver;
use super::spec::{
    AppendOnlyFile, Backup, ClientService, DatabaseSnapshots, EffectiveSpec, Exporter, Image, NetworkPolicy,
    OperatorMtls, PodServiceAccount, ReadService, Replication, Resources, SecurityContext, ServiceMonitor, Storage,
    ValkeyImage,
};
use super::{Origin, built_in};
use crate::cluster::{self, ValkeyClusterSpec};
use crate::module::{self, Module};
use k8s_openapi::api::core::v1::LocalObjectReference;

pub fn resolve(from: &mut Resolver<'_>) -> EffectiveSpec {
    let replicas_per_master =
        from.value("replicasPerMaster", |spec| spec.replicas_per_master.as_ref(), built_in::REPLICAS_PER_MASTER);
    let valkey_image = valkey_image(from);
    EffectiveSpec {
        modules: modules(from, &valkey_image.name),
        valkey_image,
        master_count: from.value("masterCount", |spec| spec.master_count.as_ref(), built_in::MASTER_COUNT),
        replicas_per_master,
        tls: from.find("tls", |spec| spec.tls.as_ref()),
        acl: from.find("acl", |spec| spec.acl.as_ref()),
        pod_affinity: from.find("podAffinity", |spec| spec.pod_affinity.as_ref()),
        pod_anti_affinity: from.find("podAntiAffinity", |spec| spec.pod_anti_affinity.as_ref()),
        node_affinity: from.find("nodeAffinity", |spec| spec.node_affinity.as_ref()),
        tolerations: from.find("tolerations", |spec| spec.tolerations.as_ref()).unwrap_or_default(),
        topology_spread_constraints: from
            .find("topologySpreadConstraints", |spec| spec.topology_spread_constraints.as_ref()),
        priority_class_name: from.find("priorityClassName", |spec| spec.priority_class_name.as_ref()),
        runtime_class_name: from.find("runtimeClassName", |spec| spec.runtime_class_name.as_ref()),
        resources: resources(from, "resources", |spec| spec.resources.as_ref()),
        env: from.find("env", |spec| spec.env.as_ref()).unwrap_or_default(),
        labels: from.map("labels", |spec| spec.labels.as_ref()),
        annotations: from.map("annotations", |spec| spec.annotations.as_ref()),
        security_context: security_context(from),
        pvc: storage(from),
        backup: Backup { database: database(from), aof: append_only_file(from) },
        sidecar_image: sidecar_image(from),
        sidecar_resources: resources(from, "sidecarResources", |spec| spec.sidecar_resources.as_ref()),
        exporter: exporter(from),
        service: ClientService {
            annotations: from.map("service.annotations", |spec| spec.service.as_ref()?.annotations.as_ref()),
        },
        read_service: read_service(from),
        service_account: PodServiceAccount {
            annotations: from
                .map("serviceAccount.annotations", |spec| spec.service_account.as_ref()?.annotations.as_ref()),
        },
        network_policy: network_policy(from),
        replication: replication(from, replicas_per_master),
        config: from.map("config", |spec| spec.config.as_ref()),
        operator_mtls: operator_mtls(from),
        paused: from.value("paused", |spec| spec.paused.as_ref(), false),
    }
}

/// Name and tag by themselves: a registry of one's own is a matter of the namespace, the version one of the cluster. But of what runs
/// nothing is kept beside a tag that somebody names.
fn valkey_image(from: &mut Resolver<'_>) -> ValkeyImage {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::ValkeyImage> {
        spec.valkey_image.as_ref()
    }
    let tag = from.value("valkeyImage.tag", |spec| of(spec)?.tag.as_ref(), built_in::VALKEY_TAG);
    let running = from.put_aside_running_unless(|spec| of(spec)?.tag.as_ref());
    let image = ValkeyImage {
        name: from.value("valkeyImage.name", |spec| of(spec)?.name.as_ref(), built_in::VALKEY_NAME),
        tag,
        version: from.find("valkeyImage.version", |spec| of(spec)?.version.as_ref()),
        image_pull_secrets: pull_secrets(from, "valkeyImage", |spec| of(spec)?.image_pull_secrets.as_ref()),
    };
    from.put_back_running(running);
    image
}

/// Left out, what the image's own entry point would load; of most images that is nothing, which is no value.
fn modules(from: &mut Resolver<'_>, image: &str) -> Vec<Module> {
    let (named, of_image) = (from.find("modules", |spec| spec.modules.as_ref()), module::of_image(image));
    match named {
        Some(named) => named.iter().map(Module::from).collect(),
        None if of_image.is_empty() => of_image,
        None => {
            from.note("modules", Origin::BuiltIn);
            of_image
        }
    }
}

/// Without a built-in value: the operator itself is told which one is its own.
fn sidecar_image(from: &mut Resolver<'_>) -> Option<Image> {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::Image> {
        spec.sidecar_image.as_ref()
    }
    Some(Image {
        name: from.find("sidecarImage.name", |spec| Some(&of(spec)?.name))?,
        tag: from.find("sidecarImage.tag", |spec| Some(&of(spec)?.tag))?,
        image_pull_secrets: pull_secrets(from, "sidecarImage", |spec| of(spec)?.image_pull_secrets.as_ref()),
    })
}

fn pull_secrets(
    from: &mut Resolver<'_>,
    image: &str,
    get: impl Fn(&ValkeyClusterSpec) -> Option<&Vec<LocalObjectReference>>,
) -> Vec<LocalObjectReference> {
    from.find(&format!("{image}.imagePullSecrets"), get).unwrap_or_default()
}

fn resources(
    from: &mut Resolver<'_>,
    path: &str,
    get: impl Fn(&ValkeyClusterSpec) -> Option<&cluster::Resources>,
) -> Resources {
    Resources {
        requests: from.map(&format!("{path}.requests"), |spec| get(spec)?.requests.as_ref()),
        limits: from.map(&format!("{path}.limits"), |spec| get(spec)?.limits.as_ref()),
    }
}

/// An empty one leaves the ids to the platform. One that gives some has the built-in ones beside them: an image without a user would
/// be root.
fn security_context(from: &mut Resolver<'_>) -> SecurityContext {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::SecurityContext> {
        spec.security_context.as_ref()
    }
    if from.highest(of) == Some(&cluster::SecurityContext::default()) {
        return SecurityContext::default();
    }
    let id = built_in::VALKEY_ID;
    SecurityContext {
        run_as_user: Some(from.value("securityContext.runAsUser", |spec| of(spec)?.run_as_user.as_ref(), id)),
        run_as_group: Some(from.value("securityContext.runAsGroup", |spec| of(spec)?.run_as_group.as_ref(), id)),
        fs_group: Some(from.value("securityContext.fsGroup", |spec| of(spec)?.fs_group.as_ref(), id)),
    }
}

fn storage(from: &mut Resolver<'_>) -> Option<Storage> {
    let size = from.find("pvc.storageSize", |spec| spec.pvc.as_ref()?.storage_size.as_ref());
    let class = from.find("pvc.storageClassName", |spec| spec.pvc.as_ref()?.storage_class_name.as_ref());
    (size.is_some() || class.is_some())
        .then(|| Storage { storage_size: size.unwrap_or_default(), storage_class_name: class })
}

fn database(from: &mut Resolver<'_>) -> DatabaseSnapshots {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::DatabaseSnapshots> {
        spec.backup.as_ref()?.database.as_ref()
    }
    DatabaseSnapshots {
        enabled: from.value("backup.database.enabled", |spec| of(spec)?.enabled.as_ref(), true),
        save: from.value("backup.database.save", |spec| of(spec)?.save.as_ref(), built_in::SAVE),
    }
}

fn append_only_file(from: &mut Resolver<'_>) -> AppendOnlyFile {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::AppendOnlyFile> {
        spec.backup.as_ref()?.aof.as_ref()
    }
    AppendOnlyFile {
        enabled: from.value("backup.aof.enabled", |spec| of(spec)?.enabled.as_ref(), false),
        appendfsync: from.value("backup.aof.appendfsync", |spec| of(spec)?.appendfsync.as_ref(), built_in::APPENDFSYNC),
        auto_aof_rewrite_percentage: from.value(
            "backup.aof.autoAofRewritePercentage",
            |spec| of(spec)?.auto_aof_rewrite_percentage.as_ref(),
            built_in::AUTO_AOF_REWRITE_PERCENTAGE,
        ),
        auto_aof_rewrite_min_size: from.value(
            "backup.aof.autoAofRewriteMinSize",
            |spec| of(spec)?.auto_aof_rewrite_min_size.as_ref(),
            built_in::AUTO_AOF_REWRITE_MIN_SIZE,
        ),
    }
}

fn exporter(from: &mut Resolver<'_>) -> Exporter {
    Exporter {
        enabled: from.value("exporter.enabled", |spec| spec.exporter.as_ref()?.enabled.as_ref(), false),
        image: exporter_image(from),
        resources: resources(from, "exporter.resources", |spec| spec.exporter.as_ref()?.resources.as_ref()),
        service_monitor: service_monitor(from),
    }
}

fn exporter_image(from: &mut Resolver<'_>) -> Image {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::ExporterImage> {
        spec.exporter.as_ref()?.image.as_ref()
    }
    Image {
        name: from.value("exporter.image.name", |spec| of(spec)?.name.as_ref(), built_in::EXPORTER_NAME),
        tag: from.value("exporter.image.tag", |spec| of(spec)?.tag.as_ref(), built_in::EXPORTER_TAG),
        image_pull_secrets: pull_secrets(from, "exporter.image", |spec| of(spec)?.image_pull_secrets.as_ref()),
    }
}

fn service_monitor(from: &mut Resolver<'_>) -> ServiceMonitor {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::ServiceMonitor> {
        spec.exporter.as_ref()?.service_monitor.as_ref()
    }
    ServiceMonitor {
        enabled: from.value("exporter.serviceMonitor.enabled", |spec| of(spec)?.enabled.as_ref(), false),
        interval: from.value(
            "exporter.serviceMonitor.interval",
            |spec| of(spec)?.interval.as_ref(),
            built_in::SCRAPE_INTERVAL,
        ),
        labels: from.map("exporter.serviceMonitor.labels", |spec| of(spec)?.labels.as_ref()),
    }
}

fn read_service(from: &mut Resolver<'_>) -> ReadService {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::ReadService> {
        spec.read_service.as_ref()
    }
    ReadService {
        enabled: from.value("readService.enabled", |spec| of(spec)?.enabled.as_ref(), false),
        annotations: from.map("readService.annotations", |spec| of(spec)?.annotations.as_ref()),
    }
}

fn network_policy(from: &mut Resolver<'_>) -> NetworkPolicy {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::NetworkPolicy> {
        spec.network_policy.as_ref()
    }
    NetworkPolicy {
        enabled: from.value("networkPolicy.enabled", |spec| of(spec)?.enabled.as_ref(), true),
        from: from.find("networkPolicy.from", |spec| of(spec)?.from.as_ref()),
        metrics_from: from.find("networkPolicy.metricsFrom", |spec| of(spec)?.metrics_from.as_ref()),
    }
}

fn replication(from: &mut Resolver<'_>, replicas_per_master: i32) -> Replication {
    fn of(spec: &ValkeyClusterSpec) -> Option<&cluster::Replication> {
        spec.replication.as_ref()
    }
    Replication {
        diskless_sync: from.value("replication.disklessSync", |spec| of(spec)?.diskless_sync.as_ref(), false),
        min_replicas_to_write: from.value(
            "replication.minReplicasToWrite",
            |spec| of(spec)?.min_replicas_to_write.as_ref(),
            built_in::min_replicas_to_write(replicas_per_master),
        ),
        min_replicas_max_lag: from.value(
            "replication.minReplicasMaxLag",
            |spec| of(spec)?.min_replicas_max_lag.as_ref(),
            built_in::MIN_REPLICAS_MAX_LAG,
        ),
    }
}

fn operator_mtls(from: &mut Resolver<'_>) -> OperatorMtls {
    OperatorMtls {
        client_cert_validity: from.value(
            "operatorMtls.clientCertValidity",
            |spec| spec.operator_mtls.as_ref()?.client_cert_validity.as_ref(),
            built_in::CLIENT_CERT_VALIDITY,
        ),
        rotate_before_percent: from.value(
            "operatorMtls.rotateBeforePercent",
            |spec| spec.operator_mtls.as_ref()?.rotate_before_percent.as_ref(),
            built_in::ROTATE_BEFORE_PERCENT,
        ),
    }
}
