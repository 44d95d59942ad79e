//! The contract's types, generated from `proto/`. Regenerate with `UPDATE_GOLDEN=1 cargo test -p link --test contract`.
#![allow(clippy::all, clippy::pedantic)]

include!("generated/valkey.operator.v1.rs");
