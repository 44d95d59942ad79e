//! Carries commands to pods: pods beside each other, the commands of one pod in their order. Each end of a pod's commands is
//! worth another pass over its cluster.

use super::{CommandDispatcher, wire};
use crate::line::CommandError;
use crate::runtime::ObjectId;
use crate::shortened::shortened;
use k8s_openapi::jiff::Timestamp;
use link::contract::{Fence, answer};
use planner::nodes::{Action, Answered, Outcome, PodCommand};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a set of commands is for.
#[derive(Clone, Debug)]
pub struct CommandContext {
    pub cluster: ObjectId,
    pub orchestration: String,
    pub step_version: u64,
}

impl CommandDispatcher {
    /// Sends the commands and returns; the answers are there at a later pass.
    pub fn send(self: &Arc<Self>, command_context: &CommandContext, commands: Vec<PodCommand>) {
        let mut by_pod: BTreeMap<String, Vec<PodCommand>> = BTreeMap::new();
        for command in commands {
            by_pod.entry(command.pod_uid.as_str().to_owned()).or_default().push(command);
        }
        for (pod, commands) in by_pod {
            let actions = commands.iter().map(|command| command.action.clone()).collect();
            if !self.change(&command_context.cluster, &pod, |memory| memory.under_way = actions) {
                continue;
            }
            let (dispatcher, command_context) = (self.clone(), command_context.clone());
            tokio::spawn(async move { dispatcher.carry_out(&pod, &commands, &command_context).await });
        }
    }

    /// What comes after a command that was not fulfilled is decided anew.
    pub(super) async fn carry_out(&self, pod: &str, commands: &[PodCommand], command_context: &CommandContext) {
        // Also when this task is dropped: a pod must not stay busy for ever.
        let _finished = Finished { dispatcher: self, pod, command_context };
        for command in commands {
            let (outcome, changed) = self.command(pod, &command.action, command_context).await;
            self.log(command, &outcome, command_context);
            let fulfilled = outcome == Outcome::Done;
            let answered = Answered {
                at: Timestamp::now(),
                orchestration: command_context.orchestration.clone(),
                step_version: command_context.step_version,
                action: command.action.clone(),
                outcome,
                changed,
            };
            let known = self.change(&command_context.cluster, pod, |memory| memory.answered(answered));
            if !fulfilled || !known {
                return;
            }
        }
    }

    /// How it ended, and whether that changed anything.
    async fn command(&self, pod: &str, action: &Action, command_context: &CommandContext) -> (Outcome, bool) {
        let Some(epoch) = self.line.streams.epoch() else {
            return (Outcome::Failed("this operator does not lead".to_owned()), false);
        };
        let fence = Fence {
            cluster_uid: command_context.cluster.uid.clone(),
            orchestration_id: command_context.orchestration.clone(),
            step_version: command_context.step_version,
            epoch,
        };
        let connection = self.line.roster.of_pod(pod).map(|facts| facts.presence);
        let asked = Timestamp::now();
        let answer = self.line.streams.command(pod, fence, wire::action(action), action.deadline()).await;
        if let (Ok(answer::Outcome::Done(done)), Some(connection)) = (&answer, connection) {
            self.change(&command_context.cluster, pod, |memory| memory.learn(done, connection, asked));
        }
        let changed = matches!(&answer, Ok(answer::Outcome::Done(done)) if done.changed);
        (outcome(answer), changed)
    }

    fn log(&self, command: &PodCommand, outcome: &Outcome, command_context: &CommandContext) {
        let (cluster, namespace) = (&command_context.cluster.key.name, &command_context.cluster.key.namespace);
        let (pod, orchestration) = (command.pod.as_str(), &command_context.orchestration);
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
        Ok(answer::Outcome::Refused(refused)) => Outcome::Refused(shortened(format_args!("{}", refused.detail))),
        Ok(answer::Outcome::Failed(failed)) => Outcome::Failed(shortened(format_args!("{}", failed.detail))),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

struct Finished<'a> {
    dispatcher: &'a CommandDispatcher,
    pod: &'a str,
    command_context: &'a CommandContext,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.dispatcher.change(&self.command_context.cluster, self.pod, |memory| memory.under_way.clear());
        self.dispatcher.line.scopes.wake(&self.command_context.cluster.key);
    }
}
