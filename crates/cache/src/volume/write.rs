//! A host's write: into the write log (`log/append.rs`), or around the cache (rule `write-ahead`).
//!
//! Around: the pages are held exclusively from the decision until the backing write returned; what is cached of them is hidden,
//! and its drop flushed, before the backing device is touched; then the answer.

use std::rc::Rc;

use futures_util::future::join;
use hotset_block::{Buf, ByteRange, Env};

use crate::address::pages_of;
use crate::advisor::access::{Direction, Passage};
use crate::config::{PAGE, limits};
use crate::error::Error;
use crate::members::io::add;
use crate::volume::fill::Filler;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::{Volume, VolumeInner};
use crate::volume::line::PlaceInLine;
use crate::volume::locks::Held;
use crate::volume::place::Attached;
use crate::volume::requests::Durability;
use crate::volume::route::{AfterAppend, Route, WriteHints};

impl<E: Env> Volume<E> {
    /// Stores `buf` at `offset`. The buffer comes back to its pool when the last device is done with it.
    pub async fn write(&self, offset: u64, buf: Buf, durability: Durability) -> Result<(), Error> {
        let volume = &self.inner;
        let length = u64::try_from(buf.len()).expect("a length fits in 64 bits");
        let end = offset.checked_add(length).ok_or_else(|| volume.outside(offset, length))?;
        let range = ByteRange { start: offset, end };
        volume.check(range, limits::REQUEST_BYTES_MAX)?;
        volume.check_writable()?;
        if buf.is_empty() {
            return Ok(());
        }
        volume.recorder.note(range, Direction::Write, || volume.env.now());
        let began = volume.stats.write_latency.begin(|| volume.env.real_now());
        let failures = volume.backing.failures();
        let result = volume.write_range(offset, buf, durability).await;
        let result = result.and_then(|()| volume.check_durable(durability, failures));
        volume.stats.write_latency.end(began, || volume.env.real_now());
        result
    }
}

impl<E: Env> VolumeInner<E> {
    /// Stores `buf`, which is not empty, at a valid place.
    async fn write_range(self: &Rc<Self>, offset: u64, buf: Buf, durability: Durability) -> Result<(), Error> {
        let range = ByteRange::at(offset, u64::try_from(buf.len()).expect("a length fits in 64 bits"));
        add(&self.stats.writes, 1);
        add(&self.stats.write_bytes, range.length());
        let cutoff = self.spec.borrow().settings.write_cutoff_bytes;
        let streaming = cutoff.is_some_and(|cutoff| self.write_streams.borrow_mut().record(range) > cutoff);
        let passage = if streaming { Passage::Past } else { Passage::Counted };
        self.tap.note(&pages_of(range), Direction::Write, passage);
        let mut place = self.line.place(pages_of(range));
        self.store(range, buf, streaming, durability, &mut place).await
    }

    /// Stores a request, or a part of one; `place` is that of the whole.
    async fn store(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
        streaming: bool,
        durability: Durability,
        place: &mut PlaceInLine<'_>,
    ) -> Result<(), Error> {
        let hints = self.write_hints(range.length(), streaming, durability);
        let (held, attached, route) = self.hold_for_write(range, hints, place).await?;
        if let Route::Split(page) = route {
            drop(held);
            return Box::pin(self.store_parts(range, page * PAGE, &buf, streaming, durability, place)).await;
        }
        if streaming && route == Route::Around {
            add(&self.stats.bypassed_writes, 1);
        }
        let logged = attached.as_deref().and_then(|attached| LoggedVolume::of(self, attached));
        match (route, logged) {
            (Route::Append(then), Some(logged)) => {
                return logged.write_logged(range, buf, then, durability).await;
            }
            (Route::WithoutSsds | Route::Replace, Some(logged)) => {
                return Box::pin(logged.write_without_ssds(range, buf)).await;
            }
            (Route::Around | Route::Split(_) | Route::Wait, _)
            | (Route::Append(_) | Route::WithoutSsds | Route::Replace, None) => {}
        }
        // A host's write into the log is the one to be fast: the rest does not make its future larger.
        Box::pin(self.write_around(attached.as_deref(), range, buf, held)).await?;
        if durability == Durability::Durable {
            self.backing.flush().await?;
        }
        if let Some(attached) = attached.filter(|attached| attached.pool.log.is_none()) {
            self.count_write(&attached, range, streaming);
        }
        Ok(())
    }

    /// Stores what lies before `middle`, and then the rest.
    async fn store_parts(
        self: &Rc<Self>,
        range: ByteRange,
        middle: u64,
        buf: &Buf,
        streaming: bool,
        durability: Durability,
        place: &mut PlaceInLine<'_>,
    ) -> Result<(), Error> {
        let is_inside = range.start < middle && middle < range.end;
        assert!(is_inside, "a write of {range:?} is parted at {middle}, and one part of it has no bytes");
        let length = usize::try_from(middle - range.start).expect("a request fits in memory");
        // Copies, for devices ask for aligned buffers.
        let copy = |part: &[u8]| self.env.buffers().copy_of(part);
        let (head, tail) = (copy(&buf[..length]), copy(&buf[length..]));
        self.store(ByteRange { end: middle, ..range }, head, streaming, durability, place).await?;
        self.store(ByteRange { start: middle, ..range }, tail, streaming, durability, place).await
    }

