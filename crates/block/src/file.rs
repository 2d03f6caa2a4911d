//! Regular files and block devices, through the ring, past the page cache.
//!
//! The locks are on the very file description that does the I/O, so that they last exactly as long as I/O can happen.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::apart::{Questions, apart};
use crate::closing::{self, Closed, OpenFile};
use crate::descriptors::{self, DescriptorUse};
use crate::operation::{ApartPermit, Direction, RingOperation, Transfer};
use crate::sync::Semaphore;
use crate::tail::Tail;
use crate::{
    Access, Buf, ByteRange, Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Env as _,
    Extent, ExtentKind, Footprint, HostEnv, Operation, User, ZeroMode, check_is_storage, in_use, sys, sysfs,
};

/// The logical blocks that the rest of Hotset knows.
const LOGICAL_BLOCKS: [u32; 2] = [512, 4096];

/// The kind of the file systems in memory (`TMPFS_MAGIC` in linux/magic.h), and the longest transfers of a store there that this thread
/// makes itself: a copy of some ten microseconds.
const TMPFS: i64 = 0x0102_1994;
const COPIED_BYTES_MAX: usize = 64 << 10;

/// What a part of a file is told in.
const SECTOR_BYTES: u64 = 512;

/// How many transfers of a file that somebody else keeps wait in the kernel at once, each on a thread: more wait here, so that one that
/// hangs leaves threads to the others.
const APART_PER_FILE_MAX: u64 = 64;

/// How often, and how far apart, the lock of a block device is tried: two seconds in all.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How a device is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOptions {
    /// Opens for reading, beside other readers. Else the device is ours alone.
    pub read_only: bool,
    /// A block device that is only read is claimed all the same: it is refused if anybody uses it, and nobody can begin to.
    pub claimed: bool,
    /// A regular file is served to its last byte, also where direct I/O does not reach it: its size counts in sectors of 512
    /// bytes, rounded up. Else what is no whole block at its end is left out.
    pub to_the_end: bool,
}

impl FileOptions {
    fn access(self) -> Access {
        if self.read_only { Access::Read } else { Access::Alone }
    }
}

/// A file or block device. A handle: cloning it is cheap; the last one closes and unlocks it, once the kernel has
/// given back what is in flight.
#[derive(Clone)]
pub struct FileDevice {
    env: HostEnv,
    shared: Rc<Shared>,
}

/// Whether transfers go past the page cache, where the file system lets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caching {
    Direct,
    PageCache,
}

struct Shared {
    /// What it was opened with. Its claim on a block device stands, whatever it is written by.
    file: Rc<OpenFile>,
    /// What it was opened with anew to be written: it could only be read before.
    writable: OnceCell<Rc<OpenFile>>,
    /// A regular file: that can be cut short under us.
    is_regular: bool,
    /// A regular file that another program or machine keeps: nothing may be asked of it where others would be held up
    /// if there is no answer. The transfers that it may have under way.
    elsewhere: Option<Semaphore>,
    /// The file was shorter once than when it was opened. What it says or takes from then on means nothing: a write
    /// past its end would make it grow again, with zeroes where data was.
    cut: Cell<bool>,
    info: Cell<DeviceInfo>,
    /// The end of a regular file that is served to its end, if that is no whole block.
    tail: RefCell<Option<Rc<Tail>>>,
    /// What the file or device said of its size last.
    end_bytes: Cell<u64>,
    /// The file once more, if its short transfers are copies that this thread makes itself.
    in_memory: OnceCell<File>,
    /// What tells it from others, as it was when it was opened.
    identity: Result<DeviceIdentity, DeviceError>,
    questions: Questions,
    options: FileOptions,
    direct: bool,
    path: PathBuf,
}

impl FileDevice {
    /// Opens and locks `path`. Blocks, as long as who keeps the file does not answer: where that holds up others, see
    /// [`FileDevice::open_apart`].
    ///
    /// # Errors
    /// `Busy` if somebody else holds it; `Unsupported` if it is neither a file nor a block device, or has logical
    /// blocks of a size we do not know.
    pub fn open(env: &HostEnv, path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let storage = Storage::look(path)?;
        check_ours(path, options.access(), &storage.footprint)?;
        let opened = storage.open(options, Caching::Direct)?;
        Self::of(env, storage, opened)
    }

    /// The same, and meanwhile others go on.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; and `Gone` if there is no answer within ten seconds.
    pub async fn open_apart(env: &HostEnv, path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        Self::open_apart_through(env, path, options, Caching::Direct).await
    }

    /// Opens and locks a file whose transfers go through the page cache: the store of a device whose speed is not the
    /// file's. As [`FileDevice::open_apart`].
    pub(crate) async fn open_cached(env: &HostEnv, path: &Path, options: FileOptions) -> Result<Self, OpenError> {
        Self::open_apart_through(env, path, options, Caching::PageCache).await
    }

    async fn open_apart_through(
        env: &HostEnv,
        path: &Path,
        options: FileOptions,
        caching: Caching,
    ) -> Result<Self, OpenError> {
        let unanswered = |source| OpenError::unanswered(path, source);
        let (looked_for, access) = (path.to_owned(), options.access());
        let storage = apart(env, move || Storage::look(&looked_for)).await.map_err(unanswered)??;
        check_ours(path, access, &storage.footprint)?;
        let found = storage.clone();
        let opened = apart(env, move || found.open(options, caching)).await.map_err(unanswered)??;
        Self::of(env, storage, opened)
    }

