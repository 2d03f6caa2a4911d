//! What is dirty now goes to the backing device, durably, while hosts go on writing: one sweep over the volume, in the order of
//! addresses.
//!
//! What a pass did not write, because a host overwrote it or wrote it itself just then, is written with its pages held, as a host's
//! own write would be. So a sweep ends, however fast hosts overwrite, and what is dirty afterwards became so after it began.

use std::cell::Cell;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use hotset_block::Env;
use hotset_block::sync::Promise;

use crate::error::{Error, ErrorKind};
use crate::log::overlay::PAGES_MAX;
use crate::time_limit::within;
use crate::volume::cleaning::FlushRun;
use crate::volume::effort::Effort;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::{Volume, VolumeInner};
use crate::volume::life::VolumeChange;

/// How soon whoever waits hears that it was cancelled, whatever the backing device does.
const LOOK: Duration = Duration::from_millis(200);

/// Stretches that are written with their pages held, at once.
const HELD_AT_ONCE: usize = 16;

/// How a flush of what was dirty ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// What was dirty when it began is on the backing device, durably, and a start knows that.
    Durable,
    /// `cancel_flush_now` was called.
    Cancelled,
}

impl<E: Env> Volume<E> {
    /// Writes what is dirty now to the backing device and makes it durable there, while hosts go on as before; may take long.
    ///
    /// # Errors
    /// `Refused` if it is being done already, or cannot be done now. The backing device failed, or nobody has some of what is dirty;
    /// then the rest is there.
    pub async fn flush_now(&self) -> Result<Flushed, Error> {
        self.inner.flush_now().await
    }

    pub fn cancel_flush_now(&self) {
        self.inner.cleaning.cancel_flush();
    }

    /// Nothing new stays dirty from now on, until [`Volume::release_writes`]: writes go to the backing device before they are
    /// answered. The volume keeps that when it leaves its pool or joins one.
    pub fn hold_writes(&self) {
        self.inner.life.change(VolumeChange::WritesHeld);
    }

    pub fn release_writes(&self) {
        self.inner.life.change(VolumeChange::WritesReleased);
    }
}

impl<E: Env> VolumeInner<E> {
    async fn flush_now(self: &Rc<Self>) -> Result<Flushed, Error> {
        let Some(run) = self.cleaning.begin_flush() else {
            let message = format!("volume {}: it is being flushed", self.spec.borrow().name);
            return Err(Error::new(ErrorKind::Refused, message));
        };
        let flushed = match self.check_can_be_flushed() {
            Ok(()) => self.flush_until_cancelled(run).await,
            Err(error) => Err(error),
        };
        self.cleaning.end_flush();
        flushed
    }

    async fn flush_until_cancelled(self: &Rc<Self>, run: FlushRun) -> Result<Flushed, Error> {
        let (promise, ended) = Promise::new();
        let volume = Rc::clone(self);
        self.env.spawn(async move { promise.set(volume.sweep_and_flush(run).await) });
        let mut ended = pin!(ended);
        loop {
            match within(&self.env, LOOK, ended.as_mut()).await {
                Some(flushed) => return flushed.unwrap_or_else(|| Err(self.stopping())),
                None if !self.cleaning.wants(run) => return Ok(Flushed::Cancelled),
                None => {}
            }
        }
    }