    /// Writes to the backing device what the caller holds, and lets go of it.
    async fn write_around(
        self: &Rc<Self>,
        attached: Option<&Attached<E>>,
        range: ByteRange,
        buf: Buf,
        held: Held,
    ) -> Result<(), Error> {
        let _not_cleaned = self.invalidate_before_write(attached, range).await?;
        self.write_backing(range, buf).await?;
        drop(held);
        Ok(())
    }

    /// Holds the pages of a write and decides where it goes. While there is no room for what has to be appended, nothing
    /// is held (rule `reserves`).
    async fn hold_for_write(
        self: &Rc<Self>,
        range: ByteRange,
        hints: WriteHints,
        place: &mut PlaceInLine<'_>,
    ) -> Result<(Held, Option<Rc<Attached<E>>>, Route), Error> {
        let pages = pages_of(range);
        loop {
            let held = self.hold_behind(range, place).await?;
            let Some(attached) = self.place()? else { return Ok((held, None, Route::Around)) };
            let Some(logged) = LoggedVolume::of(self, &attached) else {
                return Ok((held, Some(attached), Route::Around));
            };
            if logged.log.data_loss().is_moved(attached.index, &pages) {
                Box::pin(logged.log.data_loss().until_not_moved(attached.index, &pages)).await?;
            }
            match logged.route(&pages, hints) {
                Route::Wait => {}
                route @ (Route::Append(_) | Route::Around | Route::WithoutSsds | Route::Replace | Route::Split(_)) => {
                    return Ok((held, Some(attached), route));
                }
            }
            drop(held);
            // It is rare, and makes no write's future larger.
            Box::pin(logged.wait_for_room(place)).await?;
        }
    }

    /// Makes everything durable that hosts were told of, wherever it went (rule `flush-covers-all`).
    pub(crate) async fn flush_all(self: &Rc<Self>) -> Result<(), Error> {
        let attached = self.attached();
        let logged = attached.as_ref().and_then(|attached| Some((attached.pool.log.as_ref()?, attached.index)));
        let Some((log, index)) = logged else { return self.backing.flush().await };
        log.flush_habit().flushed();
        let (in_log, around) = join(log.data_loss().flush_for_host(index), self.backing.flush_around()).await;
        in_log.and(around)
    }

    /// The lock on the pages that `range` touches, for a request that changes all of `place`: behind those that came before it and wait
    /// for room.
    ///
    /// # Errors
    /// The volume has stopped meanwhile: nobody waits for what comes so late.
    pub(crate) async fn hold_behind(&self, range: ByteRange, place: &mut PlaceInLine<'_>) -> Result<Held, Error> {
        loop {
            if place.is_behind_another() {
                stand_in_line(place).await;
                if self.life.is_stopped() {
                    return Err(self.stopping());
                }
            }
            let held = self.hold(range).await;
            // While it waited for the pages, whoever had them may have begun to wait for room.
            if !place.is_behind_another() {
                return Ok(held);
            }
        }
    }

    /// The lock on the pages that `range` touches.
    pub(crate) async fn hold(&self, range: ByteRange) -> Held {
        let pages = pages_of(range);
        // Mostly nobody has them.
        match self.locks.try_exclusive(&pages) {
            Some(held) => held,
            None => self.locks.exclusive(pages).await,
        }
    }

    fn count_write(&self, attached: &Attached<E>, range: ByteRange, streaming: bool) {
        if streaming {
            return;
        }
        let pool = &attached.pool;
        let threshold = pool.settings.get().populate_on_write;
        if threshold == 0 {
            return;
        }
        for key in pool.clean.count_write(attached.index, pages_of(range), threshold) {
            Filler::of(pool).request_fill(key);
        }
    }
}

/// Returns when all that came before with some of the pages have ended. The caller holds no page.
async fn stand_in_line(place: &mut PlaceInLine<'_>) {
    if let Some(turn) = place.stand() {
        let held = turn.await;
        place.comes_first(held);
    }
}

impl<E: Env> LoggedVolume<'_, E> {
    /// Returns when there may be room in the log for what has to be appended. The caller holds no page (rule `reserves`), and looks
    /// again.
    ///
    /// # Errors
    /// There will be none; or the volume has stopped meanwhile.
    pub(crate) async fn wait_for_room(self, place: &mut PlaceInLine<'_>) -> Result<(), Error> {
        let changed = self.log.signals().room.wait();
        self.check_log_serves()?;
        self.log.signals().mover_wanted.wake_all();
        stand_in_line(place).await;
        changed.await;
        if self.volume.life.is_stopped() { Err(self.volume.stopping()) } else { Ok(()) }
    }

    /// Appends a write to the log; a part of a page is read, modified and appended whole (rule `sub-page`). The caller
    /// holds the pages.
    async fn write_logged(
        self,
        range: ByteRange,
        buf: Buf,
        then: AfterAppend,
        durability: Durability,
    ) -> Result<(), Error> {
        let pages = pages_of(range);
        let data =
            if range.is_aligned_to(PAGE) { buf } else { self.volume.whole_pages(self.attached, range, buf).await? };
        if durability == Durability::Durable {
            self.log.flush_habit().ask();
        }
        self.log.appends().append(self.index(), &pages, data).await?;
        // Whoever wants nothing to stay dirty may have come meanwhile, and takes what is dirty by now to the backing device.
        let stays_dirty = then == AfterAppend::Answer && self.keeps_dirty();
        add(&self.volume.stats.write_hits, u64::from(stays_dirty));
        if !stays_dirty {
            Box::pin(self.write_out(&pages)).await?;
        }
        if durability == Durability::Durable {
            Box::pin(self.log.data_loss().flush_for_host(self.index())).await?;
        }
        Ok(())
    }
}
