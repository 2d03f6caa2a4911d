//! The log: lines to standard error, which is not ours. Who reads it may be gone, slow or full, and none of that may
//! stop or slow the daemon.
//!
//! Whoever logs puts a line into a bounded queue and goes on; one thread writes. At the bound, and when writing fails, lines
//! are dropped and counted, and `trouble` tells for a while. Nothing here logs. Every line is one line: control characters
//! that come from elsewhere are escaped.
//!
//! Why not `tracing-appender`: it bounds lines and not bytes, counts nothing of what its thread could not write, and holds
//! the lock of the standard error while it waits, for which a panic would wait too.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::counters::Counters;
use crate::escape::escaped;
use crate::running_time::in_slices;

/// Bytes that wait to be written.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// How long a writer that would have to wait (a descriptor that somebody made non-blocking) rests.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// How long lines must have been written without a loss until all is well again.
const CALM: Duration = Duration::from_secs(60);

/// How long the end of the daemon, or of a thread that panics, waits for the last lines.
pub(super) const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);

/// Where the lines go. A handle: cloning it is cheap.
#[derive(Clone)]
pub(super) struct LogSink {
    shared: Arc<SharedQueue>,
}

struct SharedQueue {
    queue: Mutex<Queue>,
    /// There is a line, or none any more.
    changed: Condvar,
    counters: Counters,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A line was taken and is not written yet.
    writing: bool,
    /// Dropped since this was told in the log.
    untold: usize,
    trouble: Option<Trouble>,
}

/// The last line that was dropped.
struct Trouble {
    why: String,
    last: Instant,
    /// Nothing was written since.
    lasts: bool,
}

/// What is logged can be changed while the daemon runs.
pub(super) struct Log {
    pub(super) sink: LogSink,
    set_filter: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
}

impl Log {
    /// Begins to log to standard error what `filter` lets through. Panics are logged too.
    pub(super) fn start(filter: &str, counters: Counters) -> Result<Self, String> {
        let filter = parse(filter)?;
        let stderr = io::stderr().as_fd().try_clone_to_owned();
        let stderr = stderr.map_err(|error| format!("standard error: {error}"))?;
        let sink = LogSink::start(File::from(stderr), counters).map_err(|error| format!("log: {error}"))?;
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(sink.clone());
        // Colours would be control characters, and those are escaped.
        let log = log.with_ansi(false).with_target(false).with_filter_reloading();
        let handle = log.reload_handle();
        log.init();
        let set_filter = Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
        sink.log_panics();
        Ok(Self { sink, set_filter })
    }

    /// Logs from now on what `filter` lets through.
    pub(super) fn set_filter(&self, filter: &str) -> Result<(), String> {
        (self.set_filter)(parse(filter)?)
    }
}

/// # Errors
/// What is wrong with a filter, for people.
pub(super) fn check_filter(filter: &str) -> Result<(), String> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("log filter {filter:?}: {error}"))
}

impl LogSink {
    fn start(out: impl Write + Send + 'static, counters: Counters) -> io::Result<Self> {
        let shared = Arc::new(SharedQueue { queue: Mutex::default(), changed: Condvar::new(), counters });
        let writer = Arc::clone(&shared);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_forever(out))?;
        Ok(Self { shared })
    }

    /// One line, with its line end.
    fn add(&self, line: Vec<u8>) {
        let mut queue = self.shared.queue();
        if queue.bytes + line.len() > QUEUE_BYTES_MAX {
            self.shared.lost(&mut queue, "nobody reads it, or too slowly");
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Why lines are dropped, or were of late.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut queue = self.shared.queue();
        if queue.trouble.as_ref().is_some_and(|trouble| !trouble.lasts && trouble.last.elapsed() >= CALM) {
            queue.trouble = None;
        }
        queue.trouble.as_ref().map(|trouble| trouble.why.clone())
    }

    /// Waits until all lines are written, or dropped, or the time is over.
    pub(super) fn wait_written(&self, limit: Duration) {
        let busy = |queue: &mut Queue| queue.writing || !queue.lines.is_empty();
        in_slices(limit, |slice| match self.shared.changed.wait_timeout_while(self.shared.queue(), slice, busy) {
            Ok((_, waited)) if waited.timed_out() => ControlFlow::Continue(()),
            Ok(_) | Err(_) => ControlFlow::Break(()),
        });
    }

    /// From now on a panic is logged, and waits no longer than [`LAST_WORDS_LIMIT`] for that.
    fn log_panics(&self) {
        let sink = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let backtrace = std::backtrace::Backtrace::capture();
            let text = format!("thread '{}' {panic}\n{backtrace}\n", thread.name().unwrap_or("unnamed"));
            for line in text.lines() {
                sink.add(format!("{}\n", escaped(line)).into_bytes());
            }
            sink.wait_written(LAST_WORDS_LIMIT);
        }));
    }
}