    /// Whatever is dirty can be had, and the backing device takes it.
    fn check_can_be_flushed(self: &Rc<Self>) -> Result<(), Error> {
        self.check_not_fenced()?;
        let Some(attached) = self.attached() else { return Ok(()) };
        let unknown =
            attached.pool.ids.of(attached.index).and_then(|attachment| attached.pool.unknown_loss(attachment));
        if let Some(reason) = unknown {
            return Err(Error::new(ErrorKind::Refused, format!("volume {}: {reason}", self.spec.borrow().name)));
        }
        let Some(logged) = LoggedVolume::of(self, &attached) else { return Ok(()) };
        match logged.cannot_clean() {
            Some(error) if logged.log.counts(logged.index()).dirty > 0 => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    async fn sweep_and_flush(self: &Rc<Self>, run: FlushRun) -> Result<Flushed, Error> {
        let attached = self.attached();
        let logged = attached.as_ref().and_then(|attached| LoggedVolume::of(self, attached));
        if let Some(logged) = logged {
            logged.sweep_dirty(run).await?;
        }
        if !self.cleaning.wants(run) {
            return Ok(Flushed::Cancelled);
        }
        if !self.backing.info.read_only {
            self.backing.flush().await?;
        }
        if let Some(logged) = logged {
            // Whoever asked may use the backing device alone from here on: no start may write what it had before.
            logged.log.publish_cleaned().await?;
        }
        match logged.and_then(LoggedVolume::nobody_has) {
            Some(error) => Err(error),
            None => Ok(Flushed::Durable),
        }
    }
}

impl<E: Env> LoggedVolume<'_, E> {
    async fn sweep_dirty(self, run: FlushRun) -> Result<(), Error> {
        let mut from = 0;
        loop {
            let ranges = self.dirty_ranges(from..PAGES_MAX);
            let Some(last) = ranges.last().filter(|_| self.volume.cleaning.wants(run)) else { break };
            from = last.end;
            let written = self.sweep_pass(ranges.clone()).await?;
            let left: Vec<_> = ranges.into_iter().flat_map(|range| self.dirty_ranges(range)).collect();
            let left = left.iter().flat_map(|range| without(range, &written));
            self.sweep_held(left.collect()).await?;
        }
        // What was written with its pages held is clean when it is flushed.
        self.clean_written_out().await
    }

    /// The pool does not stop beneath it.
    async fn sweep_pass(self, ranges: Vec<Range<u64>>) -> Result<Vec<Range<u64>>, Error> {
        self.check_goes_on()?;
        self.volume.cleaning.begin_pass();
        let written = self.clean_ranges(ranges, Effort::Full).await;
        self.volume.cleaning.end_pass();
        self.log.signals().room.wake_all();
        written
    }

    /// What no pass could write, with its pages held. A write that was begun is waited for, whatever becomes of the others: what is let go
    /// of may still land, over something newer.
    async fn sweep_held(self, left: Vec<Range<u64>>) -> Result<(), Error> {
        self.check_goes_on()?;
        self.volume.cleaning.begin_pass();
        let mut result = Ok(());
        let failed = Cell::new(false);
        let next = left.into_iter().take_while(|_| !failed.get()).map(|range| self.write_out_held(range));
        let mut writes = stream::iter(next).buffer_unordered(HELD_AT_ONCE);
        while let Some(written) = writes.next().await {
            failed.set(failed.get() || written.is_err());
            result = result.and(written);
        }
        self.volume.cleaning.end_pass();
        self.log.signals().room.wake_all();
        result
    }

    async fn write_out_held(self, pages: Range<u64>) -> Result<(), Error> {
        let _held = self.volume.hold(self.volume.bytes_of_pages(&pages)).await;
        self.check_goes_on()?;
        Box::pin(self.write_out(&pages)).await
    }

    fn check_goes_on(self) -> Result<(), Error> {
        if self.is_in_place() && !self.pool().life.is_ending_log() {
            return Ok(());
        }
        let message = format!("volume {}: it left its pool, or is being stopped", self.volume.spec.borrow().name);
        Err(Error::new(ErrorKind::Stopping, message))
    }

    /// Some of what is dirty cannot be had from any SSD.
    fn nobody_has(self) -> Option<Error> {
        let bytes = self.log.counts(self.index()).lost * crate::config::PAGE;
        let name = &self.volume.spec.borrow().name;
        let why = || self.log.data_loss().why_lost(Some(self.index()));
        let message = || {
            format!(
                "volume {name}: all other dirty data is on its backing device; of {bytes} bytes no copy can be had: {}",
                why()
            )
        };
        (bytes > 0).then(|| Error::new(ErrorKind::Refused, message()))
    }
}

/// The parts of `range` that no range of `written` has.
fn without(range: &Range<u64>, written: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = vec![range.clone()];
    for gone in written {
        let cut = |part: Range<u64>| [part.start..part.end.min(gone.start), part.start.max(gone.end)..part.end];
        left = left.into_iter().flat_map(cut).filter(|part| !part.is_empty()).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_left_out_wherever_it_lies() {
        let left = |written: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let written: Vec<_> = written.iter().map(|(start, end)| *start..*end).collect();
            without(&(10..20), &written).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(left(&[]), [(10, 20)]);
        assert_eq!(left(&[(0, 10), (20, 30)]), [(10, 20)]);
        assert_eq!(left(&[(10, 12), (15, 16)]), [(12, 15), (16, 20)]);
        assert_eq!(left(&[(15, 16), (10, 12), (19, 25)]), [(12, 15), (16, 19)]);
        assert_eq!(left(&[(5, 25)]), []);
    }
}
