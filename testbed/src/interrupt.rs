//! Ctrl-C leaves nothing behind: what was half done is undone before the process ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::cache;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Set by the signal itself, so that it is true before a program that the same signal ended is seen to have failed.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Held by work that must come to its end.
static BUSY: Mutex<()> = Mutex::new(());

/// From here on an interruption drops unfinished cache entries, calls `undo` and ends the process.
pub fn clean_up_with(undo: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    for signal in SIGNALS {
        flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    let mut signals = Signals::new(SIGNALS)?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
            cache::drop_unfinished();
            let left = undo().map_or_else(|error| format!("{error:#}"), |()| "nothing is left behind".to_owned());
            eprintln!("interrupted; {left}");
            std::process::exit(130);
        }
    });
    Ok(())
}

/// Does what would leave the machine broken if it were cut short; an interruption waits for it.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// The main thread comes to its end, well or not, while an interruption is still cleaning up, which then ends the process.
pub fn await_end_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}
