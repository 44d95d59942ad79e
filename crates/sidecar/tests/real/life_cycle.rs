//! Start, stop and the command line of the sidecar's process.

use crate::pod::{DEADLINE, Pod};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    process::Command,
    time::{Duration, Instant},
};
use valkey::testing::ServerVersion;

fn terminate(pod: &Pod) {
    let id = i32::try_from(pod.sidecar.as_ref().unwrap().id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
}

fn wait_for_end(pod: &mut Pod) -> bool {
    let until = Instant::now() + DEADLINE;
    while Instant::now() < until {
        if let Some(status) = pod.sidecar.as_mut().unwrap().try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn after_sigterm_the_sidecar_outlives_valkey_and_then_ends() {
    let mut pod = Pod::new(ServerVersion::V9_1, &[]);
    pod.start_sidecar(&["--exit-deadline", "3600"]);
    pod.start_server();
    pod.wait_settled();
    terminate(&pod);
    for _ in 0..10 {
        assert_eq!(pod.get("/valkey/liveness").status, 200, "it answers as long as Valkey runs");
    }
    assert!(pod.sidecar.as_mut().unwrap().try_wait().unwrap().is_none());
    pod.server().terminate().unwrap();
    assert!(wait_for_end(&mut pod));
}

#[test]
fn after_sigterm_a_valkey_that_stays_is_waited_for_no_longer_than_the_deadline() {
    let mut pod = Pod::new(ServerVersion::V8_1, &[]);
    pod.start_sidecar(&["--exit-deadline", "0.5"]);
    pod.start_server();
    pod.server().freeze().unwrap();
    terminate(&pod);
    let asked = Instant::now();
    assert!(wait_for_end(&mut pod));
    assert!(asked.elapsed() >= Duration::from_millis(450), "{:?}", asked.elapsed());
}

#[test]
fn a_sidecar_that_waits_for_valkey_ends() {
    let mut pod = Pod::new(ServerVersion::V8_1, &[]);
    pod.start_sidecar(&["--exit-deadline", "3600"]);
    terminate(&pod);
    assert!(wait_for_end(&mut pod));
}

#[test]
fn a_restarted_valkey_is_ready_again_without_the_sidecar_restarting() {
    let mut pod = Pod::settled(ServerVersion::V9_1, &[("hz", "20")]);
    pod.server().kill().unwrap();
    pod.wait_state("/valkey/liveness", "dead");
    pod.start_server();
    pod.wait_settled();
}

#[test]
fn bad_arguments_name_the_flag_and_the_remedy() {
    let cases: [(&[&str], &str); 3] = [
        (&["run"], "--pod-ip"),
        (&["run", "--probe-deadline", "soon"], "not a number of seconds"),
        (&["run", "--valkey-version", "latest"], "such as 8.1 or 9.1.2"),
    ];
    for (arguments, part) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_valkey-sidecar")).args(arguments).env_clear().output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(part), "{text}");
    }
}

#[test]
fn a_taken_health_port_ends_the_sidecar_with_the_address_in_the_message() {
    let pod = Pod::new(ServerVersion::V9_1, &[]);
    let _taken = std::net::TcpListener::bind(("127.0.0.1", pod.health)).unwrap();
    let address = format!("127.0.0.1:{}", pod.health);
    let output = pod.command("run").args(["--health-address", &address]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("could not listen on {address}")));
}
