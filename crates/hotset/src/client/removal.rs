//! Removals that flush first: one request that is answered when all is done, and beside it the progress, and Ctrl-C.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use hotset_api::{ApiError, ApiErrorKind, Flush, FlushCancelled, Removal};
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};

use super::http::{Client, request};
use super::print::{print, tell};
use crate::args::{Output, RemovalArguments};
use crate::size::human;

/// How often the daemon is asked how far it is.
pub(super) const TICK: Duration = Duration::from_millis(300);

/// How often a line is printed where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Removes what is at `path`; `flush_path` is where its flush is, if it needs one.
pub(super) fn remove<T: DeserializeOwned>(
    client: &Client,
    output: Output,
    path: &str,
    flush_path: &str,
    arguments: RemovalArguments,
) -> Result<T, ApiError> {
    let removal = Removal { force: arguments.force, lose_data: arguments.yes_lose_data };
    let body = serde_json::to_vec(&removal).expect("the API's types have string keys only");
    client.block_on(async {
        let failed = |error| ApiError::new(ApiErrorKind::Internal, format!("signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut shown = Shown::new(output, "Flushing");
        let mut ticks = tokio::time::interval(TICK);
        // The first tick comes at once: most removals are done before the second.
        ticks.tick().await;
        let mut done = std::pin::pin!(request(client.door(), Method::DELETE, path, body));
        loop {
            tokio::select! {
                outcome = &mut done => {
                    shown.finish();
                    return outcome;
                }
                _ = ticks.tick() => {
                    let flush = request::<Flush>(client.door(), Method::GET, flush_path, Vec::new()).await;
                    if let Ok(flush) = flush {
                        shown.show(&flush);
                    }
                }
                _ = interrupt.recv() => {
                    // The removal's own answer says what became of it.
                    let _ = request::<FlushCancelled>(client.door(), Method::DELETE, flush_path, Vec::new()).await;
                }
            }
        }
    })
}

/// The `cancel-flush` verbs.
pub(super) fn cancel(client: &Client, output: Output, what: &str, flush_path: &str) -> Result<(), ApiError> {
    let cancelled: FlushCancelled = client.delete(flush_path)?;
    print(output, &cancelled, |cancelled| match cancelled.changed {
        true => format!("Cancelled the flush of {what} {}: writes are cached again\n", cancelled.name),
        false => format!("No flush of {what} {} is under way\n", cancelled.name),
    })
}

/// A bar on a terminal, lines elsewhere, nothing for programs; on standard error, because it is no result.
pub(crate) struct Shown {
    bar: ProgressBar,
    lines: bool,
    last_line: Option<Instant>,
}

impl Shown {
    /// `what` is being done.
    pub(crate) fn new(output: Output, what: &'static str) -> Self {
        let bytes = "{prefix} [{bar:30}] {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {msg}";
        Self::drawn(output, what.to_owned(), bytes)
    }

    /// `what` is done for a time that is known.
    pub(super) fn for_a_time(output: Output, what: String) -> Self {
        Self::drawn(output, what, "{prefix} [{bar:30}] {msg}")
    }

    fn drawn(output: Output, what: String, template: &str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let mut bar = ProgressBar::hidden();
        if output == Output::Text && terminal {
            let style = ProgressStyle::with_template(template).expect("the template is valid");
            bar = ProgressBar::new(0).with_style(style).with_prefix(what);
        }
        Self { bar, lines: output == Output::Text && !terminal, last_line: None }
    }

    fn show(&mut self, flush: &Flush) {
        let total_bytes = flush.drained_bytes + flush.dirty_bytes;
        self.at(flush.drained_bytes, total_bytes, flush.eta_seconds, || line(flush));
    }

    /// How far it is; `line` says the same where there is no terminal.
    pub(crate) fn at(
        &mut self,
        done_bytes: u64,
        total_bytes: u64,
        eta_seconds: Option<u64>,
        line: impl FnOnce() -> String,
    ) {
        self.draw(done_bytes, total_bytes, time_left(eta_seconds), line);
    }

    /// So much of that time has passed; `told` is what came of it.
    pub(super) fn at_time(&mut self, what: &str, elapsed: Duration, time: Duration, told: &str) {
        let left = time.saturating_sub(elapsed).as_secs();
        let message = format!("{told}, {}", time_left(Some(left)));
        self.draw(elapsed.as_secs(), time.as_secs(), message.clone(), || format!("{what}: {message}"));
    }

    fn draw(&mut self, done: u64, total: u64, message: String, line: impl FnOnce() -> String) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(message);
        if self.lines && self.last_line.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
            tell(&line());
            self.last_line = Some(Instant::now());
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How far a flush is, in one line.
pub(super) fn line(flush: &Flush) -> String {
    let total = human(flush.drained_bytes + flush.dirty_bytes);
    let rate = flush.drained_bytes / flush.elapsed_seconds.max(1);
    format!(
        "flushing {} for {}: {} of {total}, {}/s, {}",
        flush.name,
        flush.purpose.word(),
        human(flush.drained_bytes),
        human(rate),
        time_left(flush.eta_seconds)
    )
}

pub(crate) fn time_left(eta_seconds: Option<u64>) -> String {
    eta_seconds.map_or_else(|| "time left unknown".to_owned(), |seconds| format!("{seconds} s left"))
}

#[cfg(test)]
mod tests {
    use hotset_api::FlushPurpose;

    use super::*;

    #[test]
    fn a_line_says_how_much_is_done_how_fast_and_how_long_it_takes() {
        let flush = Flush {
            purpose: FlushPurpose::DeletePool,
            name: "p".into(),
            dirty_bytes: 3 << 20,
            drained_bytes: 1 << 20,
            elapsed_seconds: 2,
            eta_seconds: Some(6),
        };
        assert_eq!(line(&flush), "flushing p for delete-pool: 1 MiB of 4 MiB, 512 KiB/s, 6 s left");
        let young = Flush { elapsed_seconds: 0, eta_seconds: None, ..flush };
        assert!(line(&young).ends_with("1 MiB/s, time left unknown"), "{}", line(&young));
    }
}
