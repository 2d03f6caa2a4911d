//! What a simulated disk holds: the durable bytes, and over them what its volatile cache has and no flush has covered.
//!
//! `durable` survives a power cut, `current` is what a read returns. Between them lie the *parts*: writes (or pieces of
//! writes) that landed. A power cut decides sector by sector which of them is kept; a sector itself is never torn.

use std::rc::Rc;

use hotset_block::ByteRange;

use crate::image::{Image, index};
use crate::random::Random;

/// See the file's summary.
pub(crate) struct Media {
    pub(crate) current: Image,
    durable: Image,
    /// In the order in which they landed.
    parts: Vec<Part>,
    sector_bytes: u64,
}

/// A landed write that is not durable.
struct Part {
    operation: u64,
    offset: u64,
    data: Rc<[u8]>,
    completed: bool,
    /// A flush of it failed: until the device is opened anew, no flush makes it durable.
    orphan: bool,
    /// Where something that landed later is durable already.
    superseded: Vec<ByteRange>,
}

impl Part {
    fn range(&self) -> ByteRange {
        ByteRange::at(self.offset, length(&self.data))
    }

    fn sectors(&self, sector_bytes: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let numbered = (0u64..).zip(self.data.chunks(index(sector_bytes)));
        numbered.map(move |(number, bytes)| (self.offset + number * sector_bytes, bytes)).filter(move |(offset, _)| {
            let sector = ByteRange::at(*offset, sector_bytes);
            !self.superseded.iter().any(|newer| newer.overlaps(sector))
        })
    }
}

impl Media {
    pub(crate) fn new(size_bytes: u64, sector_bytes: u64) -> Self {
        let image = Image::zeroed(size_bytes);
        Self { current: image.clone(), durable: image, parts: Vec::new(), sector_bytes }
    }

    /// A write reaches the disk's cache.
    pub(crate) fn land(&mut self, operation: u64, offset: u64, data: Rc<[u8]>) {
        self.current.write(offset, &data);
        let part = Part { operation, offset, data, completed: false, orphan: false, superseded: Vec::new() };
        self.parts.push(part);
    }

    /// Only some sectors of a write reach the disk's cache.
    pub(crate) fn land_in_part(&mut self, operation: u64, offset: u64, data: &[u8], mut lands: impl FnMut() -> bool) {
        for (number, bytes) in (0u64..).zip(data.chunks(index(self.sector_bytes))) {
            if lands() {
                self.land(operation, offset + number * self.sector_bytes, Rc::from(bytes));
            }
        }
    }

    /// The host was told that the write is done (or the daemon that waited for it is dead).
    pub(crate) fn complete(&mut self, is_complete: impl Fn(u64) -> bool) {
        for part in self.parts.iter_mut().filter(|part| is_complete(part.operation)) {
            part.completed = true;
        }
    }

    /// What a flush that starts now covers.
    pub(crate) fn flushable(&self) -> Vec<u64> {
        self.parts.iter().filter(|part| part.completed && !part.orphan).map(|part| part.operation).collect()
    }

