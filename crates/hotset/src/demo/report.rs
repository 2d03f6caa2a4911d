//! What the demo prints in the end: its figures beside those of a vendor.

use std::time::Duration;

use serde::Serialize;

use super::load::LoadShape;
use crate::client::Table;
use crate::size::{grouped, human};

/// The tests of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Reads,
    Writes,
    /// With a hot set of this part of the clean data that fits beside a full write log.
    Database {
        cache_percent: u8,
    },
}

impl Test {
    /// The requirement whose test this is.
    pub(super) fn requirement(self) -> &'static str {
        match self {
            Self::Reads => "B1",
            Self::Writes => "B2",
            Self::Database { .. } => "B3",
        }
    }

    pub(super) fn title(self) -> String {
        match self {
            Self::Reads => "4 KiB random read, read pool".to_owned(),
            Self::Writes => "4 KiB random write, mirrored on two SSDs before it is answered".to_owned(),
            Self::Database { cache_percent } => {
                format!("8 KiB random, 67 % read, read-write pool, hot set of {cache_percent} % of the cache")
            }
        }
    }

    pub(super) fn cache_percent(self) -> Option<u8> {
        match self {
            Self::Reads | Self::Writes => None,
            Self::Database { cache_percent } => Some(cache_percent),
        }
    }

    /// The kind of its requests; not where and how long.
    pub(super) fn job(self) -> LoadShape {
        match self {
            Self::Reads => LoadShape::reads(0, Duration::ZERO),
            Self::Writes => LoadShape::writes(0, Duration::ZERO),
            Self::Database { .. } => LoadShape::database(0, Duration::ZERO),
        }
    }
}

/// The figures of one test. Keys are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) requirement: &'static str,
    pub(super) test: String,
    pub(super) request_bytes: u32,
    pub(super) read_percent: u8,
    pub(super) depth: usize,
    pub(super) hot_bytes: u64,
    /// What the hot set is of the clean capacity; null where the test does not say.
    pub(super) cache_percent: Option<u8>,
    pub(super) iops_before: u64,
    pub(super) iops_after: u64,
    /// IOPS after over IOPS before.
    pub(super) improvement: f64,
    /// From the first request with a cache, or to a new hot set, to 90 % of the IOPS after.
    pub(super) warm_up_s: Option<f64>,
    /// Hits per read at the end; 0 without reads.
    pub(super) hit_ratio: f64,
}

/// All that the demo found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DemoReport {
    /// Always: there is no real array.
    pub(super) backing_emulated: bool,
    pub(super) backing: String,
    pub(super) ssds: usize,
    /// What the read pool can hold.
    pub(super) read_cache_bytes: u64,
    /// What may be dirty at once in the read-write pool, and what clean data it can hold beside a full log.
    pub(super) dirty_capacity_bytes: u64,
    pub(super) clean_capacity_bytes: u64,
    pub(super) tests: Vec<Figures>,
    pub(super) checked_bytes: u64,
    pub(super) wrong_pages: u64,
    pub(super) failed_requests: u64,
}

/// What a vendor published for the same test (requirements B1 to B3): 16 disks, RAID 5.
struct Vendor {
    requirement: &'static str,
    cache_percent: Option<u8>,
    what: &'static str,
    before: u64,
    after: u64,
    warm_up: &'static str,
}

const fn vendor(
    requirement: &'static str,
    what: &'static str,
    before: u64,
    after: u64,
    warm_up: &'static str,
) -> Vendor {
    Vendor { requirement, cache_percent: None, what, before, after, warm_up }
}

const fn vendor_database(cache_percent: u8, what: &'static str, after: u64) -> Vendor {
    Vendor { requirement: "B3", cache_percent: Some(cache_percent), what, before: 2799, after, warm_up: "" }
}

const VENDOR: [Vendor; 8] = [
    vendor("B1", "vendor, 1 SSD of 100 GB, 90 GB", 4512, 121_326, "420-450 s"),
    vendor("B1", "vendor, 2 SSDs of 100 GB, 90 GB", 4512, 192_374, "420-450 s"),
    vendor("B2", "vendor, 2 SSDs mirrored, 60 GB", 1660, 41_358, "780 s"),
    vendor("B2", "vendor, 4 SSDs mirrored, 60 GB", 1660, 84_405, "540 s"),
    vendor("B2", "vendor, 8 SSDs mirrored, 60 GB", 1660, 143_898, "390 s"),
    vendor_database(60, "vendor, 2 SSDs mirrored, 60 GB", 64_809),
    vendor_database(90, "vendor, 2 SSDs mirrored, 90 GB", 63_660),
    vendor_database(120, "vendor, 2 SSDs mirrored, 120 GB", 3999),
];

