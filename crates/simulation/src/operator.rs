//! An operator that hears sidecars, decides, commands, and forgets everything but the status when it is killed. In memory.

use crate::kubernetes::Kubernetes;
use crate::line::Line;
use crate::whole::Whole;
use crate::world::{Setup, World};
use api::cluster::ValkeyClusterSpec;
use planner::nodes::{Decision, FindingKind, NodeObservation, Orchestration, Queued, Shard, Target, decide};
use planner::safety::check_commands;
use std::time::Duration;

/// What is in the status of the resource.
#[derive(Clone, Default, PartialEq)]
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
    pub line: Line,
    /// It is killed right after its n-th decision that changes something.
    pub killed_after: Option<usize>,
    /// Decisions that changed something, since the beginning.
    pub acted: usize,
    pub transcript: Vec<String>,
    absent_until: u64,
    transcribed: String,
    /// Something was heard since the last decision.
    stirred: bool,
    /// When to decide again if nothing is heard.
    look_at: u64,
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
            min_replicas_to_write: 0,
        };
        Operator {
            cluster: setup.name.to_owned(),
            target,
            durable: Durable::default(),
            decision: Decision::default(),
            line: Line::of(setup.name),
            killed_after: None,
            acted: 0,
            transcript: Vec::new(),
            absent_until: 0,
            transcribed: String::new(),
            stirred: true,
            look_at: 0,
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
        self.stirred |= self.line.listen(world);
        self.stirred |= self.line.fly(world);
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
        self.line.send(world, &decision);
        let acts = decision.commands.iter().any(|command| !command.action.is_reading());
        self.acted += usize::from(acts);
        if acts && self.killed_after == Some(self.acted) {
            self.kill(world, kubernetes, 2_000);
            return Ok(());
        }
        self.publish(&decision);
        self.decision = decision;
        Ok(())
    }

    /// Whoever watches the resource sees a status that was written, the operator too.
    fn publish(&mut self, decision: &Decision) {
        let next = Durable {
            shards: decision.shards.clone(),
            orchestration: decision.orchestration.clone(),
            queue: decision.queue.clone(),
        };
        self.stirred |= next != self.durable;
        self.durable = next;
    }

    /// Decides, and begins the writes if there are any.
    fn decide(&mut self, world: &World, kubernetes: Option<&Kubernetes>) -> Result<Decision, String> {
        let Durable { shards: recorded, orchestration: running, queue } = self.durable.clone();
        let seen = NodeObservation { pods: self.line.seen(world), recorded, running, queue };
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
        self.line.die(world);
        self.stirred = true;
        self.absent_until = world.now + absence;
    }

    /// A user edits the ValkeyCluster.
    pub fn ask_for(&mut self, masters: i32, replicas: i32) {
        self.edit(|spec| (spec.master_count, spec.replicas_per_master) = (Some(masters), Some(replicas)));
    }

    pub fn edit(&mut self, edit: impl FnOnce(&mut ValkeyClusterSpec)) {
        self.stirred = true;
        if let Some(whole) = &mut self.whole {
            whole.edit(edit);
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
