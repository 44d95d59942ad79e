//! What the sidecar decides, without doing it: whether its Valkey may start (`boot`), to which replica a primary hands over
//! (`handover`), whether enough primaries can vote (`voters`), which commands are refused (`commands`).
//! Pure: no IO, no clock, no runtime. The sidecar calls it with what it observed, the simulation with what it simulates.

pub mod boot;
pub mod commands;
pub mod handover;
pub mod voters;
