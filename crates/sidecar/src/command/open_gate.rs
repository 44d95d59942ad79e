//! OpenGate: a Valkey that waits before its start is let through.

use super::desk::{Desk, Stop, Work};
use link::contract;
use sidecar_rules::boot::Start;
use std::time::Duration;
use tokio::time::sleep;
use valkey::{Address, Connection};

const POLL: Duration = Duration::from_millis(25);

pub async fn run(desk: &mut Desk<'_>, wanted: contract::Start) -> Work {
    let start = match wanted {
        contract::Start::AsIs => Start::AsIs,
        contract::Start::Fresh => Start::Fresh,
        contract::Start::Unspecified => return Err(Stop::invalid("start is not given: as-is or fresh")),
    };
    if runs(desk).await {
        desk.found("Valkey runs");
        return Ok(false);
    }
    let reason = desk.context.shared.lock().boot.as_ref().map(|boot| boot.reason.clone());
    desk.found(format!("Valkey does not run: {}", reason.as_deref().unwrap_or("nobody has asked for its start yet")));
    let _ordered = desk.context.shared.gate.order(start);
    desk.did(format!("opened the gate ({})", wanted.as_str_name()));
    while !desk.left().is_zero() {
        if runs(desk).await {
            return Ok(true);
        }
        sleep(POLL).await;
    }
    // With the order in force it still waits: the guard objects.
    let objection = desk.context.shared.lock().boot.clone().filter(|boot| boot.waiting).map(|boot| boot.reason);
    Err(objection
        .map_or_else(|| Stop::Late("the gate is open, and Valkey has not come up yet".into()), Stop::unsafe_because))
}

async fn runs(desk: &Desk<'_>) -> bool {
    let address = Address::Unix(desk.context.socket.clone());
    !matches!(Connection::open(&address, POLL * 4).await, Err(error) if error.nobody_listens())
}
