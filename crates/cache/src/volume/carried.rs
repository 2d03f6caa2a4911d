//! Fills that ride on misses: a host's miss that makes its block hot reads the whole block, once, for the host and for the cache.
//!
//! For a spinning disk 64 KiB behind a seek are little more than 4 KiB, and a fill that seeks there again costs as much as a
//! second host's read (decision 0006). So the fetch rate does not govern these fills. They keep the rule `fill-clean-only` as
//! every fill does.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Promise;
use hotset_block::{Buf, Env};

use crate::address::{BlockKey, bytes_of, bytes_within};
use crate::clean::fills::Fill;
use crate::time_limit::within;
use crate::volume::fill::Filler;
use crate::volume::missed_read::MissedRead;
use crate::volume::place::PoolRooms;

/// A host waits so long for what is read with its pages, and then reads them by themselves: a disk may be trying to read a bad
/// sector that the host did not ask for.
pub(super) const WIDE_READ_LIMIT: Duration = Duration::from_secs(1);

impl<E: Env> MissedRead<'_, E> {
    /// Reads the pages of a miss together with those of its blocks that are hot, which come into the cache by that. `None`: no
    /// block can come in now, or the read did not bring them.
    pub(super) async fn read_with_blocks(self, hot: &[BlockKey]) -> Option<Buf> {
        let Self { volume: reader, attached, pages, .. } = self;
        let fills = Filler::of(&attached.pool).begin_carried_fills(hot);
        if fills.is_empty() {
            return None;
        }
        let (promise, brought) = Promise::new();
        let keys: Vec<BlockKey> = fills.iter().map(|fill| fill.key()).collect();
        let (volume, pool, pages) = (Rc::clone(reader), Rc::clone(&attached.pool), pages.clone());
        // The fills have begun: they end also if the host stops waiting.
        reader.env.spawn(async move {
            let wide = widened(&pool, &pages, &fills);
            let read = volume.view.read_whole_pages(&wide, volume.env.buffers().take(bytes_of(&wide))).await.ok();
            let part = |pages: &Range<u64>| read.as_deref().map(|read| &read[bytes_within(&wide, pages)]);
            promise.set(part(&pages).map(|part| volume.env.buffers().copy_of(part)));
            for fill in fills {
                let block = part(&Filler::of(&pool).pages_of_block(fill.key()));
                Filler::of(&pool).complete_carried_fill(&volume, fill, block);
            }
        });
        let brought = within(&reader.env, WIDE_READ_LIMIT, brought).await;
        if brought.is_none() {
            keys.into_iter().for_each(|key| attached.pool.clean.fills().remember_not_carried(key));
        }
        brought.flatten().flatten()
    }

    /// Waits until the block of these pages is there, if another miss is reading it; for so long as that one would, at most.
    pub(super) async fn until_carried(self) {
        let pool = &self.attached.pool;
        let Some(block) = pool.blocks.one_of(self.pages) else { return };
        let (fills, key) = (pool.clean.fills(), BlockKey { volume: self.attached.index, block });
        let ended = async {
            while fills.is_carried(key) {
                fills.ended().await;
            }
        };
        if fills.is_carried(key) {
            within(&self.volume.env, WIDE_READ_LIMIT, ended).await;
        }
    }
}

/// The pages of a request and of the blocks that come into the cache with it.
fn widened<E: Env>(pool: &Rc<PoolRooms<E>>, pages: &Range<u64>, fills: &[Rc<Fill>]) -> Range<u64> {
    let blocks = fills.iter().map(|fill| Filler::of(pool).pages_of_block(fill.key()));
    blocks.fold(pages.clone(), |wide, block| wide.start.min(block.start)..wide.end.max(block.end))
}
