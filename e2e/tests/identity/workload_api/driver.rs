//! SPIFFE's CSI driver, as far as pods can tell: registers with the kubelet of every node and gives each pod a socket behind which an
//! agent has the identity of that pod alone. The agents serve in this process; nothing is mounted. Gone when dropped.

use super::csi::{Empty, Method, NodeInfo, PluginInfo, Publish, Unpublish};
use anyhow::{Context, Result};
use e2e::{PATIENCE, Test, Verdict, operator, wait_for_object};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use std::{
    collections::HashMap,
    convert::Infallible,
    fs::{self, File, Permissions},
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    task::JoinSet,
};
use tonic::{Status, body::Body, server::Grpc};
use tonic_prost::ProstCodec;
use workload_api::testing::{Agent, Domain};

pub const DOMAIN: &str = "example.org";
const NAME: &str = "csi.spiffe.io";
const SOCKET: &str = "spire-agent.sock";

pub struct Driver {
    given: Arc<Given>,
    /// Ends with the driver.
    serving: JoinSet<()>,
    sockets: Vec<PathBuf>,
}

impl Driver {
    pub async fn start(test: &Test, validity: Duration) -> Result<Self> {
        let given = Arc::new(Given { domain: Domain::new(DOMAIN)?, validity, agents: Mutex::default() });
        let mut driver = Self { given, serving: JoinSet::new(), sockets: Vec::new() };
        announce(test).await?;
        let nodes = Api::<CSINode>::all(test.client()).list(&Default::default()).await.context("list the nodes")?;
        for node in nodes.items.into_iter().filter_map(|node| node.metadata.name) {
            driver.serve(&test.testbed()?.directory, &node)?;
            registered(test, &node).await?;
        }
        Ok(driver)
    }

    fn serve(&mut self, testbed: &Path, node: &str) -> Result<()> {
        // The kubelet gives the socket's path as the authority of its requests. Before an @ our side takes the %2F of its slashes.
        let socket = testbed.join(node).join(format!("kubelet/plugins_registry/driver@{NAME}.sock"));
        // One that a killed test left there.
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).with_context(|| format!("listen at {}", socket.display()))?;
        let endpoint = socket.to_string_lossy().into_owned();
        let plugin = Plugin { node: node.to_owned(), endpoint, given: self.given.clone() };
        self.serving.spawn(accept(listener, plugin));
        self.sockets.push(socket);
        Ok(())
    }

    /// Gives every pod another certificate.
    pub fn renew(&self, validity: Duration) -> Result<()> {
        let agents = self.given.agents.lock().unwrap();
        agents.values().try_for_each(|served| served.give(&self.given.domain, validity))
    }

    /// The identities of pods whose volumes have not been taken back.
    pub fn serves(&self) -> Vec<String> {
        self.given.agents.lock().unwrap().values().map(|served| served.id.clone()).collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The kubelet sees it go and forgets the driver.
        self.sockets.iter().for_each(|socket| drop(fs::remove_file(socket)));
    }
}

/// Who reads the pods' names on mounting, and that nothing is attached.
async fn announce(test: &Test) -> Result<()> {
    let drivers = Api::<CSIDriver>::all(test.client());
    if drivers.get_opt(NAME).await?.is_some() {
        let _gone = drivers.delete(NAME, &DeleteParams::default()).await.context("delete the CSIDriver")?;
    }
    let driver = serde_json::from_value(json!({ "metadata": { "name": NAME }, "spec": { "attachRequired": false,
        "podInfoOnMount": true, "fsGroupPolicy": "None", "volumeLifecycleModes": ["Ephemeral"] } }))?;
    drivers.create(&PostParams::default(), &driver).await.context("create the CSIDriver")?;
    Ok(())
}

pub async fn renounce(test: &Test) -> Result<()> {
    let _gone = Api::<CSIDriver>::all(test.client()).delete(NAME, &DeleteParams::default()).await?;
    Ok(())
}

async fn registered(test: &Test, node: &str) -> Result<()> {
    let what = format!("{NAME} on {node}");
    wait_for_object(Api::<CSINode>::all(test.client()), node, &what, PATIENCE, |found| {
        let drivers = found.map(|node| node.spec.drivers.as_slice()).unwrap_or_default();
        Verdict::when(drivers.iter().any(|driver| driver.name == NAME), || format!("{drivers:?}"))
    })
    .await?;
    Ok(())
}