    /// Who came first meanwhile has it.
    fn of(env: &HostEnv, storage: Storage, opened: Opened) -> Result<Self, OpenError> {
        let Opened { file, direct, info, end_bytes, tail, identity, options } = opened;
        let tail = tail.map(|file| Rc::new(Tail::new(file, end_bytes, info.logical_block_bytes)));
        let elsewhere = matches!(file.closed(), Closed::Apart(_)).then(|| Semaphore::new(APART_PER_FILE_MAX));
        let (file, is_regular) = (Rc::new(file), storage.metadata.is_file());
        in_use::note_open(&file, &storage.path, options.access(), storage.footprint)
            .map_err(|user| OpenError::in_use(&storage.path, &user))?;
        let (info, end_bytes, tail) = (Cell::new(info), Cell::new(end_bytes), RefCell::new(tail));
        let (cut, path) = (Cell::new(false), storage.path);
        let (writable, in_memory) = (OnceCell::new(), OnceCell::new());
        let shared = Shared {
            file,
            writable,
            is_regular,
            elsewhere,
            cut,
            info,
            tail,
            end_bytes,
            in_memory,
            identity,
            questions: Questions::new(),
            options,
            direct,
            path,
        };
        Ok(Self { env: env.clone(), shared: Rc::new(shared) })
    }

    /// The same, as the store of a device whose speed is not the file's: if the file lies in memory (tmpfs), this thread copies what is
    /// short itself. The kernel's ring hands each such transfer to another thread, which takes longer than the copy. Whoever uses
    /// this has other reasons to wait now and then, so that others go on.
    pub(crate) fn into_store(self) -> Self {
        let shared = &self.shared;
        let is_in_memory = sys::file_system_kind(&shared.file).is_ok_and(|kind| kind == TMPFS);
        if is_in_memory
            && !shared.info.get().read_only
            && let Ok(again) = shared.file.try_clone()
        {
            // Nobody else sets it.
            let _ = shared.in_memory.set(File::from(again));
        }
        self
    }

    /// By what it is read and written.
    fn file(&self) -> &Rc<OpenFile> {
        self.shared.writable.get().unwrap_or(&self.shared.file)
    }

    fn tail(&self) -> Option<Rc<Tail>> {
        self.shared.tail.borrow().clone()
    }

