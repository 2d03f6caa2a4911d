//! Where one page of a volume is now, and why it is not in the cache.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::MissReason;

/// `GET /api/v1/volumes/{name}/explanation?offset=`: of the page in which this byte lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    pub volume: String,
    /// Where the page begins.
    pub page_offset: u64,
    /// Reads of it are answered from memory.
    pub in_memory: bool,
    /// Null: the volume has no cache.
    pub in_pool: Option<PagePlaces>,
    /// Why a read of it, or of one beside it, missed last; null: none did, or that is forgotten. It is remembered of about 4,096 places of
    /// 64 KiB for each volume.
    pub last_missed: Option<MissReason>,
    /// Why a read of it that belongs to no stream would miss now; null: it would not.
    pub would_miss: Option<MissReason>,
    /// Whether a read of it would be answered by the cache, and from where, in words.
    pub now: String,
    /// What would get it into the cache, in words; empty if it is there.
    pub then: String,
}

/// What a pool has of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PagePlaces {
    pub pool: String,
    /// The volume's block in which it lies, by its number.
    pub block: u32,
    /// The newest copy, if that is in the write log.
    pub in_log: Option<LogCopy>,
    /// The slot of its block, with this page or without it.
    pub in_slot: Option<SlotCopy>,
    /// How often the block was read and missed of late, and written around the cache: 0 to 3.
    pub reads_counted: u8,
    pub writes_counted: u8,
    /// How often it has to be until it is populated.
    pub populate_on_read: u8,
    pub populate_on_write: u8,
    /// The block waits to be read into the cache, or is being read.
    pub fill_waits: bool,
    pub fill_runs: bool,
    /// The policy remembers that it evicted the block.
    pub was_evicted: bool,
    /// What keeps blocks of the volume out that are hot enough; null: nothing.
    pub hindrance: Option<MissReason>,
}

/// The newest copy of a page, in the write log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogCopy {
    pub row: u64,
    /// The SSDs that have it and can be read.
    pub ssds: Vec<String>,
    /// The backing device does not have it yet.
    pub dirty: bool,
    /// It reads as zeroes.
    pub zeroes: bool,
    /// No copy of it can be read now.
    pub unavailable: bool,
}

/// A slot that holds a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotCopy {
    pub ssd: String,
    /// Its number on that SSD.
    pub slot: u32,
    /// It has the page; if not, a host has written to the page since.
    pub has_page: bool,
    /// It is believed after a crash, too.
    pub published: bool,
}
