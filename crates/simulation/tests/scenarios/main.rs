//! Scenarios with committed transcripts: `UPDATE_GOLDEN=1 cargo test -p simulation --test scenarios` rewrites them.

mod addresses;
mod copies;
mod deaths;
mod formation;
mod hands;
mod limits;
mod majority;
mod support;
mod volumes;
mod whole;
