//! An operator that hears sidecars, decides, commands, and forgets everything but the status when it is killed. In memory.

use crate::kubernetes::Kubernetes;
use crate::node::Node;
use crate::pod::{Pod, Process, Waiting};
use crate::sidecar;
use crate::whole::Whole;
use crate::world::{Setup, TICK, World};
use planner::nodes::{
    Action, Answered, Boot, Decision, FindingKind, Following, NodeFacts, NodeObservation, Orchestration, Outcome,
    PodCommand, PodObservation, Queued, Shard, Target, Valkey, decide,
};
use planner::safety::check_commands;
use sidecar_rules::boot::PastNode;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use topology::{Location, NodeView, PodName, PodUid, Role};

/// What goes wrong between operator and sidecars, each as a chance of one in so many; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A command does not arrive.
    pub lost_command: u32,
    /// A command is carried out and its answer does not arrive.
    pub lost_answer: u32,
    /// A heartbeat is late by a tick; several times over, it is late by more.
    pub late_heartbeat: u32,
    /// Commands take up to this many milliseconds longer.
    pub delay: u64,
    /// A view is told as it was at the last telling.
    pub stale_view: u32,
}

#[derive(Default)]
struct Heard {
    facts: Option<NodeFacts>,
    /// The id it last told, for when it is down.
    last_id: Option<topology::NodeId>,
    view: Option<NodeView>,
    answer: Option<Answered>,
}

/// Commands on their way to one pod.
struct Flight {
    uid: u64,
    pod: String,
    actions: VecDeque<Action>,
    next_at: u64,
    fence: (String, u64),
}

/// What is in the status of the resource.
#[derive(Clone, Default)]
pub struct Durable {
    pub shards: Vec<Shard>,
    pub orchestration: Option<Orchestration>,
    pub queue: Vec<Queued>,
}

pub struct Operator {
    pub cluster: String,
    pub target: Target,
    pub durable: Durable,
    pub decision: Decision,
    pub faults: Faults,
    /// It is killed right after its n-th decision that changes something.
    pub killed_after: Option<usize>,
    /// Decisions that changed something, since the beginning.
    pub acted: usize,
    pub transcript: Vec<String>,
    heard: BTreeMap<u64, Heard>,
    /// When those that are not on the line were last heard.
    last_answers: BTreeMap<u64, jiff::Timestamp>,
    flights: Vec<Flight>,
    absent_until: u64,
    transcribed: String,
    /// Something was heard since the last decision.
    stirred: bool,
    /// When to decide again if nothing is heard.
    look_at: u64,
    /// The pods as the API server shows them.
    pods: String,
    /// Its part in objects; without one the pods are simply there.
    pub whole: Option<Whole>,
}

impl Operator {
    pub fn new(setup: &Setup) -> Operator {
        let target = Target {
            cluster: setup.name.to_owned(),
            masters: setup.masters,
            replicas_per_master: setup.replicas,
            persistent: setup.persistent,
            node_timeout: Duration::from_secs(5),
        };
        Operator {
            cluster: setup.name.to_owned(),
            target,
            durable: Durable::default(),
            decision: Decision::default(),
            faults: Faults::default(),
            killed_after: None,
            acted: 0,
            transcript: Vec::new(),
            heard: BTreeMap::new(),
            last_answers: BTreeMap::new(),
            flights: Vec::new(),
            absent_until: 0,
            transcribed: String::new(),
            stirred: true,
            look_at: 0,
            pods: String::new(),
            whole: None,
        }
    }

    /// An operator that makes the objects too.
    pub fn whole(setup: &Setup) -> Result<Operator, String> {
        Ok(Operator { whole: Some(Whole::new(setup)?), ..Operator::new(setup) })
    }

    pub fn step(&mut self, world: &mut World, mut kubernetes: Option<&mut Kubernetes>) -> Result<(), String> {
        if world.now < self.absent_until {
            return Ok(());
        }
        self.listen(world);
        self.fly(world);
        if let Some((whole, kubernetes)) = self.whole.as_mut().zip(kubernetes.as_deref_mut()) {
            self.stirred |= whole.land(kubernetes, world);
        }
        self.decision.commands.clear();
        if !std::mem::take(&mut self.stirred) && world.now < self.look_at {
            return Ok(());
        }
        let decision = self.decide(world, kubernetes.as_deref())?;
        let pause = decision.requeue_after.and_then(|pause| u64::try_from(pause.as_millis()).ok());
        self.look_at = pause.map_or(u64::MAX, |pause| world.now + pause);
        self.tell(world.now, &decision);
        self.send(world, &decision);
        let acts = decision.commands.iter().any(|command| !command.action.is_reading());
        self.acted += usize::from(acts);
        if acts && self.killed_after == Some(self.acted) {
            self.kill(world, kubernetes, 2_000);
            return Ok(());
        }
        self.durable = Durable {
            shards: decision.shards.clone(),
            orchestration: decision.orchestration.clone(),
            queue: decision.queue.clone(),
        };
        self.decision = decision;
        Ok(())
    }