    /// Whether transfers go past the page cache. False on file systems that do not offer it: there a flush still
    /// makes writes durable, but memory is used twice.
    pub fn direct(&self) -> bool {
        self.shared.direct
    }

    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Asks what nobody but the file system or the driver knows. They may answer late: others go on meanwhile.
    async fn ask<T: Send + 'static>(
        &self,
        operation: Operation,
        range: ByteRange,
        question: impl FnOnce(&OpenFile) -> io::Result<T> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let failed = |error: io::Error| error_of_question(&error, operation, range);
        let again = self.shared.file.try_clone().map_err(failed)?;
        let file = OpenFile::new(again, self.shared.file.closed());
        let asked = self.shared.questions.ask(&self.env, move || question(&file)).await;
        asked.flatten().map_err(failed)
    }

    fn check(&self, operation: Operation, range: ByteRange) -> Result<(), DeviceError> {
        let info = self.shared.info.get();
        let changes = match operation {
            Operation::Write | Operation::Discard | Operation::WriteZeroes => true,
            Operation::Open | Operation::Read | Operation::Flush | Operation::Allocation | Operation::Identity => false,
        };
        let block_bytes = u64::from(info.logical_block_bytes);
        // A file that is served to its end ends anywhere, and so does what is asked for there.
        let ends_well = range.end.is_multiple_of(block_bytes) || self.shared.tail.borrow().is_some();
        if range.end > info.size_bytes || !range.start.is_multiple_of(block_bytes) || !ends_well {
            return Err(DeviceError::new(DeviceErrorKind::OutOfRange, operation, range));
        }
        if changes && info.read_only {
            return Err(DeviceError::new(DeviceErrorKind::ReadOnly, operation, range));
        }
        self.check_whole(operation, range)
    }

    /// Refuses everything once the file was cut short, until it is opened anew. Who only reads finds out by a short
    /// read; whatever may change the file looks before.
    fn check_whole(&self, operation: Operation, range: ByteRange) -> Result<(), DeviceError> {
        let shared = &self.shared;
        let looks = match operation {
            Operation::Write | Operation::Flush | Operation::Discard | Operation::WriteZeroes => true,
            Operation::Open | Operation::Read | Operation::Allocation | Operation::Identity => false,
        };
        if looks && shared.is_regular {
            let tail = shared.tail.borrow();
            let wanted = tail.as_ref().map_or(shared.info.get().size_bytes, |tail| tail.file_bytes());
            let whole = sys::known_size(&shared.file).is_ok_and(|end| end >= wanted);
            shared.cut.set(shared.cut.get() || !whole);
        }
        if shared.cut.get() { Err(DeviceError::new(DeviceErrorKind::Gone, operation, range)) } else { Ok(()) }
    }

    async fn transfer(&self, direction: Direction, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let length = u64::try_from(buf.len()).expect("a buffer's length fits 64 bits");
        let range = ByteRange { start: offset, end: offset.saturating_add(length) };
        if let Err(error) = self.check(direction.operation(), range) {
            return (buf, Err(error));
        }
        if buf.is_empty() {
            return (buf, Ok(()));
        }
        match self.tail() {
            None => self.transfer_direct(direction, offset, buf).await,
            Some(tail) => Box::pin(self.transfer_to_the_end(&tail, direction, range, buf)).await,
        }
    }

    async fn transfer_direct(&self, direction: Direction, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let wanted = buf.len();
        let (buf, outcome) = self.submit(self.file(), direction, offset, buf).await;
        let result = outcome.and_then(|done| {
            // The file ends before it should: it was cut, and nothing it says can be trusted.
            if done == wanted { Ok(()) } else { Err(self.was_cut(direction, offset, wanted)) }
        });
        (buf, result)
    }

    /// A transfer that may reach the end of a file whose last bytes are no whole block.
    async fn transfer_to_the_end(
        &self,
        tail: &Tail,
        direction: Direction,
        range: ByteRange,
        buf: Buf,
    ) -> (Buf, Result<(), DeviceError>) {
        let middle = tail.divides(range, self.shared.info.get().logical_block_bytes);
        if middle == range.end {
            return self.transfer_direct(direction, range.start, buf).await;
        }
        if middle == range.start {
            return self.transfer_tail(tail, direction, middle, buf).await;
        }
        let length = usize::try_from(middle - range.start).expect("a transfer fits in memory");
        let (head, rest) = buf.split_at(length);
        let (head, first) = self.transfer_direct(direction, range.start, head).await;
        let (rest, second) = match first {
            Ok(()) => self.transfer_tail(tail, direction, middle, rest).await,
            Err(error) => (rest, Err(error)),
        };
        (head.join(rest), second)
    }

    async fn transfer_tail(
        &self,
        tail: &Tail,
        direction: Direction,
        offset: u64,
        buf: Buf,
    ) -> (Buf, Result<(), DeviceError>) {
        let wanted = match direction {
            Direction::Read => buf.len(),
            Direction::Write | Direction::WriteDurable => tail.bytes_to_write(offset, &buf),
        };
        let (part, rest) = buf.split_at(wanted);
        // A write may make the file longer before this is looked at.
        let file_bytes = tail.file_bytes();
        let (mut part, outcome) = self.submit(&tail.file, direction, offset, part).await;
        let result = outcome.and_then(|done| {
            let end = offset + u64::try_from(done).expect("a buffer's length fits 64 bits");
            match direction {
                Direction::Write | Direction::WriteDurable if done == wanted => tail.reaches(end),
                Direction::Read if done == wanted || end >= file_bytes => part[done..].fill(0),
                Direction::Read | Direction::Write | Direction::WriteDurable => {
                    return Err(self.was_cut(direction, offset, wanted));
                }
            }
            Ok(())
        });
        (part.join(rest), result)
    }

    /// Does a transfer, as far as it comes. What the kernel has too little of for a moment is no fault of the device: then it is done again.
    async fn submit(
        &self,
        file: &Rc<OpenFile>,
        direction: Direction,
        offset: u64,
        mut buf: Buf,
    ) -> (Buf, Result<usize, DeviceError>) {
        let range = ByteRange::at(offset, u64::try_from(buf.len()).expect("a buffer's length fits 64 bits"));
        if let Some(memory) = self.shared.in_memory.get().filter(|_| buf.len() <= COPIED_BYTES_MAX) {
            let (buf, outcome) = copy(memory, direction, offset, buf);
            let errno = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
            return (buf, outcome.map_err(|error| error_of(errno(error), direction.operation(), range)));
        }
        let mut shortages = Shortages::default();
        loop {
            let (returned, outcome) = self.submit_once(file, direction, offset, buf).await;
            match outcome {
                Err(errno) if shortages.pass(errno) => self.env.sleep(Shortages::PAUSE).await,
                result => return (returned, result.map_err(|errno| error_of(errno, direction.operation(), range))),
            }
            buf = returned;
        }
    }

    async fn submit_once(
        &self,
        file: &Rc<OpenFile>,
        direction: Direction,
        offset: u64,
        buf: Buf,
    ) -> (Buf, Result<usize, i32>) {
        let apart = match &self.shared.elsewhere {
            None => None,
            Some(of_file) => Some(Box::pin(ApartPermit::acquire(of_file, self.env.apart())).await),
        };
        let transfer = Transfer { file: Rc::clone(file), apart, direction, offset, buf, done: 0 };
        let (finished, outcome) = self.env.submit(RingOperation::Transfer(transfer)).await;
        let RingOperation::Transfer(Transfer { buf, .. }) = finished else {
            unreachable!("the ring gives back what it was given");
        };
        (buf, outcome)
    }

    fn was_cut(&self, direction: Direction, offset: u64, bytes: usize) -> DeviceError {
        self.shared.cut.set(true);
        let range = ByteRange::at(offset, u64::try_from(bytes).expect("a buffer's length fits 64 bits"));
        DeviceError::new(DeviceErrorKind::Gone, direction.operation(), range)
    }

    /// What of a file or device of that size can be used now.
    fn size_of(&self, end: u64) -> u64 {
        let shared = &self.shared;
        let block_bytes = shared.info.get().logical_block_bytes;
        if shared.is_regular && shared.options.to_the_end && Tail::is_needed(end, block_bytes) {
            if shared.tail.borrow().is_none() && shared.elsewhere.is_none() {
                // Without it, what is no whole block comes with the next opening.
                *shared.tail.borrow_mut() = Tail::open_again(&shared.file, shared.options.read_only)
                    .ok()
                    .map(|file| Rc::new(Tail::new(file, end, block_bytes)));
            }
            if shared.tail.borrow().is_some() {
                return Tail::size_bytes(end);
            }
        }
        end - end % u64::from(block_bytes)
    }

    async fn allocate(&self, operation: Operation, mode: i32, range: ByteRange) -> Result<(), DeviceError> {
        self.check(operation, range)?;
        if range.is_empty() {
            return Ok(());
        }
        let work = RingOperation::Allocate(Rc::clone(self.file()), mode | libc::FALLOC_FL_KEEP_SIZE, range);
        let (_, outcome) = self.env.submit(work).await;
        outcome.map(drop).map_err(|errno| error_of(errno, operation, range))
    }
}

