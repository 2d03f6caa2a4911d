//! What an emulated array is made of, and the presets that stand for arrays that vendors measured.

use super::layout::Level;

/// The properties of an emulated array. `FromStr` of [`EmulatedArraySpec`](super::EmulatedArraySpec) checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// 1 to 64.
    pub disks: u32,
    pub level: Level,
    /// The usable capacity of the volume.
    pub size_bytes: u64,
    /// The usable capacity of the array that is modelled, at least `size_bytes`: the volume lies on the outermost
    /// `size_bytes / span_bytes` of its strokes.
    pub span_bytes: u64,
    /// What one disk holds of a stripe: a power of two.
    pub chunk_bytes: u64,
    pub rpm: u32,
    /// From one track to the next, until the arm is still.
    pub seek_min_us: u64,
    /// Over the full stroke.
    pub seek_max_us: u64,
    /// Of the outermost tracks of one disk, in bytes per second.
    pub rate: u64,
    /// How many commands a disk chooses from; 1 is first come, first served.
    pub ncq: u32,
    /// The volatile write cache of each disk; 0 is none. With a controller cache the disks use none, whatever this is:
    /// controllers with non-volatile memory switch it off.
    pub disk_cache_bytes: u64,
    /// The non-volatile write cache of the controller; 0 is none.
    pub controller_cache_bytes: u64,
}

impl Parameters {
    /// The capacity of one modelled disk.
    pub fn disk_bytes(&self) -> u64 {
        let data_disks = u64::from(self.level.data_disks(self.disks));
        self.span_bytes.div_ceil(data_disks * self.chunk_bytes) * self.chunk_bytes
    }

    /// The data of one stripe.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.level.data_disks(self.disks)) * self.chunk_bytes
    }
}

/// An array whose figures a vendor published, without any SSD cache. Their publications give the disks' number, class
/// and level, not their model: what is not given is taken from data sheets of the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 16 nearline SAS disks, RAID 5: 4 KiB at depth 128 over 1.1 % of the span, 4,512 random reads or 1,660 random
    /// writes per second (requirements B1 and B2). What is not spelled out is as here without a preset, too.
    B1,
    /// 10 disks, RAID 5: 4 KiB at depth 32 over 20 GB, 1,016 random reads or 562 random writes per second (B6).
    B6,
    /// 6 disks, RAID 6: 1,100 random reads or 300 random writes per second, 900 MB/s streaming (B9).
    B9,
}

impl Preset {
    pub const ALL: [Self; 3] = [Self::B1, Self::B6, Self::B9];

    /// As in `preset=NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::B1 => "b1",
            Self::B6 => "b6",
            Self::B9 => "b9",
        }
    }

    /// The preset's array, with a volume of `size_bytes` in place of the vendor's working set.
    pub fn parameters(self, size_bytes: u64) -> Parameters {
        match self {
            Self::B1 => b1(size_bytes),
            Self::B6 => b6(size_bytes),
            Self::B9 => b9(size_bytes),
        }
    }
}

/// The disks: 7,200 rpm nearline SAS of 2 to 4 TB (data sheets: average read seek 8.5 ms, which these two ends of the
/// curve give at a third of the stroke; track to track 0.5 to 1 ms; 170 to 180 MB/s on the outer tracks; queue depth
/// 32 or more). The writes per second tell that the disks' own caches are on and that no large controller cache is.
fn b1(size_bytes: u64) -> Parameters {
    Parameters {
        disks: 16,
        level: Level::Raid5,
        size_bytes,
        span_bytes: times(size_bytes, 1000, 11),
        chunk_bytes: 64 << 10,
        rpm: 7200,
        seek_min_us: 850,
        seek_max_us: 16_000,
        rate: 175_000_000,
        ncq: 32,
        disk_cache_bytes: 16 << 20,
        controller_cache_bytes: 0,
    }
}

/// The publication gives nothing but "10 HDD". 100 reads per second and disk at 3 requests each are those of slow
/// disks that serve one command at a time: 5,400 rpm without NCQ (120 MB/s outer). Its 20 GB are taken to be files that
/// lie scattered over 6 % of the stroke. That writes reach half the reads' rate, though each is two reads and two
/// writes, needs the disks' own caches.
fn b6(size_bytes: u64) -> Parameters {
    Parameters {
        disks: 10,
        span_bytes: times(size_bytes, 100, 6),
        rpm: 5400,
        rate: 120_000_000,
        ncq: 1,
        ..b1(size_bytes)
    }
}

/// The disks: 7,200 rpm nearline of 8 TB and more (data sheets: 225 to 250 MB/s outer; four data disks of 230 MB/s give
/// the 900 MB/s). Neither the depth (it swept the number of threads) nor the share of the span is known: depth
/// 24 and 8 % are taken.
fn b9(size_bytes: u64) -> Parameters {
    Parameters {
        disks: 6,
        level: Level::Raid6,
        span_bytes: times(size_bytes, 100, 8),
        rate: 230_000_000,
        ..b1(size_bytes)
    }
}

/// `value * numerator / denominator`, rounded down; at the end of the numbers, their end.
fn times(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(product).unwrap_or(u64::MAX)
}