    /// Decides, and begins the writes if there are any.
    fn decide(&mut self, world: &World, kubernetes: Option<&Kubernetes>) -> Result<Decision, String> {
        let seen = self.observe(world);
        let Some((whole, kubernetes)) = self.whole.as_mut().zip(kubernetes) else {
            let decision = decide(&self.target, &seen, world.timestamp());
            let checked = check_commands(&decision.commands, &self.target, &seen);
            return checked.map(|()| decision).map_err(|violation| format!("{} ms: {violation}", world.now));
        };
        let (decision, writes) = whole.plan(kubernetes, world, seen)?;
        let lines = whole.begin(writes, world.now);
        self.transcript.extend(lines.iter().map(|line| format!("{:>7} ms  {line}", world.now)));
        Ok(decision)
    }

    /// The operator dies; the next one knows the status only. Commands and writes on their way arrive or do not.
    pub fn kill(&mut self, world: &mut World, kubernetes: Option<&mut Kubernetes>, absence: u64) {
        if let Some((whole, kubernetes)) = self.whole.as_mut().zip(kubernetes) {
            whole.die(kubernetes, world);
        }
        self.transcript.push(format!("{:>7} ms  the operator is killed", world.now));
        for flight in std::mem::take(&mut self.flights) {
            if world.chance.bool() {
                flight.actions.iter().for_each(|action| drop(world.execute(&flight.pod, action)));
            }
        }
        self.heard.clear();
        self.last_answers.clear();
        self.stirred = true;
        self.absent_until = world.now + absence;
    }

    /// A user edits the ValkeyCluster.
    pub fn ask_for(&mut self, masters: i32, replicas: i32) {
        self.stirred = true;
        if let Some(whole) = &mut self.whole {
            whole.ask_for(masters, replicas);
        }
    }

    /// Something happened that it looks at.
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// Told a node something at the last look, or is writing.
    pub fn is_busy(&self) -> bool {
        !self.decision.commands.is_empty() || self.whole.as_ref().is_some_and(Whole::is_writing)
    }

    pub fn healthy(&self) -> bool {
        if let Some(whole) = &self.whole {
            return whole.is_ready();
        }
        let findings = [FindingKind::SlotsCovered, FindingKind::ReplicasInSync, FindingKind::ViewsAgree];
        findings.iter().all(|kind| self.decision.is(*kind)) && self.decision.orchestration.is_none()
    }

    pub fn blocked(&self) -> bool {
        let whole = self.whole.as_ref();
        whole.map_or_else(|| self.decision.is(FindingKind::Degraded), |whole| whole.troubles().next().is_some())
    }