/// How often a transfer met that the kernel had too little memory, requests or threads.
#[derive(Default)]
struct Shortages(u32);

impl Shortages {
    /// As many are waited out: a second in all. Who waits longer learns of an error, as from a device that fails.
    const MAX: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(100);

    /// Whether `errno` is one that passes, and is to be waited out once more.
    fn pass(&mut self, errno: i32) -> bool {
        let passes = matches!(errno, libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN | libc::EBUSY);
        self.0 += u32::from(passes);
        passes && self.0 <= Self::MAX
    }
}

/// A transfer to or from a file in memory; answers how much of it could be done. What is written there is as durable as it will be.
fn copy(file: &File, direction: Direction, offset: u64, mut buf: Buf) -> (Buf, io::Result<usize>) {
    let mut done = 0;
    while done < buf.len() {
        let at = offset + u64::try_from(done).expect("a buffer's length fits 64 bits");
        let step = match direction {
            Direction::Read => file.read_at(&mut buf[done..], at),
            Direction::Write | Direction::WriteDurable => file.write_at(&buf[done..], at),
        };
        match step {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (buf, Err(error)),
        }
    }
    (buf, Ok(done))
}

impl Device for FileDevice {
    fn info(&self) -> DeviceInfo {
        self.shared.info.get()
    }

    fn grow(&self) -> Result<u64, DeviceError> {
        let shared = &self.shared;
        let size =
            if shared.is_regular { sys::known_size(&shared.file) } else { sys::seek(&shared.file, 0, libc::SEEK_END) };
        let end = size.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            error_of(errno, Operation::Identity, ByteRange::at(0, 0))
        })?;
        let info = shared.info.get();
        shared.end_bytes.set(end);
        let size_bytes = self.size_of(end);
        // One that shrank is found out by `check_whole`.
        if size_bytes > info.size_bytes {
            if let Some(tail) = self.tail() {
                tail.follow(end, info.logical_block_bytes);
            }
            shared.info.set(DeviceInfo { size_bytes, ..info });
        }
        Ok(shared.info.get().size_bytes)
    }

    fn end_bytes(&self) -> u64 {
        self.shared.end_bytes.get()
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        self.shared.identity.clone()
    }

    async fn identity_now(&self) -> Result<DeviceIdentity, DeviceError> {
        let path = self.shared.path.clone();
        self.ask(Operation::Identity, ByteRange::at(0, 0), move |file| sysfs::identity(file, &path)).await
    }

    async fn begin_to_write(&self) -> Result<(), DeviceError> {
        let (shared, nowhere) = (&self.shared, ByteRange::at(0, 0));
        if !shared.info.get().read_only {
            return Ok(());
        }
        // Of one that is only looked at, or that hosts are to read only, nobody ever wants to write.
        if !shared.options.claimed || shared.options.to_the_end {
            return Err(DeviceError::new(DeviceErrorKind::ReadOnly, Operation::Open, nowhere));
        }
        let refused = |error: io::Error| error_of_question(&error, Operation::Open, nowhere);
        let first = shared.file.try_clone().map_err(refused)?;
        let (direct, closed, is_block_device) = (shared.direct, shared.file.closed(), !shared.is_regular);
        let opening = apart(&self.env, move || open_to_write(OpenFile::new(first, closed), direct, is_block_device));
        let file = Rc::new(opening.await.flatten().map_err(refused)?.take());
        // Somebody may have been faster.
        if shared.writable.set(file).is_ok() {
            in_use::have_alone(&shared.file);
            shared.info.set(DeviceInfo { read_only: false, ..shared.info.get() });
        }
        Ok(())
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.transfer(Direction::Read, offset, buf).await
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.transfer(Direction::Write, offset, buf).await
    }

    async fn write_durable(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        if self.shared.elsewhere.is_none() {
            return self.transfer(Direction::WriteDurable, offset, buf).await;
        }
        // Whoever keeps the file may be told of `RWF_DSYNC` and not heed it: FUSE does not flush for it (Linux 6.18).
        match self.write(offset, buf).await {
            (buf, Ok(())) => (buf, self.flush().await),
            failed => failed,
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        if self.shared.info.get().read_only {
            return Ok(());
        }
        let nowhere = ByteRange::at(0, 0);
        self.check_whole(Operation::Flush, nowhere)?;
        let (_, outcome) = self.env.submit(RingOperation::Sync(Rc::clone(self.file()))).await;
        outcome.map(drop).map_err(|errno| error_of(errno, Operation::Flush, nowhere))
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.allocate(Operation::Discard, libc::FALLOC_FL_PUNCH_HOLE, range).await
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        let mode = match mode {
            ZeroMode::MayPunch => libc::FALLOC_FL_PUNCH_HOLE,
            ZeroMode::KeepAllocated => libc::FALLOC_FL_ZERO_RANGE,
        };
        self.allocate(Operation::WriteZeroes, mode, range).await
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.check(Operation::Allocation, range)?;
        // A block device cannot tell (lseek(2)), and who keeps a file elsewhere is not asked for every piece of it.
        if !self.shared.is_regular || self.shared.elsewhere.is_some() {
            return Ok(vec![Extent { length: range.length(), kind: ExtentKind::Data }]);
        }
        self.ask(Operation::Allocation, range, move |file| extents(file, range, extents_max)).await
    }
}

