//! What verbs print: for people or for programs, and whether anybody still reads it.

use std::io::{ErrorKind, Write};

use hotset_api::{ApiError, ApiErrorKind};
use serde::Serialize;

use crate::args::Output;
use crate::escape::{escaped_json, escaped_lines};

/// Prints `value` for programs, or what `text` makes of it for people.
pub(crate) fn print<T: Serialize>(output: Output, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), ApiError> {
    let printed = match output {
        Output::Text => text(value),
        Output::Json => json(value),
    };
    write_out(&printed)
}

/// `value` as indented JSON with a line end.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("the API's types have string keys only");
    text.push('\n');
    escaped_json(&text)
}

/// `value` as one line of JSON.
pub(super) fn json_line<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string(value).expect("the API's types have string keys only");
    text.push('\n');
    escaped_json(&text)
}

/// Whether there is somebody who reads what a verb prints again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    There,
    Left,
}

/// Writes to standard output. A reader that went away (`| head`) has what it wanted: that is no error. Whatever is in it,
/// a terminal is told to do nothing but show it.
pub(crate) fn write_out(text: &str) -> Result<(), ApiError> {
    write_more(text).map(|_| ())
}

/// The same for a verb that goes on, and ends when nobody reads any more.
pub(crate) fn write_more(text: &str) -> Result<Audience, ApiError> {
    write_as_it_is(&escaped_lines(text))
}

/// For sequences of our own that a terminal is to obey.
pub(super) fn write_as_it_is(text: &str) -> Result<Audience, ApiError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Audience::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Audience::Left),
        Err(error) => Err(ApiError::new(ApiErrorKind::Internal, format!("standard output: {error}"))),
    }
}

/// Writes a line to standard error. Where nobody takes it, nobody is left to tell.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escaped_lines(line));
}

/// A path of the command line for the daemon.
pub(super) fn absolute(path: &std::path::Path) -> Result<String, ApiError> {
    let spelled = path.to_str().map_or_else(|| crate::paths::absolute(path), crate::paths::absolute_backing);
    spelled.map_err(|error| ApiError::new(ApiErrorKind::Invalid, format!("{}: {error}", path.display())))
}
