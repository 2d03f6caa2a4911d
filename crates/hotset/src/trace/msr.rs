//! CSV of the MSR Cambridge traces (SNIA IOTTA): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in units of 100 ns.

use hotset_cache::advisor::access::Direction;

use super::request::{OneDevice, Request, number, range};

#[derive(Default)]
pub(super) struct MsrReader {
    disk: OneDevice,
}

fn direction(word: &str) -> Option<Direction> {
    match word.trim() {
        "Read" | "read" => Some(Direction::Read),
        "Write" | "write" => Some(Direction::Write),
        _ => None,
    }
}

pub(super) fn is_line(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').collect();
    let is_request = |fields: &[&str]| fields[0].trim().parse::<u64>().is_ok() && direction(fields[3]).is_some();
    fields.len() == 7 && (is_request(&fields) || is_header(line))
}

fn is_header(line: &str) -> bool {
    line.trim_start().starts_with("Timestamp,Hostname,")
}

impl MsrReader {
    pub(super) fn request(&mut self, line: &str) -> Result<Option<Request>, String> {
        if line.trim().is_empty() || is_header(line) {
            return Ok(None);
        }
        let fields: Vec<&str> = line.split(',').collect();
        let [time, host, disk, kind, offset, length, _] = fields[..] else {
            return Err("expected Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime".to_owned());
        };
        let direction = direction(kind).ok_or_else(|| format!("expected Read or Write, found {kind:?}"))?;
        self.disk.check(&format!("{host},{disk}"))?;
        let (offset, length) = (number(offset, "an offset in bytes")?, number(length, "a size in bytes")?);
        let time_us = Some(number(time, "a time in units of 100 ns")? / 10);
        Ok(Some(Request { time_us, range: range(offset, length)?, direction }))
    }
}
