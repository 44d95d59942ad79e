//! What the body of a test works with: its namespace and everything it can do in it. IO; made by `scenario`, used by every test.

use crate::{
    audit_file::Audit,
    command::{self, CommandOutput},
    environment::Environment,
    exec::{self, ExecOutput},
    fault::{FaultGuard, NodeFault},
    forward::{self, Forward},
    objects, ready,
    skip::Skipped,
    testbed::Testbed,
    timeline::Timeline,
    verdict::Verdict,
    wait,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, LogParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, sync::Mutex, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite};

/// How long anything may take. It costs only a test that fails, so it is long enough for a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(180);

pub struct Test {
    pub name: String,
    pub namespace: String,
    pub environment: Environment,
    pub(crate) timeline: Timeline,
    pub(crate) also_collected: Mutex<Vec<String>>,
    pub(crate) alone: bool,
}

impl Test {
    pub fn client(&self) -> Client {
        self.environment.client.clone()
    }

    /// The objects of a kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Adds a line to the timeline of the failure collection.
    pub fn note(&self, text: impl AsRef<str>) {
        self.timeline.note(text);
    }

    /// On failure, collects this namespace as well, e.g. the operator's.
    pub fn also_collect(&self, namespace: &str) {
        self.also_collected.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(namespace.to_owned());
    }

    /// The same test in another namespace, which its caller has made and removes.
    pub fn beside(&self, namespace: &str) -> Self {
        Self {
            name: self.name.clone(),
            namespace: namespace.to_owned(),
            environment: self.environment.clone(),
            timeline: Timeline::start(),
            also_collected: Mutex::default(),
            alone: self.alone,
        }
    }

    /// Ends the test as skipped, by name and with the reason: `return test.skip("…")`.
    pub fn skip(&self, reason: &str) -> Result<()> {
        Err(Skipped(reason.to_owned()).into())
    }
}

/// Objects.
impl Test {
    pub async fn apply<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        self.note(format!("apply {} {}", K::kind(&()), object.name_any()));
        objects::apply(&self.environment.client, &self.namespace, object).await
    }

    pub async fn apply_yaml(&self, text: &str) -> Result<Vec<DynamicObject>> {
        self.note("apply YAML");
        objects::apply_yaml(&self.environment.client, &self.namespace, text).await
    }

    pub async fn delete_and_wait<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        self.note(format!("delete {} {name}", K::kind(&())));
        objects::delete_and_wait(self.api::<K>(), name, PATIENCE).await
    }
}

/// Waiting.
impl Test {
    pub async fn wait_for<T>(
        &self,
        what: &str,
        within: Duration,
        look: impl AsyncFnMut() -> Result<Verdict<T>>,
    ) -> Result<T> {
        self.noting(what, wait::wait_for(what, within, look)).await
    }

    /// What must stay true for a while, e.g. that nobody makes an object anew.
    pub async fn hold(&self, what: &str, during: Duration, look: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        self.note(format!("for {} s: {what}", during.as_secs()));
        wait::hold(during, look).await.with_context(|| format!("it did not stay so: {what}"))
    }

    pub async fn wait_for_object<K, T>(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        judge: impl Fn(Option<&K>) -> Verdict<T>,
    ) -> Result<T>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        self.noting(what, wait::wait_for_object(self.api::<K>(), name, what, within, judge)).await
    }

    pub async fn wait_for_list<K, T>(
        &self,
        labels: &str,
        what: &str,
        within: Duration,
        judge: impl Fn(&[K]) -> Verdict<T>,
    ) -> Result<T>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        self.noting(what, wait::wait_for_list(self.api::<K>(), labels, what, within, judge)).await
    }

    pub async fn wait_for_pod(&self, name: &str) -> Result<Pod> {
        self.wait_for_object(name, &format!("pod {name} to be Ready"), PATIENCE, ready::pod_ready).await
    }

    /// Waits until exactly `count` pods match and all are Ready.
    pub async fn wait_for_pods(&self, labels: &str, count: usize) -> Result<Vec<Pod>> {
        let what = format!("{count} pods of {labels} to be Ready");
        self.wait_for_list(labels, &what, PATIENCE, ready::pods_ready(count)).await
    }

    pub async fn wait_for_node<T>(
        &self,
        node: &str,
        what: &str,
        within: Duration,
        judge: impl Fn(Option<&Node>) -> Verdict<T>,
    ) -> Result<T> {
        let nodes = Api::<Node>::all(self.client());
        self.noting(what, wait::wait_for_object(nodes, node, what, within, judge)).await
    }

    async fn noting<T, E>(&self, what: &str, waiting: impl Future<Output = Result<T, E>>) -> Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        self.note(format!("wait for {what}"));
        match waiting.await {
            Ok(value) => {
                self.note(format!("came true: {what}"));
                Ok(value)
            }
            Err(error) => {
                self.note(format!("gave up: {error}"));
                Err(error.into())
            }
        }
    }
}