    fn pods<'w>(&self, world: &'w World) -> Vec<&'w Pod> {
        let prefix = format!("{}-", self.cluster);
        world.pods.values().filter(|pod| pod.name.starts_with(&prefix)).collect()
    }

    fn unlucky(world: &mut World, chance: u32) -> bool {
        chance > 0 && world.chance.u32(..chance) == 0
    }

    /// Sidecars speak when something changed, a moment later.
    fn listen(&mut self, world: &mut World) {
        let mut present = Vec::new();
        let shown = |pod: &&Pod| {
            format!("{} {} {:?}{};", pod.uid, pod.ip, std::mem::discriminant(&pod.process), pod.ending.is_some())
        };
        let pods: String = self.pods(world).iter().map(shown).collect();
        self.stirred |= pods != self.pods;
        self.pods = pods;
        let heartbeats: Vec<(u64, bool, Option<NodeFacts>)> =
            self.pods(world).iter().map(|pod| heartbeat(world, pod)).collect();
        for (uid, connected, facts) in heartbeats {
            if !connected {
                let last = self.heard.remove(&uid);
                self.stirred |= last.is_some();
                if last.is_some_and(|heard| heard.facts.is_some()) {
                    self.last_answers.insert(uid, world.timestamp());
                }
                continue;
            }
            present.push(uid);
            let late = Self::unlucky(world, self.faults.late_heartbeat);
            self.stirred |= !self.heard.contains_key(&uid);
            let heard = self.heard.entry(uid).or_default();
            let changed =
                heard.facts.as_ref().zip(facts.as_ref()).is_none_or(|(old, new)| matters(old) != matters(new));
            let changed = changed && (heard.facts.is_some() || facts.is_some());
            if changed && !late {
                self.stirred = true;
                heard.last_id = facts.as_ref().map(|facts| facts.node_id.clone()).or(heard.last_id.take());
                heard.facts = facts;
            }
        }
        self.heard.retain(|uid, _| present.contains(uid));
        self.flights.retain(|flight| present.contains(&flight.uid));
    }

    fn fly(&mut self, world: &mut World) {
        let (mut flights, now) = (std::mem::take(&mut self.flights), world.now);
        for flight in flights.iter_mut().filter(|flight| flight.next_at <= now) {
            while !flight.actions.is_empty() {
                self.land(world, flight);
            }
        }
        flights.retain(|flight| !flight.actions.is_empty());
        self.flights = flights;
    }

    /// Carries out the next command of a pod and hears the answer, or not.
    fn land(&mut self, world: &mut World, flight: &mut Flight) {
        let Some(action) = flight.actions.pop_front() else { return };
        let arrives = !Self::unlucky(world, self.faults.lost_command);
        let done = if arrives { world.execute(&flight.pod, &action) } else { Outcome::Done };
        let answered = arrives && !Self::unlucky(world, self.faults.lost_answer);
        let outcome = if answered { done } else { Outcome::Failed("no answer".to_owned()) };
        if outcome != Outcome::Done {
            flight.actions.clear();
        }
        self.answer(world, flight, action, outcome);
    }

    fn answer(&mut self, world: &mut World, flight: &Flight, action: Action, outcome: Outcome) {
        self.stirred = true;
        let stale = Self::unlucky(world, self.faults.stale_view);
        let node = world.node(&flight.pod);
        let Some(heard) = self.heard.get_mut(&flight.uid) else { return };
        if let Some(node) = node.filter(|_| outcome == Outcome::Done) {
            if action == Action::ReadView && !(stale && heard.view.is_some()) {
                heard.view = Some(node.view(world.timestamp()));
            }
            heard.facts = Some(facts(world, node));
            heard.last_id = Some(node.id.clone());
        }
        let (orchestration, step_version) = flight.fence.clone();
        let reads = action.is_reading();
        if !reads || outcome != Outcome::Done {
            heard.answer = Some(Answered { at: world.timestamp(), orchestration, step_version, action, outcome });
        } else if heard.answer.as_ref().is_some_and(|answer| answer.action.is_reading()) {
            heard.answer = None;
        }
    }

    fn observe(&self, world: &World) -> NodeObservation {
        let pods = self.pods(world).into_iter().map(|pod| self.seen(world, pod)).collect();
        let Durable { shards: recorded, orchestration: running, queue, .. } = self.durable.clone();
        NodeObservation { pods, recorded, running, queue }
    }

    fn seen(&self, world: &World, pod: &Pod) -> PodObservation {
        let heard = self.heard.get(&pod.uid);
        let connected = heard.is_some();
        let answering = heard.and_then(|heard| heard.facts.clone()).filter(|_| pod.node().is_some());
        let answering = answering.map(|facts| in_whole_seconds(facts, world.now + 377 * pod.uid));
        let valkey = match (&pod.process, answering) {
            (_, Some(facts)) => Valkey::Answers(facts),
            (Process::Gate(waiting), _) if connected => Valkey::Waiting(boot(world, pod, waiting)),
            (Process::Starting(_), _) if connected => Valkey::Down {
                since: stamp(world, pod.died_at),
                node_id: heard.and_then(|heard| heard.last_id.clone()),
            },
            _ => Valkey::Unknown,
        };
        PodObservation {
            name: PodName::new(&pod.name),
            uid: PodUid::new(pod.uid.to_string()),
            ip: Some(pod.ip.clone()),
            location: Location {
                node: Some(pod.kubernetes_node.clone()),
                zone: Some(pod.zone.clone()).filter(|z| !z.is_empty()),
            },
            zone_awaited: false,
            ready: pod.node().is_some(),
            terminating: pod.ending.is_some(),
            connected,
            last_answer: self.last_answers.get(&pod.uid).copied().filter(|_| !connected),
            last_position: pod.last_position.clone().filter(|_| connected && pod.node().is_none()),
            valkey,
            view: heard.and_then(|heard| heard.view.clone()),
            under_way: self
                .flights
                .iter()
                .filter(|flight| flight.uid == pod.uid)
                .flat_map(|flight| flight.actions.clone())
                .collect(),
            answer: heard.and_then(|heard| heard.answer.clone()),
        }
    }

    fn send(&mut self, world: &mut World, decision: &Decision) {
        let (id, version) = decision.fence();
        let fence = (id.to_owned(), version);
        let mut batches: BTreeMap<(String, u64), VecDeque<Action>> = BTreeMap::new();
        for PodCommand { pod, pod_uid, action } in &decision.commands {
            let uid = pod_uid.as_str().parse().unwrap_or_default();
            batches.entry((pod.to_string(), uid)).or_default().push_back(action.clone());
        }
        for ((pod, uid), actions) in batches {
            let late = if self.faults.delay == 0 { 0 } else { world.chance.u64(..self.faults.delay) };
            let next_at = world.now + TICK + late;
            self.flights.push(Flight { uid, pod, actions, next_at, fence: fence.clone() });
        }
    }

    /// Notes what changed for the reader of the transcript.
    fn tell(&mut self, now: u64, decision: &Decision) {
        let acts = decision.commands.iter().filter(|command| !command.action.is_reading());
        let step = decision.orchestration.as_ref().map(|running| format!("{:?}/{:?}", running.kind, running.step));
        let step = step.unwrap_or_else(|| "idle".to_owned());
        for event in &decision.events {
            self.transcript.push(format!("{now:>7} ms  event {}", event.reason));
        }
        for command in acts {
            self.transcript.push(format!("{now:>7} ms  {step}: {}: {}", command.pod, command.action));
        }
        let waits = decision.plan.join(" | ");
        if waits != self.transcribed && waits.contains("waiting for:") {
            self.transcript.push(format!("{now:>7} ms  plan: {waits}"));
        }
        self.transcribed = waits;
    }
}

