//! The device without cost of all benches and examples here: it takes no time of this thread's. What is written to it it keeps as it is,
//! without a copy, as a disk does that fetches it by itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hotset_block::{Buf, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Extent, MemoryDevice, ZeroMode};

/// A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct InstantDevice {
    /// Zeroes, where nothing was written.
    memory: MemoryDevice,
    /// By offset: what was written. They do not overlap.
    kept: Rc<RefCell<BTreeMap<u64, Buf>>>,
}

impl InstantDevice {
    pub(crate) fn new(size_bytes: u64, logical_block_bytes: u32) -> Self {
        Self { memory: MemoryDevice::new(size_bytes, logical_block_bytes), kept: Rc::default() }
    }

    /// What a single write brought of all of `range`, as it is kept.
    fn part_of_one(&self, range: ByteRange) -> Option<Buf> {
        let mut kept = self.kept.borrow_mut();
        let start = last_in(&kept, range).filter(|start| *start <= range.start)?;
        let end = end_of(start, &kept[&start]);
        if end < range.end {
            return None;
        }
        let (own, twin) = kept.remove(&start).expect("it was found").share();
        kept.insert(start, own);
        Some(twin.narrow(bytes(range.start - start), bytes(range.length())))
    }

    /// Forgets what is kept of `range`.
    fn cut_out(&self, range: ByteRange) {
        let mut kept = self.kept.borrow_mut();
        while let Some(start) = last_in(&kept, range) {
            let buf = kept.remove(&start).expect("it was found");
            let end = end_of(start, &buf);
            let (before, rest) = buf.split_at(bytes(range.start.saturating_sub(start)));
            if start < range.start {
                kept.insert(start, before);
            }
            if range.end < end {
                let behind = bytes(end - range.end);
                let from = rest.len() - behind;
                kept.insert(range.end, rest.narrow(from, behind));
            }
        }
    }
}

fn bytes(length: u64) -> usize {
    usize::try_from(length).expect("a buffer fits in memory")
}

fn end_of(start: u64, buf: &Buf) -> u64 {
    start + u64::try_from(buf.len()).expect("a length fits in 64 bits")
}

/// Where the last buffer begins that overlaps `range`.
fn last_in(kept: &BTreeMap<u64, Buf>, range: ByteRange) -> Option<u64> {
    let (start, buf) = kept.range(..range.end).next_back()?;
    (end_of(*start, buf) > range.start).then_some(*start)
}

impl Device for InstantDevice {
    fn info(&self) -> DeviceInfo {
        self.memory.info()
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        self.memory.identity()
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let wanted = ByteRange { start: offset, end: end_of(offset, &buf) };
        if let Some(kept) = self.part_of_one(wanted) {
            return (kept, Ok(()));
        }
        let (mut buf, result) = self.memory.read(offset, buf).await;
        let kept = self.kept.borrow();
        let first = last_in(&kept, ByteRange { start: offset, end: offset + 1 }).unwrap_or(offset);
        for (start, part) in kept.range(first..wanted.end) {
            let (from, to) = (wanted.start.max(*start), wanted.end.min(end_of(*start, part)));
            let within = |base: u64| bytes(from - base)..bytes(to - base);
            buf[within(offset)].copy_from_slice(&part[within(*start)]);
        }
        (buf, result)
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.cut_out(ByteRange { start: offset, end: end_of(offset, &buf) });
        let (kept, buf) = buf.share();
        self.kept.borrow_mut().insert(offset, kept);
        (buf, Ok(()))
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.memory.flush().await
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.cut_out(range);
        self.memory.discard(range).await
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        self.cut_out(range);
        self.memory.write_zeroes(range, mode).await
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.memory.allocation(range, extents_max).await
    }
}