/// Into pods.
impl Test {
    pub async fn exec(&self, pod: &str, command: &[&str]) -> Result<ExecOutput> {
        exec::exec(&self.api::<Pod>(), pod, None, command).await
    }

    pub async fn exec_in(&self, pod: &str, container: &str, command: &[&str]) -> Result<ExecOutput> {
        exec::exec(&self.api::<Pod>(), pod, Some(container), command).await
    }

    pub async fn logs(&self, pod: &str, container: &str) -> Result<String> {
        self.read_logs(pod, container, false).await
    }

    /// What the container wrote before its last restart.
    pub async fn previous_logs(&self, pod: &str, container: &str) -> Result<String> {
        self.read_logs(pod, container, true).await
    }

    async fn read_logs(&self, pod: &str, container: &str, previous: bool) -> Result<String> {
        let parameters = LogParams { container: Some(container.to_owned()), previous, ..LogParams::default() };
        self.api::<Pod>().logs(pod, &parameters).await.with_context(|| format!("read the logs of {pod}/{container}"))
    }

    /// One connection to a pod's port.
    pub async fn connect(&self, pod: &str, port: u16) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
        forward::connect(&self.api::<Pod>(), pod, port).await
    }

    /// A loopback address that leads to a pod's port until dropped.
    pub async fn forward(&self, pod: &str, port: u16) -> Result<Forward> {
        Forward::listen(self.api::<Pod>(), pod, port).await
    }
}

/// Tools.
impl Test {
    /// `kubectl` in the test's namespace.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<CommandOutput> {
        self.tool("kubectl", arguments).await
    }

    /// `helm` in the test's namespace.
    pub async fn helm(&self, arguments: &[&str]) -> Result<CommandOutput> {
        self.tool("helm", arguments).await
    }

    async fn tool(&self, name: &str, arguments: &[&str]) -> Result<CommandOutput> {
        self.note(format!("{name} {}", arguments.join(" ")));
        let mut command = self.environment.tool(name);
        command.args(["--namespace", &self.namespace]).args(arguments);
        command::run(command).await
    }

    /// Only in scenarios that declare `needs_testbed` or `breaks_nodes`.
    pub fn audit(&self) -> Result<Audit> {
        Ok(Audit::of(self.testbed()?))
    }

    pub fn testbed(&self) -> Result<&Testbed> {
        self.environment.testbed.as_ref().context("the scenario uses the testbed without declaring `needs_testbed`")
    }
}

/// Nodes and faults.
impl Test {
    /// Names of the nodes that take pods now, sorted.
    pub async fn nodes(&self) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.client()).list(&Default::default()).await.context("list the nodes")?;
        let usable = nodes.items.iter().filter(|node| takes_pods(node));
        let mut names: Vec<_> = usable.map(ResourceExt::name_any).collect();
        names.sort();
        Ok(names)
    }

    pub async fn cut_node(&self, node: &str) -> Result<FaultGuard> {
        self.break_node(node, NodeFault::Cut).await
    }

    pub async fn stop_node(&self, node: &str) -> Result<FaultGuard> {
        self.break_node(node, NodeFault::Stopped).await
    }

    async fn break_node(&self, node: &str, fault: NodeFault) -> Result<FaultGuard> {
        ensure!(self.alone, "the scenario breaks a node without declaring `breaks_nodes`");
        self.note(format!("{fault:?}: {node}"));
        FaultGuard::inflict(self.testbed()?, node, fault).await
    }

    /// SIGKILL to the main process of a container (the pod's only one when none is named), from outside of it.
    pub async fn kill_pod(&self, pod: &str, container: Option<&str>) -> Result<()> {
        self.signal_pod(pod, container, "kill").await
    }

    /// The same with another signal: `stop` freezes it, `cont` thaws it.
    pub async fn signal_pod(&self, pod: &str, container: Option<&str>, signal: &str) -> Result<()> {
        self.note(format!("{signal} {pod} {}", container.unwrap_or_default()));
        let target = format!("{}/{pod}", self.namespace);
        let mut arguments = vec!["pod", "kill", target.as_str(), "--signal", signal];
        arguments.extend(container.iter().flat_map(|container| ["--container", container]));
        self.testbed()?.driver(&arguments).await?;
        Ok(())
    }
}

fn takes_pods(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    let repels = |effect: &str| effect == "NoSchedule" || effect == "NoExecute";
    let tainted = spec
        .and_then(|spec| spec.taints.as_ref())
        .is_some_and(|taints| taints.iter().any(|taint| repels(&taint.effect)));
    !tainted
        && !spec.and_then(|spec| spec.unschedulable).unwrap_or(false)
        && matches!(ready::node_ready(Some(node)), Verdict::Met(_))
}
