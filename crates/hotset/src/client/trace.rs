//! The `trace record` verb: what hosts ask of a volume, into a file.
//!
//! The daemon keeps requests for a moment only; this takes them several times a second. The file is CSV packed by zstd, a frame for each portion, so
//! that it can be read although the recording was interrupted.

use std::fs::File;
use std::io::Write;
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
use crate::trace::CSV_HEADER;

/// How often requests are taken: in this time the daemon has room for as many as a volume answers at its best.
const INTERVAL: Duration = Duration::from_millis(200);
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
}

pub(crate) fn run(client: &Client, output: Output, verb: TraceVerb) -> Result<(), ApiError> {
    let TraceVerb::Record { name, seconds, out, limit: Size(limit_bytes) } = verb;
    let mut file = TraceFile::create(&out, limit_bytes)?;
    let (why, elapsed) = record(client, output, name.as_str(), &mut file, Duration::from_secs(seconds))?;
    let written = Written {
        volume: name.to_string(),
        path: super::print::absolute(&out)?,
        requests: file.requests,
        dropped_requests: file.dropped,
        size_bytes: file.size_bytes,
        seconds: elapsed.as_secs_f64(),
        ended: why.word(),
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
    client.send::<Recording>(Method::PUT, &path, &())?;
    let began = Instant::now();
    let what = format!("recording {volume}");
    let mut shown = Shown::for_a_time(output, what.clone());
    let recorded = take_all(client, &path, file, (began, time), |elapsed, file| {
        shown.at_time(&what, elapsed, time, &format!("{} requests", grouped(file.requests)));
    });
    shown.finish();
    let elapsed = began.elapsed();
    // Whatever went wrong: nobody takes any more.
    let ended: Result<Recording, ApiError> = client.delete(&path);
    // And what was taken is kept.
    let kept = file.end();
    let why = recorded?;
    ended?;
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
}

impl Written {
    fn text(&self) -> String {
        let Self { volume, path, requests, dropped_requests, size_bytes, ended, .. } = self;
        let end = match *ended {
            "limit" => "; it ended early, for the file has its largest size (--limit)",
            "daemon" => "; it ended early, for the volume was opened anew",
            _ => "",
        };
        let lost = match dropped_requests {
            0 => String::new(),
            dropped => format!(", {} came too fast and are missing", grouped(*dropped)),
        };
        let (requests, size) = (grouped(*requests), human(*size_bytes));
        format!("Recorded {requests} requests of volume {volume}{lost}, {size} in {path}{end}\n")
    }
}

fn take_all(
    client: &Client,
    path: &str,
    file: &mut TraceFile,
    (began, time): (Instant, Duration),
    mut told: impl FnMut(Duration, &TraceFile),
) -> Result<End, ApiError> {
    loop {
        std::thread::sleep(INTERVAL.min(time.saturating_sub(began.elapsed())));
        let recorded: Recorded = client.take_exactly(path)?;
        if recorded.ended {
            return Ok(End::Daemon);
        }
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

/// The file that is written.
pub(super) struct TraceFile {
    file: File,
    path: String,
    waiting: String,
    /// When the next frame is written at the latest, since the recording began: the first one at once, so that the file is a trace.
    due: Duration,
    pub(super) requests: u64,
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
        Ok(Self::begin(file, shown, limit_bytes))
    }

    fn begin(file: File, path: String, limit_bytes: u64) -> Self {
        let waiting = format!("{CSV_HEADER}\n");
        Self { file, path, waiting, due: Duration::ZERO, requests: 0, dropped: 0, size_bytes: 0, limit_bytes }
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
            self.waiting.push_str(&format!("# {} requests are missing here\n", recorded.dropped));
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

    fn write(&mut self) -> Result<(), ApiError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let packed = compress_to_vec(self.waiting.as_bytes(), CompressionLevel::Fastest);
        self.file.write_all(&packed).map_err(|error| failed(&self.path, &error))?;
        self.size_bytes += u64::try_from(packed.len()).expect("it is in memory");
        self.waiting.clear();
        Ok(())
    }
}

fn failed(path: &str, error: &std::io::Error) -> ApiError {
    ApiError::new(ApiErrorKind::Device, format!("trace {path}: {error}"))
}

#[cfg(test)]
mod tests {
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
}