impl SharedQueue {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_forever(&self, mut out: impl Write) {
        // Whether the last line was cut in the middle.
        let mut cut = false;
        loop {
            let line = self.next();
            let written = write_whole(&mut out, &line, &mut cut);
            let mut queue = self.queue();
            queue.writing = false;
            match written {
                Ok(()) => queue.trouble.iter_mut().for_each(|trouble| trouble.lasts = false),
                Err(error) => self.lost(&mut queue, &error.to_string()),
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// The next line; before it, if lines were dropped, one that says so.
    fn next(&self) -> Vec<u8> {
        let mut queue = self.queue();
        loop {
            if let Some(mut line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.writing = true;
                let untold = std::mem::take(&mut queue.untold);
                if untold > 0 {
                    line.splice(..0, format!("{untold} lines of this log were dropped here\n").into_bytes());
                }
                return line;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lost(&self, queue: &mut Queue, why: &str) {
        queue.untold += 1;
        queue.trouble = Some(Trouble { why: why.to_owned(), last: Instant::now(), lasts: true });
        self.counters.log_lines_dropped(1);
    }
}

/// All of it. Where the line before was cut, this one begins anew.
fn write_whole(out: &mut impl Write, line: &[u8], cut: &mut bool) -> io::Result<()> {
    let begin: &[u8] = if *cut { b"\n" } else { b"" };
    let mut rest: &[u8] = &[begin, line].concat();
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                rest = &rest[count..];
                *cut = !rest.is_empty();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(RETRY_PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl<'a> MakeWriter<'a> for LogSink {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Every call is one event: that is how the subscriber writes.
impl Write for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.add(format!("{}\n", escaped(text.trim_end_matches('\n'))).into_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Writes what it is let: nothing without a permit, and errors where it is told so.
    struct Gated {
        permits: mpsc::Receiver<Result<(), i32>>,
        out: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.permits.recv() {
                Ok(Ok(())) => {
                    let _ = self.out.send(bytes.to_vec());
                    Ok(bytes.len())
                }
                Ok(Err(code)) => Err(io::Error::from_raw_os_error(code)),
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type GatedSink = (LogSink, Counters, mpsc::Sender<Result<(), i32>>, mpsc::Receiver<Vec<u8>>);

    fn gated() -> GatedSink {
        let ((permits, inbox), (out, written)) = (mpsc::channel(), mpsc::channel());
        let counters = Counters::default();
        let sink = LogSink::start(Gated { permits: inbox, out }, counters.clone()).unwrap();
        (sink, counters, permits, written)
    }

    fn dropped(counters: &Counters) -> u64 {
        counters.now().log_lines_dropped
    }

    #[test]
    fn who_logs_never_waits_for_one_who_does_not_read_and_what_is_dropped_is_counted() {
        let (mut sink, counters, permits, written) = gated();
        let line = [b'x'; 1 << 10];
        for _ in 0..2 * (QUEUE_BYTES_MAX >> 10) {
            sink.write_all(&line).unwrap();
        }
        assert!(dropped(&counters) > 900, "{}", dropped(&counters));
        assert!(sink.trouble().is_some());
        sink.wait_written(Duration::from_millis(10));
        permits.send(Ok(())).unwrap();
        assert_eq!(written.recv().unwrap().len(), line.len() + 1, "what waited is written when it can be");
    }

    #[test]
    fn a_sink_that_fails_costs_lines_and_says_so_when_it_works_again() {
        let (mut sink, counters, permits, written) = gated();
        permits.send(Err(28)).unwrap();
        sink.write_all(b"lost\n").unwrap();
        sink.wait_written(Duration::from_secs(10));
        assert_eq!(dropped(&counters), 1);
        assert!(sink.trouble().is_some_and(|why| why.contains("No space")), "{:?}", sink.trouble());
        permits.send(Ok(())).unwrap();
        sink.write_all(b"kept\n").unwrap();
        let text = String::from_utf8(written.recv().unwrap()).unwrap();
        assert_eq!(text, "1 lines of this log were dropped here\nkept\n");
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let (mut sink, _, permits, written) = gated();
        permits.send(Ok(())).unwrap();
        sink.write_all("WARN name\n\x1b]0;evil\x07 é\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(written.recv().unwrap()).unwrap(), "WARN name\\n\\u{1b}]0;evil\\u{7} é\n");
    }

    #[test]
    fn a_line_after_one_that_was_cut_begins_anew() {
        struct Short(Vec<u8>);
        impl Write for Short {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if self.0.len() == 2 {
                    self.0.push(b'|');
                    return Err(io::Error::from_raw_os_error(28));
                }
                let count = if self.0.is_empty() { 2 } else { bytes.len() };
                self.0.extend_from_slice(&bytes[..count]);
                Ok(count)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut out, mut cut) = (Short(Vec::new()), false);
        assert!(write_whole(&mut out, b"first\n", &mut cut).is_err() && cut);
        write_whole(&mut out, b"second\n", &mut cut).unwrap();
        assert_eq!((out.0.as_slice(), cut), (&b"fi|\nsecond\n"[..], false));
    }
}
