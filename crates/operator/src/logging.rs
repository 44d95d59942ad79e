//! Log lines on standard error: JSON for machines, text for a terminal. Called once by `main`.

use crate::arguments::{LogArguments, LogFormat};
use crate::plain_lines::PlainLines;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the log filter \"{filter}\" is not valid: write for example info or info,kube=debug")]
    ParseFilter { filter: String, source: tracing_subscriber::filter::ParseError },
    #[error("logging was already set up")]
    Install(#[source] Box<dyn std::error::Error + Send + Sync>),
}

pub fn start(arguments: &LogArguments) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&arguments.log_filter)
        .map_err(|source| Error::ParseFilter { filter: arguments.log_filter.clone(), source })?;
    let terminal = std::io::stderr().is_terminal();
    let json = is_json(arguments.log_format);
    let writer = move || PlainLines { inner: std::io::stderr(), colours: terminal && !json };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(terminal);
    if json {
        lines.json().flatten_event(true).with_span_list(false).try_init().map_err(Error::Install)
    } else {
        lines.with_target(false).try_init().map_err(Error::Install)
    }
}

fn is_json(format: LogFormat) -> bool {
    match format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    }
}
