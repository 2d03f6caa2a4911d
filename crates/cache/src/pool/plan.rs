//! What a pool would be, over SSDs of these sizes.

use crate::clean::links::SLOTS_MAX;
use crate::config::{PAGE, PoolKind, PoolName, PoolSettings, limits};
use crate::error::{Error, ErrorKind};
use crate::format::layout::{Layout, segment_bytes_for};
use crate::log::capacity::{LogSize, ROWS_MIN, capacity};
use crate::pool::table_memory::table_memory;
use crate::reasons::PoolLimit;
use crate::status::PoolPlan;

/// What a new pool is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    pub name: PoolName,
    pub kind: PoolKind,
    pub settings: PoolSettings,
}

/// Why a pool cannot have so many SSDs, or so many slots; `None`: it can.
pub(crate) fn limit_exceeded(ssds: usize, slots: u64) -> Option<PoolLimit> {
    if ssds > limits::SSDS_MAX {
        return Some(PoolLimit::Ssds);
    }
    (slots > u64::from(SLOTS_MAX)).then_some(PoolLimit::Slots)
}

/// See [`crate::Pool::plan`].
pub(crate) fn plan(spec: &PoolSpec, ssd_sizes_bytes: &[u64]) -> Result<PoolPlan, Error> {
    spec.settings.check(spec.kind)?;
    if spec.kind == PoolKind::ReadWrite && ssd_sizes_bytes.len() < 2 {
        let message =
            format!("pool {}: a read-write pool needs at least two SSDs, for two copies of dirty data", spec.name);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let smallest = ssd_sizes_bytes
        .iter()
        .min()
        .ok_or_else(|| Error::new(ErrorKind::Invalid, format!("pool {}: a pool needs at least one SSD", spec.name)))?;
    if ssd_sizes_bytes.len() > limits::SSDS_MAX {
        let message = format!("pool {}: a pool has at most {} SSDs", spec.name, limits::SSDS_MAX);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let block_bytes = spec.settings.block_bytes;
    let segment_bytes = segment_bytes_for(block_bytes, *smallest);
    let layouts = ssd_sizes_bytes.iter().map(|size| Layout::new(*size, 4096, block_bytes, segment_bytes));
    let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
    let capacity = |layout: &Layout| u64::from(layout.slot_count()) * block_bytes.get();
    let slots: u64 = layouts.iter().map(|layout| u64::from(layout.slot_count())).sum();
    if slots > u64::from(SLOTS_MAX) {
        let message = format!(
            "pool {}: {slots} cache blocks are more than the {SLOTS_MAX} that a pool can hold: use larger blocks",
            spec.name
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let log = match spec.kind {
        PoolKind::Read => LogSize::default(),
        PoolKind::ReadWrite => log_size_for(&spec.name, &layouts)?,
    };
    let per_segment = layouts.first().map_or(0, Layout::slots_per_segment) * block_bytes.get();
    let without = |segments: usize| {
        let of_log = u64::try_from(segments).expect("segments are counted in 32 bits") * per_segment;
        layouts.iter().map(capacity).sum::<u64>().saturating_sub(of_log)
    };
    let dirty_pages = log.dirty_pages();
    let memory = table_memory(slots, block_bytes.pages(), spec.settings.checksums, dirty_pages);
    Ok(PoolPlan {
        capacity_bytes: without(0),
        capacity_min_bytes: without(log.segments),
        slots,
        segment_bytes,
        memory,
        memory_bytes: memory.bytes(),
        policy: spec.settings.policy,
        ssd_capacity_bytes: layouts.iter().map(capacity).collect(),
        dirty_capacity_bytes: dirty_pages * PAGE,
    })
}

/// How large the write log of a pool of SSDs with these layouts can be.
fn log_size_for(name: &PoolName, layouts: &[Layout]) -> Result<LogSize, Error> {
    let segment_pages = layouts.first().map_or(1, |layout| layout.segment_bytes / PAGE);
    let segment_pages = u32::try_from(segment_pages).expect("a segment has fewer than 2^32 pages");
    let segments = layouts.iter().map(|layout| layout.segments().log_max()).collect();
    let size = capacity(segments, segment_pages);
    if size.rows < ROWS_MIN {
        let message = format!("pool {name}: its SSDs are too small, or too different in size, for a write log");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(size)
}