impl DemoReport {
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for figures in &self.tests {
            text.push_str(&format!("\n{}, depth {}\n", figures.test, figures.depth));
            text.push_str(&self.table(figures));
        }
        text.push_str(&format!(
            "\nThe array is emulated: its timing is that of a model, its data are in a file. The SSDs are image files on \
             this machine's own disk.\n\
             The read pool holds {}; the read-write pool, from the same SSDs, {} of dirty data and {} of clean data beside \
             a full write log: that is the cache of the database test.\n\
             Checked {} that were read through the NBD socket, the whole volume at the end: {}.\n",
            human(self.read_cache_bytes),
            human(self.dirty_capacity_bytes),
            human(self.clean_capacity_bytes),
            human(self.checked_bytes),
            self.verdict()
        ));
        text
    }

    fn table(&self, figures: &Figures) -> String {
        let headings = ["", ">IOPS before", ">IOPS after", ">improvement", ">hits", ">warm-up"];
        let mut table = Table::new(&headings);
        table.row(vec![
            format!("Hotset here, {} SSD images, {}", self.ssds, human(figures.hot_bytes)),
            grouped(figures.iops_before),
            grouped(figures.iops_after),
            format!("{:.1} x", figures.improvement),
            if figures.read_percent == 0 { String::new() } else { format!("{:.1} %", figures.hit_ratio * 100.0) },
            figures.warm_up_s.map_or_else(String::new, |seconds| format!("{seconds:.1} s")),
        ]);
        let same = |vendor: &&Vendor| {
            (vendor.requirement, vendor.cache_percent) == (figures.requirement, figures.cache_percent)
        };
        for vendor in VENDOR.iter().filter(same) {
            table.row(vec![
                vendor.what.to_owned(),
                grouped(vendor.before),
                grouped(vendor.after),
                format!("{:.1} x", ratio(vendor.after, vendor.before)),
                String::new(),
                vendor.warm_up.to_owned(),
            ]);
        }
        table.render()
    }

    fn verdict(&self) -> String {
        match (self.wrong_pages, self.failed_requests) {
            (0, 0) => "every byte was right".to_owned(),
            (wrong, failed) => format!("{wrong} PAGES WERE WRONG, {failed} requests failed"),
        }
    }
}

/// For people: the rounding of u64 to f64 does not matter.
#[allow(clippy::as_conversions, reason = "a ratio for people")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(test: Test) -> Figures {
        let job = test.job();
        Figures {
            requirement: test.requirement(),
            test: test.title(),
            request_bytes: job.request_bytes,
            read_percent: job.read_percent,
            depth: 128,
            hot_bytes: 1 << 30,
            cache_percent: test.cache_percent(),
            iops_before: 4500,
            iops_after: 90_000,
            improvement: 20.0,
            warm_up_s: Some(7.25),
            hit_ratio: 1.0,
        }
    }

    fn report(tests: &[Test]) -> DemoReport {
        DemoReport {
            backing_emulated: true,
            backing: "emulated:".into(),
            ssds: 2,
            read_cache_bytes: 2 << 30,
            dirty_capacity_bytes: 1 << 29,
            clean_capacity_bytes: 1 << 28,
            tests: tests.iter().copied().map(figures).collect(),
            checked_bytes: 1 << 30,
            wrong_pages: 0,
            failed_requests: 0,
        }
    }

    #[test]
    fn the_table_stands_beside_the_vendors_and_says_that_the_array_is_emulated() {
        let text = report(&[Test::Reads]).render();
        for part in ["4,512", "121,326", "90,000", "20.0 x", "26.9 x", "7.2 s", "emulated", "every byte was right"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("41,358"), "each test stands beside its own kind: {text}");
    }

    #[test]
    fn writes_and_each_hot_set_of_the_database_stand_beside_their_own() {
        let text = report(&[Test::Writes]).render();
        assert!(text.contains("41,358") && text.contains("1,660") && text.contains("24.9 x"), "{text}");
        let text = report(&[Test::Database { cache_percent: 120 }]).render();
        assert!(text.contains("3,999") && text.contains("120 % of the cache") && !text.contains("64,809"), "{text}");
    }

    #[test]
    fn a_wrong_page_is_not_overlooked() {
        let text = DemoReport { wrong_pages: 3, ..report(&[Test::Reads]) }.render();
        assert!(text.contains("3 PAGES WERE WRONG") && !text.contains("every byte"));
    }
}
