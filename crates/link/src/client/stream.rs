//! One Orchestrate stream: each command is checked against the fence, carried out within its deadline, answered. IO.

use super::{Fence, Node, Order};
use crate::channel::Channel;
use crate::contract::{
    Answer, Command, Failed, Hello, Refused, RefusedReason, SidecarMessage, answer::Outcome, command,
    line_client::LineClient, operator_message, sidecar_message,
};
use futures::{StreamExt, stream::FuturesUnordered};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};
use tonic::{Status, Streaming};

/// Commands under way at once; more wait in the stream.
const AT_ONCE: usize = 8;

pub struct Stream<N> {
    pub client: LineClient<Channel>,
    pub node: Arc<N>,
    pub fence: Arc<Fence>,
}

impl<N: Node> Stream<N> {
    /// Obeys until the operator ends the stream; an error when it broke instead.
    pub async fn run(mut self) -> Result<(), Status> {
        let (answers, outgoing) = mpsc::channel(AT_ONCE);
        let hello = Hello { sender: Some(self.node.sender()), highest_epoch: self.fence.highest() };
        let hello = SidecarMessage { message: Some(sidecar_message::Message::Hello(hello)) };
        answers.send(hello).await.map_err(|_| Status::internal("the stream closed before it opened"))?;
        let outgoing = futures::stream::unfold(outgoing, |mut outgoing| async move {
            outgoing.recv().await.map(|message| (message, outgoing))
        });
        let commands = self.client.orchestrate(outgoing).await?.into_inner();
        self.obey(commands, answers).await
    }

    fn admit(&self, command: &Command) -> Result<(), Refused> {
        match reads(command) {
            true => self.fence.admit_reading(command.fence.as_ref()),
            false => self.fence.admit(command.fence.as_ref()),
        }
    }

    async fn obey(
        &self,
        mut commands: Streaming<crate::contract::OperatorMessage>,
        answers: mpsc::Sender<SidecarMessage>,
    ) -> Result<(), Status> {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                message = commands.message(), if running.len() < AT_ONCE => {
                    let Some(message) = message? else { return Ok(()) };
                    if let Some(operator_message::Message::Command(command)) = message.message {
                        // Checked in the order of arrival, before anything runs.
                        let admitted = self.admit(&command);
                        running.push(answer(self.node.as_ref(), command, admitted));
                    }
                }
                Some(answer) = running.next() => {
                    let message = SidecarMessage { message: Some(sidecar_message::Message::Answer(answer)) };
                    answers.send(message).await.map_err(|_| Status::unavailable("the stream is lost"))?;
                }
            }
        }
    }
}

fn reads(command: &Command) -> bool {
    matches!(command.action, Some(command::Action::Probe(_) | command::Action::ReadView(_)))
}

async fn answer<N: Node>(node: &N, command: Command, admitted: Result<(), Refused>) -> Answer {
    let command_id = command.id;
    let outcome = match admitted {
        Ok(()) => carry_out(node, command).await,
        Err(refused) => Outcome::Refused(refused),
    };
    Answer { command_id, outcome: Some(outcome) }
}

async fn carry_out<N: Node>(node: &N, command: Command) -> Outcome {
    let Some(action) = command.action else {
        return refused(RefusedReason::UnknownCommand, "this sidecar is older than the command");
    };
    if command.deadline_milliseconds == 0 {
        return refused(RefusedReason::Invalid, "deadline_milliseconds is 0: every command has a deadline");
    }
    let deadline = Duration::from_millis(command.deadline_milliseconds.into());
    let orchestration_id = command.fence.map(|fence| fence.orchestration_id).unwrap_or_default();
    let order = Order { action, deadline, orchestration_id, traceparent: command.traceparent };
    match timeout(deadline, node.execute(order)).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Failed(Failed {
            detail: format!("not done within {deadline:?}"),
            deadline_passed: true,
            ..Failed::default()
        }),
    }
}

fn refused(reason: RefusedReason, detail: &str) -> Outcome {
    Outcome::Refused(Refused { reason: reason.into(), detail: detail.to_owned(), highest_epoch: 0 })
}
