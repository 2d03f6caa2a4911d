//! One SSD of a pool: its device, what its segments are for, and whether it is still trusted.
//!
//! An SSD that hangs or vanished goes offline at once: nothing of it is read, written or reused by this object again (rule
//! `late-io`: what is still in flight on it hurts nobody). One that refuses a write or a flush is *read-only*: nothing more is
//! written, and what only it has is read. Either has *left* when the members record without it is durable (rule `membership`);
//! one that comes back (`pool/join/come_back.rs`) joins as a new object.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use hotset_block::sync::{Event, Wait};
use hotset_block::{Buf, Device, DeviceError, DeviceErrorKind, Env};

use crate::address::SsdIndex;
use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::members::flush::cover;
use crate::members::flusher::{Flusher, Mark};
use crate::members::io::{IoCounts, add};
use crate::members::label::Named;
use crate::members::life::{Life, LifeChange};
use crate::members::look::until_looked;
use crate::members::ownership::Ownership;
use crate::members::segments::{Purpose, Segments};
use crate::members::watch::Watch;
use crate::members::witnesses::WitnessCopy;
use crate::reasons::{OutOfUse, SsdDoubt};
use crate::status::Refusal;

/// Why an operation on an SSD brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is offline, or went offline meanwhile.
    Offline,
    Device(DeviceError),
}

pub(crate) struct Ssd<E: Env> {
    pub(crate) index: SsdIndex,
    pub(crate) env: E,
    /// `None`: it has left, and nothing more is asked of it.
    device: RefCell<Option<Rc<E::Device>>>,
    pub(crate) path: String,
    pub(crate) uuid: u128,
    /// The physical device with which it fails; empty if it does not say.
    pub(crate) disk: String,
    pub(crate) layout: Layout,
    pub(super) incarnation: Cell<u64>,
    life: Cell<Life>,
    pub(crate) left_event: Event,
    /// `None` while it is in use.
    pub(super) out_of_use: RefCell<Option<OutOfUse>>,
    /// Every record of its slot index below this number is flushed, as others are to witness.
    pub(super) index_flushed: Cell<u64>,
    pub(super) flusher: Flusher,
    /// The writes up to the last one of the write log that completed.
    pub(super) appended: Cell<Mark>,
    pub(crate) segments: Segments,
    pub(super) segments_changed: Event,
    pub(super) read_errors: Cell<u64>,
    /// Reads that failed in the runs before.
    pub(super) read_errors_before: Cell<u64>,
    /// How it failed in a run before, since which it is used again.
    pub(super) failed_before: RefCell<Option<String>>,
    /// How often a start found that it had lost what it had flushed.
    pub(super) losses: Cell<u64>,
    /// What it was told of the others.
    pub(super) witness: WitnessCopy,
    pub(super) bytes_written: Cell<u64>,
    /// Of them, counted in the pool's budget.
    pub(super) bytes_noted: Cell<u64>,
    pub(crate) io: IoCounts,
    /// It was asked for something to find out whether it answers, or takes writes.
    pub(super) probing: Cell<bool>,
    /// Why it takes no writes.
    pub(super) refusal: Cell<Option<Refusal>>,
    /// It refused a flush: what it said is written may not be durable, and no later flush makes it so.
    pub(super) refused_flush: Cell<bool>,
    /// So did its device as it was opened before, and what that one had is read from this one.
    refused_flush_before: Cell<bool>,
    watch: Watch,
    /// Of its pool, once it is in one.
    owner: OnceCell<Rc<Ownership>>,
}

impl<E: Env> Ssd<E> {
    pub(crate) fn new(env: E, index: SsdIndex, named: Named<E::Device>, superblock: &Superblock) -> Self {
        let device = Rc::new(named.device);
        let ssd = Self::newcomer(env, index, named.path, device, superblock);
        ssd.change(LifeChange::Joined);
        ssd
    }

