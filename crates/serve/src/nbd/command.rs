//! One request against a volume: whether it may be done, doing what is neither a read nor a write, and what its failure is called.

use hotset_block::{Buf, ByteRange, Env, Extent, ZeroMode};
use hotset_cache::config::limits::REQUEST_BYTES_MAX;
use hotset_cache::{Durability, Error, ErrorAnswer, ErrorKind, Volume, ZeroEffort};

use super::negotiation::Agreement;
use super::wire::{Command, Request, command_flag, errno};
use crate::exports::ExportInfo;
use crate::inflight::{Operation, Work};

/// Extents of one answer at most: 8 KiB of them.
const EXTENTS_MAX: usize = 1024;

/// What a session's client may do, as it was told in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) structured_replies: bool,
    block_status: bool,
    /// A power of two.
    block_bytes_min: u64,
    read_only: bool,
}

impl Terms {
    pub(crate) fn new(agreement: &Agreement, export: &ExportInfo) -> Self {
        Self {
            structured_replies: agreement.structured_replies,
            block_status: agreement.block_status,
            block_bytes_min: if agreement.block_sizes { u64::from(export.block_bytes_min) } else { 1 },
            read_only: export.read_only,
        }
    }

    /// Of one that is told what the export is by other means than a handshake, and holds to its blocks.
    pub(crate) fn without_handshake(export: &ExportInfo) -> Self {
        Self {
            structured_replies: false,
            block_status: false,
            block_bytes_min: u64::from(export.block_bytes_min),
            read_only: export.read_only,
        }
    }

    /// Whether the request may be done on an export of that size; if not, the error number for the client. The size is that of now:
    /// the protocol cannot tell a client that an export has grown, but one that knows may use what was added.
    pub(crate) fn check(&self, request: &Request, size_bytes: u64) -> Result<(), u32> {
        if request.flags & !self.flags_for(request.command) != 0 {
            return Err(errno::EINVAL);
        }
        match request.command {
            Command::Read => {
                self.check_range(request, size_bytes, errno::EINVAL)?;
                if u64::from(request.length) > REQUEST_BYTES_MAX { Err(errno::EINVAL) } else { Ok(()) }
            }
            Command::Write | Command::WriteZeroes => self.check_change(request, size_bytes, errno::ENOSPC),
            Command::Trim => self.check_change(request, size_bytes, errno::EINVAL),
            Command::Cache => self.check_range(request, size_bytes, errno::EINVAL),
            Command::BlockStatus if !self.block_status => Err(errno::EINVAL),
            Command::BlockStatus => self.check_range(request, size_bytes, errno::EINVAL),
            Command::Flush | Command::Disconnect => Ok(()),
            Command::Unknown(_) => Err(errno::EINVAL),
        }
    }

    /// "Command flags": FUA is allowed with every command, also where it changes nothing.
    fn flags_for(&self, command: Command) -> u16 {
        let own = match command {
            Command::Read if self.structured_replies => command_flag::DF,
            Command::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
            Command::BlockStatus => command_flag::REQ_ONE,
            Command::Read
            | Command::Write
            | Command::Disconnect
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::Unknown(_) => 0,
        };
        own | command_flag::FUA
    }

    fn check_change(&self, request: &Request, size_bytes: u64, past_the_end: u32) -> Result<(), u32> {
        if self.read_only {
            return Err(errno::EPERM);
        }
        self.check_range(request, size_bytes, past_the_end)
    }

    fn check_range(&self, request: &Request, size_bytes: u64, past_the_end: u32) -> Result<(), u32> {
        let length = u64::from(request.length);
        if length == 0 || (request.offset | length) & (self.block_bytes_min - 1) != 0 {
            return Err(errno::EINVAL);
        }
        let end = request.offset.checked_add(length).filter(|end| *end <= size_bytes);
        end.map(|_| ()).ok_or(past_the_end)
    }
}

/// What the request is to those who look whether it is late.
pub(crate) fn operation(request: &Request) -> Operation {
    let work = match request.command {
        Command::Write => Work::Store,
        Command::Flush => Work::Flush,
        Command::Trim | Command::WriteZeroes | Command::Cache => Work::Long,
        Command::Read | Command::Disconnect | Command::BlockStatus | Command::Unknown(_) => Work::Short,
    };
    Operation { work, durability: durability(request) }
}

/// When it may be answered.
pub(crate) fn durability(request: &Request) -> Durability {
    if request.has(command_flag::FUA) { Durability::Durable } else { Durability::Volatile }
}

