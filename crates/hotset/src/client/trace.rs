//! The `trace record` verb: what hosts ask of a volume, into a file.
//!
//! The daemon keeps requests for a moment only; this takes them several times a second. The file is CSV packed by zstd, a whole frame for each portion,
//! so that it can be read although the recording was interrupted, or its disk is full.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hotset_api::{ApiError, ApiErrorKind, Recorded, Recording};
use hyper::Method;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;

use super::http::Client;
use super::print::print;
use super::removal::Shown;
use crate::args::{Output, TraceVerb};
use crate::size::{Size, grouped, human};
use crate::trace::{CSV_HEADER, missing_line};

/// How often requests are taken: in this time the daemon has room for as many as a volume answers at its best.
const INTERVAL: Duration = Duration::from_millis(200);
/// A portion that was not answered is asked for again for so long. The daemon gives a recording up two seconds later.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(8);
/// A frame is written when so much waits for it, or after this time: that much is lost if the verb is interrupted.
const FRAME_BYTES: usize = 256 << 10;
const FRAME_INTERVAL: Duration = Duration::from_secs(5);

/// The answer of `trace record`.
#[derive(Serialize)]
struct Written {
    volume: String,
    path: String,
    requests: u64,
    /// Requests that came faster than they could be taken.
    dropped_requests: u64,
    size_bytes: u64,
    seconds: f64,
    ended: &'static str,
    /// Why it did before its time, in words.
    #[serde(skip)]
    ended_early: Option<&'static str>,
}

pub(crate) fn run(client: &Client, output: Output, verb: TraceVerb) -> Result<(), ApiError> {
    let TraceVerb::Record { name, seconds, out, limit: Size(limit_bytes) } = verb;
    let mut file = TraceFile::create(&out, limit_bytes)?;
    let recorded = record(client, output, name.as_str(), &mut file, Duration::from_secs(seconds));
    if recorded.is_err() && file.requests == 0 {
        // It was made for this, and has nothing.
        let _ = fs::remove_file(&out);
    }
    let (why, elapsed) = recorded?;
    let written = Written {
        volume: name.to_string(),
        path: super::print::absolute(&out)?,
        requests: file.requests,
        dropped_requests: file.dropped,
        size_bytes: file.size_bytes,
        seconds: elapsed.as_secs_f64(),
        ended: why.word(),
        ended_early: why.early(),
    };
    print(output, &written, Written::text)
}

/// Records what hosts ask of a volume for so long; tells how long it did.
pub(super) fn record(
    client: &Client,
    output: Output,
    volume: &str,
    file: &mut TraceFile,
    time: Duration,
) -> Result<(End, Duration), ApiError> {
    let path = format!("/volumes/{volume}/recording");
    let Recording { id, .. } = client.send(Method::PUT, &path, &())?;
    let began = Instant::now();
    let what = format!("recording {volume}");
    let mut shown = Shown::for_a_time(output, what.clone());
    let take = |portion| client.take_exactly(&format!("{path}?id={id}&portion={portion}"));
    let recorded = take_all(take, file, (began, time), |elapsed, file| {
        shown.at_time(&what, elapsed, time, &format!("{} requests", grouped(file.requests)));
    });
    shown.finish();
    let elapsed = began.elapsed();
    // Nobody takes any more, whatever went wrong. If this fails, the daemon ends it by itself in a while.
    let _ = client.delete::<Recording>(&format!("{path}?id={id}"));
    // And what was taken is kept.
    let kept = file.end();
    let why = recorded?;
    kept?;
    Ok((why, elapsed))
}

/// Why a recording ended.
#[derive(Clone, Copy)]
pub(super) enum End {
    Time,
    Limit,
    Daemon,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Limit => "limit",
            Self::Daemon => "daemon",
        }
    }

    /// Why it ended before its time; `None`: it did not.
    pub(super) fn early(self) -> Option<&'static str> {
        match self {
            Self::Time => None,
            Self::Limit => Some("the recording has its largest size (--limit, or 1 GiB with --seconds of whatif)"),
            Self::Daemon => Some("the volume was opened anew, or nothing was taken for ten seconds"),
        }
    }
}

impl Written {
    fn text(&self) -> String {
        let Self { volume, path, requests, dropped_requests, size_bytes, ended_early, .. } = self;
        let end = ended_early.map_or_else(String::new, |why| format!("; it ended early: {why}"));
        let lost = match dropped_requests {
            0 => String::new(),
            dropped => format!(", {} came too fast and are missing", grouped(*dropped)),
        };
        let (requests, size) = (grouped(*requests), human(*size_bytes));
        format!("Recorded {requests} requests of volume {volume}{lost}, {size} in {path}{end}\n")
    }
}

