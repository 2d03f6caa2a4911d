//! A request of a trace, and what lines of traces are made of.

use hotset_block::ByteRange;
use hotset_cache::advisor::access::Direction;

/// A request of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Since some moment of the trace's own, if it has times.
    pub(crate) time_us: Option<u64>,
    pub(crate) range: ByteRange,
    pub(crate) direction: Direction,
}

/// What a format's lines are made of.
pub(super) fn number(field: &str, what: &str) -> Result<u64, String> {
    field.trim().parse().map_err(|_| format!("expected {what}, found {field:?}"))
}

pub(super) fn range(offset: u64, length: u64) -> Result<ByteRange, String> {
    let end =
        offset.checked_add(length).ok_or_else(|| format!("a request at byte {offset} of {length} bytes has no end"))?;
    Ok(ByteRange { start: offset, end })
}

/// All requests are of one device: those of several have the same addresses.
#[derive(Default)]
pub(super) struct OneDevice(Option<String>);

impl OneDevice {
    pub(super) fn check(&mut self, name: &str) -> Result<(), String> {
        match &self.0 {
            Some(first) if first == name => Ok(()),
            Some(first) => Err(format!(
                "a request of {name:?}: expected those of one device, as {first:?} before; split the trace"
            )),
            None => {
                self.0 = Some(name.to_owned());
                Ok(())
            }
        }
    }
}
