//! Log lines on standard error: JSON for machines, plain on a terminal. IO; `main` starts it.

use std::io::{IsTerminal, stderr};
use tracing::level_filters::LevelFilter;

pub fn start(level: LevelFilter) {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).with_target(false);
    if stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
    }
}