    /// One that is being made ready to join.
    pub(crate) fn newcomer(
        env: E,
        index: SsdIndex,
        path: String,
        device: Rc<E::Device>,
        superblock: &Superblock,
    ) -> Self {
        Self {
            index,
            env,
            disk: device.identity().map(|identity| identity.parent).unwrap_or_default(),
            device: RefCell::new(Some(device)),
            path,
            uuid: superblock.ssd_uuid,
            layout: superblock.layout,
            incarnation: Cell::new(0),
            life: Cell::new(Life::Joining),
            left_event: Event::new(),
            out_of_use: RefCell::default(),
            index_flushed: Cell::new(0),
            flusher: Flusher::new(),
            appended: Cell::new(Mark::default()),
            segments: superblock.layout.segments(),
            segments_changed: Event::new(),
            read_errors: Cell::new(0),
            read_errors_before: Cell::new(0),
            failed_before: RefCell::default(),
            losses: Cell::new(0),
            witness: WitnessCopy::default(),
            bytes_written: Cell::new(0),
            bytes_noted: Cell::new(0),
            io: IoCounts::default(),
            probing: Cell::new(false),
            refusal: Cell::new(None),
            refused_flush: Cell::new(false),
            refused_flush_before: Cell::new(false),
            watch: Watch::default(),
            owner: OnceCell::new(),
        }
    }

    /// It is in a pool: after a pause nothing is written to it before that has looked who has it.
    pub(crate) fn owned_by(&self, owner: &Rc<Ownership>) {
        let _ = self.owner.set(Rc::clone(owner));
    }

    async fn until_looked(&self) {
        if let Some(owner) = self.owner.get() {
            until_looked(&self.env, owner).await;
        }
    }

    pub(crate) fn device(&self) -> Result<Rc<E::Device>, Fault> {
        self.device.borrow().clone().ok_or(Fault::Offline)
    }

    /// It has left: whoever opens the device next finds it free, as soon as nothing of it is in flight.
    pub(crate) fn let_go(&self) {
        assert!(!self.is_online(), "SSD {} is let go of, and is {:?}", self.path, self.life());
        self.device.take();
    }

