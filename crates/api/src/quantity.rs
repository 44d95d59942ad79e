//! Kubernetes quantities (`30Gi`, `500m`, `1e3`) read exactly, as thousandths. Pure; used where sizes are compared or computed.

/// Powers of 1024 by their suffix.
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
/// Decimal exponents by their suffix; the parser never sees less than a nano.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// A quantity of at least zero, in thousandths rounded up, as the API server itself keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    thousandths: u128,
}

/// The text is no quantity, or a negative or absurdly large one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no quantity: write a number with an optional suffix such as 500m, 2, 64Mi or 30Gi")]
pub struct InvalidQuantity(pub String);

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        let thousandths = thousandths_of(text).filter(|value| *value <= u128::from(u64::MAX) * 1000);
        thousandths.map(|thousandths| Self { thousandths }).ok_or_else(|| InvalidQuantity(text.to_owned()))
    }

    /// Whole units (bytes, cores), rounded up.
    pub fn whole_units(self) -> u64 {
        u64::try_from(self.thousandths.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    pub fn is_zero(self) -> bool {
        self.thousandths == 0
    }
}

fn thousandths_of(text: &str) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) || number.len() > 20 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    scale(digits, i32::try_from(fraction.len()).ok()?, suffix)
}

fn scale(digits: u128, decimals: i32, suffix: &str) -> Option<u128> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        let multiplied = digits.checked_mul(1024_u128.pow(*power))?;
        return power_of_ten(multiplied, 3 - decimals);
    }
    let exponent = match DECIMAL.iter().find(|(name, _)| *name == suffix) {
        Some((_, exponent)) => *exponent,
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|e: &i32| (-18..=18).contains(e))?,
    };
    power_of_ten(digits, 3 + exponent - decimals)
}

fn power_of_ten(value: u128, exponent: i32) -> Option<u128> {
    let factor = 10_u128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 { value.checked_mul(factor) } else { Some(value.div_ceil(factor)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        let cases = [
            ("0", 0),
            ("1", 1),
            ("500m", 1),
            ("1500m", 2),
            ("0.5", 1),
            ("1Ki", 1024),
            ("1.5Gi", 1_610_612_736),
            ("30Gi", 32_212_254_720),
            ("1e3", 1000),
            ("12E2", 1200),
            ("2E", 2_000_000_000_000_000_000),
            ("1G", 1_000_000_000),
            ("+4k", 4000),
            (".5Ki", 512),
        ];
        for (text, units) in cases {
            assert_eq!(Quantity::parse(text).unwrap().whole_units(), units, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", ".", "Gi", "-1Gi", "1 Gi", "1gb", "1GiB", "1.2.3", "1e", "1e99", "ten", "99999999999999999999E"]
        {
            assert_eq!(Quantity::parse(text), Err(InvalidQuantity(text.into())), "{text}");
        }
    }

    #[test]
    fn different_spellings_of_one_size_are_equal_and_sizes_are_ordered() {
        assert_eq!(Quantity::parse("1Gi"), Quantity::parse("1024Mi"));
        assert!(Quantity::parse("1G").unwrap() < Quantity::parse("1Gi").unwrap());
        assert!(Quantity::parse("1m").unwrap() > Quantity::parse("0").unwrap());
    }
}
