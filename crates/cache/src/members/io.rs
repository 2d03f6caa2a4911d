//! Counts of a device's transfers.

use std::cell::Cell;

use crate::status::DeviceIo;

/// The counters behind [`DeviceIo`].
#[derive(Debug, Default)]
pub(crate) struct IoCounts(Cell<DeviceIo>);

impl IoCounts {
    pub(crate) fn has_read(&self, bytes: usize) {
        let io = self.0.get();
        self.0.set(DeviceIo { reads: io.reads + 1, read_bytes: io.read_bytes + length(bytes), ..io });
    }

    pub(crate) fn has_written(&self, bytes: usize) {
        let io = self.0.get();
        self.0.set(DeviceIo { writes: io.writes + 1, written_bytes: io.written_bytes + length(bytes), ..io });
    }

    /// Goes on counting from there.
    pub(crate) fn resume(&self, io: DeviceIo) {
        self.0.set(io);
    }

    pub(crate) fn snapshot(&self) -> DeviceIo {
        self.0.get()
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length fits in 64 bits")
}

pub(crate) fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get() + amount);
}