fn take_all(
    take: impl Fn(u64) -> Result<Recorded, ApiError>,
    file: &mut TraceFile,
    (began, time): (Instant, Duration),
    mut told: impl FnMut(Duration, &TraceFile),
) -> Result<End, ApiError> {
    let (mut portion, mut answered) = (0, Instant::now());
    loop {
        std::thread::sleep(INTERVAL.min(time.saturating_sub(began.elapsed())));
        let recorded = match take(portion) {
            Ok(recorded) => recorded,
            Err(error) if may_pass(&error, answered.elapsed()) => {
                std::thread::sleep(INTERVAL);
                continue;
            }
            Err(error) => return Err(error),
        };
        if recorded.ended {
            return Ok(End::Daemon);
        }
        (portion, answered) = (portion + 1, Instant::now());
        file.take(&recorded, began.elapsed())?;
        told(began.elapsed(), file);
        if file.size_bytes >= file.limit_bytes {
            return Ok(End::Limit);
        }
        if began.elapsed() >= time {
            return Ok(End::Time);
        }
    }
}

/// Whether a portion is asked for again, so long after the last answer.
fn may_pass(error: &ApiError, unanswered: Duration) -> bool {
    matches!(error.kind, ApiErrorKind::Unavailable | ApiErrorKind::Internal) && unanswered < ASKED_AGAIN_WITHIN
}

/// The file that is written.
pub(super) struct TraceFile {
    file: File,
    path: String,
    /// What it has is gone with it.
    is_nameless: bool,
    waiting: String,
    /// When the next frame is written at the latest, since the recording began: the first one at once, so that the file is a trace.
    due: Duration,
    pub(super) requests: u64,
    /// Those of them that are in the file.
    kept_requests: u64,
    dropped: u64,
    size_bytes: u64,
    limit_bytes: u64,
}

impl TraceFile {
    fn create(path: &Path, limit_bytes: u64) -> Result<Self, ApiError> {
        let shown = path.display().to_string();
        let file = File::create_new(path).map_err(|error| failed(&shown, &error))?;
        Ok(Self::begin(file, shown, limit_bytes))
    }

    /// One that has no name, and is gone when nobody has it any more.
    pub(super) fn nameless(limit_bytes: u64) -> Result<Self, ApiError> {
        let shown = std::env::temp_dir().display().to_string();
        let file = tempfile::tempfile().map_err(|error| failed(&shown, &error))?;
        Ok(Self { is_nameless: true, ..Self::begin(file, shown, limit_bytes) })
    }

