//! When a filling volume is reported. Pure.

use crate::health::disk::Disk;

/// Reported below a tenth, and again only after a seventh was free in between: a volume at the edge is one event.
#[derive(Debug, Default)]
pub struct DiskRoom {
    reported: bool,
}

impl DiskRoom {
    /// True when this is news.
    pub fn is_filling(&mut self, disk: Disk) -> bool {
        let filling = disk.available < disk.total / 10;
        if disk.available > disk.total / 7 {
            self.reported = false;
        }
        let news = filling && !self.reported;
        self.reported |= filling;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_at_the_edge_is_reported_of_once_until_it_has_recovered() {
        let mut room = DiskRoom::default();
        let reported = [50, 9, 11, 9, 8, 20, 9].map(|available| room.is_filling(Disk { total: 100, available }));
        assert_eq!(reported, [false, true, false, false, false, false, true]);
    }
}
