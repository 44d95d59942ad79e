//! The operator's end of the line: what was last heard of each pod, and the commands on their way to it. In memory.

use crate::heartbeat::{self, Heartbeat};
use crate::pod::{Pod, Process};
use crate::world::{TICK, World};
use planner::nodes::{Action, Answered, Decision, NodeFacts, Outcome, PodCommand, PodObservation, Valkey};
use std::collections::{BTreeMap, VecDeque};
use topology::{Location, NodeId, NodeView, PodName, PodUid, Role};

/// How long one move of slots takes.
const MOVING: u64 = 400;

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
pub struct Line {
    pub faults: Faults,
    cluster: String,
    heard: BTreeMap<u64, Heard>,
    /// When those that are not on the line were last heard.
    last_answers: BTreeMap<u64, jiff::Timestamp>,
    flights: Vec<Flight>,
    /// The pods as the API server shows them.
    pods: String,
}

#[derive(Default)]
struct Heard {
    facts: Option<NodeFacts>,
    /// The id it last told, for when it is down.
    last_id: Option<NodeId>,
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

impl Line {
    pub fn of(cluster: &str) -> Line {
        Line { cluster: cluster.to_owned(), ..Line::default() }
    }

    /// The operator died: what was said is forgotten, and commands on their way arrive or do not.
    pub(crate) fn die(&mut self, world: &mut World) {
        for flight in std::mem::take(&mut self.flights) {
            if world.chance.bool() {
                flight.actions.iter().for_each(|action| drop(world.execute(&flight.pod, action)));
            }
        }
        self.heard.clear();
        self.last_answers.clear();
    }

    /// Sidecars speak when something changed, a moment later. True when there is something new.
    pub(crate) fn listen(&mut self, world: &mut World) -> bool {
        let mut news = self.look_at_pods(world);
        let heartbeats: Vec<Heartbeat> = self.pods(world).iter().map(|pod| Heartbeat::of(world, pod)).collect();
        let present: Vec<u64> = heartbeats.iter().filter(|beat| beat.connected).map(|beat| beat.uid).collect();
        for beat in heartbeats {
            news |= if beat.connected { self.hear(world, beat) } else { self.miss(world, beat.uid) };
        }
        self.heard.retain(|uid, _| present.contains(uid));
        self.flights.retain(|flight| present.contains(&flight.uid));
        news
    }

    fn look_at_pods(&mut self, world: &World) -> bool {
        let shown = |pod: &&Pod| {
            format!("{} {} {:?}{};", pod.uid, pod.ip, std::mem::discriminant(&pod.process), pod.ending.is_some())
        };
        let pods: String = self.pods(world).iter().map(shown).collect();
        let before = std::mem::replace(&mut self.pods, pods);
        before != self.pods
    }

    fn hear(&mut self, world: &mut World, beat: Heartbeat) -> bool {
        let late = unlucky(world, self.faults.late_heartbeat);
        let new = !self.heard.contains_key(&beat.uid);
        let heard = self.heard.entry(beat.uid).or_default();
        let told = !late && heartbeat::differ(heard.facts.as_ref(), beat.facts.as_ref());
        if told {
            heard.last_id = beat.facts.as_ref().map(|facts| facts.node_id.clone()).or(heard.last_id.take());
            heard.facts = beat.facts;
        }
        new || told
    }

    fn miss(&mut self, world: &World, uid: u64) -> bool {
        let last = self.heard.remove(&uid);
        if last.as_ref().is_some_and(|heard| heard.facts.is_some()) {
            self.last_answers.insert(uid, world.timestamp());
        }
        last.is_some()
    }

    /// Commands that are due are carried out. True when there is an answer.
    pub(crate) fn fly(&mut self, world: &mut World) -> bool {
        let (mut flights, now) = (std::mem::take(&mut self.flights), world.now);
        let mut answered = false;
        for flight in flights.iter_mut().filter(|flight| flight.next_at <= now) {
            while !flight.actions.is_empty() {
                self.land(world, flight);
                answered = true;
            }
        }
        flights.retain(|flight| !flight.actions.is_empty());
        self.flights = flights;
        answered
    }

