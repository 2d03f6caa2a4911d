//! A device in memory. Its operations complete when first polled and need no executor: for benchmarks of what stands
//! above devices, and for tests.

use std::cell::RefCell;
use std::rc::Rc;

use crate::{
    Buf, ByteRange, Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Extent, ExtentKind,
    Operation, ZeroMode,
};

/// The memory starts as zeroes and is shared by all clones. It forgets everything when the last of them goes.
#[derive(Clone)]
pub struct MemoryDevice {
    bytes: Rc<RefCell<Vec<u8>>>,
    info: DeviceInfo,
}

impl MemoryDevice {
    /// A device of `size_bytes` bytes, rounded down to logical blocks of `logical_block_bytes` bytes.
    pub fn new(size_bytes: u64, logical_block_bytes: u32) -> Self {
        Self::holding(vec![0; length(size_bytes - size_bytes % u64::from(logical_block_bytes))], logical_block_bytes)
    }

    /// One of as many bytes as these, which are whole logical blocks, with these in it.
    pub fn holding(bytes: Vec<u8>, logical_block_bytes: u32) -> Self {
        let size_bytes = u64::try_from(bytes.len()).expect("a length fits in 64 bits");
        assert!(size_bytes.is_multiple_of(u64::from(logical_block_bytes)), "{size_bytes} bytes are no whole blocks");
        let info = DeviceInfo {
            size_bytes,
            logical_block_bytes,
            optimal_io_bytes: 0,
            volatile_cache: false,
            discard: Discard::Zeroes,
            read_only: false,
            emulated: false,
        };
        Self { bytes: Rc::new(RefCell::new(bytes)), info }
    }

    /// From now on the device is gone, and what it held with it.
    pub fn vanish(&self) {
        self.bytes.borrow_mut().clear();
    }

    /// From now on the device is gone, until what it held is there again.
    pub fn unplug(&self) -> Vec<u8> {
        self.bytes.take()
    }

    /// The device is there again, with what `unplug` answered.
    pub fn plug(&self, bytes: Vec<u8>) {
        *self.bytes.borrow_mut() = bytes;
    }

    /// Runs `access` on the bytes of `range`, if the device has them.
    fn access<T>(
        &self,
        operation: Operation,
        range: ByteRange,
        access: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, DeviceError> {
        if range.end > self.info.size_bytes || !range.is_aligned_to(u64::from(self.info.logical_block_bytes)) {
            return Err(DeviceError::new(DeviceErrorKind::OutOfRange, operation, range));
        }
        if self.bytes.borrow().is_empty() {
            return Err(DeviceError::new(DeviceErrorKind::Gone, operation, range));
        }
        Ok(access(&mut self.bytes.borrow_mut()[length(range.start)..length(range.end)]))
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("memory fits the address space")
}

/// The bytes that `buf` covers from `offset`; cut at the end of the number space, which no device reaches.
fn range_of(offset: u64, buf: &Buf) -> ByteRange {
    ByteRange { start: offset, end: offset.saturating_add(u64::try_from(buf.len()).unwrap_or(u64::MAX)) }
}

impl Device for MemoryDevice {
    fn info(&self) -> DeviceInfo {
        self.info
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        let id = format!("memory:{:x}", self.bytes.as_ptr().addr());
        Ok(DeviceIdentity { parent: id.clone(), id, change_mark: None, boot: 0 })
    }

    async fn read(&self, offset: u64, mut buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let result = self.access(Operation::Read, range_of(offset, &buf), |bytes| buf.copy_from_slice(bytes));
        (buf, result)
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let result = self.access(Operation::Write, range_of(offset, &buf), |bytes| bytes.copy_from_slice(&buf));
        (buf, result)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.access(Operation::Discard, range, |bytes| bytes.fill(0))
    }

    async fn write_zeroes(&self, range: ByteRange, _: ZeroMode) -> Result<(), DeviceError> {
        self.access(Operation::WriteZeroes, range, |bytes| bytes.fill(0))
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.access(Operation::Allocation, range, |_| ())?;
        let all = Extent { length: range.length(), kind: ExtentKind::Data };
        Ok(if range.is_empty() || extents_max == 0 { Vec::new() } else { vec![all] })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn memory_answers_at_the_first_poll_and_keeps_what_was_written() {
        let device = MemoryDevice::new(1 << 20, 512);
        let mut buf = Buf::zeroed(1024);
        buf.fill(9);
        let (_, written) = device.write(512, buf).now_or_never().expect("ready at once");
        written.unwrap();
        let (buf, read) = device.clone().read(0, Buf::zeroed(2048)).now_or_never().expect("ready at once");
        read.unwrap();
        assert_eq!((buf[511], buf[512], buf[1535], buf[1536]), (0, 9, 9, 0));
        device.discard(ByteRange::at(512, 512)).now_or_never().expect("ready at once").unwrap();
        let (buf, _) = device.read(512, Buf::zeroed(1024)).now_or_never().expect("ready at once");
        assert_eq!((buf[0], buf[512]), (0, 9));
    }

    #[test]
    fn what_is_outside_or_not_aligned_is_out_of_range() {
        let device = MemoryDevice::new(8192 + 100, 4096);
        assert_eq!(device.info().size_bytes, 8192);
        for (offset, length) in [(8192, 4096), (512, 4096), (0, 512), (u64::MAX - 4095, 4096)] {
            let (_, result) = device.read(offset, Buf::zeroed(length)).now_or_never().expect("ready at once");
            assert_eq!(result.unwrap_err().kind, DeviceErrorKind::OutOfRange);
        }
    }
}