    /// Something of it is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.watch.oldest().is_some()
    }

    /// The state in which it is now.
    pub(crate) fn life(&self) -> Life {
        self.life.get()
    }

    /// What is said under another one is not said of what it holds now.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.get()
    }

    /// Nothing is believed of what it held.
    pub(crate) fn begin_incarnation(&self, incarnation: u64) {
        let before = self.incarnation.replace(incarnation);
        assert_ne!(incarnation, before, "SSD {}: what it held would be believed under its new incarnation", self.path);
    }

    /// In this run.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.get()
    }

    /// Operations may be begun on it.
    pub(crate) fn is_online(&self) -> bool {
        self.life().is_online()
    }

    /// Something happened to it; false: that changes nothing.
    pub(crate) fn change(&self, change: LifeChange) -> bool {
        let next = self.life().after(change);
        next.inspect(|next| self.life.set(*next)).is_some()
    }

    /// Runs `operation`, but not longer than the SSD can be read. What is abandoned keeps its buffer until the device is
    /// done (`Device`'s contract). Of one that is read-only nothing is abandoned, so that it is known when nothing is in flight.
    async fn watched<T>(&self, mut operation: Pin<&mut impl Future<Output = T>>) -> Result<T, Fault> {
        let mut registered = None;
        poll_fn(|context| {
            if !self.life().is_readable() {
                return Poll::Ready(Err(Fault::Offline));
            }
            if let Poll::Ready(value) = operation.as_mut().poll(context) {
                return Poll::Ready(Ok(value));
            }
            match &registered {
                None => registered = Some(self.watch.register(self.env.now(), context.waker().clone())),
                Some(operation) => operation.refresh(context.waker()),
            }
            Poll::Pending
        })
        .await
    }

    pub(crate) async fn read(&self, offset: u64, buf: Buf) -> Result<Buf, Fault> {
        let (length, end) = (u64::try_from(buf.len()).expect("a length fits in 64 bits"), self.layout.ssd_bytes);
        assert!(offset + length <= end, "SSD {}: {length} bytes are read at {offset}, and it has {end}", self.path);
        let device = self.device()?;
        let (buf, result) = self.watched(pin!(device.read(offset, buf))).await?;
        self.io.has_read(buf.len());
        result.map_err(Fault::Device)?;
        Ok(buf)
    }

    /// Reads what is elsewhere, too: not from an SSD that is suspect.
    pub(crate) async fn read_clean(&self, offset: u64, buf: Buf) -> Result<Buf, Fault> {
        if self.life().is_suspect() {
            return Err(Fault::Offline);
        }
        let mut read = pin!(self.read(offset, buf));
        poll_fn(|context| {
            let polled = read.as_mut().poll(context);
            if polled.is_pending() && self.life().is_suspect() { Poll::Ready(Err(Fault::Offline)) } else { polled }
        })
        .await
    }

    /// The device, for something that changes it.
    fn device_to_change(&self) -> Result<Rc<E::Device>, Fault> {
        if self.is_online() { self.device() } else { Err(Fault::Offline) }
    }

    /// A write of ours to the wrong place would be damage that no checksum finds in time: better the process ends, and a start
    /// recovers what was there.
    fn assert_place(&self, purpose: Purpose, offset: u64, buf: &Buf) {
        let end = offset + u64::try_from(buf.len()).expect("a length fits in 64 bits");
        let allowed = self.layout.allows(purpose, &(offset..end), &self.segments);
        assert!(allowed, "SSD {}: a write for {purpose:?} may not lie at bytes {offset} to {end}", self.path);
    }

    pub(crate) async fn write(&self, purpose: Purpose, offset: u64, buf: Buf) -> Result<Buf, Fault> {
        self.until_looked().await;
        let device = self.device_to_change()?;
        self.assert_place(purpose, offset, &buf);
        let written = self.watched(pin!(device.write(offset, buf))).await?;
        self.has_written(written)
    }

    /// What was written is durable when this returns; what was written before may not be.
    pub(crate) async fn write_durable(&self, purpose: Purpose, offset: u64, buf: Buf) -> Result<Buf, Fault> {
        self.until_looked().await;
        let device = self.device_to_change()?;
        self.assert_place(purpose, offset, &buf);
        let written = self.watched(pin!(device.write_durable(offset, buf))).await?;
        if written.1.as_ref().is_err_and(may_be_of_the_flush) {
            self.refused_flush.set(true);
        }
        self.has_written(written)
    }

    fn has_written(&self, (buf, result): (Buf, Result<(), DeviceError>)) -> Result<Buf, Fault> {
        let length = u64::try_from(buf.len()).expect("a length fits in 64 bits");
        self.bytes_written.set(self.bytes_written.get() + length);
        self.io.has_written(buf.len());
        self.flusher.wrote();
        result.map_err(Fault::Device)?;
        Ok(buf)
    }

    /// Makes durable what had completed when this was called. One that is read-only may still do it, but no flush that was
    /// refused is tried again: it would promise what is lost.
    pub(crate) async fn flush(&self) -> Result<(), Fault> {
        let mark = self.flusher.mark();
        let device = self.device()?;
        let flush = async || {
            if self.refused_flush.get() {
                return Err(Fault::Offline);
            }
            let flushed = self.watched(pin!(device.flush())).await?;
            if flushed.is_err() {
                self.refused_flush.set(true);
            }
            flushed.map_err(Fault::Device)?;
            // A durable write that failed meanwhile may have taken along what this one was to make durable.
            if self.refused_flush.get() { Err(Fault::Offline) } else { Ok(()) }
        };
        cover(&self.flusher, mark, flush).await
    }

    /// Takes the SSD out of use at once, because it failed or was removed. False: it was out already.
    pub(crate) fn go_offline(&self, change: LifeChange, why: OutOfUse) -> bool {
        let (was_online, was_readable) = (self.is_online(), self.life().is_readable());
        self.change(change);
        let life = self.life();
        assert!(!life.is_online(), "SSD {}: after {change:?} it is {life:?}, and was to be out of use", self.path);
        if !was_readable {
            return false;
        }
        *self.out_of_use.borrow_mut() = Some(why);
        self.watch.wake_all();
        if !was_online {
            return false;
        }
        self.witness.wake_all();
        self.segments_changed.wake_all();
        true
    }

    /// Whoever can do without it does not wait for it any more.
    pub(crate) fn fell_silent(&self) {
        self.watch.wake_all();
    }

    // ---- what the rooms above find out

    /// What is written by now is of the write log, too.
    pub(crate) fn has_appended(&self) {
        self.appended.set(self.flusher.mark());
    }

    /// What it has of the write log is flushed.
    pub(crate) fn has_flushed_log(&self) -> bool {
        self.flusher.covers(self.appended.get())
    }

    /// It refused to flush what it has of the write log, which may be lost.
    pub(crate) fn may_lack_log(&self) -> bool {
        self.refused_flush_before.get() || self.refused_flush.get() && !self.has_flushed_log()
    }

    /// What `former` had, which is the same SSD, is read from this one. No flush from now on makes durable what that one refused to.
    pub(crate) fn takes_over_from(&self, former: &Self) {
        let refused = former.may_lack_log();
        self.refused_flush_before.set(self.refused_flush_before.get() || refused);
    }

    /// Its slot index is flushed up to this record, as others are to witness.
    pub(crate) fn has_flushed_index(&self, end: u64) {
        let before = self.index_flushed.get();
        assert!(end >= before || end == 0, "SSD {}: its index was flushed to {before}, then to {end}", self.path);
        self.index_flushed.set(end);
    }

    /// It lacks what it had said was flushed.
    pub(crate) fn has_lost_writes(&self) {
        self.losses.set(self.losses.get() + 1);
    }

    pub(crate) fn lost_writes(&self) -> bool {
        self.losses.get() > 0
    }

    /// A read failed or brought wrong bytes; answers how many did in this run.
    pub(crate) fn has_misread(&self) -> u64 {
        add(&self.read_errors, 1);
        self.read_errors.get()
    }

    /// As [`Self::has_misread`], where that never makes the SSD leave: not counted past what would.
    pub(crate) fn has_misread_log(&self) {
        if self.read_errors.get() < limits::SSD_READ_ERRORS_MAX {
            add(&self.read_errors, 1);
        }
    }

    /// Something became free, or was taken, among its segments.
    pub(crate) fn wake_for_segments(&self) {
        self.segments_changed.wake_all();
    }

    /// Completes at the next change of its segments, or when it is out of use.
    pub(crate) fn segments_change(&self) -> Wait<'_> {
        self.segments_changed.wait()
    }

    /// False: it is being asked already whether it answers, or takes writes.
    pub(crate) fn begin_probe(&self) -> bool {
        !self.probing.replace(true)
    }

    pub(crate) fn end_probe(&self) {
        let was_probed = self.probing.replace(false);
        assert!(was_probed, "SSD {}: it was not asked whether it answers, and nobody waits any more", self.path);
    }

    pub(crate) fn is_probed(&self) -> bool {
        self.probing.get()
    }

    /// Why it is out of use, if it is.
    pub(crate) fn out_of_use(&self) -> Option<OutOfUse> {
        self.out_of_use.borrow().clone()
    }

    /// As [`Self::out_of_use`], in words: for records, and for errors of what needs it.
    pub(crate) fn why_offline(&self) -> String {
        self.out_of_use().map_or_else(String::new, |why| why.to_string())
    }

    /// Why it takes no writes, if it is only read.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal.get().filter(|_| self.life().is_read_only())
    }

    /// It takes no writes, and never did in this run: it is only read.
    pub(crate) fn is_only_read(&self, error: &DeviceError) {
        self.go_offline(LifeChange::RefusedWrites, OutOfUse::Failed(*error));
        self.refusal.set(Some(Refusal::of(error.kind)));
    }

    /// Reads that failed or brought wrong bytes, in this run and those before.
    pub(crate) fn read_errors_ever(&self) -> u64 {
        self.read_errors.get() + self.read_errors_before.get()
    }

    /// What is wrong with it although it is in use.
    pub(crate) fn doubt(&self) -> Option<SsdDoubt> {
        if self.losses.get() > 0 {
            return Some(SsdDoubt::LostWrites);
        }
        let reads = self.read_errors_ever();
        if reads >= limits::SSD_READ_ERRORS_WARN {
            return Some(SsdDoubt::Misread { reads });
        }
        self.failed_before.borrow().clone().map(|how| SsdDoubt::FailedBefore { how })
    }

    /// What took it out of use may pass: it is taken back by itself then.
    pub(crate) fn may_pass(&self) -> bool {
        self.life().is_silent() || self.refusal.get().is_some_and(Refusal::may_pass)
    }

    /// How long the slowest operation in flight has been waiting: of one that is in use, also a look at its owner mark that others
    /// wait for.
    pub(crate) fn oldest_operation(&self) -> Duration {
        let now = self.env.now();
        let operation = self.watch.oldest().map_or(Duration::ZERO, |since| now.since(since));
        let owner = self.owner.get().filter(|_| self.is_online());
        operation.max(owner.map_or(Duration::ZERO, |owner| owner.holds_up_for(self.uuid, now)))
    }

    /// Segments that the write log may still take here.
    pub(crate) fn log_segments_left(&self) -> usize {
        let segments = &self.segments;
        (segments.log_max() + segments.free_count()).saturating_sub(segments.log_count())
    }
}