    /// Carries out the next command of a pod and hears the answer, or not.
    fn land(&mut self, world: &mut World, flight: &mut Flight) {
        let Some(action) = flight.actions.pop_front() else { return };
        let arrives = !unlucky(world, self.faults.lost_command);
        let had_to = world.node(&flight.pod).is_some_and(|node| node.role == Role::Replica);
        let changed = had_to || !matches!(action, Action::Failover(..));
        let done = if arrives { world.execute(&flight.pod, &action) } else { Outcome::Done };
        let answered = arrives && !unlucky(world, self.faults.lost_answer);
        let outcome = if answered { done } else { Outcome::Failed("no answer".to_owned()) };
        if outcome != Outcome::Done {
            flight.actions.clear();
        }
        self.answer(world, flight, action, (outcome, changed));
    }

    fn answer(&mut self, world: &mut World, flight: &Flight, action: Action, (outcome, changed): (Outcome, bool)) {
        let stale = unlucky(world, self.faults.stale_view);
        let node = world.node(&flight.pod);
        let Some(heard) = self.heard.get_mut(&flight.uid) else { return };
        if let Some(node) = node.filter(|_| outcome == Outcome::Done) {
            if action == Action::ReadView && !(stale && heard.view.is_some()) {
                heard.view = Some(node.view(world.timestamp()));
            }
            heard.facts = Some(heartbeat::facts(world, node));
            heard.last_id = Some(node.id.clone());
        }
        let (orchestration, step_version) = flight.fence.clone();
        let reads = action.is_reading();
        if !reads || outcome != Outcome::Done {
            let at = world.timestamp();
            heard.answer = Some(Answered { at, orchestration, step_version, action, outcome, changed });
        } else if heard.answer.as_ref().is_some_and(|answer| answer.action.is_reading()) {
            heard.answer = None;
        }
    }

    pub(crate) fn send(&mut self, world: &mut World, decision: &Decision) {
        let (id, version) = decision.fence();
        let fence = (id.to_owned(), version);
        let mut batches: BTreeMap<(String, u64), VecDeque<Action>> = BTreeMap::new();
        for PodCommand { pod, pod_uid, action } in &decision.commands {
            let uid = pod_uid.as_str().parse().unwrap_or_default();
            batches.entry((pod.to_string(), uid)).or_default().push_back(action.clone());
        }
        for ((pod, uid), actions) in batches {
            let late = if self.faults.delay == 0 { 0 } else { world.chance.u64(..self.faults.delay) };
            let moves = actions.iter().any(|action| matches!(action, Action::MigrateSlots(..)));
            let next_at = world.now + TICK + late + if moves { MOVING } else { 0 };
            self.flights.push(Flight { uid, pod, actions, next_at, fence: fence.clone() });
        }
    }

    fn pods<'w>(&self, world: &'w World) -> Vec<&'w Pod> {
        let prefix = format!("{}-", self.cluster);
        world.pods.values().filter(|pod| pod.name.starts_with(&prefix)).collect()
    }

    /// What is known of the cluster's pods now.
    pub(crate) fn seen(&self, world: &World) -> Vec<PodObservation> {
        self.pods(world).into_iter().map(|pod| self.pod_seen(world, pod)).collect()
    }

    fn pod_seen(&self, world: &World, pod: &Pod) -> PodObservation {
        let heard = self.heard.get(&pod.uid);
        let connected = heard.is_some();
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
            valkey: valkey(world, pod, heard),
            view: heard.and_then(|heard| heard.view.clone()),
            under_way: self.under_way(pod.uid),
            answer: heard.and_then(|heard| heard.answer.clone()),
        }
    }

    fn under_way(&self, uid: u64) -> Vec<Action> {
        self.flights.iter().filter(|flight| flight.uid == uid).flat_map(|flight| flight.actions.clone()).collect()
    }
}

fn valkey(world: &World, pod: &Pod, heard: Option<&Heard>) -> Valkey {
    let answering = heard.and_then(|heard| heard.facts.clone()).filter(|_| pod.node().is_some());
    let answering = answering.map(|facts| heartbeat::in_whole_seconds(facts, world.now + 377 * pod.uid));
    match (&pod.process, answering, heard) {
        (_, Some(facts), _) => Valkey::Answers(facts),
        (Process::Gate(waiting), _, Some(_)) => Valkey::Waiting(heartbeat::boot(world, pod, waiting)),
        (Process::Starting(_), _, Some(heard)) => {
            Valkey::Down { since: heartbeat::stamp(world, pod.died_at), node_id: heard.last_id.clone() }
        }
        _ => Valkey::Unknown,
    }
}

fn unlucky(world: &mut World, chance: u32) -> bool {
    chance > 0 && world.chance.u32(..chance) == 0
}
