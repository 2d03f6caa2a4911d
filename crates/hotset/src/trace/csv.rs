//! Our own CSV: `time_us,op,offset_bytes,length_bytes`, what `hotset trace record` writes. A line that begins with `#` says something about the trace.

use hotset_cache::advisor::access::Direction;

use super::request::{Request, number, range};

/// The first line.
pub(crate) const HEADER: &str = "time_us,op,offset_bytes,length_bytes";

const MISSING: [&str; 2] = ["# ", " requests are missing here"];

/// What says that so many requests came faster than they could be recorded.
pub(crate) fn missing_line(requests: u64) -> String {
    let [before, after] = MISSING;
    format!("{before}{requests}{after}\n")
}

/// How many requests a line says are missing; `None`: it says nothing of that.
pub(super) fn missing(line: &str) -> Option<u64> {
    let [before, after] = MISSING;
    line.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
}

pub(super) fn is_header(line: &str) -> bool {
    line.trim() == HEADER
}

pub(super) fn request(line: &str) -> Result<Option<Request>, String> {
    if line.is_empty() || line.starts_with('#') || is_header(line) {
        return Ok(None);
    }
    let mut fields = line.split(',');
    let (Some(time), Some(op), Some(offset), Some(length), None) =
        (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(format!("expected four fields, {HEADER}"));
    };
    let direction = match op {
        "R" | "r" => Direction::Read,
        "W" | "w" => Direction::Write,
        _ => return Err(format!("expected R or W, found {op:?}")),
    };
    let (offset, length) = (number(offset, "an offset in bytes")?, number(length, "a length in bytes")?);
    let time_us = Some(number(time, "a time in microseconds")?);
    Ok(Some(Request { time_us, range: range(offset, length)?, direction }))
}
