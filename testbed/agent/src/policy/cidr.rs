//! IPv4 ranges and their difference. Pure; called by `peers` for ipBlocks and by the configuration.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::Deserialize;

/// An IPv4 range with its host bits cleared.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Cidr {
    base: u32,
    prefix: u8,
}

impl Cidr {
    pub const EVERYTHING: Self = Self { base: 0, prefix: 0 };

    /// Host bits are dropped, as the NetworkPolicy API allows `10.0.0.5/8`.
    fn new(address: Ipv4Addr, prefix: u8) -> Self {
        Self { base: u32::from(address) & mask(prefix), prefix }
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.prefix) == self.base
    }

    fn covers(self, other: Self) -> bool {
        self.prefix <= other.prefix && other.base & mask(self.prefix) == self.base
    }

    /// The ranges that make up `self` without any of `holes`.
    pub fn without(self, holes: &[Self]) -> Vec<Self> {
        holes.iter().fold(vec![self], |rest, hole| rest.iter().flat_map(|range| range.minus(*hole)).collect())
    }

    fn minus(self, hole: Self) -> Vec<Self> {
        if hole.covers(self) {
            return Vec::new();
        }
        if !self.covers(hole) {
            return vec![self];
        }
        self.halves().into_iter().flat_map(|half| half.minus(hole)).collect()
    }

    /// Only called on a range that strictly covers another, hence never on a /32.
    fn halves(self) -> [Self; 2] {
        let prefix = self.prefix + 1;
        let upper = self.base | (1 << (32 - u32::from(prefix)));
        [Self { base: self.base, prefix }, Self { base: upper, prefix }]
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl From<Ipv4Addr> for Cidr {
    fn from(address: Ipv4Addr) -> Self {
        Self::new(address, 32)
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
            Some(Self::new(address.parse().ok()?, prefix))
        });
        parsed.ok_or_else(|| format!("{text} is not an IPv4 range such as 10.0.0.0/8"))
    }
}

impl TryFrom<String> for Cidr {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn difference(whole: &str, holes: &[&str]) -> Vec<String> {
        let holes: Vec<Cidr> = holes.iter().map(|hole| cidr(hole)).collect();
        cidr(whole).without(&holes).iter().map(Cidr::to_string).collect()
    }

    #[test]
    fn a_hole_is_cut_out_exactly() {
        assert_eq!(difference("10.0.0.0/30", &["10.0.0.1/32"]), ["10.0.0.0/32", "10.0.0.2/31"]);
        assert_eq!(difference("10.0.0.0/24", &["10.0.0.0/25", "10.0.0.192/26"]), ["10.0.0.128/26"]);
        assert_eq!(difference("10.0.0.0/24", &["10.1.0.0/24"]), ["10.0.0.0/24"]);
        assert!(difference("10.0.0.0/24", &["10.0.0.0/8"]).is_empty());
    }

    #[test]
    fn what_is_left_contains_every_address_outside_the_hole_and_none_inside() {
        let rest = Cidr::EVERYTHING.without(&[cidr("10.200.0.0/16")]);
        let inside = |text: &str| rest.iter().any(|range| range.contains(text.parse().unwrap()));
        assert!(inside("10.199.255.255") && inside("10.201.0.0") && inside("0.0.0.0") && inside("255.255.255.255"));
        assert!(!inside("10.200.0.0") && !inside("10.200.255.255"));
    }

    #[test]
    fn host_bits_are_dropped_and_nonsense_is_refused() {
        assert_eq!(cidr("10.1.2.3/8").to_string(), "10.0.0.0/8");
        for wrong in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/8", ""] {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }
}
