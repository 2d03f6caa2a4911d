//! The mechanics of one spindle: how long the arm and the platter take to bring an address under the head.
//!
//! Pure integer arithmetic on nanoseconds, so that the same requests always take the same time. The address of a byte
//! on a disk says both how far the arm must go (its share of the stroke) and where on its track the byte lies.

use crate::Instant;

/// Zones of equal capacity; the transfer rate falls in even steps from the outermost to the innermost, which has half
/// of it: data sheets of 3.5-inch disks give an inner rate of 45 to 55 % of the outer one.
const ZONES: u64 = 16;

/// The resolution of the stroke, as a power of two.
const STROKE_BITS: u32 = 20;

/// How much of the seek time beyond a track-to-track seek follows the square root of the distance (the arm accelerates
/// and brakes), in 1/16; the rest is linear (it coasts). See Ruemmler and Wilkes, "An introduction to disk drive
/// modeling", IEEE Computer, 1994.
const SQUARE_ROOT_SIXTEENTHS: u64 = 10;

/// What an idle disk goes on to read into its buffer after a read, in bytes.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// What a disk is doing to a range of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The fixed properties of a spindle.
#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    revolution_ns: u64,
    seek_min_ns: u64,
    seek_range_ns: u64,
    zone_bytes: u64,
    stroke_step_bytes: u64,
    track_bytes: Vec<u64>,
}

/// Where the head came to rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) address: u64,
    pub(super) since: Instant,
    pub(super) access: Access,
}

impl Mechanics {
    /// A spindle of `capacity_bytes` that transfers `rate` bytes per second on its outermost tracks.
    pub(super) fn new(rpm: u32, seek_min_ns: u64, seek_max_ns: u64, rate: u64, capacity_bytes: u64) -> Self {
        let revolution_ns = 60_000_000_000 / u64::from(rpm);
        let outer_track = u128::from(rate) * u128::from(revolution_ns) / 1_000_000_000;
        let outer_track =
            u64::try_from(outer_track).expect("a track is smaller than what a disk transfers in a second");
        let steps = 2 * (ZONES - 1);
        let track_bytes = (0..ZONES).map(|zone| (outer_track * (steps - zone) / steps).max(512)).collect();
        Self {
            revolution_ns,
            seek_min_ns,
            seek_range_ns: seek_max_ns - seek_min_ns,
            zone_bytes: capacity_bytes.div_ceil(ZONES).max(1),
            stroke_step_bytes: (capacity_bytes >> STROKE_BITS).max(1),
            track_bytes,
        }
    }

    /// The time from `now` until the first byte at `address` passes under the head (or is in the read-ahead buffer).
    pub(super) fn positioning_ns(&self, head: Head, now: Instant, address: u64, access: Access) -> u64 {
        if access == Access::Read && head.access == Access::Read && self.is_read_ahead(head, now, address) {
            let passed_at = head.since.0 + self.transfer_ns(head.address, address - head.address);
            return passed_at.saturating_sub(now.0);
        }
        let seek_ns = self.seek_ns(head.address, address);
        let angle_ns = self.angle_ns(address);
        let ready_ns = (now.0 + seek_ns) % self.revolution_ns;
        let rotation_ns = (angle_ns + self.revolution_ns - ready_ns) % self.revolution_ns;
        seek_ns + rotation_ns
    }

    /// The time in which `length` bytes from `address` pass under the head.
    pub(super) fn transfer_ns(&self, address: u64, length: u64) -> u64 {
        scale(length, self.revolution_ns, self.track_at(address))
    }

    fn is_read_ahead(&self, head: Head, now: Instant, address: u64) -> bool {
        let idle_ns = now.0.saturating_sub(head.since.0);
        let passed = scale(idle_ns, self.track_at(head.address), self.revolution_ns).min(READ_AHEAD_BYTES);
        (head.address..=head.address + passed).contains(&address)
    }

    /// Nothing within a track; else the arm's time to move and be still.
    fn seek_ns(&self, from: u64, to: u64) -> u64 {
        let distance = from.abs_diff(to);
        if distance < self.track_at(to) {
            return 0;
        }
        let share = distance / self.stroke_step_bytes;
        let root = (share << STROKE_BITS).isqrt();
        let curve = (SQUARE_ROOT_SIXTEENTHS * root + (16 - SQUARE_ROOT_SIXTEENTHS) * share) / 16;
        self.seek_min_ns + ((self.seek_range_ns * curve) >> STROKE_BITS)
    }

    /// Where on its track the address lies, as the time in which the platter turns from the track's start to it.
    fn angle_ns(&self, address: u64) -> u64 {
        let track = self.track_at(address);
        scale(address % track, self.revolution_ns, track)
    }

    fn track_at(&self, address: u64) -> u64 {
        let zone = (address / self.zone_bytes).min(ZONES - 1);
        self.track_bytes[usize::try_from(zone).expect("a zone is an index of track_bytes")]
    }
}

/// `value * numerator / denominator`, rounded down, without overflow on the way.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let exact = value.checked_mul(numerator).map(|product| product / denominator);
    exact.unwrap_or_else(|| {
        let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator);
        u64::try_from(wide).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn nearline() -> Mechanics {
        Mechanics::new(7200, MS, 16 * MS, 200_000_000, 1 << 40)
    }

    fn at_rest(address: u64) -> Head {
        Head { address, since: Instant(0), access: Access::Write }
    }

    #[test]
    fn a_seek_takes_longer_the_farther_it_goes() {
        let disk = nearline();
        let times: Vec<u64> = [0, 1 << 24, 1 << 30, 1 << 36, 1 << 39, 1 << 40].map(|to| disk.seek_ns(0, to)).to_vec();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(times[0], 0);
        assert!((MS..MS + MS / 2).contains(&times[1]));
        assert!((15 * MS..=16 * MS).contains(&times[5]), "a full stroke takes the longest seek: {times:?}");
    }

    #[test]
    fn what_follows_the_head_needs_no_positioning_and_what_it_just_passed_a_revolution() {
        let disk = nearline();
        let now = Instant(disk.transfer_ns(0, 65_536));
        let wait_ns = disk.positioning_ns(at_rest(65_536), now, 65_536, Access::Write);
        assert!(wait_ns < 1000 || wait_ns > disk.revolution_ns - 1000, "{wait_ns}");
        let passed_ns = disk.positioning_ns(at_rest(65_536), now, 65_536 - 4096, Access::Write);
        assert!((8 * MS..disk.revolution_ns).contains(&passed_ns), "{passed_ns}");
    }

    #[test]
    fn a_late_sequential_read_finds_its_bytes_in_the_read_ahead_buffer() {
        let disk = nearline();
        let head = Head { address: 65_536, since: Instant(disk.transfer_ns(0, 65_536)), access: Access::Read };
        let late = Instant(head.since.0 + MS);
        assert_eq!(disk.positioning_ns(head, late, 2 * 65_536, Access::Read), 0);
        assert!(disk.positioning_ns(head, late, 65_536, Access::Write) > 7 * MS, "a write waits for the next turn");
    }

    #[test]
    fn the_inner_zone_has_half_the_rate_of_the_outer_one() {
        let disk = nearline();
        let (outer, inner) = (disk.transfer_ns(0, 1 << 20), disk.transfer_ns((1 << 40) - (1 << 20), 1 << 20));
        assert!((outer * 19 / 10..=outer * 21 / 10).contains(&inner), "{outer} {inner}");
    }
}
