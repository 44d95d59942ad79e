//! The contract's tests: the generated code is current, and nothing released is broken.

mod compatibility;
mod generated;