fn heartbeat(world: &World, pod: &Pod) -> (u64, bool, Option<NodeFacts>) {
    let connected = pod.sidecar && !world.cut.contains(&pod.kubernetes_node) && !matches!(pod.process, Process::Broken);
    (pod.uid, connected, pod.node().map(|node| facts(world, node)))
}

/// What makes a sidecar speak before its heartbeat is due.
fn matters(facts: &NodeFacts) -> impl PartialEq + use<'_> {
    (
        &facts.node_id,
        facts.role,
        &facts.primary,
        facts.primary_link_up,
        &facts.summary,
        facts.keys == 0,
        facts.started_at,
    )
}

fn facts(world: &World, node: &Node) -> NodeFacts {
    NodeFacts {
        node_id: node.id.clone(),
        role: node.role,
        loading: node.syncing_until.is_some(),
        replication_offset: node.offset,
        replication_id: Some(node.position().replication_id),
        primary: node.primary.clone(),
        primary_link_up: node.link_up,
        following: following(world, node),
        keys: u64::try_from(node.keys.len()).unwrap_or(u64::MAX),
        started_at: Some(stamp(world, node.started_at)),
        summary: node.summary(),
    }
}

/// A node tells its uptime in whole seconds, so the time of its start is another one at every look.
fn in_whole_seconds(facts: NodeFacts, moment: u64) -> NodeFacts {
    let rest = Duration::from_millis(moment % 1_000);
    NodeFacts { started_at: facts.started_at.and_then(|started| started.checked_add(rest).ok()), ..facts }
}

fn following(world: &World, node: &Node) -> Following {
    match node.link_lost_at {
        _ if node.role == Role::Primary => Following::Unknown,
        _ if node.link_up => Following::Now,
        Some(lost) => Following::Until(stamp(world, lost)),
        None => Following::Never,
    }
}

fn boot(world: &World, pod: &Pod, waiting: &Waiting) -> Boot {
    let past = sidecar::past(pod);
    let was = past.node();
    let known_replicas = was.into_iter().flat_map(PastNode::copies).filter(|peer| !peer.unlisted);
    Boot {
        since: stamp(world, waiting.since),
        reason: waiting.reason.clone(),
        last_node_id: was.map(|was| was.id.clone()),
        last_role: was.map(|was| was.role),
        has_data: pod.disk.data.is_some(),
        clean_stop: false,
        owned_slots: was.is_some_and(|was| !was.slots.is_empty()),
        known_replicas: known_replicas.map(|peer| peer.id.clone()).collect(),
        better_copy: world.better_copy(pod),
        journal: pod.disk.data.is_some(),
    }
}

fn stamp(world: &World, at: u64) -> jiff::Timestamp {
    let back = i64::try_from(world.now.saturating_sub(at)).unwrap_or_default();
    world.timestamp() - jiff::SignedDuration::from_millis(back)
}
