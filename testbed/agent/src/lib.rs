//! The testbed's cluster agent: a dynamic provisioner for local volumes with real sizes, and enforcement of
//! ingress NetworkPolicies on every node. The program in `main.rs` wires it; tests use the parts directly.

pub mod command;
pub mod config;
pub mod policy;
pub mod storage;
pub mod watching;
