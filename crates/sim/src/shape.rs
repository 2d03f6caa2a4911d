//! What a seed chooses once: the devices, the pool and its volumes, and what may go wrong with them.

use std::str::FromStr;

use anyhow::anyhow;
use hotset_block::{DeviceInfo, Discard};
use hotset_cache::config::{
    BlockBytes, Cleaning, FetchRate, IoType, PolicyKind, PoolKind, PoolSettings, Share, VolumeSettings,
};

use crate::log_shape;
use crate::random::Random;

/// What a world is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A bit of everything.
    Everything,
    /// Slots are reused at once, and the power fails just when an SSD was told what to believe. Nothing else is wrong:
    /// whatever is missing afterwards is missed.
    PowerCuts,
    /// Slots are reused at once, and some writes to SSDs land seconds after they were asked for, but in time.
    LateSsds,
    /// The same blocks are filled into the same slots again and again, and old content turns up, of slots and of whole
    /// SSDs.
    OldContent,
    /// A backing device fails flushes, and the power fails soon after the next flush of a host was answered. Nothing else is
    /// wrong.
    FailedFlush,
    /// SSDs are found as they were some lives ago, and with them the state directory is lost. Little else shows that: the
    /// backing device reports no changes, and hosts keep to few blocks.
    LostState,
    /// Of write logs: long rows that little flushes, and the power fails, often just when rows are sealed or freed. Nothing
    /// else is wrong.
    LogCuts,
    /// Of write logs: some operations of the SSDs end seconds after they began, but in time.
    LateLog,
    /// Of write logs: daemons die, and at some time one SSD is lost for good. It was the faster one.
    OneCopy,
    /// Of write logs: an SSD is missing at one start, and another one at the next.
    AlternateMissing,
    /// Of write logs: one of two backing devices does not answer any more.
    HungBacking,
    /// Of write logs: what is dirty goes to the backing device at once, hosts hardly flush, and the power of the SSDs fails
    /// when a backing device has just flushed. Nothing else is wrong.
    CleanCuts,
    /// Of write logs: an administrator changes his mind about the write mode again and again, and daemons die.
    ModeChanges,
    /// The only SSD fails, hosts go on without it, and at the next start it works as if nothing had been.
    FailingSsd,
    /// An SSD rots, and scrubs mend it.
    Scrubs,
    /// SSDs come and go at the administrator's word, spares take over, and the first SSD fails now and then.
    Changing,
    /// Of write logs: one host, which flushes what it wrote write by write, and the power fails when a flush was just
    /// answered. Nothing else is wrong.
    Commits,
    /// Of write logs: two SSDs vanish, one soon after the other, with dirty data that nobody else has.
    SecondLoss,
    /// Of write logs: all SSDs stop answering at once, for seconds or minutes, and answer again.
    Silence,
    /// Of write logs: SSDs take no writes for a time, one or all of them, and can be read meanwhile.
    Refusal,
    /// Hosts write around what is cached, daemons die, and an SSD loses the end of its slot index, which it had flushed.
    LostTails,
}

impl Profile {
    pub const ALL: &[Self] = &[
        Self::Everything,
        Self::PowerCuts,
        Self::LateSsds,
        Self::OldContent,
        Self::FailedFlush,
        Self::LostState,
        Self::LogCuts,
        Self::LateLog,
        Self::OneCopy,
        Self::AlternateMissing,
        Self::HungBacking,
        Self::CleanCuts,
        Self::ModeChanges,
        Self::FailingSsd,
        Self::Scrubs,
        Self::Changing,
        Self::Commits,
        Self::SecondLoss,
        Self::Silence,
        Self::Refusal,
        Self::LostTails,
    ];
}

impl Profile {
    /// It is after few moments in which something goes wrong, and little happens beside: hosts miss nothing of it.
    pub fn is_sharp(self) -> bool {
        let of_slots = [Self::FailingSsd, Self::LostState, Self::LostTails];
        let of_logs = [
            Self::LogCuts,
            Self::CleanCuts,
            Self::OneCopy,
            Self::AlternateMissing,
            Self::ModeChanges,
            Self::Commits,
            Self::SecondLoss,
        ];
        of_slots.contains(&self) || of_logs.contains(&self)
    }
}

