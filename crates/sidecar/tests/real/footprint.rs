//! What an idle sidecar costs with its line up. `VALKEY_SIDECAR` names another program than the one under test, for instance
//! the release build, whose numbers are the promised ones.

use crate::line::Pair;
use std::{fs, time::Duration};
use valkey::testing::ServerVersion;

const WINDOW: Duration = Duration::from_secs(10);
/// Mebibytes, and percent of a core.
const PROMISED: (f64, f64) = (10.0, 0.2);
/// A build with debug assertions is larger and slower; it is only kept from running away.
const DEBUG: (f64, f64) = (32.0, 2.0);

pub fn resident_mebibytes(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// All its threads, in nanoseconds: the kernel's own account is finer than its clock ticks.
fn processor_time(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let time = |folder: std::path::PathBuf| fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
    threads
        .map(|thread| time(thread.unwrap().path()))
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[test]
fn an_idle_sidecar_with_its_line_up_is_small_and_quiet() {
    let pair = Pair::connected(ServerVersion::V9_1);
    let process = pair.pod.sidecar.as_ref().unwrap().id();
    let before = processor_time(process);
    // Not a wait for anything: the window over which is measured.
    std::thread::sleep(WINDOW);
    let used = (processor_time(process) - before) as f64 / WINDOW.as_nanos() as f64 * 100.0;
    let resident = resident_mebibytes(process);
    println!("resident {resident:.1} MiB, {used:.3} % of a core");
    let debug = cfg!(debug_assertions) && std::env::var_os("VALKEY_SIDECAR").is_none();
    let limits = if debug { DEBUG } else { PROMISED };
    assert!(resident <= limits.0 && used <= limits.1, "resident {resident:.1} MiB, {used:.3} % of a core");
}