    fn begin(file: File, path: String, limit_bytes: u64) -> Self {
        let waiting = format!("{CSV_HEADER}\n");
        Self {
            file,
            path,
            is_nameless: false,
            waiting,
            due: Duration::ZERO,
            requests: 0,
            kept_requests: 0,
            dropped: 0,
            size_bytes: 0,
            limit_bytes,
        }
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Takes what came until now, so long after the recording began.
    fn take(&mut self, recorded: &Recorded, now: Duration) -> Result<(), ApiError> {
        self.waiting.push_str(&recorded.requests);
        self.requests += u64::try_from(recorded.requests.lines().count()).expect("they are in memory");
        if recorded.dropped > 0 {
            self.dropped += recorded.dropped;
            self.waiting.push_str(&missing_line(recorded.dropped));
        }
        if self.waiting.len() >= FRAME_BYTES || now >= self.due {
            self.due = now + FRAME_INTERVAL;
            return self.write();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ApiError> {
        self.write()?;
        self.file.sync_all().map_err(|error| failed(&self.path, &error))
    }

    /// What could not be written as a whole is let go: the file has whole frames, and can be read.
    fn write(&mut self) -> Result<(), ApiError> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let packed = compress_to_vec(waiting.as_bytes(), CompressionLevel::Fastest);
        if let Err(error) = self.file.write_all(&packed) {
            return Err(self.cut_back(&error));
        }
        self.size_bytes += u64::try_from(packed.len()).expect("it is in memory");
        self.kept_requests = self.requests;
        Ok(())
    }

    /// Takes back the part of a frame that was written before the error.
    fn cut_back(&mut self, error: &io::Error) -> ApiError {
        let cut = self.file.set_len(self.size_bytes).and_then(|()| self.file.seek(SeekFrom::Start(self.size_bytes)));
        let left = match cut {
            Ok(_) => String::new(),
            Err(error) => format!("; what was written of the last ones cannot be taken back: {error}"),
        };
        let kept = if self.is_nameless {
            String::new()
        } else {
            format!("; its first {} requests are kept and can be read", grouped(self.kept_requests))
        };
        let message = format!("trace {}: {error}{kept}{left}", self.path);
        ApiError::new(ApiErrorKind::Device, message)
    }
}

fn failed(path: &str, error: &io::Error) -> ApiError {
    ApiError::new(ApiErrorKind::Device, format!("trace {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::trace::Trace;

    fn recorded(requests: &str) -> Recorded {
        Recorded { requests: requests.to_owned(), dropped: 0, ended: false }
    }

    /// What can be read of the file, although its recording goes on.
    fn requests(path: &Path) -> usize {
        let mut trace = Trace::open(path).expect("it is a trace");
        std::iter::from_fn(|| trace.next_request().expect("it can be read")).count()
    }

    // proves: A4
    #[test]
    fn what_a_quiet_volume_was_asked_is_in_the_file_within_seconds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv.zst");
        let mut file = TraceFile::create(&path, 1 << 30).unwrap();
        let mut take = |milliseconds: u64, came: &str| {
            file.take(&recorded(came), Duration::from_millis(milliseconds)).unwrap();
            requests(&path)
        };
        assert_eq!(take(200, ""), 0, "a trace from the beginning");
        assert_eq!(take(400, "1,R,0,4096\n"), 0);
        assert_eq!(take(5200, "2,R,0,4096\n"), 2);
        assert_eq!((take(10_400, ""), take(12_000, "3,W,0,512\n")), (2, 2));
        assert_eq!(take(15_400, ""), 3);
    }

    // proves: A4
    #[test]
    fn a_portion_that_was_not_answered_is_asked_for_again_for_some_seconds() {
        let error = |kind| ApiError::new(kind, "it failed".to_owned());
        let seconds = Duration::from_secs;
        assert!(may_pass(&error(ApiErrorKind::Unavailable), seconds(7)));
        assert!(!may_pass(&error(ApiErrorKind::Unavailable), seconds(9)), "the recording has ended by then");
        assert!(!may_pass(&error(ApiErrorKind::NotFound), seconds(0)), "the volume is gone");
        let directory = tempfile::tempdir().unwrap();
        let mut file = TraceFile::create(&directory.path().join("t"), 1 << 30).unwrap();
        let asked = RefCell::new(Vec::new());
        let take = |portion| {
            asked.borrow_mut().push(portion);
            match asked.borrow().len() {
                2 => Err(error(ApiErrorKind::Unavailable)),
                4 => Err(error(ApiErrorKind::Forbidden)),
                _ => Ok(recorded("1,R,0,4096\n")),
            }
        };
        let ended = take_all(take, &mut file, (Instant::now(), seconds(60)), |_, _| {}).err().map(|error| error.kind);
        assert_eq!((ended, asked.into_inner()), (Some(ApiErrorKind::Forbidden), vec![0, 1, 1, 2]));
        assert_eq!(file.requests, 2);
    }

    /// Set for the process in which no file may become longer than that.
    const LIMITED: &str = "HOTSET_TEST_OF_A_FULL_DISK";

    // proves: A4
    #[test]
    fn what_was_written_before_the_disk_was_full_can_be_read() {
        if std::env::var_os(LIMITED).is_some() {
            return record_until_the_disk_is_full();
        }
        // With a limit for files, a write ends within a frame, as it does on a full disk.
        let name = "client::trace::tests::what_was_written_before_the_disk_was_full_can_be_read";
        let limited = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
        let run = std::process::Command::new("sh")
            .args(["-c", limited])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(LIMITED, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&run.stderr));
    }

    fn record_until_the_disk_is_full() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv.zst");
        let mut file = TraceFile::create(&path, 1 << 30).unwrap();
        let portion = |number: u64| -> String {
            (0..5000)
                .map(|line| format!("{number},R,{},4096\n", (number * 5000 + line) * 7_654_321 % 999_983 * 512))
                .collect()
        };
        let error = (0..100)
            .find_map(|number| file.take(&recorded(&portion(number)), Duration::from_secs(6 * number)).err())
            .expect("the limit is reached");
        let kept = file.kept_requests;
        assert!(kept > 0 && error.message.contains(&format!("first {} requests are kept", grouped(kept))), "{error}");
        file.end().unwrap();
        assert_eq!(requests(&path), usize::try_from(kept).unwrap());
    }
}
