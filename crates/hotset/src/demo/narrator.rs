//! What the demo says while it works; results are printed elsewhere.

use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Output;
use crate::client::tell;

/// Tells what is going on: bars on a terminal, lines elsewhere. Results go to standard output, this does not.
pub(super) struct Narrator {
    pub(super) output: Output,
    pub(super) terminal: bool,
}

impl Narrator {
    pub(super) fn say(&self, line: &str) {
        match self.output {
            Output::Text => tell(line),
            Output::Json => {}
        }
    }

    pub(super) fn ticks(&self, what: &str, duration: Duration) -> Ticks {
        let drawn = self.terminal && self.output == Output::Text;
        let bar = if drawn { bar(what, duration) } else { ProgressBar::hidden() };
        Ticks { bar, lines: !drawn && self.output == Output::Text, what: what.to_owned() }
    }
}

fn bar(what: &str, duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:30} [{bar:30}] {msg}").expect("the template is valid");
    ProgressBar::new(millis(duration)).with_style(style).with_prefix(what.to_owned())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The progress of one load.
pub(super) struct Ticks {
    bar: ProgressBar,
    lines: bool,
    what: String,
}

impl Ticks {
    pub(super) fn tick(&self, elapsed: Duration, message: &str) {
        self.bar.set_position(millis(elapsed));
        self.bar.set_message(message.to_owned());
    }

    pub(super) fn finish(&self, message: &str) {
        self.bar.finish_with_message(message.to_owned());
        if self.lines {
            tell(&format!("{:30} {message}", self.what));
        }
    }
}

/// What a step of the demo failed with.
pub(super) fn failed(error: std::io::Error) -> ApiError {
    ApiError::new(ApiErrorKind::Device, format!("demo: {error}"))
}
