//! Sizes as people write and read them: `64K`, `1M`, `8G`, in powers of 1024.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, written with an optional suffix K, M, G or T (also `KiB`, `MiB`, …).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a size: write a whole number of bytes, or one with K, M, G or T, as 64K or 8G");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let shift = match suffix.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KIB" => 10,
            "M" | "MIB" => 20,
            "G" | "GIB" => 30,
            "T" | "TIB" => 40,
            _ => return Err(wrong()),
        };
        number.checked_mul(1 << shift).map(Self).ok_or_else(|| format!("{text:?} is more than there can be"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&human(self.0))
    }
}

/// What SSDs may be written in bytes, told as their data sheets do: in powers of 1000. Not nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endurance(pub(crate) u64);

impl FromStr for Endurance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not an endurance: write it as data sheets do, in 1000s: 600T, 600TB or 1.2P");
        let suffix_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(suffix_at);
        let unit: u64 = match suffix.to_ascii_uppercase().as_str() {
            "G" | "GB" | "GBW" => 1_000_000_000,
            "T" | "TB" | "TBW" => 1_000_000_000_000,
            "P" | "PB" | "PBW" => 1_000_000_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let tenths =
            u32::try_from(fraction.len()).ok().and_then(|digits| 10_u64.checked_pow(digits)).ok_or_else(wrong)?;
        let [whole, fraction] = [whole, fraction].map(str::parse::<u64>);
        let fraction = u128::from(fraction.map_err(|_| wrong())?) * u128::from(unit) / u128::from(tenths);
        let bytes = u128::from(whole.map_err(|_| wrong())?) * u128::from(unit) + fraction;
        match u64::try_from(bytes) {
            Ok(0) => Err(wrong()),
            Ok(bytes) => Ok(Self(bytes)),
            Err(_) => Err(format!("{text:?} is more than there can be")),
        }
    }
}

/// A part of one, in percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// `bytes` with three significant digits or more: `512 B`, `1.50 MiB`, `930 GiB`.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    while unit + 1 < UNITS.len() && bytes >> (10 * (unit + 2)) > 0 {
        unit += 1;
    }
    let one = 1_u64 << (10 * (unit + 1));
    let (whole, rest) = (bytes / one, bytes % one);
    let name = UNITS[unit];
    match whole {
        _ if rest == 0 => format!("{whole} {name}"),
        0..10 => format!("{whole}.{:02} {name}", u128::from(rest) * 100 / u128::from(one)),
        10..100 => format!("{whole}.{} {name}", u128::from(rest) * 10 / u128::from(one)),
        _ => format!("{whole} {name}"),
    }
}

/// `count` with a comma at every third digit: `121,326`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An estimate in whole bytes, for people: the fraction of a byte tells nobody anything.
#[allow(
    clippy::as_conversions,
    reason = "a number of bytes that is not negative; what is beyond is taken for the largest"
)]
pub(crate) fn whole_bytes(bytes: f64) -> u64 {
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_suffix() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("64K", 64 << 10), ("1MiB", 1 << 20), ("8g", 8 << 30), ("2T", 2 << 40)]
        {
            assert_eq!(text.parse::<Size>(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_an_example() {
        for text in ["", "K", "1.5G", "-1", "10X", "1 M", "0x10", "G1"] {
            let message = text.parse::<Size>().expect_err(text);
            assert!(message.contains("64K or 8G"), "{message}");
        }
        let message = "99999999999T".parse::<Size>().expect_err("it overflows");
        assert!(message.contains("more than there can be"), "{message}");
    }

    // proves: A3
    #[test]
    fn an_endurance_is_read_as_data_sheets_tell_it() {
        const TERA: u64 = 1_000_000_000_000;
        for (text, bytes) in
            [("600T", 600 * TERA), ("600tb", 600 * TERA), ("0.6PBW", 600 * TERA), ("1.92T", 192 * TERA / 100)]
        {
            assert_eq!(text.parse(), Ok(Endurance(bytes)), "{text}");
        }
        for text in ["", "600", "T", "600TiB", "1.2.3T", ".T", "1.T", "-1T", "0T", "1.00000000000000000000000000000T"] {
            let message = text.parse::<Endurance>().expect_err(text);
            assert!(message.contains("600TB"), "{message}");
        }
        let message = "99999999P".parse::<Endurance>().expect_err("it overflows");
        assert!(message.contains("more than there can be"), "{message}");
    }

    #[test]
    fn sizes_for_people_are_short_and_never_rounded_up() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1 MiB"), ((1 << 20) * 3 / 2, "1.50 MiB")] {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human((1 << 30) - 1), "1023 MiB");
        assert_eq!(human(25 * (1 << 30) + (1 << 29)), "25.5 GiB");
        assert_eq!(human(u64::MAX), "16383 PiB");
    }

    #[test]
    fn counts_are_grouped_by_three_digits() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(4512), "4,512");
        assert_eq!(grouped(1_213_260), "1,213,260");
    }
}
