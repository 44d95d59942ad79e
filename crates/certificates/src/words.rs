//! How lists and moments are said in conditions and plans. Pure.

use jiff::Timestamp;

const SHOWN: usize = 5;

/// The first few, and how many more.
pub fn names(names: &[String]) -> String {
    api::text::listed(names, SHOWN)
}

pub fn moment(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