/// Without a number of the system's there was no answer.
fn error_of_question(error: &io::Error, operation: Operation, range: ByteRange) -> DeviceError {
    let no_answer = || DeviceError::new(DeviceErrorKind::Gone, operation, range);
    error.raw_os_error().map_or_else(no_answer, |errno| error_of(errno, operation, range))
}

/// What is at a path, before it is opened.
#[derive(Clone)]
struct Storage {
    path: PathBuf,
    metadata: Metadata,
    footprint: Footprint,
}

/// A file or block device that is open and locked, and nobody's device yet.
struct Opened {
    file: OpenFile,
    direct: bool,
    info: DeviceInfo,
    /// What it says of its size.
    end_bytes: u64,
    /// The same file once more, for the end that direct I/O does not reach.
    tail: Option<OpenFile>,
    identity: Result<DeviceIdentity, DeviceError>,
    options: FileOptions,
}

impl Storage {
    fn look(path: &Path) -> Result<Self, OpenError> {
        let metadata = check_is_storage(path).map_err(|source| OpenError::new(path, "use", source))?;
        let footprint = Footprint::of_metadata(&metadata);
        closing::wait_for(&metadata);
        Ok(Self { path: path.to_owned(), metadata, footprint })
    }

    /// The one place that every device passes: nobody else may use the bytes that it stands for. What this process has open is
    /// known to its executor alone.
    fn open(&self, options: FileOptions, caching: Caching) -> Result<Opened, OpenError> {
        let Self { path, metadata, .. } = self;
        let fail = |doing: &'static str| move |source: io::Error| OpenError::of_busy(path, doing, source, metadata);
        let (access, is_block_device) = (options.access(), metadata.file_type().is_block_device());
        let user = in_use::user_of(path, access).map_err(|source| OpenError::new(path, "find", source))?;
        if let Some(user) = user {
            return Err(OpenError::in_use(path, &user));
        }
        let (file, direct) = open_file(path, options, is_block_device, caching).map_err(fail("open"))?;
        if !descriptors::may_keep(&file, DescriptorUse::Device) {
            return Err(OpenError::new(path, "open", descriptors::none_left(DescriptorUse::Device)));
        }
        let file = OwnedFd::from(file);
        let closed = Closed::for_file(&file, metadata).map_err(fail("inspect"))?;
        let file = OpenFile::new(file, closed);
        lock(&file, options, is_block_device).map_err(fail("lock"))?;
        in_use::lock_as_qemu_does(&file, access).map_err(fail("lock"))?;
        let (info, end_bytes) = inspect(&file, metadata, options, direct).map_err(fail("inspect"))?;
        let ends_apart =
            metadata.is_file() && options.to_the_end && Tail::is_needed(end_bytes, info.logical_block_bytes);
        let tail = ends_apart.then(|| Tail::open_again(&file, options.read_only)).transpose();
        let tail = tail.map_err(fail("open the end of"))?;
        let not_identified = |error| error_of_question(&error, Operation::Identity, ByteRange::at(0, 0));
        let identity = sysfs::identity(&file, path).map_err(not_identified);
        Ok(Opened { file, direct, info, end_bytes, tail, identity, options })
    }
}

/// Opens and locks a file or device for somebody who reads and writes it by himself, through the page cache: until it is dropped
/// nobody else uses it.
pub(crate) fn open_alone(path: &Path) -> Result<OpenFile, OpenError> {
    let (storage, options) = (Storage::look(path)?, FileOptions::default());
    check_ours(path, options.access(), &storage.footprint)?;
    let file = storage.open(options, Caching::PageCache)?.file;
    in_use::note_open(&file, path, options.access(), storage.footprint)
        .map_err(|user| OpenError::in_use(path, &user))?;
    Ok(file)
}

/// Refuses bytes that this process uses.
fn check_ours(path: &Path, access: Access, footprint: &Footprint) -> Result<(), OpenError> {
    let user = in_use::our_own(footprint, access);
    user.map_or(Ok(()), |user| Err(OpenError::in_use(path, &user)))
}

