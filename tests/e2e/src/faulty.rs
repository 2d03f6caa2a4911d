//! A file that fails on command: a file system in user space with that one file, which passes everything on to a file
//! beside it, until it is told to answer errors or not to answer at all.
//!
//! It goes with the value, and what hangs is answered then. If the program is killed, `fusermount3` takes it away.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, SessionACL, WriteFlags,
};

use crate::tools;

/// The number of the one file; the folder is `INodeNo::ROOT`.
const FILE: INodeNo = INodeNo(2);

/// The kernel asks again each time: the file behind may change.
const TTL: Duration = Duration::ZERO;

/// What the file does with reads, writes and flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// They fail with EIO.
    Error,
    /// Reads and writes are not answered before something else is said. Flushes are: the kernel would keep the file locked
    /// over one that hangs, and whoever asks for its size would hang with it.
    Hang,
    /// The same of writes; reads go on.
    HangWrites,
    /// Flushes fail with EIO; reads and writes go on.
    FailFlushes,
    /// Whoever closes it waits; all else goes on.
    HangCloses,
    /// Whoever opens it to write waits; all else goes on.
    HangOpens,
    /// Whoever asks about its file system waits; all else goes on.
    HangQuestions,
    /// Writes fail with ENOSPC; reads and flushes go on.
    NoSpace,
    /// Writes fail with EROFS; reads and flushes go on.
    ReadOnly,
}

