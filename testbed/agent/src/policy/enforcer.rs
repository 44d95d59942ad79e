//! Watches pods, namespaces and policies and keeps every node's rules current. IO; started by `main`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::loader::{self, Outcome};
use super::rules::{self, NodeRules};
use super::ruleset::revision;
use super::world::World;
use crate::config::Node;
use crate::watching::LocalBackoff;

/// Pods of one StatefulSet get their addresses together; one reload then serves them all.
const DEBOUNCE: Duration = Duration::from_millis(25);
/// How long a node may stay without its rules after something else removed them: kube-proxy moving our jump, a
/// namespace made anew when its node was started again.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// Runs until dropped.
pub async fn run(client: Client, nodes: &[Node]) {
    let changed = Arc::new(Notify::new());
    let pods = reflect::<Pod>(&client, &changed);
    let namespaces = reflect::<Namespace>(&client, &changed);
    let policies = reflect::<NetworkPolicy>(&client, &changed);
    // A partial view would cut connections that a policy not yet seen admits.
    let ready = tokio::try_join!(pods.wait_until_ready(), namespaces.wait_until_ready(), policies.wait_until_ready());
    if ready.is_err() {
        return tracing::error!("a watch ended before its first list; NetworkPolicies are not enforced");
    }
    let mut guards: Vec<Guard> = nodes.iter().map(Guard::new).collect();
    let mut warned = BTreeSet::new();
    let mut check = interval(CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = tokio::select! {
            _ = check.tick() => true,
            () = changed.notified() => { sleep(DEBOUNCE).await; false }
        };
        let world = view(&pods, &namespaces, &policies);
        warn_once(&world, &mut warned);
        join_all(guards.iter_mut().map(|guard| guard.enforce(&world, due))).await;
    }
}

fn reflect<K>(client: &Client, changed: &Arc<Notify>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let (store, writer) = reflector::store();
    let stream = watcher(Api::<K>::all(client.clone()), watcher::Config::default());
    let stream = stream.backoff(LocalBackoff::default()).reflect(writer);
    let changed = Arc::clone(changed);
    tokio::spawn(stream.for_each(move |event| {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted, trying again"),
        }
        std::future::ready(())
    }));
    store
}

fn view(pods: &Store<Pod>, namespaces: &Store<Namespace>, policies: &Store<NetworkPolicy>) -> World {
    let mut world = World::default();
    pods.state().iter().for_each(|pod| world.add_pod(pod));
    namespaces.state().iter().for_each(|namespace| world.add_namespace(namespace));
    world.policies = policies.state().iter().map(|policy| NetworkPolicy::clone(policy)).collect();
    world
}

fn warn_once(world: &World, warned: &mut BTreeSet<String>) {
    for policy in &world.policies {
        let findings = rules::unenforced(policy);
        let meta = &policy.metadata;
        if !findings.is_empty() && warned.insert(meta.uid.clone().unwrap_or_default()) {
            let (namespace, name) = (meta.namespace.as_deref().unwrap_or(""), meta.name.as_deref().unwrap_or(""));
            tracing::warn!(namespace, name, "NetworkPolicy only partly enforced here: {}", findings.join("; "));
        }
    }
}

/// One node with what was last loaded into it.
struct Guard<'a> {
    node: &'a Node,
    revision: Option<String>,
    trouble: Option<String>,
}

impl<'a> Guard<'a> {
    fn new(node: &'a Node) -> Self {
        Self { node, revision: None, trouble: None }
    }

    /// Without a due check, unchanged rules cost nothing but their computation.
    async fn enforce(&mut self, world: &World, check_is_due: bool) {
        let rules = rules::for_node(self.node, world);
        let wanted = revision(&rules);
        if check_is_due || self.revision.as_ref() != Some(&wanted) {
            self.load(&rules, wanted).await;
        }
    }

    async fn load(&mut self, rules: &NodeRules, wanted: String) {
        match loader::ensure(&self.node.netns, rules).await {
            Ok(outcome) => {
                if outcome == Outcome::Reloaded {
                    tracing::info!(node = self.node.name, isolated = rules.len(), revision = wanted, "rules loaded");
                }
                self.revision = Some(wanted);
                self.trouble = None;
            }
            Err(error) => self.complain(error.to_string()),
        }
    }

    /// A node that is down fails at every check; saying it once is enough.
    fn complain(&mut self, trouble: String) {
        self.revision = None;
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(node = self.node.name, "cannot load rules, trying again every {CHECK_EVERY:?}: {trouble}");
            self.trouble = Some(trouble);
        }
    }
}