/// The second value says whether I/O is direct.
fn open_file(path: &Path, options: FileOptions, block_device: bool, caching: Caching) -> io::Result<(File, bool)> {
    // O_EXCL without O_CREAT asks a block device whether anybody has claimed it: a mount, RAID, LVM, another Hotset.
    let claims = !options.read_only || options.claimed;
    let exclusive = if block_device && claims { libc::O_EXCL } else { 0 };
    let mut open = OpenOptions::new();
    open.read(true).write(!options.read_only);
    if caching == Caching::PageCache {
        return open.custom_flags(exclusive).open(path).map(|file| (file, false));
    }
    match open.custom_flags(libc::O_DIRECT | exclusive).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            open.custom_flags(exclusive).open(path).map(|file| (file, false))
        }
        result => result.map(|file| (file, true)),
    }
}

/// A file that was opened once more, to be written. Its locks go back to the descriptor that it was opened by if nobody takes it.
struct OpenedToWrite {
    first: OpenFile,
    file: Option<OpenFile>,
}

impl OpenedToWrite {
    fn take(mut self) -> OpenFile {
        self.file.take().expect("it is there until it is taken or dropped")
    }
}

impl Drop for OpenedToWrite {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Nobody is left to tell. Who comes between, and has it now, keeps others off as well.
            let _ = lock_first_again(&self.first, file);
        }
    }
}

/// Opens once more, to be written, what is open to be read. Its locks go over to the new descriptor, or stay where they are; a
/// claim on a block device stays with the old one.
fn open_to_write(first: OpenFile, direct: bool, is_block_device: bool) -> io::Result<OpenedToWrite> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let file = first.open_again(OpenOptions::new().read(true).write(true).custom_flags(flags))?;
    let options = FileOptions::default();
    in_use::unlock_as_qemu_does(&first)?;
    sys::lock(&first, libc::LOCK_UN)?;
    let locked =
        lock(&file, options, is_block_device).and_then(|()| in_use::lock_as_qemu_does(&file, options.access()));
    match locked {
        Ok(()) => Ok(OpenedToWrite { first, file: Some(file) }),
        Err(error) => {
            lock_first_again(&first, file)?;
            Err(error)
        }
    }
}

/// Gives the locks back to the descriptor that is only read, and what was opened to be written up. Never without a lock but for the
/// moment in which one kind becomes the other (flock(2)).
fn lock_first_again(first: &OpenFile, file: OpenFile) -> io::Result<()> {
    // What cannot be given up is in the way of what is locked then, which tells.
    let _ = in_use::unlock_as_qemu_does(&file);
    let _ = sys::lock(&file, libc::LOCK_SH);
    let locked = sys::lock(first, libc::LOCK_SH).and_then(|()| in_use::lock_as_qemu_does(first, Access::Read));
    drop(file);
    locked
}

/// udev holds a shared lock on a block device while it looks at it, for instance after somebody else has closed it.
/// Those who really use the device are found by O_EXCL before; so this lock is worth waiting for.
fn lock(file: &OwnedFd, options: FileOptions, block_device: bool) -> io::Result<()> {
    if options.read_only {
        return sys::lock(file, libc::LOCK_SH);
    }
    let tries = if block_device { LOCK_TRIES } else { 1 };
    for _ in 1..tries {
        match sys::lock(file, libc::LOCK_EX) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOCK_PAUSE),
            result => return result,
        }
    }
    sys::lock(file, libc::LOCK_EX)
}

/// What it is like, and the size that it says it has.
fn inspect(fd: &OwnedFd, metadata: &Metadata, options: FileOptions, direct: bool) -> io::Result<(DeviceInfo, u64)> {
    if metadata.file_type().is_block_device() {
        inspect_block_device(fd, metadata, options.read_only)
    } else {
        let alignment = if direct { sys::direct_io_alignment(fd) } else { None };
        let logical_block_bytes = known_block(alignment.unwrap_or(LOGICAL_BLOCKS[0]))?;
        let end_bytes = sys::known_size(fd)?;
        let size_bytes = if options.to_the_end { Tail::size_bytes(end_bytes) } else { end_bytes };
        let block_bytes = if options.to_the_end { LOGICAL_BLOCKS[0] } else { logical_block_bytes };
        let info = DeviceInfo {
            size_bytes: rounded(size_bytes, block_bytes)?,
            logical_block_bytes,
            optimal_io_bytes: 0,
            volatile_cache: true,
            discard: Discard::Zeroes,
            read_only: options.read_only,
            emulated: false,
        };
        Ok((info, end_bytes))
    }
}

fn inspect_block_device(fd: &OwnedFd, metadata: &Metadata, read_only: bool) -> io::Result<(DeviceInfo, u64)> {
    let sector = sys::logical_block_bytes(fd)?;
    let logical_block_bytes = known_block(u32::try_from(sector).unwrap_or(u32::MAX))?;
    let size = sys::seek(fd, 0, libc::SEEK_END)?;
    let queue = sysfs::queue(metadata.rdev());
    // fallocate with a punched hole zeroes a block device, by unmapping if it can; without the device's help it fails.
    let discard = if queue.zeroes_by_itself { Discard::Zeroes } else { Discard::Unsupported };
    let info = DeviceInfo {
        size_bytes: rounded(size, logical_block_bytes)?,
        logical_block_bytes,
        optimal_io_bytes: queue.optimal_io_bytes,
        volatile_cache: queue.volatile_cache,
        discard,
        read_only,
        emulated: false,
    };
    Ok((info, size))
}

