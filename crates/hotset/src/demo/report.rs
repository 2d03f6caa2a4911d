//! What the demo prints in the end: its figures beside those of a vendor.

use serde::Serialize;

use crate::client::Table;
use crate::size::{grouped, human};

/// The figures of one test. Keys are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) test: &'static str,
    pub(super) request_bytes: u32,
    pub(super) read_percent: u8,
    pub(super) depth: u32,
    pub(super) iops_before: u64,
    pub(super) iops_after: u64,
    /// IOPS after over IOPS before.
    pub(super) improvement: f64,
    /// From the enabling of the cache to 90 % of the IOPS after; null if it was warm before this test.
    pub(super) warm_up_s: Option<f64>,
    /// Hits per read at the end.
    pub(super) hit_ratio: f64,
}

/// All that the demo found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// Always: there is no real array.
    pub(super) backing_emulated: bool,
    pub(super) backing: String,
    pub(super) hot_bytes: u64,
    pub(super) ssds: usize,
    pub(super) tests: Vec<Figures>,
    pub(super) checked_bytes: u64,
    pub(super) wrong_pages: u64,
    pub(super) failed_requests: u64,
}

/// What a vendor published for the same test (requirements B1 and B3).
struct Vendor {
    request_bytes: u32,
    what: &'static str,
    before: u64,
    after: u64,
    warm_up: &'static str,
}

const VENDOR: [Vendor; 3] = [
    Vendor {
        request_bytes: 4096,
        what: "vendor, 16 disks, 1 SSD, 90 GB",
        before: 4512,
        after: 121_326,
        warm_up: "420-450 s",
    },
    Vendor {
        request_bytes: 4096,
        what: "vendor, 16 disks, 2 SSDs, 90 GB",
        before: 4512,
        after: 192_374,
        warm_up: "420-450 s",
    },
    Vendor {
        request_bytes: 8192,
        what: "vendor, write-back on 2 SSDs, 60 GB",
        before: 2799,
        after: 64_809,
        warm_up: "",
    },
];

impl Report {
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for figures in &self.tests {
            text.push_str(&format!("\n{}, depth {}\n", figures.test, figures.depth));
            text.push_str(&self.table(figures));
        }
        text.push_str(&format!(
            "\nThe array is emulated: its timing is that of a model, its data are in a file. The SSDs are image files on \
             this machine's own disk.\n\
             This version caches reads: the writes of the second test still go to the array, at the array's pace.\n\
             Checked {} that were read through the NBD socket: {}.\n",
            human(self.checked_bytes),
            self.verdict()
        ));
        text
    }

    fn table(&self, figures: &Figures) -> String {
        let mut table = Table::new(&["", ">IOPS before", ">IOPS after", ">improvement", ">warm-up"]);
        let size = human(self.hot_bytes);
        table.row(vec![
            format!("Hotset here, emulated array, {} SSD images, {size}", self.ssds),
            grouped(figures.iops_before),
            grouped(figures.iops_after),
            format!("{:.1} x", figures.improvement),
            figures.warm_up_s.map_or_else(|| "warm".to_owned(), |seconds| format!("{seconds:.1} s")),
        ]);
        for vendor in VENDOR.iter().filter(|vendor| vendor.request_bytes == figures.request_bytes) {
            table.row(vec![
                vendor.what.to_owned(),
                grouped(vendor.before),
                grouped(vendor.after),
                format!("{:.1} x", ratio(vendor.after, vendor.before)),
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

    fn report() -> Report {
        let figures = Figures {
            test: "4 KiB random read",
            request_bytes: 4096,
            read_percent: 100,
            depth: 128,
            iops_before: 4500,
            iops_after: 90_000,
            improvement: 20.0,
            warm_up_s: Some(7.25),
            hit_ratio: 1.0,
        };
        Report {
            backing_emulated: true,
            backing: "emulated:".into(),
            hot_bytes: 1 << 30,
            ssds: 2,
            tests: vec![figures],
            checked_bytes: 1 << 30,
            wrong_pages: 0,
            failed_requests: 0,
        }
    }

    #[test]
    fn the_table_stands_beside_the_vendors_and_says_that_the_array_is_emulated() {
        let text = report().render();
        for part in ["4,512", "121,326", "90,000", "20.0 x", "26.9 x", "7.2 s", "emulated", "every byte was right"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn a_wrong_page_is_not_overlooked() {
        let text = Report { wrong_pages: 3, ..report() }.render();
        assert!(text.contains("3 PAGES WERE WRONG") && !text.contains("every byte"));
    }
}
