//! CLUSTER NODES as one node answers it, and the same with pods instead of addresses. IO in `of` and `topology`.

use crate::{cluster::Cluster, node};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// One line of CLUSTER NODES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub id: String,
    pub ip: String,
    pub flags: Vec<String>,
    pub primary: Option<String>,
    pub linked: bool,
    pub slots: u32,
}

impl Line {
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| found == flag)
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, primary, _, _, _, link, slots @ ..] = words.as_slice() else { return None };
        Some(Self {
            id: (*id).to_owned(),
            ip: address.rsplit_once(':')?.0.to_owned(),
            flags: flags.split(',').map(str::to_owned).collect(),
            primary: Some((*primary).to_owned()).filter(|id| id != "-"),
            linked: *link == "connected",
            slots: slots.iter().filter_map(|range| width(range)).sum(),
        })
    }
}

/// Slots of "0-5460" or "7"; a slot on the move is written in brackets and counts where it is.
fn width(range: &str) -> Option<u32> {
    match range.split_once('-') {
        Some((first, last)) => Some(last.parse::<u32>().ok()? - first.parse::<u32>().ok()? + 1),
        None => range.parse::<u32>().ok().map(|_| 1),
    }
}

/// The view of one pod's node.
pub async fn of(cluster: &Cluster<'_>, pod: &str) -> Result<Vec<Line>> {
    let output = node::ask(cluster.test, pod, &["cluster", "nodes"]).await?;
    let lines: Option<Vec<Line>> = output.lines().map(Line::parse).collect();
    lines.with_context(|| format!("CLUSTER NODES of {pod} answered {output}"))
}

/// A node and the pod it runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub pod: String,
    pub id: String,
    pub primary: Option<String>,
    pub slots: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub nodes: Vec<Node>,
}

/// Who is who, as the first pod sees it; for a cluster that is sound.
pub async fn topology(cluster: &Cluster<'_>) -> Result<Topology> {
    let pods = cluster.pods().await?;
    let first = pods.first().context("there are no pods")?.name_any();
    Topology::of(&pods, &of(cluster, &first).await?)
}

pub fn ip(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default()
}

impl Topology {
    /// From one node's view.
    pub fn of(pods: &[Pod], view: &[Line]) -> Result<Self> {
        let nodes = pods.iter().map(|pod| {
            let line = view.iter().find(|line| line.ip == ip(pod));
            let line = line.with_context(|| format!("{} is not known: {view:?}", pod.name_any()))?;
            let Line { id, primary, slots, .. } = line.clone();
            Ok(Node { pod: pod.name_any(), id, primary, slots })
        });
        Ok(Self { nodes: nodes.collect::<Result<_>>()? })
    }

    pub fn primaries(&self) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.primary.is_none()).collect()
    }

    pub fn of_pod(&self, pod: &str) -> Result<&Node> {
        self.nodes.iter().find(|node| node.pod == pod).with_context(|| format!("{pod} is not in {self:?}"))
    }

    /// A shard: some primary and its one replica.
    pub fn shard(&self, number: usize) -> Result<(Node, Node)> {
        let primaries = self.primaries();
        let primary = *primaries.get(number).with_context(|| format!("no primary {number} in {self:?}"))?;
        let heir = self.nodes.iter().find(|node| node.primary.as_ref() == Some(&primary.id));
        Ok((primary.clone(), heir.with_context(|| format!("{} has no replica in {self:?}", primary.pod))?.clone()))
    }
}

/// The pod follows the other's node now.
pub fn follows(topology: &Topology, pod: &str, leader: &str) -> Result<()> {
    let (follower, leader) = (topology.of_pod(pod)?, topology.of_pod(leader)?);
    ensure!(follower.primary.as_ref() == Some(&leader.id), "{pod} does not follow {}: {topology:?}", leader.pod);
    Ok(())
}