/// The block size we use for a device that needs `bytes`.
fn known_block(bytes: u32) -> io::Result<u32> {
    LOGICAL_BLOCKS.into_iter().find(|known| bytes <= *known && known.is_multiple_of(bytes)).ok_or_else(|| {
        let message = format!("its logical blocks of {bytes} bytes are not supported; 512 and 4096 are");
        io::Error::new(io::ErrorKind::Unsupported, message)
    })
}

/// A size in whole blocks, rounded down.
fn rounded(size: u64, block: u32) -> io::Result<u64> {
    let size = size - size % u64::from(block);
    if size == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is empty"));
    }
    Ok(size)
}

/// In whole sectors, also at the end of a file that has less than one there.
pub(crate) fn extents(file: &OwnedFd, range: ByteRange, extents_max: usize) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut position = range.start;
    while position < range.end && found.len() < extents_max {
        let data = next(file, position, libc::SEEK_DATA)?.unwrap_or(range.end);
        let data = (data - data % SECTOR_BYTES).clamp(position, range.end);
        if data > position {
            found.push(Extent { length: data - position, kind: ExtentKind::Hole });
        }
        if data < range.end && found.len() < extents_max {
            let hole = next(file, data, libc::SEEK_HOLE)?.unwrap_or(range.end);
            let hole = hole.next_multiple_of(SECTOR_BYTES).clamp(data, range.end);
            // A file that changes while we look must not make this a loop without end.
            let end = if hole == data { range.end } else { hole };
            found.push(Extent { length: end - data, kind: ExtentKind::Data });
            position = end;
        } else {
            position = range.end;
        }
    }
    Ok(found)
}

/// The next data or hole from `position`; `None` if there is none. Where the file cannot tell, all is data.
fn next(file: &OwnedFd, position: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    match sys::seek(file, position, whence) {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENXIO) => Ok(None),
            Some(libc::EINVAL) => Ok((whence == libc::SEEK_DATA).then_some(position)),
            Some(_) | None => Err(error),
        },
    }
}

fn error_of(errno: i32, operation: Operation, range: ByteRange) -> DeviceError {
    DeviceError { kind: kind_of(errno, operation), operation, range, errno: Some(errno) }
}

fn kind_of(errno: i32, operation: Operation) -> DeviceErrorKind {
    let allocates = matches!(operation, Operation::Discard | Operation::WriteZeroes);
    match errno {
        libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM | libc::ESTALE | libc::EBADF | libc::ENOENT => {
            DeviceErrorKind::Gone
        }
        libc::ENOSPC | libc::EDQUOT => DeviceErrorKind::Full,
        libc::EROFS | libc::EPERM | libc::EACCES => DeviceErrorKind::ReadOnly,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => DeviceErrorKind::Unsupported,
        libc::EINVAL if allocates => DeviceErrorKind::Unsupported,
        libc::EINVAL | libc::EFBIG => DeviceErrorKind::OutOfRange,
        libc::EBUSY | libc::EWOULDBLOCK | libc::ETXTBSY => DeviceErrorKind::Busy,
        // EIO, EILSEQ, EREMOTEIO, ETIMEDOUT and whatever else a driver says: these bytes could not be had.
        _ => DeviceErrorKind::Media,
    }
}

/// A device could not be opened.
#[derive(Debug)]
pub struct OpenError {
    pub kind: DeviceErrorKind,
    pub path: PathBuf,
    /// A verb: what failed.
    pub doing: &'static str,
    pub source: io::Error,
}

impl OpenError {
    pub(crate) fn new(path: &Path, doing: &'static str, source: io::Error) -> Self {
        let kind = match source.raw_os_error() {
            Some(errno) => kind_of(errno, Operation::Open),
            None => DeviceErrorKind::Unsupported,
        };
        Self { kind, path: path.to_owned(), doing, source }
    }

