//! OpenGate: a Valkey that waits before its start is let through.

use super::execution::{Execution, Stop, Work};
use link::contract;
use sidecar_rules::boot::Start;
use std::time::Duration;
use tokio::time::sleep;
use valkey::{Address, Connection};

const POLL: Duration = Duration::from_millis(25);

pub async fn run(execution: &mut Execution<'_>, wanted: contract::Start) -> Work {
    let start = match wanted {
        contract::Start::AsIs => Start::AsIs,
        contract::Start::Fresh => Start::Fresh,
        contract::Start::Unspecified => return Err(Stop::invalid("start is not given: as-is or fresh")),
    };
    if runs(execution).await {
        execution.found("Valkey runs");
        return Ok(false);
    }
    let reason = execution.context.shared.lock().boot.as_ref().map(|boot| boot.reason.clone());
    execution
        .found(format!("Valkey does not run: {}", reason.as_deref().unwrap_or("nobody has asked for its start yet")));
    let _ordered = execution.context.shared.gate.order(start);
    execution.did(format!("opened the gate ({})", wanted.as_str_name()));
    while !execution.left().is_zero() {
        if runs(execution).await {
            return Ok(true);
        }
        sleep(POLL).await;
    }
    // With the order in force it still waits: the guard objects.
    let objection = execution.context.shared.lock().boot.clone().filter(|boot| boot.waiting).map(|boot| boot.reason);
    Err(objection
        .map_or_else(|| Stop::Late("the gate is open, and Valkey has not come up yet".into()), Stop::unsafe_because))
}

async fn runs(execution: &Execution<'_>) -> bool {
    let address = Address::Unix(execution.context.socket.clone());
    !matches!(Connection::open(&address, POLL * 4).await, Err(error) if error.nobody_listens())
}
