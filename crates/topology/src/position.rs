//! How far a node is in a history of writes. Pure data.

/// Offsets compare only within the same history. They count everything that a primary sends, the pings it sends while nobody writes
/// too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub replication_id: String,
    pub offset: u64,
}

impl Position {
    /// It has less of the same history.
    pub fn is_behind(&self, other: &Self) -> bool {
        self.replication_id == other.replication_id && self.offset < other.offset
    }
}
