//! Kubernetes quantities in bytes, and the sizes disks really get. Pure.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const MEBIBYTE: u64 = 1 << 20;
/// mkfs.xfs refuses anything smaller.
const SMALLEST_DISK: u64 = 300 * MEBIBYTE;
/// XFS uses whole blocks; what is left over would be capacity that nobody can use.
const BLOCK: u64 = 4096;

/// The bytes a quantity stands for, rounded up; nothing if it is unreadable, negative or absurdly large.
pub fn bytes(quantity: &Quantity) -> Option<u64> {
    let text = quantity.0.trim();
    let number_ends = text.find(|character: char| !character.is_ascii_digit() && character != '.' && character != '+');
    let (number, suffix) = text.split_at_checked(number_ends.unwrap_or(text.len()))?;
    let (numerator, denominator) = decimal(number.trim_start_matches('+'))?;
    let (up, down) = factor(suffix)?;
    let denominator = denominator.checked_mul(down)?;
    u64::try_from(numerator.checked_mul(up)?.div_ceil(denominator)).ok()
}

/// A decimal number as a fraction: `1.25` is 125/100.
fn decimal(number: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    Some((digits.parse().ok()?, 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?))
}

/// A suffix as the pair (multiply by, divide by).
fn factor(suffix: &str) -> Option<(u128, u128)> {
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty()) {
        let exponent: i32 = exponent.parse().ok()?;
        let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
        return Some(if exponent < 0 { (1, power) } else { (power, 1) });
    }
    let smaller = ["m", "u", "n"].iter().position(|unit| *unit == suffix);
    if let Some(steps) = smaller {
        return Some((1, 1000_u128.pow(u32::try_from(steps).ok()? + 1)));
    }
    let decimal =
        ["", "k", "M", "G", "T", "P", "E"].iter().position(|unit| *unit == suffix).map(|steps| (1000_u128, steps));
    let binary =
        ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|unit| *unit == suffix).map(|steps| (1024, steps));
    let (base, steps) = decimal.or(binary)?;
    Some((base.pow(u32::try_from(steps).ok()?), 1))
}

/// The size of the disk made for a request. Nothing if it does not fit into 64 bits.
pub fn disk_size(requested: u64) -> Option<u64> {
    requested.max(SMALLEST_DISK).checked_next_multiple_of(BLOCK)
}

/// Bytes as a quantity in the largest binary unit that keeps it exact, up to Gi.
pub fn quantity(bytes: u64) -> Quantity {
    let units = [(1 << 30, "Gi"), (MEBIBYTE, "Mi"), (1 << 10, "Ki")];
    let exact = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    Quantity(exact.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit)))
}

/// Bytes for people: whole units of the largest that fits.
pub fn readable(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (MEBIBYTE, "MiB"), (1 << 10, "KiB")];
    let fitting = units.into_iter().find(|(unit, _)| bytes >= *unit);
    fitting.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_every_form_kubernetes_has() {
        let table = [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("1Gi", Some(1 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("500M", Some(500_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("1E3", Some(1000)),
            ("2E", Some(2_000_000_000_000_000_000)),
            ("1500m", Some(2)),
            ("1n", Some(1)),
            ("15e-1", Some(2)),
            ("+1k", Some(1000)),
            ("16Ei", None),
            ("-1Gi", None),
            ("1GiB", None),
            ("1.2.3", None),
            ("much", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(&Quantity(text.to_owned())), expected, "{text:?}");
        }
    }

    #[test]
    fn disks_are_at_least_what_xfs_needs_and_whole_blocks() {
        assert_eq!(disk_size(1), Some(300 << 20));
        assert_eq!(disk_size(1 << 30), Some(1 << 30));
        assert_eq!(disk_size((1 << 30) + 1), Some((1 << 30) + 4096));
        assert_eq!(disk_size(u64::MAX), None);
    }

    #[test]
    fn quantities_are_written_exactly() {
        for (size, expected) in
            [(300 << 20, "300Mi"), (2 << 30, "2Gi"), ((1 << 30) + 4096, "1048580Ki"), (5, "5"), (0, "0")]
        {
            assert_eq!(quantity(size).0, expected);
            assert_eq!(bytes(&quantity(size)), Some(size));
        }
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(readable(10 << 40), "10 TiB");
        assert_eq!(readable(73 << 30), "73 GiB");
        assert_eq!(readable(12), "12 bytes");
    }
}
