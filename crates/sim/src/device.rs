//! The `Device` that the engine sees: a handle on a simulated disk.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hotset_block::{
    Buf, ByteRange, Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Extent, ExtentKind,
    Operation, ZeroMode,
};

use crate::disk::{Answer, Disk};
use crate::image::index;
use crate::media::length;

/// See the file's summary.
pub struct SimDevice {
    disk: Rc<Disk>,
    /// How often the disk had gone away when this was opened.
    departures: u64,
}

impl SimDevice {
    pub fn open(disk: &Rc<Disk>) -> Self {
        Self { disk: Rc::clone(disk), departures: disk.departures() }
    }

    /// The contract of every transfer. Breaking it is the engine's bug, whatever the device then answers.
    fn check(&self, operation: Operation, range: ByteRange) -> Result<(), DeviceError> {
        let info = self.disk.info();
        let fits = range.end <= info.size_bytes && !range.is_empty();
        let unit = u64::from(info.logical_block_bytes);
        let ends_well = range.end.is_multiple_of(unit) || range.end == info.size_bytes;
        if fits && range.start.is_multiple_of(unit) && ends_well {
            return Ok(());
        }
        let now = self.disk.simulation.now().0;
        let what = format!("{}: {operation} of a range that does not fit it: {range:?}", self.disk.name);
        self.disk.simulation.trace.violate(now, what);
        Err(DeviceError::new(DeviceErrorKind::OutOfRange, operation, range))
    }

    async fn write_bytes(&self, operation: Operation, range: ByteRange, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_so(operation, range, bytes, false).await
    }

    async fn write_so(
        &self,
        operation: Operation,
        range: ByteRange,
        bytes: &[u8],
        durable: bool,
    ) -> Result<(), DeviceError> {
        self.check(operation, range)?;
        let answer = self.disk.submit_write(self.departures, range.start, bytes, durable);
        Outcome { answer }.await.map_err(|kind| DeviceError::new(kind, operation, range))
    }
}

/// Completes when the disk has answered. Dropping it abandons the answer, never the operation.
struct Outcome {
    answer: Rc<RefCell<Answer>>,
}

impl Future for Outcome {
    type Output = Result<(), DeviceErrorKind>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.answer.borrow_mut();
        match answer.outcome {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Device for SimDevice {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        let nowhere = ByteRange { start: 0, end: 0 };
        self.disk.identity(self.departures).map_err(|kind| DeviceError::new(kind, Operation::Identity, nowhere))
    }

    async fn read(&self, offset: u64, mut buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let range = ByteRange::at(offset, length(&buf));
        if let Err(error) = self.check(Operation::Read, range) {
            return (buf, Err(error));
        }
        let answer = self.disk.submit_read(self.departures, offset, buf.len());
        let outcome = Outcome { answer: Rc::clone(&answer) }.await;
        match outcome {
            Ok(()) => buf.copy_from_slice(&answer.borrow().data),
            // What a failed read leaves in the buffer is not to be relied on.
            Err(_) => buf.fill(0xEE),
        }
        (buf, outcome.map_err(|kind| DeviceError::new(kind, Operation::Read, range)))
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let range = ByteRange::at(offset, length(&buf));
        let outcome = self.write_bytes(Operation::Write, range, &buf).await;
        (buf, outcome)
    }

    async fn write_durable(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let range = ByteRange::at(offset, length(&buf));
        let outcome = self.write_so(Operation::Write, range, &buf, true).await;
        (buf, outcome)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let answer = self.disk.submit_flush(self.departures);
        let whole = ByteRange { start: 0, end: self.disk.info().size_bytes };
        Outcome { answer }.await.map_err(|kind| DeviceError::new(kind, Operation::Flush, whole))
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        let fill = match self.disk.info().discard {
            Discard::Unsupported => {
                return Err(DeviceError::new(DeviceErrorKind::Unsupported, Operation::Discard, range));
            }
            // Such a device may answer anything afterwards: it answers rubbish.
            Discard::Undefined => 0xDC,
            Discard::Zeroes => 0,
        };
        self.write_bytes(Operation::Discard, range, &vec![fill; index(range.length())]).await
    }

    async fn write_zeroes(&self, range: ByteRange, _mode: ZeroMode) -> Result<(), DeviceError> {
        if self.disk.info().discard == Discard::Unsupported {
            return Err(DeviceError::new(DeviceErrorKind::Unsupported, Operation::WriteZeroes, range));
        }
        self.write_bytes(Operation::WriteZeroes, range, &vec![0; index(range.length())]).await
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.check(Operation::Allocation, range)?;
        let extents = self.extents(range, extents_max);
        // It takes as long as a read, and says how it was when it began.
        let answer = self.disk.submit_read(self.departures, range.start, 0);
        Outcome { answer }.await.map_err(|kind| DeviceError::new(kind, Operation::Allocation, range))?;
        Ok(extents)
    }
}

impl SimDevice {
    fn extents(&self, range: ByteRange, extents_max: usize) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = (at + 1).next_multiple_of(4096).min(range.end);
            let kind = if self.disk.is_hole(at) { ExtentKind::Hole } else { ExtentKind::Data };
            let full = extents.len() == extents_max;
            match extents.last_mut().filter(|last| last.kind == kind) {
                Some(last) => last.length += end - at,
                None if full => break,
                None => extents.push(Extent { length: end - at, kind }),
            }
            at = end;
        }
        extents
    }
}
