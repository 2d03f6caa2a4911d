//! Where one page of a volume is now, and why it is not in the cache.

use std::rc::Rc;

use hotset_block::Env;

use crate::address::{BlockKey, VolumeIndex};
use crate::clean::slots::Standing;
use crate::clean::{BlockCounts, SlotCopy};
use crate::config::PAGE;
use crate::log::Log;
use crate::log::overlay::Content;
use crate::volume::fill::Filler;
use crate::volume::inner::VolumeInner;
use crate::volume::missed::Missed;
use crate::volume::place::{Attached, PoolRooms};

/// A page of a volume, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Where the page begins in the volume, in bytes.
    pub page_bytes: u64,
    /// Reads of it are answered from memory.
    pub in_memory: bool,
    /// `None`: the volume has no pool.
    pub in_pool: Option<InPool>,
    /// Why a read of it, or of one beside it, missed last; `None`: none did, or that is forgotten.
    pub last_missed: Option<Missed>,
    /// Why a read of it that belongs to no stream would miss now; `None`: it would not.
    pub would_miss: Option<Missed>,
    /// Reads of the volume do not use the cache.
    pub read_cache_off: bool,
}

/// What a pool has of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPool {
    /// Its number of the block.
    pub block: u32,
    /// The newest copy, if that is in the write log.
    pub in_log: Option<LogCopy>,
    /// The copy of its block, with this page or without it.
    pub in_slot: Option<SlotCopy>,
    /// How often the block was read and missed of late, and written: 0 to 3.
    pub reads_counted: u8,
    pub writes_counted: u8,
    /// How often it has to be until it is populated.
    pub populate_on_read: u8,
    pub populate_on_write: u8,
    pub fill: FillState,
    /// The policy remembers that it evicted the block.
    pub was_evicted: bool,
    /// What keeps the block out when it is hot enough; `None`: nothing.
    pub hindrance: Option<Missed>,
    /// Why a read of the page would miss now; `None`: it would not.
    pub would_miss: Option<Missed>,
}

/// Where the newest copy of a page lies in the write log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCopy {
    pub row: u64,
    /// SSDs that have a copy that can be read.
    pub ssds: Vec<String>,
    /// The backing device does not have it yet.
    pub dirty: bool,
    /// It reads as zeroes, which take no place.
    pub zeroes: bool,
    /// No copy can be read now.
    pub unavailable: bool,
}

/// Whether a block is about to be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillState {
    None,
    Waits,
    Runs,
}

impl<E: Env> VolumeInner<E> {
    /// Of the page that this byte of the volume lies in.
    pub(crate) fn explain(&self, offset: u64) -> Explanation {
        let page = offset / PAGE;
        let in_pool = |attached: &Attached<E>| attached.pool.explain(attached.index, page);
        let in_memory = self.memory.holds(page);
        let in_pool = self.attached().as_deref().map(in_pool);
        let read_cache_off = !self.spec.borrow().settings.read_cache;
        let below = || match &in_pool {
            Some(pool) if pool.would_miss.is_some() && read_cache_off => Some(Missed::Off),
            Some(pool) => pool.would_miss,
            None => Some(Missed::Off),
        };
        Explanation {
            page_bytes: page * PAGE,
            in_memory,
            would_miss: if in_memory { None } else { below() },
            in_pool,
            last_missed: self.last_misses.of(page),
            read_cache_off,
        }
    }
}

impl<E: Env> PoolRooms<E> {
    fn explain(self: &Rc<Self>, volume: VolumeIndex, page: u64) -> InPool {
        let pages = page..page + 1;
        let block = self.blocks.one_of(&pages).expect("a page lies in one block");
        let key = BlockKey { volume, block };
        let BlockCounts { reads, writes } = self.clean.counts_of(key);
        let settings = self.settings.get();
        let fills = self.clean.fills();
        let in_log = self.log.as_ref().and_then(|log| self.explain_log(log, volume, page));
        let in_slot = self.clean.place_of(key, self.blocks.within(&pages).start);
        let would_miss = match (&in_log, &in_slot) {
            (Some(copy), _) => copy.unavailable.then_some(Missed::Degraded),
            (None, Some(slot)) if slot.has_page => None,
            (None, _) => Some(self.why_block_missed(key, reads + 1, settings.populate_on_read)),
        };
        InPool {
            block: block.0,
            in_log,
            in_slot,
            would_miss,
            reads_counted: reads,
            writes_counted: writes,
            populate_on_read: settings.populate_on_read,
            populate_on_write: settings.populate_on_write,
            fill: match (fills.is_running(key), fills.is_known(key)) {
                (true, _) => FillState::Runs,
                (false, true) => FillState::Waits,
                (false, false) => FillState::None,
            },
            was_evicted: self.clean.standing(key) == Standing::Evicted,
            hindrance: Filler::of(self).hindrance(volume),
        }
    }

    fn explain_log(&self, log: &Log<E>, volume: VolumeIndex, page: u64) -> Option<LogCopy> {
        let run = log.runs(volume, page..page + 1, |_| true).pop()?;
        let row = run.row();
        let (segment, _) = row.locate(run.first.place.position());
        let (zeroes, unavailable) = match run.first.content {
            Content::Data { .. } => (false, false),
            Content::Zeroes => (true, false),
            Content::Lost | Content::Unavailable { .. } => (false, true),
        };
        let ssds = if unavailable {
            Vec::new()
        } else {
            row.mirrors(segment).map(|copy| self.members.ssd(copy.ssd).path.clone()).collect()
        };
        Some(LogCopy { row: row.number, ssds, dirty: run.first.dirty, zeroes, unavailable })
    }
}
