//! When the clock on the wall of this machine shows a time: by its time zone, or the one that TZ names.
//!
//! Why `unsafe`: the C library alone knows the zones, and its functions are foreign. Each is passed pointers to memory of the frame that
//! calls it. It reads the environment, which no part of Hotset changes.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// A date and a time of day as a clock of this machine's zone shows it: year, month from 1 and day from 1; hour, minute and second.
pub type WallClock = ([u64; 3], [u64; 3]);

/// Seconds since 1970 when it is so late. Where the clock shows a time twice, one of the two. `None`: there is no such date, or it is
/// before 1970.
pub fn unix_seconds_of_local((date, time): WallClock) -> Option<u64> {
    let number = |value: u64| c_int::try_from(value).ok();
    let [year, month, day] = date;
    // SAFETY: all zeroes are a valid value of a structure of numbers and a pointer that nobody follows.
    let mut parts: libc::tm = unsafe { MaybeUninit::zeroed().assume_init() };
    (parts.tm_year, parts.tm_mon, parts.tm_mday) =
        (number(year)?.checked_sub(1900)?, number(month)?.checked_sub(1)?, number(day)?);
    (parts.tm_hour, parts.tm_min, parts.tm_sec) = (number(time[0])?, number(time[1])?, number(time[2])?);
    // Whether it is summer is for the zone to say.
    parts.tm_isdst = -1;
    // SAFETY: the pointer is to `parts`, which lives until the call is over.
    let seconds = unsafe { libc::mktime(&raw mut parts) };
    // The 30th of February has become one of March.
    let is_that_day = number(month)?.checked_sub(1)? == parts.tm_mon && number(day)? == parts.tm_mday;
    u64::try_from(seconds).ok().filter(|_| is_that_day)
}

/// The date that a clock of this machine's zone shows then: year, month and day. `None`: no calendar goes so far.
pub fn local_date_of(unix_seconds: u64) -> Option<[u64; 3]> {
    let seconds = libc::time_t::try_from(unix_seconds).ok()?;
    let mut parts = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are to memory of this frame.
    let filled = unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) };
    if filled.is_null() {
        return None;
    }
    // SAFETY: the call has filled it, for it answered with a pointer to it.
    let parts = unsafe { parts.assume_init() };
    let number = |value: c_int| u64::try_from(value).ok();
    Some([number(parts.tm_year.checked_add(1900)?)?, number(parts.tm_mon + 1)?, number(parts.tm_mday)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_this_machines_zone_is_found_again_whatever_that_is() {
        // At noon no zone changes its clocks.
        for date in [[2026, 1, 31], [2026, 7, 1], [2024, 2, 29]] {
            let noon = unix_seconds_of_local((date, [12, 0, 0])).expect("there is one");
            assert_eq!(local_date_of(noon), Some(date));
        }
        for date in [[2026, 2, 29], [2026, 13, 1], [2026, 0, 1], [2026, 4, 31]] {
            assert_eq!(unix_seconds_of_local((date, [12, 0, 0])), None, "{date:?}");
        }
    }
}
