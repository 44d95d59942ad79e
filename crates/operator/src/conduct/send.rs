//! Carries commands to pods: pods beside each other, the commands of one pod in their order. Each end of a pod's commands is
//! worth another look at its cluster.

use super::{Conductor, words};
use crate::cache::ClusterName;
use crate::line::CommandError;
use k8s_openapi::jiff::Timestamp;
use link::contract::{Fence, answer};
use planner::nodes::{Action, Answered, Outcome, PodCommand};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a set of commands is for.
#[derive(Clone, Debug)]
pub struct Errand {
    pub cluster: ClusterName,
    pub cluster_uid: String,
    pub orchestration: String,
    pub step_version: u64,
}

impl Conductor {
    /// Sends the commands and returns; the answers are there at a later look.
    pub fn send(self: &Arc<Self>, errand: &Errand, commands: Vec<PodCommand>) {
        let mut by_pod: BTreeMap<String, Vec<PodCommand>> = BTreeMap::new();
        for command in commands {
            by_pod.entry(command.pod_uid.as_str().to_owned()).or_default().push(command);
        }
        for (pod, commands) in by_pod {
            let actions = commands.iter().map(|command| command.action.clone()).collect();
            if !self.change(&errand.cluster_uid, &pod, |memory| memory.under_way = actions) {
                continue;
            }
            let (conductor, errand) = (self.clone(), errand.clone());
            tokio::spawn(async move { conductor.carry_out(&pod, &commands, &errand).await });
        }
    }

    /// What comes after a command that was not fulfilled is decided anew.
    pub(super) async fn carry_out(&self, pod: &str, commands: &[PodCommand], errand: &Errand) {
        // Also when this task is dropped: a pod must not stay busy for ever.
        let _finished = Finished { conductor: self, pod, errand };
        for command in commands {
            let outcome = self.command(pod, &command.action, errand).await;
            self.log(command, &outcome, errand);
            let fulfilled = outcome == Outcome::Done;
            let answered = Answered {
                at: Timestamp::now(),
                orchestration: errand.orchestration.clone(),
                step_version: errand.step_version,
                action: command.action.clone(),
                outcome,
            };
            let known = self.change(&errand.cluster_uid, pod, |memory| memory.answered(answered));
            if !fulfilled || !known {
                return;
            }
        }
    }

    async fn command(&self, pod: &str, action: &Action, errand: &Errand) -> Outcome {
        let Some(epoch) = self.line.commander.epoch() else {
            return Outcome::Failed("this operator does not lead".to_owned());
        };
        let fence = Fence {
            cluster_uid: errand.cluster_uid.clone(),
            orchestration_id: errand.orchestration.clone(),
            step_version: errand.step_version,
            epoch,
        };
        let connection = self.line.roster.of_pod(pod).map(|facts| facts.presence);
        let asked = Timestamp::now();
        let answer = self.line.commander.command(pod, fence, words::action(action), action.deadline()).await;
        if let (Ok(answer::Outcome::Done(done)), Some(connection)) = (&answer, connection) {
            self.change(&errand.cluster_uid, pod, |memory| memory.learn(done, connection, asked));
        }
        outcome(answer)
    }

    fn log(&self, command: &PodCommand, outcome: &Outcome, errand: &Errand) {
        let (cluster, namespace) = (&errand.cluster.name, &errand.cluster.namespace);
        let (pod, orchestration) = (command.pod.as_str(), &errand.orchestration);
        match outcome {
            Outcome::Done if command.action.is_reading() => {}
            Outcome::Done => tracing::info!(cluster, namespace, orchestration, pod, "done: {}", command.action),
            Outcome::Refused(why) | Outcome::Failed(why) => {
                tracing::warn!(cluster, namespace, orchestration, pod, why, "not done: {}", command.action);
            }
        }
    }
}

fn outcome(answer: Result<answer::Outcome, CommandError>) -> Outcome {
    match answer {
        Ok(answer::Outcome::Done(_)) => Outcome::Done,
        Ok(answer::Outcome::Refused(refused)) => Outcome::Refused(refused.detail),
        Ok(answer::Outcome::Failed(failed)) => Outcome::Failed(failed.detail),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

struct Finished<'a> {
    conductor: &'a Conductor,
    pod: &'a str,
    errand: &'a Errand,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.conductor.change(&self.errand.cluster_uid, self.pod, |memory| memory.under_way.clear());
        self.conductor.line.territory.look_at(&self.errand.cluster);
    }
}
