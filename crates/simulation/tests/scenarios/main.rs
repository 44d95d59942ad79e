//! Scenarios with committed transcripts: `UPDATE_GOLDEN=1 cargo test -p simulation --test scenarios` rewrites them.

mod addresses;
mod argocd;
mod copies;
mod formation;
mod hands;
mod health;
mod kstatus;
mod limits;
mod majority;
mod node_failures;
mod support;
mod volumes;
mod whole;