impl FromStr for Profile {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|profile| format!("{profile:?}") == word);
        found.copied().ok_or_else(|| anyhow!("no worlds are called {word}; there are: {:?}", Self::ALL))
    }
}

/// See the file's summary.
#[derive(Clone, Debug)]
pub struct Shape {
    pub profile: Profile,
    pub kind: PoolKind,
    pub ssds: Vec<DeviceInfo>,
    /// So many of them are in a new pool.
    pub ssds_at_first: usize,
    pub volumes: Vec<VolumeShape>,
    pub settings: PoolSettings,
    pub troubles: Troubles,
    /// Hosts per volume.
    pub hosts: u64,
    /// Daemons, one after the other, before the faults end.
    pub lives: u64,
    /// Requests of a hundred that go anywhere, not to the hot blocks.
    pub wander_percent: u64,
    /// Requests of a hundred that are to make something durable.
    pub durable_percent: u64,
    /// The longest pause of a host between two requests.
    pub think_ms: u64,
    /// When the power fails, the SSDs keep nothing that was not flushed.
    pub forgetful_ssds: bool,
    /// The state directory lies on a disk that takes its time.
    pub slow_state: bool,
    /// Of a pool with two copies, the SSD that is damaged.
    pub weak_ssd: usize,
    /// Administrators at work at the same time.
    pub administrators: u64,
}

/// A volume and its backing device.
#[derive(Clone, Copy, Debug)]
pub struct VolumeShape {
    pub backing: DeviceInfo,
    pub settings: VolumeSettings,
    pub reports_changes: bool,
    /// Blocks that hosts like best, at a time.
    pub hot_blocks: u64,
}

/// Which kinds of faults this world has.
#[derive(Clone, Copy, Debug)]
pub struct Troubles {
    /// Daemons die and power fails.
    pub crashes: bool,
    pub ssd_errors: bool,
    pub ssd_hangs: bool,
    pub ssds_vanish: bool,
    /// Bytes change at rest, and while the SSD is not in use whole regions of it.
    pub rot: bool,
    /// Slots of an SSD are found where others were, or as they were before.
    pub misplaced_slots: bool,
    pub backing_errors: bool,
    pub changes_behind_our_back: bool,
    /// Administrators change settings, detach and attach, delete and create.
    pub administrators: bool,
}

impl Shape {
    pub fn draw(kind: PoolKind, random: &mut Random) -> Self {
        match kind {
            PoolKind::Read => Self::of_read_pool(random),
            PoolKind::ReadWrite => log_shape::draw(random),
        }
    }

    fn of_read_pool(random: &mut Random) -> Self {
        match random.below(22) {
            0..9 => Self::everything(random),
            9 => Self::lost_tails(random),
            10..14 => Self::power_cuts(random),
            14 | 15 => Self::few_slots(Profile::LateSsds, random),
            16 => Self::failed_flush(random),
            17 => Self::lost_state(random),
            18 => Self::failing_ssd(random),
            19 => Self::scrubs(random),
            _ => Self::old_content(random),
        }
    }

    /// As above, with SSDs that come and go.
    pub fn changing(kind: PoolKind, random: &mut Random) -> Self {
        let mut shape = match kind {
            PoolKind::Read => Self::everything(random),
            PoolKind::ReadWrite => log_shape::busy(Profile::Changing, random),
        };
        let first = if kind == PoolKind::Read { 1 } else { 2 };
        shape.profile = Profile::Changing;
        shape.ssds = (0..random.pick(&[3, 4, 5])).map(|_| ssd(random)).collect();
        shape.ssds_at_first = usize::try_from(random.between(first, first + 2))
            .expect("what lies in memory has an address")
            .min(shape.ssds.len());
        shape.troubles = Troubles {
            crashes: !random.one_in(8),
            ssd_errors: random.one_in(2),
            ssd_hangs: random.one_in(6),
            ssds_vanish: random.one_in(2),
            backing_errors: random.one_in(6),
            administrators: true,
            ..Troubles::NONE
        };
        shape.weak_ssd = random.index(shape.ssds.len());
        shape.administrators = random.pick(&[1, 1, 2, 3]);
        shape.lives = random.between(2, 6);
        if kind == PoolKind::ReadWrite && random.one_in(4) {
            shape.overwrite_more_than_is_left(random);
        }
        shape
    }

