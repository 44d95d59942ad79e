//! Events on claims and volumes. IO; an Event that cannot be written is logged and never stops the work.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::PROVISIONER;

#[derive(Clone)]
pub struct Report {
    recorder: Recorder,
}

impl Report {
    pub fn new(client: Client) -> Self {
        Self { recorder: Recorder::new(client, Reporter { controller: PROVISIONER.into(), instance: None }) }
    }

    pub async fn success(&self, about: &ObjectReference, reason: &str, note: String) {
        tracing::info!(object = about.name.as_deref().unwrap_or(""), reason, "{note}");
        self.publish(EventType::Normal, about, reason, note).await;
    }

    pub async fn failure(&self, about: &ObjectReference, reason: &str, note: String) {
        tracing::warn!(object = about.name.as_deref().unwrap_or(""), reason, "{note}");
        self.publish(EventType::Warning, about, reason, note).await;
    }

    async fn publish(&self, type_: EventType, about: &ObjectReference, reason: &str, note: String) {
        let event =
            Event { type_, reason: reason.into(), note: Some(note), action: "Provision".into(), secondary: None };
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::warn!(%error, reason, "cannot write an Event");
        }
    }
}
