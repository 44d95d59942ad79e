//! What the end of Valkey's log says about a module that could not be loaded. Pure. Nothing else of a log is passed on: it can hold anything.

use api::text;

/// The last thing a Valkey says that ends because of a module.
const ABORTING: (&str, &str) = ("Can't load module from ", ": server aborting");
const LONGEST: usize = 300;

/// Which module, why, and the way out.
pub fn of_module(log: &str) -> Option<String> {
    let (before, after) = log.rsplit_once(ABORTING.0)?;
    let (path, _) = after.split_once(ABORTING.1)?;
    let named = format!("Module {path} ");
    let reason = before.lines().rev().find_map(|line| line.split_once(named.as_str())).map(|(_, reason)| reason.trim());
    let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or("cannot be loaded");
    let said: String = format!("module {path} {reason}").chars().filter(|c| text::is_plain(*c)).take(LONGEST).collect();
    Some(format!("{said}: correct spec.modules, or choose an image that has what it needs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_and_the_reason_are_found_at_the_end_of_a_log() {
        let log = "1:M 19 Nov 2026 12:00:00.000 * Server initialized\n\
            1:M 19 Nov 2026 12:00:00.001 * Module 'json' loaded from /m/json.so\n\
            1:M 19 Nov 2026 12:00:00.002 # Module /m/x.so failed to load: /m/x.so: cannot open shared object file\n\
            1:M 19 Nov 2026 12:00:00.003 # Can't load module from /m/x.so: server aborting\n";
        let said = of_module(log).unwrap();
        assert!(said.starts_with("module /m/x.so failed to load: /m/x.so: cannot open shared object file: "), "{said}");
        let silent = of_module("1:M # Can't load module from /m/x.so: server aborting\n").unwrap();
        assert!(silent.starts_with("module /m/x.so cannot be loaded: correct spec.modules"), "{silent}");
    }

    #[test]
    fn nothing_else_of_a_log_is_passed_on() {
        for log in
            ["", "1:M # Out Of Memory allocating 8 bytes!", "set password hunter2", "Can't load module from /m/x.so"]
        {
            assert_eq!(of_module(log), None, "{log}");
        }
    }
}
