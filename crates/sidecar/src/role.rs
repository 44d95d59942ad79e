//! The role of a node as the contract with the operator spells it. Pure.

use link::contract;
use topology::Role;

/// `None`: the server does not say.
pub fn contract_role(role: Option<Role>) -> contract::Role {
    match role {
        Some(Role::Primary) => contract::Role::Primary,
        Some(Role::Replica) => contract::Role::Replica,
        None => contract::Role::Unspecified,
    }
}
