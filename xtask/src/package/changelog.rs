//! CHANGELOG.md, and the Debian changelog that is made of it.

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub(super) struct Changelog {
    /// The newest first.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    version: String,
    /// Of the day's noon.
    at_s: u64,
    items: Vec<String>,
}

impl Changelog {
    /// Entries are `## VERSION (YYYY-MM-DD)`, with items by `- `.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut entries: Vec<Entry> = Vec::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                let (version, day) = heading.split_once(' ').context("a heading is VERSION (YYYY-MM-DD)")?;
                let at_s = noon_s(day.trim_matches(['(', ')'])).with_context(|| format!("the day of {heading:?}"))?;
                entries.push(Entry { version: version.to_owned(), at_s, items: Vec::new() });
            } else if let (Some(item), Some(entry)) = (line.strip_prefix("- "), entries.last_mut()) {
                entry.items.push(item.to_owned());
            } else if let (Some(more), Some(item)) =
                (line.strip_prefix("  "), entries.last_mut().and_then(|entry| entry.items.last_mut()))
            {
                *item = format!("{item} {more}");
            }
        }
        if entries.is_empty() || entries.iter().any(|entry| entry.items.is_empty()) {
            bail!("CHANGELOG.md: each version has items");
        }
        Ok(Self { entries })
    }

    /// # Errors
    /// The newest entry is of another version.
    pub(super) fn must_begin_with(&self, version: &str) -> Result<()> {
        let newest = &self.entries[0].version;
        if newest != version {
            bail!("CHANGELOG.md begins with {newest}, and the workspace has version {version}");
        }
        Ok(())
    }

    pub(super) fn newest_s(&self) -> u64 {
        self.entries[0].at_s
    }

    /// Of a package of `version`, which may be a build that has no entry.
    pub(super) fn debian(&self, version: &str, maintainer: &str) -> String {
        let one = |version: &str, items: &[String], at_s: u64| {
            let lines: String = items.iter().map(|item| wrapped(item)).collect();
            format!("hotset ({version}) stable; urgency=medium\n\n{lines}\n -- {maintainer}  {}\n", mail_date(at_s))
        };
        let mut texts = Vec::new();
        if self.entries[0].version != version {
            texts.push(one(version, &["A build of this version.".to_owned()], self.newest_s()));
        }
        texts.extend(self.entries.iter().map(|entry| one(&entry.version, &entry.items, entry.at_s)));
        texts.join("\n")
    }
}

/// An item in lines of less than 80 characters.
fn wrapped(item: &str) -> String {
    let mut text = String::new();
    let mut line = String::from("  *");
    for word in item.split_whitespace() {
        if line.chars().count() + word.chars().count() > 77 {
            text.push_str(&format!("{line}\n"));
            line = String::from("   ");
        }
        line.push_str(&format!(" {word}"));
    }
    text + &format!("{line}\n")
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// 1970-01-01 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY_S: u64 = 86_400;

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> [u64; 12] {
    [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// Noon of a day, in UTC, in seconds since 1970.
fn noon_s(day: &str) -> Option<u64> {
    let numbers: Vec<u64> = day.split('-').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [year, month, day] = numbers[..] else { return None };
    let months = days_of(year);
    let length = months.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    if !(1..=*length).contains(&day) || !(1970..3000).contains(&year) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| days_of(year).iter().sum::<u64>()).sum();
    let before: u64 = months.iter().zip(1..month).map(|(days, _)| days).sum();
    Some((years + before + day - 1) * DAY_S + DAY_S / 2)
}

/// As RFC 5322 has it, in UTC.
fn mail_date(at_s: u64) -> String {
    let (mut days, seconds) = (at_s / DAY_S, at_s % DAY_S);
    let weekday = DAYS[usize::try_from(days % 7).expect("a week has seven days")];
    let mut year = 1970;
    while days >= days_of(year).iter().sum() {
        days -= days_of(year).iter().sum::<u64>();
        year += 1;
    }
    let mut month = 0;
    for length in days_of(year) {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} +0000", days + 1, MONTHS[month])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repositorys_changelog_becomes_a_debian_one() {
        let text = "# Changelog\n\nWords.\n\n## 1.2.0 (2026-11-26)\n\n- One thing that\n  goes on.\n- Another.\n\n## 1.1.0 (2024-02-29)\n\n- The first.\n";
        let changelog = Changelog::parse(text).expect("it is right");
        let debian = changelog.debian("1.2.0", "Somebody <a@b.c>");
        assert!(debian.starts_with("hotset (1.2.0) stable; urgency=medium\n\n  * One thing that goes on.\n  * Another.\n\n -- Somebody <a@b.c>  Thu, 26 Nov 2026 12:00:00 +0000\n\nhotset (1.1.0)"), "{debian}");
        assert!(debian.contains("Thu, 29 Feb 2024 12:00:00"), "{debian}");
        assert!(changelog.debian("1.2.1", "S <a@b.c>").starts_with("hotset (1.2.1)"));
        assert!(changelog.must_begin_with("1.1.0").is_err() && changelog.must_begin_with("1.2.0").is_ok());
    }

    #[test]
    fn what_is_no_changelog_is_refused() {
        for text in ["", "## 1.0.0\n\n- x\n", "## 1.0.0 (2026-02-30)\n\n- x\n", "## 1.0.0 (2026-02-03)\n"] {
            assert!(Changelog::parse(text).is_err(), "{text}");
        }
    }
}
