//! B10: twelve disks, or ten and an SSD in their place.

use anyhow::Result;

use super::super::Bench;
use super::super::clients::{Access, Export, Load, Measured, Pattern};
use super::rig::{Kind, Rig, Ssds, random};
use super::sheet::{Row, Sheet, Unit, Vendor};

const TWELVE: &str = "preset=b1,disks=12,level=raid10,disk-cache=1M";
const TEN: &str = "preset=b1,disks=10,level=raid10,disk-cache=1M";
const SPEED: &str = "iops=50000,rate=500MB,flush=100us";
const DATA_BYTES: u64 = 768 << 20;
const SSD_BYTES: u64 = 960 << 20;
const DEPTH: u64 = 32;
const STREAM_DEPTH: u64 = 16;
/// What random requests became, times; the vendor published 4 to 6.
const VENDOR_RANDOM: f64 = 5.0;
const READ_OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "1", "--populate-on-write", "0"];
const OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "1", "--populate-on-write", "1"];

struct Test {
    what: &'static str,
    access: Access,
    pattern: Pattern,
    request_bytes: u64,
    vendor: Vendor,
}

const fn test(what: &'static str, access: Access, pattern: Pattern, request_bytes: u64, vendor: Vendor) -> Test {
    Test { what, access, pattern, request_bytes, vendor }
}

const RANDOM: Vendor = Vendor::Ratio(VENDOR_RANDOM);
const STREAM: Vendor = Vendor::Ratio(1.0);
const MIX: Access = Access::Mixed(70);
const TESTS: [Test; 8] = [
    test("1 MiB sequential reads", Access::Read, Pattern::Sequential, 1 << 20, STREAM),
    test("1 MiB sequential writes", Access::Write, Pattern::Sequential, 1 << 20, STREAM),
    test("4 KiB random reads", Access::Read, Pattern::Random, 4 << 10, RANDOM),
    test("4 KiB random writes", Access::Write, Pattern::Random, 4 << 10, RANDOM),
    test("random, 70 % reads, 4 KiB", MIX, Pattern::Random, 4 << 10, Vendor::Nothing),
    test("random, 70 % reads, 16 KiB", MIX, Pattern::Random, 16 << 10, Vendor::Nothing),
    test("random, 70 % reads, 64 KiB", MIX, Pattern::Random, 64 << 10, Vendor::Nothing),
    test("random, 70 % reads, 256 KiB", MIX, Pattern::Random, 256 << 10, Vendor::Nothing),
];

impl Test {
    fn unit(&self) -> Unit {
        if self.pattern == Pattern::Sequential { Unit::MbPerSecond } else { Unit::Iops }
    }

    fn load(&self, seconds: u64, span_bytes: u64) -> Load {
        let depth = if self.pattern == Pattern::Sequential { STREAM_DEPTH } else { DEPTH };
        Load { pattern: self.pattern, ..random(self.access, self.request_bytes, depth, seconds, span_bytes) }
    }

    fn of(&self, measured: &Measured) -> f64 {
        if self.unit() == Unit::MbPerSecond { measured.mb_per_second } else { measured.iops }
    }
}

pub(super) fn measure(bench: &Bench) -> Result<Sheet> {
    let data = if bench.quick { DATA_BYTES / 4 } else { DATA_BYTES };
    let rig = Rig::start(bench, "b10")?;
    let twelve = rig.volume("twelve", TWELVE, data)?;
    let ten = rig.volume("ten", TEN, data)?;
    let without = each(&rig, &twelve, data, &TESTS)?;
    let of_ten = each(&rig, &ten, data, &TESTS)?;
    let size = if bench.quick { SSD_BYTES / 4 } else { SSD_BYTES };
    let one = Ssds { count: 1, bytes: size, speed: SPEED };
    rig.pool("one", Kind::Read, one, READ_OPTIONS)?;
    let with_one = cached(&rig, &ten, "one", data)?;
    rig.daemon.disable_cache("ten")?;
    rig.pool("pair", Kind::ReadWrite, Ssds { count: 2, ..one }, OPTIONS)?;
    let with_pair = cached(&rig, &ten, "pair", data)?;
    let mut rows = Vec::new();
    for (ssds, with) in [("one SSD", &with_one), ("two SSDs", &with_pair)] {
        for (index, test) in TESTS.iter().enumerate() {
            let row = Row::new(format!("{}, {ssds}", test.what), None, (without[index], with[index]));
            let unit = if test.unit() == Unit::Iops { "IOPS" } else { "MB/s" };
            let mut note = format!("the ten disks without a cache do {:.0} {unit}", of_ten[index]);
            if ssds == "one SSD" && test.access != Access::Read {
                note.push_str("; a write is kept on one SSD never, since nothing would be left of it with that SSD: with one, writes go to the disks");
            }
            rows.push(Row { unit: Some(test.unit()), vendor: test.vendor, note, ..row });
        }
    }
    Ok(Sheet {
        title: "Twelve disks, or ten and SSDs",
        vendor: "12 disks, RAID 10, against 10 disks and one SSD: 4 to 6 times as many random requests (the middle stands for the ratio), streams as before",
        ours: format!(
            "arrays emulated with 12 and 10 disks of 7,200 rpm, RAID 10, \"without\" being the twelve; with the ten a read pool of one SSD, emulated with {SPEED}, or a read-write pool of two, which take the twelve bays too"
        ),
        scale: format!(
            "{} MiB of data, which the SSD holds; depth {DEPTH}, streams {STREAM_DEPTH}; rates are not scaled",
            DATA_BYTES >> 20
        ),
        unit: Unit::Iops,
        rows,
        panels: Vec::new(),
        remarks: vec![
            "Ten disks stream at best ten twelfths of what twelve do; a stream of cached data is read from the SSDs."
                .to_owned(),
        ],
    })
}

/// Warm, each test once.
fn cached(rig: &Rig<'_>, volume: &Export, pool: &str, data: u64) -> Result<Vec<f64>> {
    rig.daemon.enable_cache(&volume.name, pool)?;
    rig.daemon.set_fetch_rate(pool, "high")?;
    rig.warm_up(&[volume], random(Access::Read, 4096, DEPTH, 0, data), rig.seconds(20))?;
    rig.daemon.set_fetch_rate(pool, "medium")?;
    each(rig, volume, data, &TESTS)
}

fn each(rig: &Rig<'_>, volume: &Export, data: u64, tests: &[Test]) -> Result<Vec<f64>> {
    let one = |test: &Test| Ok(test.of(&rig.warmed_load(&[volume], test.load(rig.seconds(3), data))?));
    tests.iter().map(one).collect()
}
