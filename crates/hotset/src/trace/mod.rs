//! Recorded requests of hosts, as several tools write them; packed by zstd or not.
//!
//! A file is read line by line and never as a whole. Its format is told by its first lines, after those that begin with `#`. What cannot be
//! read is refused with file, line and what was expected there.

mod blkparse;
mod csv;
mod iolog;
mod msr;
mod request;
mod source;

use std::borrow::Cow;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub(crate) use csv::{HEADER as CSV_HEADER, missing_line};
use hotset_block::ByteRange;
pub(crate) use request::Request;

use self::source::Source;

/// A line is no longer than this.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Lines in which the format has to show.
const HEAD_LINES: usize = 2000;
/// The largest device: its cache blocks of 64 KiB have numbers of 32 bits.
const DEVICE_BYTES_MAX: u64 = 1 << 48;
/// The longest request.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
/// What some editors put before text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

const FORMATS: &str = "one of blkparse's text, fio's iolog (version 2 or 3), CSV of the MSR Cambridge traces, or CSV with the header \
    time_us,op,offset_bytes,length_bytes";

/// What is wrong with a trace, and where.
#[derive(Debug)]
pub(crate) struct TraceError {
    path: PathBuf,
    /// From 1; 0: none in particular.
    line: u64,
    what: String,
    /// Nothing speaks against its being one.
    is_trace: bool,
}

impl TraceError {
    /// Whether it may be one of a trace: its format was known, or nothing of it could be looked at.
    pub(crate) fn is_of_a_trace(&self) -> bool {
        self.is_trace
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, is_trace: _ } = self;
        match line {
            0 => write!(f, "trace {}: {what}", path.display()),
            line => write!(f, "trace {}, line {line}: {what}", path.display()),
        }
    }
}

/// Lines of one format.
enum TraceFormat {
    Csv,
    Msr(msr::MsrReader),
    Blkparse(blkparse::BlkparseReader),
    Iolog(iolog::IologReader),
}

impl TraceFormat {
    /// Tells the format by the first lines of a trace.
    fn of(head: &[String]) -> Option<Self> {
        let first = head.iter().find(|line| !line.trim().is_empty() && !is_remark(line))?;
        if csv::is_header(first) {
            return Some(Self::Csv);
        }
        if let Some(reader) = iolog::IologReader::of(first) {
            return Some(Self::Iolog(reader));
        }
        if msr::is_line(first) {
            return Some(Self::Msr(msr::MsrReader::default()));
        }
        blkparse::BlkparseReader::of(head).map(Self::Blkparse)
    }

    /// The request on a line, if it has one; else what was expected there.
    fn request(&mut self, line: &str) -> Result<Option<Request>, String> {
        match self {
            Self::Csv => csv::request(line),
            Self::Msr(reader) => reader.request(line),
            Self::Blkparse(reader) => reader.request(line),
            Self::Iolog(reader) => reader.request(line),
        }
    }

    /// A line as text, if it is some. The name of a process may be cut within a character, and tells nothing that is asked for here.
    fn text<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, str>> {
        match self {
            Self::Csv | Self::Msr(_) | Self::Iolog(_) => text(line).map(Cow::Borrowed),
            Self::Blkparse(_) => Some(String::from_utf8_lossy(line)),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Msr(_) => "CSV of MSR Cambridge",
            Self::Blkparse(_) => "blkparse",
            Self::Iolog(_) => "fio iolog",
        }
    }
}

/// What is not in a trace, as far as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// Requests that came faster than they could be recorded.
    pub(crate) missing_requests: u64,
    /// The end of the file is missing.
    pub(crate) is_cut: bool,
}

/// The requests of a trace, in their order.
pub(crate) struct Trace {
    path: PathBuf,
    lines: BufReader<Source>,
    format: TraceFormat,
    line_number: u64,
    line: Vec<u8>,
    /// Something other than a remark was read.
    has_begun: bool,
    missing_requests: u64,
}

