//! What a volume has of its backing device: so many bytes, from the first on. They are read here, whoever asks; who waits for the
//! device on behalf of an administrator does so here. `identity.rs` says what the device is.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, ByteRange, Device, Env};

use crate::config::{PAGE, VolumeSpec, limits};
use crate::error::{Error, ErrorKind};
use crate::time_limit::within;
use crate::volume::backing::{Backing, HostsTurn};
use crate::volume::destination::Destination;

/// How often a change looks whether what it waits for hangs.
const LOOK: Duration = Duration::from_secs(1);

/// See the file's summary.
pub(crate) struct BackingView<E: Env> {
    pub(super) env: E,
    spec: Rc<RefCell<VolumeSpec>>,
    pub(super) backing: Rc<Backing<E>>,
    pub(super) size_bytes: Rc<Cell<u64>>,
}

impl<E: Env> BackingView<E> {
    pub(super) fn new(
        env: E,
        spec: Rc<RefCell<VolumeSpec>>,
        backing: Rc<Backing<E>>,
        size_bytes: Rc<Cell<u64>>,
    ) -> Self {
        Self { env, spec, backing, size_bytes }
    }

    /// In whole logical blocks, as it is now.
    pub(super) fn size_of_backing(&self) -> Result<u64, Error> {
        let device_bytes = self.backing.device()?.grow().map_err(|error| self.backing.error(&error))?;
        let block_bytes = self.spec.borrow().settings.logical_block_bytes;
        Ok(device_bytes - device_bytes % u64::from(block_bytes))
    }

    /// Whole pages from the backing device.
    pub(crate) async fn read_whole_pages(&self, pages: &Range<u64>, buf: Buf) -> Result<Buf, Error> {
        let read = async |offset, part| self.backing.read(offset, part).await;
        let (buf, result) = self.read_pages(pages.start * PAGE, buf, read).await;
        result.map(|()| buf)
    }

    /// Reads pages by `read`; what of them lies behind the end of the volume is zero.
    pub(crate) async fn read_pages(
        &self,
        offset: u64,
        buf: Buf,
        read: impl AsyncFn(u64, Buf) -> (Buf, Result<(), Error>),
    ) -> (Buf, Result<(), Error>) {
        let inside = self.size_bytes.get().saturating_sub(offset);
        let Some(inside) = usize::try_from(inside).ok().filter(|inside| *inside < buf.len()) else {
            return read(offset, buf).await;
        };
        let (buf, mut behind) = buf.split_at(inside);
        behind.fill(0);
        let (buf, result) = read(offset, buf).await;
        (buf.join(behind), result)
    }

    /// Exactly `range` from the backing device, in the device's blocks.
    pub(crate) async fn read_backing(&self, range: ByteRange, destination: Destination) -> Result<Buf, Error> {
        let turn = self.backing.hosts_turn(self.device_blocks(range).length()).await;
        self.read_in_turn(turn, range, destination).await
    }

    pub(super) async fn read_in_turn(
        &self,
        turn: HostsTurn<'_, E>,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let wide = self.device_blocks(range);
        let bytes = usize::try_from(wide.length()).expect("a request fits in memory");
        let buf = destination.buf(self.env.buffers(), bytes);
        let (buf, result) = turn.read(wide.start, buf).await;
        result?;
        let skip = usize::try_from(range.start - wide.start).expect("less than a block");
        Ok(buf.narrow(skip, usize::try_from(range.length()).expect("a request fits in memory")))
    }

    /// The blocks of the backing device that `range` touches.
    pub(crate) fn device_blocks(&self, range: ByteRange) -> ByteRange {
        self.backing.blocks_of(range)
    }

    /// Waits for the backing device on behalf of an administrator, who is refused if it hangs, or takes longer than anybody
    /// waits. Requests in flight may wait for an SSD too, which answers or leaves the pool. What is abandoned must change nothing: a
    /// lock that was waited for, reads.
    pub(crate) async fn in_time<T>(&self, operation: impl Future<Output = T>) -> Result<T, Error> {
        let mut operation = pin!(operation);
        let began = self.env.now();
        while self.env.now().since(began) < limits::CHANGE_TIMEOUT {
            if let Some(done) = within(&self.env, LOOK, operation.as_mut()).await {
                return Ok(done);
            }
            if self.backing.hangs_for().is_some() {
                let seconds = limits::BACKING_TIMEOUT.as_secs();
                return Err(self.not_changed(&format!("did not answer within {seconds} s"), "repair it"));
            }
        }
        let seconds = limits::CHANGE_TIMEOUT.as_secs();
        Err(self.not_changed(&format!("was busy for {seconds} s"), "try again when it has less to do"))
    }

    fn not_changed(&self, why: &str, what_to_do: &str) -> Error {
        let (name, device) = (&self.spec.borrow().name, &self.backing.name);
        let message = format!("volume {name}: backing device {device} {why}, and nothing was changed: {what_to_do}");
        Error::new(ErrorKind::Media, message)
    }
}