async fn accept(listener: UnixListener, plugin: Plugin) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, plugin.clone()));
    }
}

async fn converse(stream: UnixStream, plugin: Plugin) {
    let service = service_fn(move |request| {
        let plugin = plugin.clone();
        async move { Ok::<_, Infallible>(plugin.answer(request).await) }
    });
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// The driver on one node.
#[derive(Clone)]
struct Plugin {
    node: String,
    endpoint: String,
    given: Arc<Given>,
}

impl Plugin {
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path().rsplit('/').next().unwrap_or_default() {
            "GetInfo" => call(request, |_: Empty| Ok(self.info())).await,
            "NodeGetInfo" => call(request, |_: Empty| Ok(NodeInfo { node_id: self.node.clone() })).await,
            // No capabilities, and no wish to hear how the registration went.
            "NodeGetCapabilities" | "NotifyRegistrationStatus" => call(request, |_: Empty| Ok(Empty {})).await,
            "NodePublishVolume" => call(request, |publish| status(self.given.publish(&publish))).await,
            "NodeUnpublishVolume" => call(request, |unpublish| status(self.given.unpublish(&unpublish))).await,
            other => Status::unimplemented(other.to_owned()).into_http(),
        }
    }

    fn info(&self) -> PluginInfo {
        let (kind, supported_versions) = ("CSIPlugin".to_owned(), vec!["1.0.0".to_owned()]);
        PluginInfo { kind, name: NAME.to_owned(), endpoint: self.endpoint.clone(), supported_versions }
    }
}

async fn call<Q, A>(request: Request<Incoming>, method: impl FnMut(Q) -> Result<A, Status>) -> Response<Body>
where
    Q: prost::Message + Default + Send + Sync + 'static,
    A: prost::Message + Send + Sync + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(Method(method), request).await
}

fn status(done: Result<()>) -> Result<Empty, Status> {
    done.map(|()| Empty {}).map_err(|error| Status::internal(format!("{error:#}")))
}

/// What pods have of it, by the folder that is mounted.
struct Given {
    domain: Domain,
    validity: Duration,
    agents: Mutex<HashMap<String, Served>>,
}

struct Served {
    id: String,
    agent: Agent,
    /// The agent's socket is named by it, because the folder's own name is too long for a socket.
    _folder: File,
}

impl Served {
    fn give(&self, domain: &Domain, validity: Duration) -> Result<()> {
        self.agent.give(vec![domain.svid(&self.id, validity)?], HashMap::new());
        Ok(())
    }
}

impl Given {
    fn publish(&self, publish: &Publish) -> Result<()> {
        let mut agents = self.agents.lock().unwrap();
        if agents.contains_key(&publish.target_path) {
            return Ok(());
        }
        fs::create_dir_all(&publish.target_path).context("make the folder")?;
        let folder = File::open(&publish.target_path).context("open the folder")?;
        let socket = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        let agent = Agent::listen(&socket)?;
        fs::set_permissions(&socket, Permissions::from_mode(0o777)).context("let everybody call")?;
        let served = Served { id: identity(&publish.volume_context)?, agent, _folder: folder };
        served.give(&self.domain, self.validity)?;
        agents.insert(publish.target_path.clone(), served);
        Ok(())
    }

    fn unpublish(&self, unpublish: &Unpublish) -> Result<()> {
        drop(self.agents.lock().unwrap().remove(&unpublish.target_path));
        match fs::remove_dir_all(&unpublish.target_path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("remove the folder"),
            _ => Ok(()),
        }
    }
}

/// As the documentation has it for one SPIFFE server.
fn identity(pod: &HashMap<String, String>) -> Result<String> {
    let word =
        |name: &str| pod.get(&format!("csi.storage.k8s.io/pod.{name}")).with_context(|| format!("no pod's {name}"));
    let (namespace, name) = (word("namespace")?, word("name")?);
    let workload = if *namespace == operator::namespace() {
        "valkey-operator".to_owned()
    } else {
        let (cluster, _) = name.rsplit_once('-').context("it is no pod of a StatefulSet")?;
        format!("valkeycluster/{cluster}/sidecar")
    };
    Ok(format!("spiffe://{DOMAIN}/ns/{namespace}/{workload}"))
}
