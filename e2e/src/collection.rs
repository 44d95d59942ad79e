//! The evidence of a failed test: objects, events, logs of all containers and of the cluster's parts, the harness's timeline.
//! IO; called by `scenario`. Collecting goes on past single failures: half of the evidence is better than none.

use crate::test::Test;
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, LogParams},
    discovery::{Discovery, Scope, verbs},
};
use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

/// A cluster that does not answer must not keep the test run waiting.
const LIMIT: Duration = Duration::from_secs(60);
const LOG_LINES: i64 = 2000;
const PART_LOG_BYTES: u64 = 200_000;

/// Fills `e2e-failures/<test>/` anew and gives its path.
pub async fn collect(test: &Test, error: &anyhow::Error) -> Result<PathBuf> {
    let directory = directory_of(&test.name)?;
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    let gathered = tokio::time::timeout(LIMIT, gather(test, &directory)).await;
    if gathered.is_err() {
        test.note(format!("collecting was cut off after {} s", LIMIT.as_secs()));
    }
    write(&directory.join("error.txt"), &format!("{error:?}\n"))?;
    write(&directory.join("timeline.txt"), &test.timeline.text())?;
    Ok(directory)
}

async fn gather(test: &Test, directory: &Path) {
    let client = &test.environment.client;
    let mut outcomes = vec![part_logs(test, &directory.join("parts")), audit(test, directory)];
    outcomes.push(cluster_objects(client, &directory.join("cluster")).await);
    for namespace in namespaces(test) {
        let directory = directory.join(&namespace);
        outcomes.push(events(client, &namespace, &directory).await);
        outcomes.push(pod_logs(client, &namespace, &directory.join("logs")).await);
        outcomes.push(namespaced_objects(client, &namespace, &directory.join("objects")).await);
    }
    for problem in outcomes.into_iter().filter_map(Result::err) {
        test.note(format!("while collecting: {problem:#}"));
    }
}

fn namespaces(test: &Test) -> Vec<String> {
    let others = test.also_collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    std::iter::once(test.namespace.clone()).chain(others).collect()
}

/// At the top of the workspace, which is where people look, wherever the tests were started.
pub fn directory_of(test: &str) -> Result<PathBuf> {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let workspace = package.parent().context("the package is in no workspace")?;
    Ok(workspace.join("e2e-failures").join(test))
}

async fn events(client: &Client, namespace: &str, directory: &Path) -> Result<()> {
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let mut events = api.list(&ListParams::default()).await.context("list the events")?.items;
    events.sort_by_key(|event| {
        event.last_timestamp.clone().map(|time| time.0).or(event.event_time.clone().map(|time| time.0))
    });
    let text: String = events.iter().map(event_line).collect();
    write(&directory.join("events.txt"), &text)
}

fn event_line(event: &Event) -> String {
    let time = event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
    let object = &event.involved_object;
    format!(
        "{} {} {}/{} {}: {} (x{})\n",
        time.map_or_else(|| "-".to_owned(), |time| time.to_string()),
        event.type_.as_deref().unwrap_or_default(),
        object.kind.as_deref().unwrap_or_default(),
        object.name.as_deref().unwrap_or_default(),
        event.reason.as_deref().unwrap_or_default(),
        event.message.as_deref().unwrap_or_default(),
        event.count.unwrap_or(1),
    )
}

async fn pod_logs(client: &Client, namespace: &str, directory: &Path) -> Result<()> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    for pod in api.list(&ListParams::default()).await.context("list the pods")? {
        for container in containers(&pod) {
            for (previous, suffix) in [(false, "log"), (true, "previous.log")] {
                let tail_lines = Some(LOG_LINES);
                let parameters =
                    LogParams { container: Some(container.clone()), previous, tail_lines, ..LogParams::default() };
                // Most containers have no previous run, and a broken pod may have no logs at all.
                if let Ok(text) = api.logs(&pod.name_any(), &parameters).await {
                    write(&directory.join(format!("{}.{container}.{suffix}", pod.name_any())), &text)?;
                }
            }
        }
    }
    Ok(())
}

fn containers(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    init.iter().chain(&spec.containers).map(|container| container.name.clone()).collect()
}

async fn namespaced_objects(client: &Client, namespace: &str, directory: &Path) -> Result<()> {
    for resource in listable(client, Scope::Namespaced).await? {
        let api = Api::namespaced_with(client.clone(), namespace, &resource);
        save_objects(api, &resource, directory).await?;
    }
    Ok(())
}

/// Only those cluster-wide kinds that explain what happens in a namespace.
async fn cluster_objects(client: &Client, directory: &Path) -> Result<()> {
    let telling = ["Node", "PersistentVolume", "StorageClass", "VolumeAttachment"];
    let resources = listable(client, Scope::Cluster).await?;
    for resource in resources.iter().filter(|resource| telling.contains(&resource.kind.as_str())) {
        save_objects(Api::all_with(client.clone(), resource), resource, directory).await?;
    }
    Ok(())
}

async fn listable(client: &Client, scope: Scope) -> Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discover the kinds")?;
    let kinds = discovery.groups().flat_map(|group| group.recommended_resources());
    let wanted =
        kinds.filter(|(_, capabilities)| capabilities.scope == scope && capabilities.supports_operation(verbs::LIST));
    Ok(wanted.map(|(resource, _)| resource).filter(|resource| resource.kind != "Event").collect())
}

async fn save_objects(api: Api<DynamicObject>, resource: &ApiResource, directory: &Path) -> Result<()> {
    let Ok(mut list) = api.list(&ListParams::default()).await else { return Ok(()) };
    if list.items.is_empty() {
        return Ok(());
    }
    list.items.iter_mut().for_each(|object| tidy(object, &resource.kind));
    let text = serde_yaml_ng::to_string(&list.items).context("write YAML")?;
    write(&directory.join(format!("{}.yaml", resource.plural)), &text)
}

/// Evidence is passed around: no secret goes into it, and nothing that only machines read.
fn tidy(object: &mut DynamicObject, kind: &str) {
    object.managed_fields_mut().clear();
    if kind == "Secret"
        && let Some(data) = object.data.get_mut("data").and_then(serde_json::Value::as_object_mut)
    {
        data.values_mut().for_each(|value| *value = "<redacted>".into());
    }
}

fn part_logs(test: &Test, directory: &Path) -> Result<()> {
    test.environment.part_logs().map_or(Ok(()), |source| save_logs(&source, directory))
}

/// The end of every log file of a folder.
pub fn save_logs(source: &Path, directory: &Path) -> Result<()> {
    for entry in fs::read_dir(source).with_context(|| format!("list {}", source.display()))? {
        let path = entry.with_context(|| format!("list {}", source.display()))?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default();
            write(&directory.join(name), &tail(&path)?)?;
        }
    }
    Ok(())
}

fn tail(path: &Path) -> Result<String> {
    let what = || format!("read {}", path.display());
    let mut file = File::open(path).with_context(what)?;
    let length = file.metadata().with_context(what)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(PART_LOG_BYTES))).with_context(what)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(what)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Every write to the test's namespace, by whom.
fn audit(test: &Test, directory: &Path) -> Result<()> {
    let Ok(audit) = test.audit() else { return Ok(()) };
    let writes = audit.all()?.in_namespace(&test.namespace).mutating();
    let text: String = writes.entries.iter().map(|entry| format!("{entry}\n")).collect();
    write(&directory.join("writes.txt"), &text)
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
