//! fio's iolog, versions 2 and 3 (`--write_iolog`): the latter has a time in microseconds before each line.

use hotset_cache::advisor::access::Direction;

use super::request::{OneDevice, Request, number, range};

pub(super) struct IologReader {
    version: IologVersion,
    file: OneDevice,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IologVersion {
    Two,
    Three,
}

impl IologReader {
    pub(super) fn of(first: &str) -> Option<Self> {
        let version = match first.trim() {
            "fio version 2 iolog" => IologVersion::Two,
            "fio version 3 iolog" => IologVersion::Three,
            _ => return None,
        };
        Some(Self { version, file: OneDevice::default() })
    }

    pub(super) fn request(&mut self, line: &str) -> Result<Option<Request>, String> {
        if line.trim().is_empty() || line.starts_with("fio version ") {
            return Ok(None);
        }
        let (time_us, rest) = self.time(line)?;
        // A file's name may have blanks: it ends before the action, which is followed by nothing or by two numbers.
        let mut words = rest.rsplitn(2, ' ');
        let last = words.next().unwrap_or_default();
        if matches!(last, "add" | "open" | "close") {
            return Ok(None);
        }
        let fields: Vec<&str> = rest.rsplitn(4, ' ').collect();
        let [length, offset, action, file] = fields[..] else {
            return Err("expected a file, an action, an offset and a length".to_owned());
        };
        let direction = match action {
            "read" => Direction::Read,
            "write" => Direction::Write,
            "wait" | "sync" | "datasync" | "trim" => return Ok(None),
            _ => {
                return Err(format!(
                    "expected read, write, wait, sync, datasync, trim, add, open or close, found {action:?}"
                ));
            }
        };
        self.file.check(file)?;
        let (offset, length) = (number(offset, "an offset in bytes")?, number(length, "a length in bytes")?);
        Ok(Some(Request { time_us, range: range(offset, length)?, direction }))
    }

    fn time<'a>(&self, line: &'a str) -> Result<(Option<u64>, &'a str), String> {
        if self.version == IologVersion::Two {
            return Ok((None, line));
        }
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        Ok((Some(number(time, "a time in microseconds")?), rest))
    }
}