    /// Hosts overwrite half of what may be dirty, again and again, and the log takes all the room that it may have: when an
    /// SSD leaves, what it has of the log has no place.
    fn overwrite_more_than_is_left(&mut self, random: &mut Random) {
        self.ssds_at_first = self.ssds.len().min(4);
        self.settings.cleaning.dirty_watermark_percent = 90;
        self.volumes[0].backing.size_bytes = random.between(6, 14) << 20;
        self.volumes[0].hot_blocks = random.between(20, 60);
        self.hosts = 4;
        self.think_ms = 1;
        self.wander_percent = 5;
        self.durable_percent = 5;
    }

    fn everything(random: &mut Random) -> Self {
        let troubles = Troubles::draw(random);
        let settings = settings(random);
        let ssds: Vec<_> = (0..random.pick(&[1, 1, 2, 2, 3, 4])).map(|_| ssd(random)).collect();
        let volumes = (0..random.pick(&[1, 1, 2])).map(|_| VolumeShape::draw(random)).collect();
        Self {
            profile: Profile::Everything,
            kind: PoolKind::Read,
            ssds_at_first: ssds.len(),
            ssds,
            volumes,
            settings,
            troubles: Troubles { rot: troubles.rot && settings.checksums, ..troubles },
            hosts: random.between(1, 4),
            lives: random.between(2, 5),
            wander_percent: random.pick(&[5, 20, 60]),
            durable_percent: random.pick(&[0, 1, 10]),
            think_ms: random.pick(&[1, 5, 30, 300]),
            forgetful_ssds: false,
            slow_state: false,
            weak_ssd: 0,
            administrators: random.pick(&[1, 1, 2, 3]),
        }
    }

    /// Many short lives. Where all blocks find a slot, nothing but publishing flushes the SSD.
    fn power_cuts(random: &mut Random) -> Self {
        let mut shape = Self { lives: random.between(3, 7), ..Self::few_slots(Profile::PowerCuts, random) };
        if random.one_in(3) {
            shape.volumes[0].backing.size_bytes = 4 << 20;
        }
        shape.volumes[0].backing.volatile_cache = random.one_in(2);
        shape
    }

    fn failed_flush(random: &mut Random) -> Self {
        let mut shape = Self { lives: random.between(3, 7), ..Self::few_slots(Profile::FailedFlush, random) };
        shape.volumes[0].backing.volatile_cache = true;
        shape.troubles = Troubles { crashes: true, backing_errors: true, ..Troubles::NONE };
        shape.durable_percent = 30;
        shape
    }

    fn lost_state(random: &mut Random) -> Self {
        let mut shape = Self { lives: random.between(3, 7), ..Self::few_slots(Profile::LostState, random) };
        shape.volumes[0].reports_changes = false;
        shape.volumes[0].hot_blocks = random.between(2, 6);
        shape.wander_percent = 0;
        shape.troubles = Troubles { crashes: true, ..Troubles::NONE };
        shape
    }

    /// All that hosts like finds a slot, and is written to again when the SSD has gone.
    fn failing_ssd(random: &mut Random) -> Self {
        let mut shape = Self { lives: random.between(3, 7), ..Self::few_slots(Profile::FailingSsd, random) };
        shape.volumes[0].backing.size_bytes = 4 << 20;
        shape.troubles = Troubles { crashes: true, ssd_errors: true, ..Troubles::NONE };
        shape.volumes[0].hot_blocks = random.between(2, 6);
        shape.wander_percent = 20;
        shape
    }