/// What the client is told.
pub(crate) enum Answer {
    Done,
    Data(Buf),
    Extents(Vec<Extent>),
}

/// What it is about.
fn range(request: &Request) -> ByteRange {
    // What a flush says of a range was not checked, and is not used.
    ByteRange { start: request.offset, end: request.offset.saturating_add(u64::from(request.length)) }
}

/// Bytes that a request brings or asks for, and that its session therefore holds. One that is too long is refused, and holds
/// nothing.
pub(crate) fn payload_bytes(request: &Request) -> usize {
    match request.command {
        Command::Read if u64::from(request.length) > REQUEST_BYTES_MAX => 0,
        Command::Read | Command::Write => {
            usize::try_from(request.length).expect("memory is addressed with at least 32 bits")
        }
        Command::Disconnect
        | Command::Flush
        | Command::Trim
        | Command::Cache
        | Command::WriteZeroes
        | Command::BlockStatus
        | Command::Unknown(_) => 0,
    }
}

/// Does a request that passed [`Terms::check`] and is no write: what that stores, its session hands to the volume.
pub(crate) async fn perform<E: Env>(volume: &Volume<E>, request: &Request) -> Result<Answer, Error> {
    let (range, durability) = (range(request), durability(request));
    match request.command {
        Command::Read => return volume.read(range).await.map(Answer::Data),
        Command::Flush => volume.flush().await?,
        // What is rare is boxed, so that the future of a read or write is small.
        Command::Trim => Box::pin(volume.trim(range, durability)).await?,
        Command::WriteZeroes => {
            let keep = request.has(command_flag::NO_HOLE);
            let mode = if keep { ZeroMode::KeepAllocated } else { ZeroMode::MayPunch };
            let fast = request.has(command_flag::FAST_ZERO);
            let effort = if fast { ZeroEffort::FastOnly } else { ZeroEffort::Any };
            Box::pin(volume.write_zeroes(range, mode, effort, durability)).await?;
        }
        Command::Cache => Box::pin(populate(volume, range)).await?,
        Command::BlockStatus => {
            let extents_max = if request.has(command_flag::REQ_ONE) { 1 } else { EXTENTS_MAX };
            return Box::pin(volume.block_status(range, extents_max)).await.map(Answer::Extents);
        }
        Command::Write | Command::Disconnect | Command::Unknown(_) => unreachable!("not a request of those"),
    }
    Ok(Answer::Done)
}

/// In pieces that the volume takes: a client may name a range of any length.
async fn populate<E: Env>(volume: &Volume<E>, range: ByteRange) -> Result<(), Error> {
    let mut start = range.start;
    while start < range.end {
        let piece = ByteRange { start, end: range.end.min(start + REQUEST_BYTES_MAX) };
        volume.populate(piece).await?;
        start = piece.end;
    }
    Ok(())
}

/// The only place where our errors become the client's ("Error values").
fn errno(kind: ErrorKind) -> u32 {
    match kind {
        ErrorKind::Invalid | ErrorKind::OutOfRange => errno::EINVAL,
        ErrorKind::ReadOnly => errno::EPERM,
        ErrorKind::Full => errno::ENOSPC,
        ErrorKind::Media
        | ErrorKind::Gone
        | ErrorKind::Corrupt
        | ErrorKind::NewerFormat(_)
        | ErrorKind::OtherStream
        | ErrorKind::Refused
        | ErrorKind::Missing
        | ErrorKind::OtherMachine
        | ErrorKind::NotFound => errno::EIO,
        ErrorKind::Unsupported => errno::ENOTSUP,
        ErrorKind::Stopping => errno::ESHUTDOWN,
    }
}

/// What a request that failed is answered with, and counts as. Why it failed is noted where that is not the host's mistake.
pub(crate) fn failure_answer<E: Env>(volume: &Volume<E>, error: &Error) -> (u32, ErrorAnswer) {
    let why = reason(error.kind);
    if why == ErrorAnswer::Failed {
        volume.note_failure(error);
    }
    (errno(error.kind), why)
}

