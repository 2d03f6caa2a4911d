//! The text that `blkparse` makes of what `blktrace` recorded, in its default format.
//!
//! A request passes several points; each is counted once, where it was queued, or issued, or completed: the first of these that the trace has.

use hotset_cache::advisor::access::Direction;

use super::request::{OneDevice, Request, number, range};

const SECTOR: u64 = 512;

/// What is told of a request, in the order of preference: queued, issued to the driver, completed.
const ACTIONS: [&str; 3] = ["Q", "D", "C"];

pub(super) struct BlkparseReader {
    action: &'static str,
    device: OneDevice,
}

/// Fields of a line that tells of a point that a request passed.
struct Event<'a> {
    device: &'a str,
    time: &'a str,
    action: &'a str,
    kind: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Event<'a> {
    /// Other lines are of the summary at the end.
    fn of(line: &'a str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let device = fields.next()?;
        let (major, minor) = device.split_once(',')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(major) || !is_number(minor) {
            return None;
        }
        let (cpu, sequence, time, process) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (seconds, fraction) = time.split_once('.')?;
        if ![cpu, sequence, seconds, fraction, process].into_iter().all(is_number) {
            return None;
        }
        Some(Self { device, time, action: fields.next()?, kind: fields.next()?, rest: fields.collect() })
    }

    fn has_sectors(&self) -> bool {
        self.rest.get(1) == Some(&"+")
    }

    fn time_us(&self) -> Option<u64> {
        let (seconds, fraction) = self.time.split_once('.')?;
        let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)
    }
}

impl BlkparseReader {
    pub(super) fn of(head: &[String]) -> Option<Self> {
        let events: Vec<Event<'_>> = head.iter().filter_map(|line| Event::of(line)).collect();
        let is_there = |action: &&str| events.iter().any(|event| event.action == *action);
        // Commands that pass the block layer by are never queued: they do not tell where requests were seen.
        let has_sectors = |action: &&str| events.iter().any(|event| event.action == *action && event.has_sectors());
        let action = ACTIONS.into_iter().find(has_sectors).or_else(|| ACTIONS.into_iter().find(is_there))?;
        Some(Self { action, device: OneDevice::default() })
    }

    pub(super) fn request(&mut self, line: &str) -> Result<Option<Request>, String> {
        let Some(event) = Event::of(line).filter(|event| event.action == self.action) else { return Ok(None) };
        // Discards move no data; messages and plugs have no kind.
        let direction = match event.kind {
            kind if kind.contains('D') || kind.contains('N') => return Ok(None),
            kind if kind.contains('R') => Direction::Read,
            kind if kind.contains('W') => Direction::Write,
            _ => return Ok(None),
        };
        let [sector, "+", count, ..] = event.rest[..] else {
            return if moves_nothing(&event.rest) {
                Ok(None)
            } else {
                Err("expected a sector, \"+\" and the number of sectors".to_owned())
            };
        };
        self.device.check(event.device)?;
        let in_bytes = |sectors: u64| {
            sectors.checked_mul(SECTOR).ok_or_else(|| format!("sector {sectors}: expected one of a device that can be"))
        };
        let (start, length) =
            (in_bytes(number(sector, "a sector")?)?, in_bytes(number(count, "a number of sectors")?)?);
        Ok(Some(Request { time_us: event.time_us(), range: range(start, length)?, direction }))
    }
}

/// A flush has a sector at most, when it completes; a command that passes the block layer by, such as those of smartctl, has how many bytes go
/// with it, at most, and those of the command. What follows is in brackets.
fn moves_nothing(rest: &[&str]) -> bool {
    let is_bracket = |word: &&str| word.starts_with(['[', '(']);
    let after_number = match rest {
        [first, rest @ ..] if first.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        other => other,
    };
    after_number.first().is_none_or(is_bracket)
}
