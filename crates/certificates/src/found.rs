//! What became of looking for something that should be stored. Pure data.

/// Unknown is not absent: what could not be read is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    Whole(T),
    /// It was looked for and is not there.
    Absent,
    /// It is there and of no use; why.
    Spoilt(String),
    /// It could not be looked at, or is somebody else's; why.
    Unreadable(String),
}

impl<T> Found<T> {
    pub fn whole(&self) -> Option<&T> {
        match self {
            Found::Whole(value) => Some(value),
            _ => None,
        }
    }

    /// Why it has to be made anew, if it has to and may.
    pub fn lack(&self) -> Option<String> {
        match self {
            Found::Absent => Some("it is not there".to_owned()),
            Found::Spoilt(why) => Some(why.clone()),
            Found::Whole(_) | Found::Unreadable(_) => None,
        }
    }
}