    /// A flush succeeded: these writes are durable.
    pub(crate) fn make_durable(&mut self, operations: impl Fn(u64) -> bool) {
        let mut kept: Vec<Part> = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            if !(part.completed && !part.orphan && operations(part.operation)) {
                kept.push(part);
                continue;
            }
            if part.superseded.is_empty() {
                self.durable.write(part.offset, &part.data);
            } else {
                part.sectors(self.sector_bytes).for_each(|(offset, bytes)| self.durable.write(offset, bytes));
            }
            for earlier in kept.iter_mut().filter(|earlier| earlier.range().overlaps(part.range())) {
                earlier.superseded.push(part.range());
            }
        }
        self.parts = kept;
    }

    /// A flush failed: these writes can still be read, but no flush that this daemon asks for makes them durable.
    pub(crate) fn orphan(&mut self, operations: impl Fn(u64) -> bool) {
        for part in self.parts.iter_mut().filter(|part| part.completed && operations(part.operation)) {
            part.orphan = true;
        }
    }

    /// The device is opened anew: what its failed flushes left behind is like any other write.
    pub(crate) fn adopt_orphans(&mut self) {
        self.parts.iter_mut().for_each(|part| part.orphan = false);
    }

    /// The power fails: of every write that is not durable, each sector is kept or lost. `percents`: of how many it is kept.
    pub(crate) fn cut_power(&mut self, percents: &[u64], random: &mut Random) {
        // Sector by sector, or write by write.
        let percent = random.pick(percents);
        let whole_writes = random.one_in(2);
        for part in std::mem::take(&mut self.parts) {
            let kept_percent = if whole_writes && percents != [0] { random.pick(&[0, 100, percent]) } else { percent };
            for (offset, bytes) in part.sectors(self.sector_bytes) {
                if random.percent(kept_percent) {
                    self.durable.write(offset, bytes);
                }
            }
        }
        self.current = self.durable.clone();
    }

    /// Somebody else, while no daemon runs, writes and flushes.
    pub(crate) fn overwrite(&mut self, offset: u64, bytes: &[u8]) {
        self.current.write(offset, bytes);
        self.durable = self.current.clone();
        self.parts.clear();
    }

    /// There are more bytes than before.
    pub(crate) fn grow(&mut self, size_bytes: u64) {
        self.current.grow(size_bytes);
        self.durable.grow(size_bytes);
    }

    /// The disk is replaced by a copy of what it was.
    pub(crate) fn replace(&mut self, image: Image) {
        self.durable = image.clone();
        self.current = image;
        self.parts.clear();
    }

    /// One byte changes at rest.
    pub(crate) fn flip(&mut self, offset: u64, mask: u8) {
        for image in [&mut self.current, &mut self.durable] {
            let mut byte = [0];
            image.read(offset, &mut byte);
            image.write(offset, &[byte[0] ^ mask]);
        }
    }
}

pub(crate) fn length(data: &[u8]) -> u64 {
    u64::try_from(data.len()).expect("a length fits in 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 512;

    fn sector(fill: u8) -> Rc<[u8]> {
        Rc::from([fill; 512])
    }

    fn first_byte(media: &Media, sector: u64) -> u8 {
        media.current.bytes(ByteRange::at(sector * SECTOR, 1))[0]
    }

    fn cut(mut media: Media, seed: u64) -> u8 {
        media.cut_power(&[0, 0, 10, 50, 90, 100], &mut Random::new(seed));
        first_byte(&media, 0)
    }

    fn written(build: impl Fn(&mut Media)) -> std::collections::BTreeSet<u8> {
        let outcomes = (0..200).map(|seed| {
            let mut media = Media::new(64 << 10, SECTOR);
            build(&mut media);
            cut(media, seed)
        });
        outcomes.collect()
    }

    #[test]
    fn a_cut_keeps_any_unflushed_version_and_never_what_was_before_the_flush() {
        let outcomes = written(|media| {
            media.land(1, 0, sector(1));
            media.complete(|_| true);
            media.land(2, 0, sector(2));
            let covered = media.flushable();
            media.land(3, 0, sector(3));
            media.make_durable(|operation| covered.contains(&operation));
        });
        assert_eq!(outcomes, [1, 2, 3].into());
    }

    #[test]
    fn a_flush_of_the_newer_write_buries_the_older_one() {
        let outcomes = written(|media| {
            media.land(1, 0, sector(1));
            media.land(2, 0, sector(2));
            media.complete(|operation| operation == 2);
            media.make_durable(|operation| operation == 2);
        });
        assert_eq!(outcomes, [2].into());
    }

    #[test]
    fn an_orphan_is_read_but_a_later_flush_does_not_save_it() {
        let outcomes = written(|media| {
            media.land(1, 0, sector(1));
            media.complete(|_| true);
            media.orphan(|_| true);
            assert_eq!(first_byte(media, 0), 1);
            assert!(media.flushable().is_empty());
            media.make_durable(|_| true);
        });
        assert_eq!(outcomes, [0, 1].into());
    }

    #[test]
    fn a_cut_tears_a_write_between_its_sectors_only() {
        let mut mixed = 0;
        for seed in 0..100 {
            let mut media = Media::new(64 << 10, SECTOR);
            media.land(1, 0, Rc::from([9; 4 * 512]));
            media.cut_power(&[0, 0, 10, 50, 90, 100], &mut Random::new(seed));
            let bytes = media.current.bytes(ByteRange::at(0, 4 * SECTOR));
            assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            mixed += u64::from(bytes[0] != bytes[512] || bytes[512] != bytes[1024]);
        }
        assert!(mixed > 5, "some cuts tear");
    }
}
