//! When a certificate is to be replaced. Pure: from its lifetime, the policy and the time comes "due", or the moment it will be.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// From when to when a certificate is used. `issued_at` is the real moment, not the backdated start of validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

/// What to do about a certificate now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Nothing until then.
    Scheduled(Timestamp),
    /// Replace it; due since then.
    Due(Timestamp),
    /// Replace it at once: it is of no use since then.
    Expired(Timestamp),
    /// Nobody asked us to replace it; it ends then.
    Manual(Timestamp),
}

impl Rotation {
    pub fn is_due(self) -> bool {
        matches!(self, Self::Due(_) | Self::Expired(_))
    }

    /// When to check again, if there is something to wait for.
    pub fn next(self) -> Option<Timestamp> {
        match self {
            Self::Scheduled(at) | Self::Manual(at) => Some(at),
            Self::Due(_) | Self::Expired(_) => None,
        }
    }
}

/// The part of its life after which a leaf is replaced: 66 to 80 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rotateBeforePercent must be from 66 to 80, not {0}: choose a number in that range")]
pub struct InvalidPercent(pub i64);

impl Percent {
    pub const EARLIEST: Self = Self(66);
    pub const LATEST: Self = Self(80);
}

impl TryFrom<i64> for Percent {
    type Error = InvalidPercent;

    fn try_from(value: i64) -> Result<Self, InvalidPercent> {
        let range = i64::from(Self::EARLIEST.0)..=i64::from(Self::LATEST.0);
        let percent = u8::try_from(value).ok().filter(|_| range.contains(&value));
        percent.map(Self).ok_or(InvalidPercent(value))
    }
}

/// A leaf is replaced when that part of its life is over.
pub fn leaf_rotation(lifetime: Lifetime, percent: Percent, now: Timestamp) -> Rotation {
    decide(lifetime, lifetime.after(percent.0), now)
}

/// An intermediate is replaced `renew_before` its end, and early enough that a whole leaf still fits. Without `renew_before` it is
/// the user's to replace.
pub fn intermediate_rotation(
    lifetime: Lifetime,
    renew_before: Option<Duration>,
    leaf_validity: Duration,
    now: Timestamp,
) -> Rotation {
    match renew_before {
        Some(before) => decide(lifetime, lifetime.left(before.max(leaf_validity)), now),
        None if now >= lifetime.expires_at => Rotation::Expired(lifetime.expires_at),
        None => Rotation::Manual(lifetime.expires_at),
    }
}

/// A root is replaced when four fifths of its life are over, and early enough that a whole intermediate still fits.
pub fn root_rotation(lifetime: Lifetime, intermediate_validity: Duration, now: Timestamp) -> Rotation {
    let due = lifetime.after(Percent::LATEST.0).min(lifetime.left(intermediate_validity));
    decide(lifetime, due, now)
}

fn decide(lifetime: Lifetime, due: Timestamp, now: Timestamp) -> Rotation {
    match () {
        () if now >= lifetime.expires_at => Rotation::Expired(lifetime.expires_at),
        () if now >= due => Rotation::Due(due),
        () => Rotation::Scheduled(due),
    }
}

impl Lifetime {
    fn length(self) -> SignedDuration {
        self.expires_at.duration_since(self.issued_at).max(SignedDuration::ZERO)
    }

    /// The moment at which this part of the life is over.
    fn after(self, percent: u8) -> Timestamp {
        let length = self.length();
        let part = (length / 100).saturating_mul(i32::from(percent));
        self.issued_at.checked_add(part).unwrap_or(self.expires_at)
    }

    /// The moment at which this much is left, but never in the first half: a wish longer than the life would replace for ever.
    fn left(self, span: Duration) -> Timestamp {
        let moment = self.expires_at.checked_sub(span).unwrap_or(Timestamp::MIN);
        moment.max(self.after(50))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn life(length: i64) -> Lifetime {
        Lifetime { issued_at: at(0), expires_at: at(length) }
    }

    fn days(count: u64) -> Duration {
        Duration::from_secs(count * DAY)
    }

    #[test]
    fn a_leaf_of_six_hours_is_due_after_66_percent() {
        let due = at(14_256);
        let decide = |now| leaf_rotation(life(21_600), Percent::EARLIEST, at(now));
        assert_eq!(decide(14_255), Rotation::Scheduled(due));
        assert_eq!(decide(14_256), Rotation::Due(due));
        assert_eq!(decide(21_599), Rotation::Due(due));
        assert_eq!(decide(21_600), Rotation::Expired(at(21_600)));
    }

    #[test]
    fn the_percentage_is_from_66_to_80() {
        assert!((66..=80).all(|value| Percent::try_from(value).is_ok()));
        assert!(
            [-1, 0, 65, 81, 100, 322].into_iter().all(|value| Percent::try_from(value) == Err(InvalidPercent(value)))
        );
    }

    #[test]
    fn an_intermediate_is_due_so_many_days_before_its_end() {
        let year = life(365 * DAY as i64);
        let due = at(335 * DAY as i64);
        assert_eq!(intermediate_rotation(year, Some(days(30)), days(1), at(0)), Rotation::Scheduled(due));
        assert_eq!(intermediate_rotation(year, Some(days(30)), days(1), due), Rotation::Due(due));
    }

    #[test]
    fn an_intermediate_is_due_before_a_long_leaf_no_longer_fits() {
        let due = at(275 * DAY as i64);
        let rotation = intermediate_rotation(life(365 * DAY as i64), Some(days(30)), days(90), at(0));
        assert_eq!(rotation, Rotation::Scheduled(due));
    }

    #[test]
    fn a_wish_longer_than_the_life_does_not_replace_for_ever() {
        let rotation = intermediate_rotation(life(10 * DAY as i64), Some(days(30)), days(1), at(0));
        assert_eq!(rotation, Rotation::Scheduled(at(5 * DAY as i64)));
    }

    #[test]
    fn without_automatic_rotation_the_end_is_told_and_nothing_done() {
        assert_eq!(intermediate_rotation(life(100), None, days(1), at(99)), Rotation::Manual(at(100)));
        assert_eq!(intermediate_rotation(life(100), None, days(1), at(100)), Rotation::Expired(at(100)));
    }

    #[test]
    fn a_root_leaves_room_for_a_whole_intermediate() {
        let ten_years = life(3650 * DAY as i64);
        assert_eq!(root_rotation(ten_years, days(365), at(0)), Rotation::Scheduled(at(2920 * DAY as i64)));
        assert_eq!(root_rotation(ten_years, days(1000), at(0)), Rotation::Scheduled(at(2650 * DAY as i64)));
    }

    proptest! {
        #[test]
        fn what_is_fresh_is_never_due_and_what_is_scheduled_comes_before_the_end(
            length in 60_i64..400_000_000, percent in 66_i64..=80, before in 0_u64..400_000_000, leaf in 1_u64..400_000_000,
        ) {
            let lifetime = life(length);
            let before = Duration::from_secs(before);
            let leaf = Duration::from_secs(leaf);
            let rotations = [
                leaf_rotation(lifetime, Percent::try_from(percent).unwrap(), at(0)),
                intermediate_rotation(lifetime, Some(before), leaf, at(0)),
                root_rotation(lifetime, leaf, at(0)),
            ];
            for rotation in rotations {
                prop_assert!(matches!(rotation, Rotation::Scheduled(due) if due > at(0) && due <= at(length)), "{rotation:?}");
            }
        }
    }
}
