//! The sidecar's own metrics in Prometheus' text format. Pure; what Valkey itself measures is the exporter's matter.

use super::disk::Disk;
use crate::{configuration::append_only::Progress, line::status::LineStatus, state::State, version::VERSION};
use std::fmt::{Display, Write};

pub fn text(state: &State, disk: Option<Disk>) -> String {
    let mut text = String::new();
    family(&mut text, "build_info", "gauge", "The sidecar's version.", [(label("version", VERSION), 1)]);
    single(&mut text, "conf_rendered", "1 once valkey.conf is in place.", state.rendered);
    single(&mut text, "settings_valid", "0 while settings.json cannot be used.", state.settings_problem.is_none());
    let settled = state.settled_run.is_some() && state.apply_problem.is_none();
    single(&mut text, "settings_applied", "1 when the running Valkey has all settings.", settled);
    let switching = state.append_only != Progress::Settled;
    single(&mut text, "append_only_switching", "1 while the append-only file is switched on or off.", switching);
    let refused = state.refused.keys().map(|name| (label("parameter", name), 1));
    family(&mut text, "parameter_refused", "gauge", "Parameters whose value Valkey refused.", refused);
    let pending = state.pending_restart.iter().map(|pending| (label("parameter", &pending.parameter), 1));
    family(&mut text, "parameter_pending_restart", "gauge", "Parameters that wait for a restart.", pending);
    counters(&mut text, state);
    line(&mut text, &state.line);
    if let Some(disk) = disk {
        family(&mut text, "data_bytes", "gauge", "Size of the data volume.", [(String::new(), disk.total)]);
        let available = [(String::new(), disk.available)];
        family(&mut text, "data_available_bytes", "gauge", "Free room on the data volume.", available);
    }
    text
}

fn line(text: &mut String, line: &LineStatus) {
    single(text, "line_connected", "1 while the line to the operator is up.", line.connected);
    single(text, "line_streaming", "1 while the operator has a job for this pod.", line.streaming);
    let refused = line.certificate_problem.is_some();
    single(text, "line_certificate_problem", "1 while the mounted certificate cannot be used.", refused);
    let help = "The highest term of an operator's leadership that is known.";
    family(text, "line_epoch", "gauge", help, [(String::new(), line.epoch)]);
    let seconds = |time: jiff::Timestamp| (String::new(), time.as_second());
    let beat = line.last_heartbeat.map(seconds);
    family(text, "line_last_heartbeat_seconds", "gauge", "When the operator last took a heartbeat.", beat);
    let expires = line.certificate.as_ref().map(|certificate| seconds(certificate.expires));
    family(text, "line_certificate_expiry_seconds", "gauge", "When the certificate in force expires.", expires);
}

fn counters(text: &mut String, state: &State) {
    let probes = state.failed_probes.iter();
    let probes = probes.map(|((probe, found), count)| (format!("{{probe=\"{probe}\",state=\"{found}\"}}"), *count));
    family(text, "failed_probes_total", "counter", "Probes of Valkey that failed, by what was found.", probes);
    let hand_overs = state.hand_overs.iter().map(|(outcome, count)| (label("outcome", outcome), *count));
    family(text, "hand_overs_total", "counter", "Hand-overs asked for before a stop, by outcome.", hand_overs);
}

fn single(text: &mut String, name: &str, help: &str, value: bool) {
    family(text, name, "gauge", help, [(String::new(), u8::from(value))]);
}

fn family<V: Display>(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, V)>,
) {
    let _ = writeln!(text, "# HELP valkey_sidecar_{name} {help}\n# TYPE valkey_sidecar_{name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "valkey_sidecar_{name}{labels} {value}");
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::plan::Pending;

    #[test]
    fn pending_parameters_failed_probes_and_the_disk_are_shown() {
        let mut state = State { rendered: true, ..Default::default() };
        let pending = Pending { parameter: "tcp-backlog".into(), running: "511".into(), wanted: "100".into() };
        state.pending_restart.push(pending);
        state.failed_probes.insert(("readiness", "hung"), 3);
        let text = text(&state, Some(Disk { total: 10, available: 4 }));
        for line in [
            "valkey_sidecar_conf_rendered 1",
            "valkey_sidecar_settings_applied 0",
            "valkey_sidecar_parameter_pending_restart{parameter=\"tcp-backlog\"} 1",
            "valkey_sidecar_failed_probes_total{probe=\"readiness\",state=\"hung\"} 3",
            "valkey_sidecar_data_available_bytes 4",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn the_line_is_shown_and_times_that_are_not_known_are_left_out() {
        let mut state = State::default();
        (state.line.connected, state.line.epoch) = (true, 7);
        let text = text(&state, None);
        for line in ["valkey_sidecar_line_connected 1", "valkey_sidecar_line_epoch 7"] {
            assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
        }
        assert!(!text.contains("\nvalkey_sidecar_line_certificate_expiry_seconds "));
    }

    #[test]
    fn a_label_cannot_break_the_format() {
        assert_eq!(label("a", "x\"y\\z\n"), "{a=\"x\\\"y\\\\z\\n\"}");
    }
}
