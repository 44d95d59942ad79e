//! Valkey's configuration: what is wanted, what goes into valkey.conf, what is changed on a running server.

pub mod append_only;
pub mod apply;
pub mod data_folder;
pub mod fixed;
pub mod maximum_memory;
pub mod modules;
pub mod plan;
pub mod record;
pub mod render;
pub mod value;
pub mod wanted;