    fn in_use(path: &Path, user: &User) -> Self {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, user.to_string());
        Self { kind: DeviceErrorKind::Busy, path: path.to_owned(), doing: "open", source }
    }

    /// Nobody can say what it is.
    pub(crate) fn unanswered(path: &Path, source: io::Error) -> Self {
        Self { kind: DeviceErrorKind::Gone, path: path.to_owned(), doing: "open", source }
    }

    /// One that says by whom a device is kept busy.
    fn of_busy(path: &Path, doing: &'static str, source: io::Error, metadata: &Metadata) -> Self {
        let error = Self::new(path, doing, source);
        match error.kind {
            DeviceErrorKind::Busy => Self::in_use(path, &in_use::user_of_busy(metadata)),
            DeviceErrorKind::OutOfRange
            | DeviceErrorKind::Media
            | DeviceErrorKind::Gone
            | DeviceErrorKind::Full
            | DeviceErrorKind::ReadOnly
            | DeviceErrorKind::Unsupported => error,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if self.kind == DeviceErrorKind::Busy {
            return write!(f, "cannot {} {path}: it is in use: {}", self.doing, self.source);
        }
        write!(f, "cannot {} {path}: {}", self.doing, self.source)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write as _};

    use futures_util::future::poll_immediate;

    use super::*;
    use crate::closing::FileKey;
    use crate::ring::APART_MAX;
    use crate::{Executor, ExecutorOptions};

    /// Opened to be read, and locked.
    fn opened_to_read(path: &Path) -> OpenFile {
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        Storage::look(path).unwrap().open(options, Caching::PageCache).unwrap().file
    }

    fn opened_by_a_stranger(path: &Path) -> OwnedFd {
        OwnedFd::from(File::open(path).unwrap())
    }

    #[test]
    fn what_was_opened_to_be_written_and_nobody_takes_is_locked_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, [7; 8192]).unwrap();
        let (first, stranger) = (opened_to_read(&path), opened_by_a_stranger(&path));
        let again = || OpenFile::new(first.try_clone().unwrap(), first.closed());
        let opened = open_to_write(again(), false, false).unwrap();
        assert!(sys::lock(&stranger, libc::LOCK_SH).is_err(), "it is ours alone");
        drop(opened);
        assert!(sys::lock(&stranger, libc::LOCK_EX).is_err(), "it is read through the first descriptor");
        sys::lock(&stranger, libc::LOCK_SH).unwrap();
        assert!(in_use::lock_as_qemu_does(&stranger, Access::Alone).is_err());
        in_use::unlock_as_qemu_does(&stranger).unwrap();
        assert!(open_to_write(again(), false, false).is_err(), "somebody else reads it");
        drop(stranger);
        let stranger = opened_by_a_stranger(&path);
        assert!(sys::lock(&stranger, libc::LOCK_EX).is_err(), "it is still locked after the refusal");
        let taken = open_to_write(again(), false, false).unwrap().take();
        assert!(sys::lock(&stranger, libc::LOCK_SH).is_err(), "it is ours alone");
        drop(taken);
    }

    const SECTOR: usize = 512;

    /// A file that is kept elsewhere and does not answer: each sector that is written to the other end answers one read.
    fn silent_file(env: &HostEnv, path: &Path) -> (FileDevice, PipeWriter) {
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        let storage = Storage::look(path).unwrap();
        let (silent, answers) = io::pipe().unwrap();
        let file = OpenFile::new(OwnedFd::from(silent), Closed::Apart(FileKey::of(&storage.metadata)));
        let opened = Opened { file, ..storage.open(options, Caching::PageCache).unwrap() };
        (FileDevice::of(env, storage, opened).unwrap(), answers)
    }

    #[test]
    fn a_file_system_that_hangs_holds_up_only_who_asks_it_something() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, [7; 8192]).unwrap();
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let device = FileDevice::open(&env, &path, FileOptions::default()).unwrap();
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let hangs = device.ask(Operation::Identity, ByteRange::at(0, 0), move |_| Ok(wait.recv().is_ok()));
            let mut hangs = Box::pin(hangs);
            assert!(poll_immediate(&mut hangs).await.is_none());
            let mut extents = Box::pin(device.allocation(ByteRange::at(0, 8192), 8));
            let mut identity = Box::pin(device.identity_now());
            assert!(poll_immediate(&mut extents).await.is_none() && poll_immediate(&mut identity).await.is_none());
            device.read(0, Buf::zeroed(4096)).await.1.unwrap();
            go.send(()).unwrap();
            assert!(hangs.await.unwrap());
            assert_eq!(extents.await.unwrap(), [Extent { length: 8192, kind: ExtentKind::Data }]);
            assert_eq!(identity.await.unwrap().id, device.identity().unwrap().id);
        });
    }

    #[test]
    fn a_shortage_of_the_kernel_is_waited_out_for_a_while_and_an_error_of_a_device_is_not() {
        let mut shortages = Shortages::default();
        assert!([libc::EIO, libc::ENOSPC, libc::ENODEV, libc::EROFS].iter().all(|errno| !shortages.pass(*errno)));
        let passed = [libc::ENOMEM, libc::EBUSY].iter().cycle().take(100).filter(|errno| shortages.pass(**errno));
        assert_eq!(passed.count(), 10);
    }

    #[test]
    fn a_file_that_hangs_takes_so_many_threads_of_the_kernel_and_no_more_until_it_answers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, [7; 8192]).unwrap();
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let (device, mut answers) = silent_file(&env, &path);
            let under_way = device.shared.elsewhere.clone().unwrap();
            for _ in 0..APART_PER_FILE_MAX {
                assert!(poll_immediate(Box::pin(device.read(0, Buf::zeroed(SECTOR)))).await.is_none());
            }
            let left = (under_way.free(), env.apart().free());
            assert_eq!(left, (0, APART_MAX - APART_PER_FILE_MAX), "nobody waits for them, but the kernel has them");
            let (mut goes, mut waits) = [(); 2].map(|()| Box::pin(device.read(0, Buf::zeroed(SECTOR)))).into();
            assert!(poll_immediate(&mut goes).await.is_none() && poll_immediate(&mut waits).await.is_none());
            drop(goes);
            let every = usize::try_from(APART_PER_FILE_MAX).unwrap() + 1;
            answers.write_all(&vec![9; every * SECTOR]).unwrap();
            let (buf, read) = waits.await;
            read.unwrap();
            assert_eq!(buf[0], 9);
            // The last of those under way end when they like.
            let all = under_way.acquire(APART_PER_FILE_MAX).await;
            assert_eq!(env.apart().free(), APART_MAX);
            drop(all);
        });
    }
}