    /// What is cached is written to again, and there is another SSD that knows of it.
    fn lost_tails(random: &mut Random) -> Self {
        let mut shape = Self { lives: random.between(3, 7), ..Self::few_slots(Profile::LostTails, random) };
        shape.ssds.extend((0..random.pick(&[1, 1, 2])).map(|_| ssd(random)));
        shape.ssds_at_first = shape.ssds.len();
        shape.volumes[0].backing.size_bytes = 4 << 20;
        shape.volumes[0].hot_blocks = random.between(2, 6);
        shape.troubles = Troubles { crashes: true, ..Troubles::NONE };
        shape.wander_percent = 20;
        shape
    }

    fn scrubs(random: &mut Random) -> Self {
        let mut shape = Self::everything(random);
        shape.profile = Profile::Scrubs;
        shape.settings.checksums = true;
        shape.troubles = Troubles { crashes: random.one_in(2), rot: true, administrators: true, ..Troubles::NONE };
        shape
    }

    fn old_content(random: &mut Random) -> Self {
        let mut shape = Self::few_slots(Profile::OldContent, random);
        shape.settings.block_bytes = BlockBytes::new(512 << 10).expect("the size is valid");
        shape.settings.populate_on_write = 1;
        shape.volumes[0].backing.size_bytes = 4 << 20;
        shape.troubles = Troubles { misplaced_slots: true, ..shape.troubles };
        shape.lives = random.between(3, 7);
        shape
    }

    /// Hosts go everywhere in a volume that is much larger than its cache.
    fn few_slots(profile: Profile, random: &mut Random) -> Self {
        let block_bytes = random.pick(&[128 << 10, 128 << 10, 256 << 10]);
        let settings = PoolSettings {
            block_bytes: BlockBytes::new(block_bytes).expect("the sizes above are valid"),
            populate_on_read: 1,
            // S3-FIFO evicts first what came last, which nothing believes yet.
            policy: random.pick(&[
                PolicyKind::S3Fifo,
                PolicyKind::TwoQ,
                PolicyKind::Lru,
                PolicyKind::Fifo,
                PolicyKind::Auto,
            ]),
            fetch_rate: random.pick(&[FetchRate::Medium, FetchRate::High]),
            checksums: random.one_in(2),
            ..settings(random)
        };
        let ssd = DeviceInfo { size_bytes: 8 << 20, volatile_cache: true, ..ssd(random) };
        let mut volume = VolumeShape::draw(random);
        volume.backing.size_bytes = 14 << 20;
        volume.settings.read_cutoff_bytes = None;
        Self {
            profile,
            kind: PoolKind::Read,
            ssds_at_first: 1,
            ssds: vec![ssd],
            volumes: vec![volume],
            settings,
            troubles: Troubles { crashes: profile == Profile::PowerCuts || random.one_in(2), ..Troubles::NONE },
            hosts: random.between(2, 4),
            lives: random.between(2, 5),
            wander_percent: random.pick(&[60, 90]),
            durable_percent: random.pick(&[0, 1, 10]),
            think_ms: random.pick(&[5, 30]),
            forgetful_ssds: false,
            slow_state: false,
            weak_ssd: 0,
            administrators: 1,
        }
    }
}

impl Troubles {
    pub(crate) const NONE: Self = Self {
        crashes: false,
        ssd_errors: false,
        ssd_hangs: false,
        ssds_vanish: false,
        rot: false,
        misplaced_slots: false,
        backing_errors: false,
        changes_behind_our_back: false,
        administrators: false,
    };

    /// SSDs fail, and not only with the power.
    pub fn of_ssds(self) -> bool {
        self.ssd_errors || self.ssd_hangs || self.ssds_vanish || self.rot
    }

    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            crashes: !random.one_in(8),
            ssd_errors: random.one_in(4),
            ssd_hangs: random.one_in(6),
            ssds_vanish: random.percent(45),
            rot: random.one_in(4),
            misplaced_slots: random.one_in(2),
            backing_errors: random.one_in(5),
            changes_behind_our_back: random.one_in(3),
            administrators: random.one_in(2),
        }
    }
}

