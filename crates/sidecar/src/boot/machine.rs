//! Which boot of the machine this is: what a process has written survives its end in the kernel's memory, and not the machine's. IO.

use std::fs;

const FILE: &str = "/proc/sys/kernel/random/boot_id";

/// `None` where the kernel does not say.
pub fn boot() -> Option<String> {
    fs::read_to_string(FILE).ok().map(|text| text.trim().to_owned()).filter(|boot| !boot.is_empty())
}
