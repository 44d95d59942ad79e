//! A world with its operators, run until something is true; the oracle is asked after every tick. In memory.

use crate::kubernetes::Kubernetes;
use crate::operator::Operator;
use crate::world::{Setup, TICK, World};

/// Longer than a forgotten node stays forgotten.
const QUIET: u64 = 65_000;

pub struct Stage {
    pub world: World,
    pub operators: Vec<Operator>,
    /// The control plane, when the objects are part of the play.
    pub kubernetes: Option<Kubernetes>,
}

impl Stage {
    pub fn new(seed: u64, setups: &[Setup]) -> Stage {
        let mut world = World::new(seed);
        setups.iter().for_each(|setup| world.add(setup));
        Stage { world, operators: setups.iter().map(Operator::new).collect(), kubernetes: None }
    }

    /// Nothing is there but a ValkeyCluster: the operator makes the objects and the StatefulSet controller the pods.
    pub fn whole(seed: u64, setup: &Setup) -> Result<Stage, String> {
        let mut world = World::new(seed);
        world.prepare(setup);
        Ok(Stage { world, operators: vec![Operator::whole(setup)?], kubernetes: Some(Kubernetes::new(setup)?) })
    }

    pub fn kill_operators(&mut self, absence: u64) {
        let Stage { world, operators, kubernetes } = self;
        operators.iter_mut().for_each(|operator| operator.kill(world, kubernetes.as_mut(), absence));
    }

    pub fn tick(&mut self) -> Result<(), String> {
        let Stage { world, operators, kubernetes } = self;
        world.tick();
        if let Some(kubernetes) = kubernetes {
            kubernetes.tick(world);
        }
        for operator in operators {
            operator.step(world, kubernetes.as_mut())?;
        }
        if let Some(pod) = &self.world.wrongly_ended {
            return Err(format!("{} ms: {pod} was ended with its slots", self.world.now));
        }
        let lost = self.world.lost();
        if !lost.is_empty() {
            return Err(format!("{} ms: nobody holds keys {lost:?}", self.world.now));
        }
        self.world
            .mixed()
            .map_or(Ok(()), |pod| Err(format!("{} ms: {pod} knows a node of another cluster", self.world.now)))
    }

    pub fn run(&mut self, milliseconds: u64) -> Result<(), String> {
        (0..milliseconds / TICK).try_for_each(|_| self.tick())
    }

    /// Runs until every operator says its cluster is whole; how long that took.
    pub fn until_healthy(&mut self, limit: u64) -> Result<u64, String> {
        let start = self.world.now;
        self.tick()?;
        while !self.operators.iter().all(Operator::healthy) {
            if self.world.now > start + limit {
                return Err(self.complaint());
            }
            self.tick()?;
        }
        let contested = self.operators.iter().any(|operator| self.world.contested(&operator.cluster));
        if contested { Err("a slot has two owners".to_owned()) } else { Ok(self.world.now - start) }
    }

    /// Runs until every cluster has been whole for so long that nothing of its past is remembered by any node, or the limit is
    /// reached.
    pub fn until_settled(&mut self, limit: u64) -> Result<(), String> {
        let (start, mut whole_since) = (self.world.now, self.world.now);
        while self.world.now < start + limit && self.world.now < whole_since + QUIET {
            self.tick()?;
            if !self.operators.iter().all(Operator::healthy) {
                whole_since = self.world.now;
            }
        }
        Ok(())
    }

    /// Runs on and fails if anybody is told anything.
    pub fn stays_still(&mut self, milliseconds: u64) -> Result<(), String> {
        for _ in 0..milliseconds / TICK {
            self.tick()?;
            if let Some(operator) = self.operators.iter().find(|operator| operator.is_busy()) {
                return Err(format!("{} ms: not still: {:?}", self.world.now, operator.decision.commands));
            }
        }
        Ok(())
    }

    /// A line in the first cluster's transcript.
    pub fn note(&mut self, text: &str) {
        let line = format!("{:>7} ms  -- {text}", self.world.now);
        self.operators.iter_mut().take(1).for_each(|operator| operator.transcript.push(line.clone()));
    }

    /// Why it is not whole, for whoever reads a failed test.
    pub fn complaint(&self) -> String {
        let say = |operator: &Operator| {
            let findings: Vec<String> = operator
                .decision
                .findings
                .iter()
                .map(|f| format!("{:?}={:?} {}", f.kind, f.status, f.message))
                .collect();
            let last = operator.transcript.iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n");
            format!(
                "{last}\n{}running {:?}\nplan {:?}\n{}",
                operator.whole.as_ref().map(|whole| format!("{:?}\n", whole.report)).unwrap_or_default(),
                operator.decision.orchestration,
                operator.decision.plan,
                findings.join("\n")
            )
        };
        let nodes = self.world.pods.values().map(|pod| match pod.node() {
            Some(n) => format!(
                "{} {} {:?} of {:?} slots {} keys {} knows {}",
                pod.name,
                n.id.short(),
                n.role,
                n.primary.as_ref().map(|id| id.short().to_owned()),
                n.slots,
                n.keys.len(),
                n.peers.len()
            ),
            None => format!(
                "{} {:?}",
                pod.name,
                match pod.process {
                    crate::Process::Gate(_) => "gate",
                    _ => "not running",
                }
            ),
        });
        let nodes = nodes.collect::<Vec<_>>().join("\n");
        format!(
            "{} ms: not whole\n{}\n{nodes}",
            self.world.now,
            self.operators.iter().map(say).collect::<Vec<_>>().join("\n")
        )
    }
}
