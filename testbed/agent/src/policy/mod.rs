//! Ingress NetworkPolicies. Everything but `loader` and `enforcer` is pure:
//! API objects → `world` → `rules` (per node) → `ruleset` (text for iptables-restore).

pub mod cidr;
pub mod enforcer;
pub mod loader;
pub mod peers;
pub mod ports;
pub mod rules;
pub mod ruleset;
pub mod selector;
pub mod world;
