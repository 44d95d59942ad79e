//! The sidecar's end of the line: finds the leader, keeps one connection, speaks about every minute and obeys fenced
//! commands. IO; the decisions (`backoff`, `pace`, `route`, `fence`) are pure and by themselves.

pub mod backoff;
mod dial;
pub mod fence;
mod line;
mod node;
mod pace;
mod route;
mod speak;
mod stream;

pub use dial::DialError;
pub use fence::{EpochMemory, Fence, Kept};
pub use line::{Line, LineParts, LineState, Times};
pub use node::{Node, Notice, Order};