/// See the file's summary.
pub struct FaultyFile {
    /// Goes first: no request comes after it.
    session: Option<BackgroundSession>,
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

struct State {
    fault: Fault,
    /// Flushes that were carried out.
    flushes: u64,
    hanging: Vec<Hanging>,
    /// Openings that are not answered yet. They succeed in the end.
    opening: Vec<ReplyOpen>,
}

/// A request that is not answered yet. All of them fail in the end.
enum Hanging {
    Read(ReplyData),
    Write(ReplyWrite),
    Flush(ReplyEmpty),
    Question(ReplyStatfs),
}

impl FaultyFile {
    /// Mounts it at the folder `at`, which is made; the file in there is called `disk`, and its content is that of
    /// `behind`. `None`, and loud words, on a machine where that is not possible.
    pub fn mount(at: &Path, behind: &Path) -> Option<Self> {
        fs::create_dir(at).expect("a folder can be made");
        let state =
            Arc::new(Mutex::new(State { fault: Fault::None, flushes: 0, hanging: Vec::new(), opening: Vec::new() }));
        let file = File::options().read(true).write(true).open(behind).expect("the file behind is there");
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("hotset-e2e".to_owned()), MountOption::AutoUnmount];
        // Without it, nobody may take the mount away by itself.
        config.acl = SessionACL::All;
        match fuser::spawn_mount(Pass { file, state: Arc::clone(&state) }, at, &config) {
            Ok(session) => Some(Self { session: Some(session), state, path: at.join("disk") }),
            Err(error) => {
                tools::skip(&format!("no file system in user space here (/dev/fuse, fusermount3): {error}"));
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How often the kernel had it flushed.
    pub fn flushes(&self) -> u64 {
        lock(&self.state).flushes
    }

    /// Somebody waits to hear about its file system.
    pub fn is_asked(&self) -> bool {
        lock(&self.state).hanging.iter().any(|hanging| matches!(hanging, Hanging::Question(_)))
    }

    /// Somebody waits to have it opened.
    pub fn is_awaited(&self) -> bool {
        !lock(&self.state).opening.is_empty()
    }

    pub fn set(&self, fault: Fault) {
        let mut state = lock(&self.state);
        state.fault = fault;
        match fault {
            Fault::None | Fault::Error => {
                state.fail_all();
                state.opening.drain(..).for_each(opened);
            }
            Fault::Hang
            | Fault::HangWrites
            | Fault::FailFlushes
            | Fault::HangCloses
            | Fault::HangOpens
            | Fault::HangQuestions
            | Fault::NoSpace
            | Fault::ReadOnly => {}
        }
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.set(Fault::Error);
        let folder = self.path.parent().expect("the file is in a folder");
        tools::run("fusermount3", &["-u", "-z", "-q", &folder.display().to_string()]);
        // Its thread goes on to answer errors to whoever has the file open, and ends with the last of them.
        drop(self.session.take());
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn fail_all(&mut self) {
        for hanging in self.hanging.drain(..) {
            hanging.fail();
        }
    }
}

impl Hanging {
    fn fail(self) {
        self.fail_with(Errno::EIO);
    }

    fn fail_with(self, error: Errno) {
        match self {
            Self::Read(reply) => reply.error(error),
            Self::Write(reply) => reply.error(error),
            Self::Flush(reply) => reply.error(error),
            Self::Question(reply) => reply.error(error),
        }
    }
}

fn opened(reply: ReplyOpen) {
    reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
}

/// The file system.
struct Pass {
    file: File,
    state: Arc<Mutex<State>>,
}

impl Pass {
    /// Keeps the request, or fails it, if it is time for that.
    fn admit(&self, request: Hanging) -> Option<Hanging> {
        let mut state = lock(&self.state);
        match state.fault {
            Fault::None | Fault::HangCloses | Fault::HangOpens | Fault::HangQuestions => return Some(request),
            Fault::Hang | Fault::HangWrites if matches!(request, Hanging::Flush(_)) => return Some(request),
            Fault::HangWrites if matches!(request, Hanging::Read(_)) => return Some(request),
            Fault::NoSpace | Fault::ReadOnly if !matches!(request, Hanging::Write(_)) => return Some(request),
            Fault::FailFlushes if !matches!(request, Hanging::Flush(_)) => return Some(request),
            Fault::NoSpace => request.fail_with(Errno::ENOSPC),
            Fault::ReadOnly => request.fail_with(Errno::EROFS),
            Fault::Error | Fault::FailFlushes => request.fail(),
            Fault::Hang | Fault::HangWrites => state.hanging.push(request),
        }
        None
    }

    fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let behind = self.file.metadata().map_err(Errno::from)?;
        let folder = number == INodeNo::ROOT;
        Ok(FileAttr {
            ino: number,
            size: if folder { 0 } else { behind.size() },
            blocks: if folder { 0 } else { behind.blocks() },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if folder { FileType::Directory } else { FileType::RegularFile },
            perm: if folder { 0o700 } else { 0o600 },
            nlink: if folder { 2 } else { 1 },
            uid: behind.uid(),
            gid: behind.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Pass {
    /// Direct I/O that hangs must not hold up whoever submits it.
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let lacks = |_| io::Error::other("this kernel has no asynchronous direct I/O for file systems in user space");
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(lacks)
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name != "disk" {
            return reply.error(Errno::ENOENT);
        }
        match self.attributes(FILE) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let mut state = lock(&self.state);
        if state.fault == Fault::HangQuestions {
            return state.hanging.push(Hanging::Question(reply));
        }
        reply.statfs(0, 0, 0, 0, 0, 512, 255, 0);
    }

    /// Past the page cache, as on a disk that is opened for direct I/O.
    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = lock(&self.state);
        if state.fault == Fault::HangOpens && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return state.opening.push(reply);
        }
        opened(reply);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(Hanging::Read(reply)) = self.admit(Hanging::Read(reply)) else { return };
        let mut bytes = vec![0; usize::try_from(size).expect("32 bits fit")];
        match self.file.read_at(&mut bytes, offset) {
            Ok(count) => reply.data(&bytes[..count]),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(Hanging::Write(reply)) = self.admit(Hanging::Write(reply)) else { return };
        match self.file.write_all_at(data, offset) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("a request is below 4 GiB")),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let Some(Hanging::Flush(reply)) = self.admit(Hanging::Flush(reply)) else { return };
        match self.file.sync_data() {
            Ok(()) => {
                lock(&self.state).flushes += 1;
                reply.ok();
            }
            Err(error) => reply.error(error.into()),
        }
    }

    /// At each close; nothing is kept back.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let mut state = lock(&self.state);
        match state.fault {
            Fault::HangCloses => state.hanging.push(Hanging::Flush(reply)),
            Fault::None
            | Fault::Error
            | Fault::Hang
            | Fault::HangWrites
            | Fault::HangOpens
            | Fault::FailFlushes
            | Fault::NoSpace
            | Fault::HangQuestions
            | Fault::ReadOnly => reply.ok(),
        }
    }
}
