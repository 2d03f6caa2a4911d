//! The bytes of a trace: a regular file, unpacked if it is packed by zstd.
//!
//! What a full disk or a power cut left of the last zstd frame is passed over and told ([`Source::is_cut`]). Bytes that make no sense are an
//! error.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// How a zstd frame begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// How a frame begins that has something for certain programs only (pzstd writes some), but for the lower half of the first byte. Its length
/// follows, without this and itself.
const SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
const SKIPPABLE_HEAD_BYTES: usize = 8;
const BUFFER_BYTES: usize = 1 << 18;

/// See the file's summary.
pub(super) struct Source {
    bytes: SourceBytes,
    /// The same opened file, for how far it was read.
    file: File,
    size_bytes: u64,
}

enum SourceBytes {
    Text(File),
    Packed(Box<Frames>),
}

impl Source {
    /// Opens the file. Fails with what is wrong with it, and what to do.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if metadata.is_dir() {
            return Err("it is a directory".to_owned());
        }
        if !metadata.is_file() {
            return Err(
                "it is a pipe or a device, and a trace is read twice: save the requests to a file first".to_owned()
            );
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let head = peek::<4>(&mut file).map_err(unreadable)?;
        if let Some(to_do) = of_another_program(&head, path) {
            return Err(to_do);
        }
        let (again, size_bytes) = (file.try_clone().map_err(unreadable)?, metadata.len());
        let bytes = if head == ZSTD_MAGIC || is_skippable(&head) {
            let frames = Frames::begin(file).map_err(|error| format!("it is no valid zstd file: {error}"))?;
            SourceBytes::Packed(Box::new(frames))
        } else {
            SourceBytes::Text(file)
        };
        Ok(Self { bytes, file: again, size_bytes })
    }

    /// Bytes of the file that were read, about, and all.
    pub(super) fn passed(&self) -> (u64, u64) {
        let read = (&self.file).stream_position().unwrap_or_default();
        (read.min(self.size_bytes), self.size_bytes)
    }

    /// Whether the end of the file is missing, as far as was read.
    pub(super) fn is_cut(&self) -> bool {
        match &self.bytes {
            SourceBytes::Text(_) => false,
            SourceBytes::Packed(frames) => frames.is_cut,
        }
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.bytes {
            SourceBytes::Text(file) => file.read(buf),
            SourceBytes::Packed(frames) => frames.read(buf),
        }
    }
}

/// What to do with a file that another program wrote, of those that traces often come from.
fn of_another_program(head: &[u8], path: &Path) -> Option<String> {
    let shown = path.display().to_string();
    let unpacked = |program: &str| format!("it is packed by {program}: unpack it first, with {program} -dk {shown}");
    match head {
        [0x1f, 0x8b, ..] => Some(unpacked("gzip")),
        [b'B', b'Z', b'h', ..] => Some(unpacked("bzip2")),
        [0xfd, b'7', b'z', b'X'] => Some(unpacked("xz")),
        // The number of blktrace, in either order, and its version.
        [0x07, 0x74, 0x61, 0x65] | [0x65, 0x61, 0x74, 0x07] => {
            let device = shown.split(".blktrace.").next().unwrap_or(&shown);
            Some(format!(
                "it is what blktrace writes, and no text: make that first, with blkparse -i {device} > trace.txt"
            ))
        }
        _ => None,
    }
}

/// The first bytes from here on; zeroes follow the end. They are still to be read.
fn peek<const LENGTH: usize>(file: &mut (impl Read + Seek)) -> io::Result<[u8; LENGTH]> {
    let mut head = Vec::with_capacity(LENGTH);
    let wanted = u64::try_from(LENGTH).expect("a length has 64 bits at most");
    let length = file.by_ref().take(wanted).read_to_end(&mut head)?;
    file.seek(SeekFrom::Current(-i64::try_from(length).expect("what is looked at has 8 bytes at most")))?;
    head.resize(LENGTH, 0);
    Ok(head.try_into().expect("it has this length"))
}

fn is_skippable(head: &[u8]) -> bool {
    head[0] & 0xf0 == SKIPPABLE_MAGIC[0] && head[1..4] == SKIPPABLE_MAGIC[1..]
}

/// A zstd file: one frame after the other.
pub(super) struct Frames {
    frame: Option<ZstdFrame>,
    met_end: Rc<Cell<bool>>,
    is_cut: bool,
}

type ZstdFrame = StreamingDecoder<PackedFile, FrameDecoder>;

/// The packed bytes.
struct PackedFile {
    file: BufReader<File>,
    /// More was asked for than there is.
    met_end: Rc<Cell<bool>>,
}

impl Read for PackedFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buf)?;
        self.met_end.set(self.met_end.get() || (length == 0 && !buf.is_empty()));
        Ok(length)
    }
}

impl Frames {
    fn begin(file: File) -> io::Result<Self> {
        let met_end = Rc::new(Cell::new(false));
        let packed = PackedFile { file: BufReader::with_capacity(BUFFER_BYTES, file), met_end: Rc::clone(&met_end) };
        let mut frames = Self { frame: None, met_end, is_cut: false };
        frames.go_on_with(packed)?;
        Ok(frames)
    }

    /// The next frame, if there is one more.
    fn go_on_with(&mut self, packed: PackedFile) -> io::Result<()> {
        match next_frame(packed) {
            Ok(frame) => self.frame = frame,
            Err(error) => self.end(error)?,
        }
        Ok(())
    }

    /// Nothing is read any more: because the file ends within a frame, or something is wrong with it.
    fn end(&mut self, error: io::Error) -> io::Result<()> {
        self.frame = None;
        self.is_cut = self.met_end.get();
        if self.is_cut { Ok(()) } else { Err(error) }
    }
}

impl Read for Frames {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(mut frame) = self.frame.take() {
            match frame.read(buf) {
                Ok(0) if !buf.is_empty() => self.go_on_with(frame.into_inner())?,
                Ok(length) => {
                    self.frame = Some(frame);
                    return Ok(length);
                }
                Err(error) => self.end(error)?,
            }
        }
        Ok(0)
    }
}

fn next_frame(mut packed: PackedFile) -> io::Result<Option<ZstdFrame>> {
    while !packed.file.fill_buf()?.is_empty() {
        let head = peek::<SKIPPABLE_HEAD_BYTES>(&mut packed.file)?;
        if !is_skippable(&head) {
            return StreamingDecoder::new(packed).map(Some).map_err(|error| io::Error::other(error.to_string()));
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        packed.file.seek_relative(
            i64::from(length) + i64::try_from(SKIPPABLE_HEAD_BYTES).expect("what is looked at has 8 bytes at most"),
        )?;
    }
    Ok(None)
}
