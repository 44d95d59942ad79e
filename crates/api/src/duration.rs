//! Lengths of time as people write them in a resource: `90d`, `6h`, `30m`, `15s`, `1mo`, `1y`. Pure; parsed once, then exact.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The units, longest first, with their length in seconds. A month is 30 days and a year 365: a validity, not a calendar.
const UNITS: [(&str, u64); 6] = [("y", 365 * DAY), ("mo", 30 * DAY), ("d", DAY), ("h", 60 * 60), ("m", 60), ("s", 1)];
const DAY: u64 = 24 * 60 * 60;

/// What the schema accepts; [`Duration`] parses exactly this.
pub const PATTERN: &str = "^[1-9][0-9]{0,5}(s|m|h|d|mo|y)$";

/// A length of time of at least a second, which remembers how it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Duration {
    text: String,
    seconds: u64,
}

/// The text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no duration: write a whole number from 1 to 999999 and a unit, one of s, m, h, d, mo, y (for example 30m or 90d)"
)]
pub struct InvalidDuration(pub String);

impl Duration {
    pub fn as_seconds(&self) -> u64 {
        self.seconds
    }

    pub fn to_std(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.seconds)
    }
}

fn seconds_of(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(end)?;
    let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number = number.parse::<u64>().ok().filter(|_| number.len() <= 6 && !number.starts_with('0'))?;
    Some(number * length)
}

impl FromStr for Duration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = seconds_of(text).ok_or_else(|| InvalidDuration(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), seconds })
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_length() {
        let cases = [
            ("15s", 15),
            ("30m", 1_800),
            ("6h", 21_600),
            ("90d", 7_776_000),
            ("1mo", 2_592_000),
            ("1y", 31_536_000),
            ("999999y", 999_999 * 31_536_000),
        ];
        for (text, seconds) in cases {
            let duration: Duration = text.parse().unwrap();
            assert_eq!((duration.as_seconds(), duration.to_string()), (seconds, text.to_owned()));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "5", "0s", "05m", "1 h", "1h30m", "-1d", "1.5h", "1w", "1M", "m", "1000000s"] {
            assert_eq!(text.parse::<Duration>(), Err(InvalidDuration(text.into())), "{text}");
        }
    }
}