/// The error says that nothing of an SSD can be read any more, not only these bytes.
pub(crate) fn is_gone(error: &DeviceError) -> bool {
    match error.kind {
        DeviceErrorKind::Gone | DeviceErrorKind::OutOfRange | DeviceErrorKind::Busy => true,
        DeviceErrorKind::Media | DeviceErrorKind::Full | DeviceErrorKind::ReadOnly | DeviceErrorKind::Unsupported => {
            false
        }
    }
}

/// A durable write that failed like this may have been written, and not flushed: then what was written before it may be lost, too.
pub(super) fn may_be_of_the_flush(error: &DeviceError) -> bool {
    match error.kind {
        DeviceErrorKind::Full | DeviceErrorKind::ReadOnly | DeviceErrorKind::Unsupported => false,
        DeviceErrorKind::Media | DeviceErrorKind::Gone | DeviceErrorKind::OutOfRange | DeviceErrorKind::Busy => true,
    }
}

pub(crate) fn not_made<E: Env>(ssd: &Ssd<E>, fault: &Fault) -> Error {
    let name = format!("SSD {}", ssd.path);
    match fault {
        Fault::Device(error) => Error::device(&name, error),
        Fault::Offline => Error::new(ErrorKind::Gone, format!("{name}: {}", ssd.why_offline())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hotset_block::{Executor, ExecutorOptions, HostDevice, HostEnv, MemoryDevice};

    use super::*;
    use crate::format::layout::{OWNER_OFFSET, RECORDS_OFFSET, SUPERBLOCK_OFFSETS};
    use crate::format::superblock::tests::sample;
    use crate::refused::assert_refused;

    const SECTOR: u64 = 512;
    /// The SSD's only segment of the log, and the slot that is being filled.
    const ROW: Purpose = Purpose::Log { incarnation: 7 };
    const FILL: Purpose = Purpose::Slot { slot: 0, generation: 70 };
    /// The row and the fill that had them before.
    const FORMER_ROW: Purpose = Purpose::Log { incarnation: 6 };
    const FORMER_FILL: Purpose = Purpose::Slot { slot: 0, generation: 69 };

    /// Where each kind of thing lies on the SSD.
    struct Places {
        label: u64,
        record: u64,
        index: u64,
        slot: u64,
        log: u64,
        end: u64,
    }

    impl Places {
        fn of(ssd: &Ssd<HostEnv>) -> Self {
            let layout = &ssd.layout;
            let log = layout.segment_offset(ssd.segments.for_slots().last().expect("it has segments") + 1);
            Self {
                label: SUPERBLOCK_OFFSETS[0],
                record: RECORDS_OFFSET,
                index: layout.checkpoint_offset(0),
                slot: layout.slot_offset(0),
                log,
                end: layout.ssd_bytes,
            }
        }
    }

    /// A new SSD in memory.
    pub(crate) fn new_ssd(env: HostEnv) -> Ssd<HostEnv> {
        let superblock = sample();
        let device = HostDevice::Memory(MemoryDevice::new(superblock.layout.ssd_bytes, 512));
        Ssd::new(env, SsdIndex(0), Named { path: "ssd".to_owned(), device }, &superblock)
    }

    /// An SSD whose last segment is of a row, and whose first slot is being filled; both had another one before.
    fn used_ssd(env: HostEnv) -> Ssd<HostEnv> {
        let ssd = new_ssd(env);
        let segments = &ssd.segments;
        let last = segments.for_slots().last().expect("it has segments");
        assert!(segments.set_log(last, 6));
        segments.set_free(last, Some(6));
        assert_eq!(segments.take_free(), Some(last));
        segments.give_to_row(last, 7);
        for generation in [69, 70] {
            segments.begin_fill(0, generation);
            segments.begin_fill_write(0, generation);
            if generation == 69 {
                segments.end_fill(0, generation);
            }
        }
        ssd
    }

    fn write(purpose: Purpose, place: impl FnOnce(&Places) -> u64) {
        Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring").run(async |env| {
            let ssd = used_ssd(env.clone());
            let sector = env.buffers().take_zeroed(usize::try_from(SECTOR).expect("512 fits"));
            let written = ssd.write(purpose, place(&Places::of(&ssd)), sector).await;
            assert!(written.is_ok(), "the device takes it");
        });
    }

    #[test]
    fn what_lies_where_it_belongs_is_written() {
        write(Purpose::Label, |places| places.label);
        write(Purpose::Label, |_| OWNER_OFFSET);
        write(Purpose::Record, |places| places.record);
        write(Purpose::Index, |places| places.index);
        write(FILL, |places| places.slot);
        write(ROW, |places| places.log);
    }

    /// Each of them is to end the process before anything is written.
    macro_rules! writes_that_end_the_process {
        ($($name:ident: $purpose:expr, $place:expr;)*) => {$(
            #[test]
            #[should_panic(expected = "may not lie")]
            fn $name() {
                write($purpose, $place);
            }
        )*};
    }

    writes_that_end_the_process! {
        a_label_one_sector_before_its_place: Purpose::Label, |_| OWNER_OFFSET - SECTOR;
        a_label_where_records_are: Purpose::Label, |places| places.record;
        a_label_beyond_the_end: Purpose::Label, |places| places.end;
        a_record_one_sector_before_its_place: Purpose::Record, |places| places.record - SECTOR;
        a_record_where_the_index_is: Purpose::Record, |places| places.index;
        a_record_beyond_the_end: Purpose::Record, |places| places.end;
        an_index_one_sector_before_its_place: Purpose::Index, |places| places.index - SECTOR;
        an_index_where_a_slot_is: Purpose::Index, |places| places.slot;
        an_index_beyond_the_end: Purpose::Index, |places| places.end;
        a_slot_one_sector_before_its_place: FILL, |places| places.slot - SECTOR;
        a_slot_where_a_row_is: FILL, |places| places.log;
        a_slot_beyond_the_end: FILL, |places| places.end;
        a_slot_of_a_fill_that_had_it_before: FORMER_FILL, |places| places.slot;
        a_row_one_sector_before_its_place: ROW, |places| places.log - SECTOR;
        a_row_where_a_slot_is: ROW, |places| places.slot;
        a_row_beyond_the_end: ROW, |places| places.end;
        a_segment_of_a_row_that_had_it_before: FORMER_ROW, |places| places.log;
    }

    #[test]
    fn an_ssd_is_read_up_to_its_end_and_let_go_when_it_is_out_of_use() {
        Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring").run(async |env| {
            let ssd = new_ssd(env);
            assert_refused("is let go of, and is Online", || ssd.let_go());
            assert_refused("it was not asked whether it answers", || ssd.end_probe());
            assert_refused("would be believed under its new incarnation", || ssd.begin_incarnation(ssd.incarnation()));
            assert_refused("and was to be out of use", || ssd.go_offline(LifeChange::Answered, OutOfUse::Removed));
            ssd.has_flushed_index(8);
            assert_refused("its index was flushed to 8, then to 7", || ssd.has_flushed_index(7));
            let mut reading = Box::pin(ssd.read(ssd.layout.ssd_bytes - 512, Buf::zeroed(1024)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert_refused("1024 bytes are read at", || reading.as_mut().poll(&mut context));
        });
    }
}
