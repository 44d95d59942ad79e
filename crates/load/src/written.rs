//! One acknowledged write, and the key and value that belong to it. Pure: both follow from the run and a sequence number, so that
//! millions of acknowledgements fit into memory.

use crate::slot;

/// What the keys and values of one run have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub name: String,
    pub value_size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub sequence: u32,
    pub slot: u16,
    /// The node that acknowledged, as an index into the ledger's list.
    pub node: u16,
    /// When, in milliseconds since the start.
    pub at_ms: u32,
}

impl Run {
    pub fn new(value_size: usize) -> Self {
        Self { name: format!("{:08x}", fastrand::u32(..)), value_size }
    }

    pub fn key(&self, sequence: u32, slot: u16) -> String {
        format!("load:{{{}}}:{}:{sequence}", slot::tag(slot), self.name)
    }

    /// Its own name over and over, so that no two values are the same and none can be taken for another's.
    pub fn value(&self, sequence: u32) -> String {
        let name = format!("{}:{sequence};", self.name);
        name.repeat(self.value_size.div_ceil(name.len()).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fall_into_their_slot_and_values_have_about_the_size_asked_for() {
        let run = Run::new(100);
        for slot in [0, 77, 16_383] {
            assert_eq!(slot::of_key(&run.key(5, slot)), slot);
        }
        assert!((100..130).contains(&run.value(5).len()));
        assert!(!Run::new(0).value(5).is_empty());
        assert_ne!(run.value(5), run.value(6));
    }
}
