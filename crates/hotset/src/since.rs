//! From when on events are wanted: so long ago, or a time as people write it. Without a zone it is that of this machine, as journalctl has it;
//! what Hotset prints is in UTC, and says so with a Z.

use std::str::FromStr;

use hotset_block::{WallClock, local_date_of, unix_seconds_of_local};
use hotset_cache::DateTime;

use crate::clock::unix_ms;

const DAY_S: u64 = 24 * 3600;

/// A moment, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(pub(crate) u64);

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let clock = Clock { now_s: unix_ms() / 1000, seconds_of: unix_seconds_of_local, date_of: local_date_of };
        clock.moment(text.trim()).map(Self).ok_or_else(|| {
            format!(
                "{text:?}: it is so long ago, as 90s, 10m, 2h or 7d, or a time of this machine's zone, as 2026-11-26, \"2026-11-26 \
                 12:00\", 12:00, today or yesterday; Z behind a time means UTC, +01:00 that zone"
            )
        })
    }
}

/// What time it is, and where.
struct Clock {
    now_s: u64,
    seconds_of: fn(WallClock) -> Option<u64>,
    date_of: fn(u64) -> Option<[u64; 3]>,
}

impl Clock {
    fn moment(&self, text: &str) -> Option<u64> {
        let today = || (self.date_of)(self.now_s);
        match text {
            "now" => return Some(self.now_s),
            "today" => return (self.seconds_of)((today()?, [0; 3])),
            // Noon of today is less than two days and more than half a day after each time of yesterday, whatever clocks do.
            "yesterday" => {
                let noon = (self.seconds_of)((today()?, [12, 0, 0]))?;
                return (self.seconds_of)(((self.date_of)(noon.checked_sub(DAY_S)?)?, [0; 3]));
            }
            _ => {}
        }
        if let Some(seconds) = seconds_ago(text) {
            return Some(self.now_s.saturating_sub(seconds));
        }
        let (written, zone) = without_zone(text)?;
        let (date, time) = match written.split_once(['T', ' ']) {
            Some((date, time)) => (Some(date), time.trim()),
            None if written.contains(':') => (None, written),
            None => (Some(written), "00:00"),
        };
        let date = date.map_or_else(today, |date| numbers(date, '-', [4, 2, 2]))?;
        let time = numbers(time, ':', [2, 2, 2]).or_else(|| numbers(&format!("{time}:00"), ':', [2, 2, 2]))?;
        match zone {
            Zone::OfThisMachine if time[0] < 24 && time[1] < 60 && time[2] < 60 => (self.seconds_of)((date, time)),
            Zone::OfThisMachine => None,
            Zone::East(seconds) => utc(date, time)?.checked_add_signed(-seconds),
        }
    }
}

/// Which one a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    OfThisMachine,
    /// So many seconds before UTC.
    East(i64),
}

/// `2h`, `-2h` and `2h ago` are the same.
fn seconds_ago(text: &str) -> Option<u64> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text.strip_suffix("ago").map_or(text, str::trim_end);
    let unit_s = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => DAY_S,
        'w' => 7 * DAY_S,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit_s)
}

/// A time, and the zone that is written behind it.
fn without_zone(text: &str) -> Option<(&str, Zone)> {
    if let Some(written) = text.strip_suffix('Z').or_else(|| text.strip_suffix("UTC")) {
        return Some((written.trim_end(), Zone::East(0)));
    }
    // The signs of a date stand before its time.
    let signs = text.find(':').and_then(|time| text[time..].find(['+', '-']).map(|sign| time + sign));
    let Some(at) = signs else { return Some((text, Zone::OfThisMachine)) };
    let (written, zone) = text.split_at(at);
    let (sign, zone) = zone.split_at(1);
    let [hours, minutes] = numbers(&zone.replace(':', ""), '+', [4]).map(|[number]| [number / 100, number % 100])?;
    let seconds = i64::try_from(hours * 3600 + minutes * 60).ok().filter(|_| hours < 15 && minutes < 60)?;
    Some((written.trim_end(), Zone::East(if sign == "-" { -seconds } else { seconds })))
}

fn utc([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<u64> {
    DateTime { year, month, day, hour, minute, second }.unix_seconds()
}

/// Numbers of so many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let parts: Vec<&str> = text.split(between).collect();
    let is_number = |(part, length): (&&str, &usize)| part.len() == *length && part.bytes().all(|c| c.is_ascii_digit());
    if parts.len() != N || !parts.iter().zip(&digits).all(is_number) {
        return None;
    }
    let numbers: Vec<u64> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use hotset_cache::date_and_time;

    use super::*;

    /// An hour east of Greenwich: half past one in the night of 2026-11-30, when it is the day before in UTC no more.
    fn moment(text: &str) -> Option<String> {
        let seconds_of = |(date, time): WallClock| utc(date, time).map(|seconds| seconds - 3600);
        let date_of = |seconds: u64| numbers(&date_and_time(seconds + 3600)[..10], '-', [4, 2, 2]);
        let now_s = utc([2026, 11, 30], [0, 30, 0]).unwrap();
        Clock { now_s, seconds_of, date_of }.moment(text).map(date_and_time)
    }

    // proves: O4
    #[test]
    fn a_time_without_a_zone_is_one_of_this_machine_and_one_with_a_zone_is_of_that() {
        for (text, is) in [
            ("2026-11-26", "2026-11-25T23:00:00Z"),
            ("2026-11-26 12:00", "2026-11-26T11:00:00Z"),
            ("2026-11-26T12:00:30", "2026-11-26T11:00:30Z"),
            ("2026-11-26T12:00:30Z", "2026-11-26T12:00:30Z"),
            ("2026-11-26Z", "2026-11-26T00:00:00Z"),
            ("2026-11-26 12:00 UTC", "2026-11-26T12:00:00Z"),
            ("2026-11-26T12:00+02:00", "2026-11-26T10:00:00Z"),
            ("2026-11-26 12:00 -0530", "2026-11-26T17:30:00Z"),
            ("00:15", "2026-11-29T23:15:00Z"),
            ("today", "2026-11-29T23:00:00Z"),
            ("yesterday", "2026-11-28T23:00:00Z"),
            ("now", "2026-11-30T00:30:00Z"),
            ("90s", "2026-11-30T00:28:30Z"),
            ("-2h", "2026-11-29T22:30:00Z"),
            ("2h ago", "2026-11-29T22:30:00Z"),
            ("1w", "2026-11-23T00:30:00Z"),
        ] {
            assert_eq!(moment(text).as_deref(), Some(is), "{text}");
        }
    }

    // proves: O4
    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "tuesday",
            "2026-11",
            "2026-11-31Z",
            "2026-11-26 25:00",
            "2026-11-26 12:60",
            "2026-11-26 12:00+15:00",
            "2026-11-26é",
            "5",
            "h",
            "-",
            "12:0",
            "26-11-2026",
            "2026-11-26T",
            "99999999999999999999d",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
        let error = "soon".parse::<Since>().unwrap_err();
        assert!(error.contains("this machine's zone") && error.contains("yesterday"), "{error}");
    }
}