pub(crate) fn settings(random: &mut Random) -> PoolSettings {
    let block_bytes = random.pick(&[64 << 10, 64 << 10, 64 << 10, 128 << 10]);
    PoolSettings {
        io_type: IoType::Custom,
        block_bytes: BlockBytes::new(block_bytes).expect("the sizes above are valid"),
        populate_on_read: random.pick(&[1, 1, 2]),
        populate_on_write: random.pick(&[0, 1, 1, 2]),
        policy: policy(random),
        fetch_rate: fetch_rate(random),
        checksums: !random.one_in(4),
        cleaning: Cleaning::default(),
        ssd_writes_per_day_bytes: None,
    }
}

/// A part of what a pool has, or none.
pub fn share(random: &mut Random) -> Option<Share> {
    random.pick(&[None, None, Some(Share::Percent(5)), Some(Share::Percent(40)), Some(Share::Bytes(1 << 20))])
}

pub fn policy(random: &mut Random) -> PolicyKind {
    let all =
        [PolicyKind::S3Fifo, PolicyKind::TwoQ, PolicyKind::Lru, PolicyKind::Fifo, PolicyKind::Auto, PolicyKind::Auto];
    random.pick(&all)
}

pub fn fetch_rate(random: &mut Random) -> FetchRate {
    random.pick(&[FetchRate::Low, FetchRate::Medium, FetchRate::High, FetchRate::High])
}

pub(crate) fn ssd(random: &mut Random) -> DeviceInfo {
    DeviceInfo {
        size_bytes: (8 << 20) + random.below(6 << 20) / 4096 * 4096,
        logical_block_bytes: random.pick(&[512, 4096]),
        optimal_io_bytes: 0,
        volatile_cache: !random.one_in(6),
        discard: Discard::Unsupported,
        read_only: false,
        emulated: false,
    }
}

impl VolumeShape {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let logical_block_bytes = random.pick(&[512, 512, 4096]);
        // A device may end within one of its blocks.
        let unit = u64::from(random.pick(&[512, logical_block_bytes, 4096]));
        let size_bytes = {
            let most = random.pick(&[4 << 20, 8 << 20, 14 << 20]);
            random.between(1 << 20, most) / unit * unit
        };
        let backing = DeviceInfo {
            size_bytes,
            logical_block_bytes,
            optimal_io_bytes: 0,
            volatile_cache: !random.one_in(5),
            discard: random.pick(&[Discard::Unsupported, Discard::Undefined, Discard::Zeroes, Discard::Zeroes]),
            read_only: false,
            emulated: false,
        };
        let cutoff = |random: &mut Random| random.pick(&[None, Some(4 << 20), Some(256 << 10)]);
        let settings = VolumeSettings {
            // A volume may offer smaller blocks than its backing device has, if its size allows it.
            logical_block_bytes: if size_bytes.is_multiple_of(4096) { random.pick(&[512, 512, 4096]) } else { 512 },
            read_only: false,
            read_cutoff_bytes: cutoff(random),
            write_cutoff_bytes: cutoff(random),
            ..VolumeSettings::default()
        };
        Self { backing, settings, reports_changes: !random.one_in(4), hot_blocks: random.between(1, 12) }
    }

    /// The unit of what hosts ask for: some do not know, or do not keep to, the volume's logical block.
    pub fn request_unit_bytes(&self) -> u64 {
        if self.hot_blocks.is_multiple_of(2) { u64::from(self.settings.logical_block_bytes) } else { 512 }
    }

    /// The unit in which the model judges: what hosts write or the backing device tears, whichever is smaller.
    pub fn cell_bytes(&self) -> u64 {
        u64::from(self.backing.logical_block_bytes).min(self.request_unit_bytes())
    }
}