impl Trace {
    /// Opens a trace, and finds out what format it has.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let mut probe = Self::begin(path, TraceFormat::Csv)?;
        let format = probe.find_format().map_err(|error| TraceError { is_trace: false, ..error })?;
        Self::begin(path, format)
    }

    fn begin(path: &Path, format: TraceFormat) -> Result<Self, TraceError> {
        let source = Source::open(path).map_err(|what| error_in(path, what))?;
        Ok(Self {
            path: path.to_owned(),
            lines: BufReader::with_capacity(1 << 18, source),
            format,
            line_number: 0,
            line: Vec::new(),
            has_begun: false,
            missing_requests: 0,
        })
    }

    fn find_format(&mut self) -> Result<TraceFormat, TraceError> {
        let (mut head, mut no_text) = (Vec::new(), None);
        while head.len() < HEAD_LINES && self.next_line()? {
            if text(&self.line).is_none() {
                no_text = no_text.or_else(|| Some(self.no_text()));
            }
            head.push(String::from_utf8_lossy(&self.line).trim_end_matches(['\n', '\r']).to_owned());
        }
        if head.is_empty() && self.lacking().is_cut {
            return Err(error_in(&self.path, "its end is missing, and nothing of what is left can be read".to_owned()));
        }
        let unknown = || error_in(&self.path, format!("its format is not known: it has to be {FORMATS}"));
        TraceFormat::of(&head).ok_or_else(|| no_text.unwrap_or_else(unknown))
    }

    /// What the format is called.
    pub(crate) fn format(&self) -> &'static str {
        self.format.word()
    }

    /// What is not in it, as far as it was read.
    pub(crate) fn lacking(&self) -> Lacking {
        Lacking { missing_requests: self.missing_requests, is_cut: self.lines.get_ref().is_cut() }
    }

    /// Bytes of the file that were read, about, and all.
    pub(crate) fn passed(&self) -> (u64, u64) {
        self.lines.get_ref().passed()
    }

    /// The next request, if there is one more.
    pub(crate) fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        while self.next_line()? {
            let line = self.format.text(&self.line).ok_or_else(|| self.no_text())?;
            if let Some(missing) = csv::missing(&line) {
                self.missing_requests = self.missing_requests.saturating_add(missing);
                continue;
            }
            if is_remark(&line) && !self.has_begun {
                continue;
            }
            self.has_begun |= !line.trim().is_empty();
            let read = self.format.request(&line).and_then(|request| request.map(bounded).transpose());
            match read {
                Ok(Some(request)) if request.range.is_empty() => {}
                Ok(Some(request)) => return Ok(Some(request)),
                Ok(None) => {}
                Err(what) => return Err(self.error(what)),
            }
        }
        Ok(None)
    }

    /// Reads a line; false: there is none.
    fn next_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.line_number += 1;
        let read = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        let length = read.map_err(|error| self.error(format!("it cannot be read: {error}")))?;
        let whole = u64::try_from(length).is_ok_and(|length| length < LINE_BYTES_MAX);
        if !whole && self.line.last() != Some(&b'\n') {
            return Err(self.error(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        if self.line.last() != Some(&b'\n') && self.lacking().is_cut {
            // A part of a line may look like one.
            self.line.clear();
        }
        if self.line_number == 1 && self.line.starts_with(&BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(!self.line.is_empty())
    }

    fn no_text(&self) -> TraceError {
        self.error("it is no text".to_owned())
    }

    fn error(&self, what: String) -> TraceError {
        TraceError { line: self.line_number, ..error_in(&self.path, what) }
    }
}

fn error_in(path: &Path, what: String) -> TraceError {
    TraceError { path: path.to_owned(), line: 0, what, is_trace: true }
}

/// It says something about the trace.
fn is_remark(line: &str) -> bool {
    line.starts_with('#')
}

fn text(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(line).ok().map(|line| line.trim_end_matches(['\n', '\r']))
}

fn bounded(request: Request) -> Result<Request, String> {
    let ByteRange { start, end } = request.range;
    if end.checked_sub(start).is_none_or(|length| length > REQUEST_BYTES_MAX) {
        return Err(format!(
            "a request of {} bytes: expected no more than {REQUEST_BYTES_MAX}",
            end.wrapping_sub(start)
        ));
    }
    if end > DEVICE_BYTES_MAX {
        return Err(format!("a request that ends at byte {end}: expected a device of no more than 256 TiB"));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use hotset_cache::advisor::access::Direction;

    use super::*;

    fn read(text: &[u8]) -> Result<Vec<(Direction, u64, u64)>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        std::fs::write(&path, text).unwrap();
        let mut requests = Vec::new();
        let mut trace = Trace::open(&path).map_err(|error| error.to_string())?;
        while let Some(request) = trace.next_request().map_err(|error| error.to_string())? {
            requests.push((request.direction, request.range.start, request.range.length()));
        }
        Ok(requests)
    }

    fn times_us(text: &str) -> Vec<Option<u64>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        std::fs::write(&path, text).unwrap();
        let mut trace = Trace::open(&path).unwrap();
        std::iter::from_fn(|| trace.next_request().unwrap()).map(|request| request.time_us).collect()
    }

    const BLKPARSE: &str = "\
  8,0    1        1     0.000000000  4711  A   R 2048 + 8 <- (8,1) 0
  8,0    1        2     0.000000100  4711  Q   R 2048 + 8 [fio]
  8,0    1        3     0.000000200  4711  G   R 2048 + 8 [fio]
  8,0    1        4     0.000000300  4711  P   N [fio]
  8,0    1        5     0.000000400  4711  D  RA 2048 + 8 [fio]
  8,0    1        6     0.000000500  4711  Q  WS 4096 + 16 [fio]
  8,0    1        7     0.000000500  4711  Q FWS [fio]
  8,0    1        8     0.000000500  4711  Q   D 0 + 4096 [fio]
  8,0    1        9     0.000000600     0  C  WS 4096 + 16 [0]
CPU1 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB

Throughput (R/W): 0KiB/s / 0KiB/s
Events (8,0): 9 entries
Skips: 0 forward (0 -   0.0%)
";

    const IOLOG_2: &str = "\
fio version 2 iolog
/dev/sda add
/dev/sda open
/dev/sda read 8192 4096
/dev/sda wait 100 0
/dev/sda write 0 65536
/dev/sda sync 0 0
/dev/sda trim 0 4096
/dev/sda close
";

    const IOLOG_3: &str = "\
fio version 3 iolog
0 /dev/my disk add
0 /dev/my disk open
5 /dev/my disk read 8192 4096
9 /dev/my disk write 0 65536
9 /dev/my disk datasync 0 0
10 /dev/my disk close
";

    const MSR: &str = "\
128166372003061629,hm,1,Read,8192,4096,113736
128166372016382155,hm,1,Write,0,65536,413736
";

    const CSV: &str = "time_us,op,offset_bytes,length_bytes\n0,R,8192,4096\n10,W,0,65536\n11,R,5,0\n";

    // proves: A4
    #[test]
    fn each_format_is_told_by_its_first_lines_and_read() {
        let both = vec![(Direction::Read, 8192, 4096), (Direction::Write, 0, 65_536)];
        for text in [IOLOG_2, IOLOG_3, MSR, CSV] {
            assert_eq!(read(text.as_bytes()), Ok(both.clone()), "{text}");
            assert_eq!(read(text.replace('\n', "\r\n").as_bytes()), Ok(both.clone()), "{text}");
        }
        let queued = vec![(Direction::Read, 2048 * 512, 4096), (Direction::Write, 4096 * 512, 8192)];
        assert_eq!(read(BLKPARSE.as_bytes()), Ok(queued.clone()));
        let issued: String =
            BLKPARSE.lines().filter(|line| !line.contains("  Q")).map(|line| format!("{line}\n")).collect();
        assert_eq!(read(issued.as_bytes()), Ok(vec![queued[0]]), "without what was queued, what was issued counts");
    }

    // proves: A3
    #[test]
    fn each_format_has_its_own_unit_of_time() {
        assert_eq!(times_us(CSV), [Some(0), Some(10)]);
        assert_eq!(times_us(MSR), [Some(12_816_637_200_306_162), Some(12_816_637_201_638_215)]);
        assert_eq!(times_us(BLKPARSE), [Some(0), Some(0)], "parts of a microsecond are left out");
        assert_eq!(times_us(IOLOG_2), [None, None]);
        // What fio 3.33 wrote of 2 s with 50 reads a second.
        let of_fio = "fio version 3 iolog\n48 /tmp/x add\n285 /tmp/x open\n294 /tmp/x read 249856 4096\n\
                      1980272 /tmp/x read 126976 4096\n2000293 /tmp/x close\n";
        assert_eq!(times_us(of_fio), [Some(294), Some(1_980_272)]);
    }

    // proves: A4
    #[test]
    fn what_blkparse_tells_of_flushes_and_commands_is_passed_over() {
        let others = "\
  8,0    0        5     0.000069466     0  C  WS 0 [0]
  8,0    0        6     0.000069466     0  C FWS 0 [0]
  8,0    0        7     0.000069466     0  C  WS 0 (    1234) [0]
  8,0    0        8     0.000069500  4711  D   R 512 (a1 08 2e 00 01 00 00 00 00 ec 00 00) [smartctl]
  8,0    0        9     0.000069600     0  C   R (a1 08 2e 00 01 00 00 00 00 ec 00 00) [2]
  8,0    0       10     0.000069700     0  C   R [0]
";
        let completed = "  8,0    1        9     0.000000600     0  C  WS 4096 + 16 [0]\n";
        let one = vec![(Direction::Write, 4096 * 512, 8192)];
        assert_eq!(read(format!("{others}{completed}").as_bytes()), Ok(one));
        let issued = others.lines().nth(3).unwrap().to_owned() + "\n";
        let action = "  8,0    1        5     0.000000400  4711  D  RA 2048 + 8 [fio]\n";
        assert_eq!(read(format!("{action}{issued}").as_bytes()).map(|requests| requests.len()), Ok(1));
    }

    // proves: A4
    #[test]
    fn a_process_whose_name_was_cut_within_a_character_refuses_no_trace() {
        let mut text = BLKPARSE.replace("[fio]", "[f\u{e9}o]").into_bytes();
        // The first byte of the two is left.
        text.retain(|byte| *byte != 0xa9);
        assert_eq!(read(&text).map(|requests| requests.len()), Ok(2));
    }

    // proves: A4
    #[test]
    fn a_packed_trace_is_unpacked() {
        let packed = ruzstd::encoding::compress_to_vec(CSV.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
        assert_eq!(read(&packed).map(|requests| requests.len()), Ok(2));
        let two_frames = [packed.clone(), packed.clone()].concat();
        assert_eq!(read(&two_frames).map(|requests| requests.len()), Ok(4));
        let skippable = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let with_others = [skippable.clone(), packed.clone(), skippable.clone(), packed.clone(), skippable].concat();
        assert_eq!(read(&with_others).map(|requests| requests.len()), Ok(4), "pzstd writes lengths between");
        let broken = read(&[&packed[..], b"something else, and more of it"].concat()).expect_err("it is no frame");
        assert!(broken.contains("cannot be read"), "{broken}");
    }

    /// A frame of many blocks.
    fn long_frame() -> Vec<u8> {
        let lines: String =
            (0..30_000).map(|time| format!("{time},R,{},4096\n", time * 7919 % 65_536 * 4096)).collect();
        let text = format!("{}\n{lines}", csv::HEADER);
        ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn lacking(bytes: &[u8]) -> (usize, Lacking) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        std::fs::write(&path, bytes).unwrap();
        let mut trace = Trace::open(&path).unwrap();
        let count = std::iter::from_fn(|| trace.next_request().unwrap()).count();
        (count, trace.lacking())
    }

    // proves: A4
    #[test]
    fn a_last_frame_that_is_cut_ends_the_trace_and_that_is_told() {
        let frame = long_frame();
        assert_eq!(lacking(&frame), (30_000, Lacking::default()));
        for left in [1, 4, 5, 9, 100, frame.len() / 2, frame.len() - 1] {
            let (count, lacking) = lacking(&[&frame, &frame[..left]].concat());
            assert!(lacking.is_cut && (30_000..60_000).contains(&count), "{left} bytes left: {count}, {lacking:?}");
        }
        let nothing = read(&frame[..100]).expect_err("no request is left");
        assert!(nothing.contains("nothing of what is left can be read"), "{nothing}");
    }

    #[test]
    fn how_far_a_trace_was_read_is_known_packed_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        for bytes in [long_frame(), CSV.as_bytes().to_vec()] {
            std::fs::write(&path, &bytes).unwrap();
            let mut trace = Trace::open(&path).unwrap();
            let size = u64::try_from(bytes.len()).unwrap();
            assert_eq!(trace.passed().1, size);
            while trace.next_request().unwrap().is_some() {}
            assert_eq!(trace.passed(), (size, size));
        }
    }

    // proves: A4
    #[test]
    fn requests_that_are_missing_are_summed() {
        let text = format!("{CSV}{}20,R,0,4096\n{}", csv::missing_line(7), csv::missing_line(30));
        assert_eq!(lacking(text.as_bytes()), (3, Lacking { missing_requests: 37, is_cut: false }));
    }

    // proves: A4
    #[test]
    fn what_comes_before_the_format_shows_is_passed_over() {
        for text in [CSV, MSR, IOLOG_2, IOLOG_3] {
            for before in ["\u{feff}", "# of the array, at night\n", "\u{feff}# one\n# other\n\n"] {
                assert_eq!(read(format!("{before}{text}").as_bytes()).map(|requests| requests.len()), Ok(2), "{text}");
            }
        }
        let blkparse = format!("# of sda\n{BLKPARSE}");
        assert_eq!(read(blkparse.as_bytes()).map(|requests| requests.len()), Ok(2));
    }

    // proves: A4
    #[test]
    fn what_other_programs_have_packed_is_refused_with_the_command_that_unpacks_it() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |name: &str, head: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, [head, &[0; 40]].concat()).unwrap();
            Trace::open(&path).err().expect("it is no text").to_string()
        };
        let gzip = refused("hm_1.csv.gz", &[0x1f, 0x8b, 8, 0]);
        assert!(gzip.contains("gzip -dk ") && gzip.ends_with("hm_1.csv.gz"), "{gzip}");
        assert!(refused("t.xz", b"\xfd7zXZ\0").contains("xz -dk"));
        assert!(refused("t.bz2", b"BZh9").contains("bzip2 -dk"));
        let binary = refused("sda.blktrace.0", &[0x07, 0x74, 0x61, 0x65]);
        assert!(binary.contains("blkparse -i ") && binary.contains("/sda > "), "{binary}");
    }

    // proves: A4
    #[test]
    fn only_a_regular_file_is_a_trace() {
        let refused = |path: &Path| Trace::open(path).err().expect("it is none").to_string();
        assert!(refused(tempfile::tempdir().unwrap().path()).contains("it is a directory"));
        assert!(refused(Path::new("/dev/null")).contains("save the requests to a file first"));
    }

    // proves: A4
    #[test]
    fn what_cannot_be_read_is_refused_with_its_line_and_what_was_expected() {
        let line = |text: &str, line: &str| format!("{text}{line}\n").into_bytes();
        for (text, parts) in [
            (b"".to_vec(), vec!["not known", "blkparse", "MSR"]),
            (b"hello\n".to_vec(), vec!["not known"]),
            (vec![0, 159, 146, 150], vec!["line 1", "no text"]),
            (line(CSV, "1,X,0,1"), vec!["line 5", "R or W"]),
            (line(CSV, "1,R,-4,1"), vec!["line 5", "offset", "-4"]),
            (line(CSV, "1,R,0"), vec!["line 5", "four fields"]),
            (line(CSV, "1,R,18446744073709551615,9"), vec!["line 5", "no end"]),
            (line(CSV, "1,R,0,9999999999"), vec!["line 5", "no more than"]),
            (line(CSV, "1,R,999999999999999,4096"), vec!["line 5", "256 TiB"]),
            (line(MSR, "1,hm,2,Read,0,4096,1"), vec!["line 3", "one device"]),
            (line(MSR, "1,hm,1,Peek,0,4096,1"), vec!["line 3", "Read or Write"]),
            (line(IOLOG_2, "/dev/sda frob 0 1"), vec!["line 10", "read, write"]),
            (line(IOLOG_2, "/dev/sdb read 0 4096"), vec!["line 10", "one device"]),
            (line(IOLOG_3, "x /dev/my disk read 0 4096"), vec!["line 8", "microseconds"]),
            (line(BLKPARSE.split_once("CPU1").unwrap().0, "8,0 1 9 0.1 7 Q R here + 8 [x]"), vec!["line 10", "sector"]),
            (line(BLKPARSE.split_once("CPU1").unwrap().0, "8,0 1 9 0.1 7 Q R 2048 8 [x]"), vec!["line 10", "sector"]),
            (line(CSV, &"9".repeat(40_000)), vec!["line 5", "longer than"]),
        ] {
            let error = read(&text).expect_err("it is refused");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}: {parts:?}");
        }
    }
}