/// What a failure counts as.
fn reason(kind: ErrorKind) -> ErrorAnswer {
    match kind {
        // A fast zeroing that the device cannot do is asked for to learn that.
        ErrorKind::Invalid | ErrorKind::OutOfRange | ErrorKind::ReadOnly | ErrorKind::Unsupported => {
            ErrorAnswer::Invalid
        }
        ErrorKind::Full
        | ErrorKind::Media
        | ErrorKind::Gone
        | ErrorKind::Corrupt
        | ErrorKind::NewerFormat(_)
        | ErrorKind::OtherStream
        | ErrorKind::Refused
        | ErrorKind::NotFound
        | ErrorKind::Missing
        | ErrorKind::OtherMachine
        | ErrorKind::Stopping => ErrorAnswer::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { structured_replies: true, block_status: true, block_bytes_min: 512, read_only: false };

    const SIZE: u64 = 1 << 20;

    fn request(command: Command, offset: u64, length: u32) -> Request {
        Request { flags: 0, command, cookie: 0, offset, length }
    }

    #[test]
    fn requests_past_the_end_are_refused_as_the_protocol_says() {
        for (command, expected) in [
            (Command::Read, errno::EINVAL),
            (Command::Write, errno::ENOSPC),
            (Command::WriteZeroes, errno::ENOSPC),
            (Command::Trim, errno::EINVAL),
            (Command::Cache, errno::EINVAL),
            (Command::BlockStatus, errno::EINVAL),
        ] {
            assert_eq!(TERMS.check(&request(command, 0, 1 << 20), SIZE), Ok(()), "{command:?}");
            assert_eq!(TERMS.check(&request(command, 512, 1 << 20), SIZE), Err(expected), "{command:?}");
            assert_eq!(TERMS.check(&request(command, u64::MAX - 511, 512), SIZE), Err(expected), "{command:?}");
        }
    }

    #[test]
    fn what_was_added_to_an_export_may_be_asked_for() {
        let added = request(Command::Write, SIZE, 512);
        assert_eq!(TERMS.check(&added, SIZE), Err(errno::ENOSPC));
        assert_eq!(TERMS.check(&added, 2 * SIZE), Ok(()));
    }

    #[test]
    fn ragged_and_empty_requests_are_invalid() {
        for (offset, length) in [(1, 512), (512, 511), (0, 0)] {
            for command in [Command::Read, Command::Write, Command::Trim, Command::WriteZeroes, Command::Cache] {
                assert_eq!(TERMS.check(&request(command, offset, length), SIZE), Err(errno::EINVAL));
            }
        }
    }

    #[test]
    fn a_read_only_export_permits_no_change() {
        let terms = Terms { read_only: true, ..TERMS };
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            assert_eq!(terms.check(&request(command, 0, 512), SIZE), Err(errno::EPERM));
        }
        assert_eq!(terms.check(&request(Command::Read, 0, 512), SIZE), Ok(()));
        assert_eq!(terms.check(&request(Command::Flush, 0, 0), SIZE), Ok(()));
    }

    #[test]
    fn a_flag_that_does_not_belong_to_its_command_is_invalid() {
        let flagged = |command, flags| Request { flags, ..request(command, 0, 512) };
        for command in [Command::Read, Command::Write, Command::Flush, Command::Trim, Command::Cache] {
            assert_eq!(TERMS.check(&flagged(command, command_flag::FUA), SIZE), Ok(()));
            assert_eq!(TERMS.check(&flagged(command, command_flag::FAST_ZERO), SIZE), Err(errno::EINVAL));
            assert_eq!(TERMS.check(&flagged(command, 1 << 9), SIZE), Err(errno::EINVAL));
        }
        let plain = Terms { structured_replies: false, block_status: false, ..TERMS };
        assert_eq!(TERMS.check(&flagged(Command::Read, command_flag::DF), SIZE), Ok(()));
        assert_eq!(plain.check(&flagged(Command::Read, command_flag::DF), SIZE), Err(errno::EINVAL));
        assert_eq!(plain.check(&flagged(Command::BlockStatus, 0), SIZE), Err(errno::EINVAL));
    }

    #[test]
    fn a_read_longer_than_the_largest_block_size_is_invalid_and_a_trim_is_not() {
        let check = |command, length| TERMS.check(&request(command, 0, length), 1 << 40);
        let longest = u32::try_from(REQUEST_BYTES_MAX).expect("a request has at most 32 MiB");
        assert_eq!(check(Command::Read, longest), Ok(()));
        assert_eq!(check(Command::Read, longest + 512), Err(errno::EINVAL));
        assert_eq!(check(Command::Trim, 1 << 31), Ok(()));
    }

    #[test]
    fn unknown_requests_are_invalid() {
        assert_eq!(TERMS.check(&request(Command::Unknown(8), 0, 512), SIZE), Err(errno::EINVAL));
    }
}
