//! B1 and B2: more SSDs. Random reads of a read pool, random writes of a mirrored one.

use anyhow::Result;

use super::super::Bench;
use super::super::clients::{Access, Measured};
use super::plot::Panel;
use super::rig::{Kind, Rig, Ssds, limit_of, random, warm_after};
use super::sheet::{Row, Sheet, Unit, WarmUp};

/// Volatile caches of the disks are scaled down with the data, which would fit them.
const READ_ARRAY: &str = "preset=b1";
const WRITE_ARRAY: &str = "preset=b1,disk-cache=1M,span=16G";
const DEPTH: u64 = 128;

/// One row: how many SSDs, the vendor's rate, and how long its cache took to be warm.
struct Step {
    ssds: u64,
    vendor_iops: f64,
    vendor_seconds: f64,
}

const fn step(ssds: u64, vendor_iops: f64, vendor_seconds: f64) -> Step {
    Step { ssds, vendor_iops, vendor_seconds }
}

const READS: &[Step] =
    &[step(1, 121_326.0, 450.0), step(2, 192_374.0, 450.0), step(4, 214_986.0, 420.0), step(8, 216_434.0, 420.0)];
const WRITES: &[Step] = &[step(2, 41_358.0, 780.0), step(4, 84_405.0, 540.0), step(8, 143_898.0, 390.0)];

struct Test {
    access: Access,
    kind: Kind,
    array: &'static str,
    /// Of one SSD: operations a second, and the whole of it as it is spelled.
    ssd_iops: f64,
    speed: &'static str,
    data_bytes: u64,
    /// Of each SSD, of so many.
    ssd_bytes: fn(u64, u64) -> u64,
    options: &'static [&'static str],
    warm_up_seconds: u64,
    vendor_without: f64,
    steps: &'static [Step],
}

pub(super) fn reads(bench: &Bench) -> Result<Sheet> {
    let test = Test {
        access: Access::Read,
        kind: Kind::Read,
        array: READ_ARRAY,
        ssd_iops: 140_000.0,
        speed: "iops=140000,rate=1GB,flush=100us",
        data_bytes: 1536 << 20,
        ssd_bytes: |data, ssds| (data / ssds).next_multiple_of(4 << 20) * 5 / 4 + (64 << 20),
        options: &["--block-size", "4M", "--populate-on-read", "1", "--populate-on-write", "0"],
        warm_up_seconds: 20,
        vendor_without: 4512.0,
        steps: READS,
    };
    let (rows, panel) = test.run(bench, "b1")?;
    Ok(Sheet {
        title: "4 KiB random reads, more and more SSDs",
        vendor: "16 nearline SAS disks, RAID 5; random reads of 90 GB at depth 128; 1, 2, 4 and 8 SSDs of 100 GB, cache blocks of 4 MiB, filled at the first read; warm after 7 to 7.5 min",
        ours: format!("the array emulated with 16 disks of 7,200 rpm, RAID 5; SSDs emulated with {} each; a read pool, fetch rate high, without memory cache", test.speed),
        scale: "1.5 GiB of data (1/56); the SSDs together hold a quarter more than that, however many they are; rates and depth are not scaled".to_owned(),
        unit: Unit::Iops,
        rows,
        panels: vec![panel],
        remarks: vec![
            "The vendor's rate stops to grow at 4 SSDs, where its controller is the limit. Ours stops where this machine's processors are: a row says how much of its SSDs and processors it used.".to_owned(),
        ],
    })
}

pub(super) fn writes(bench: &Bench) -> Result<Sheet> {
    let test = Test {
        access: Access::Write,
        kind: Kind::ReadWrite,
        array: WRITE_ARRAY,
        ssd_iops: 45_000.0,
        speed: "iops=45000,rate=500MB,flush=100us",
        data_bytes: 512 << 20,
        // The vendor's two SSDs hold 100 GB for 60 GB of data.
        ssd_bytes: |data, _| (data * 5 / 3).next_multiple_of(1 << 20) + (64 << 20),
        options: &["--block-size", "4M", "--populate-on-read", "1", "--populate-on-write", "1"],
        warm_up_seconds: 10,
        vendor_without: 1660.0,
        steps: WRITES,
    };
    let (rows, panel) = test.run(bench, "b2")?;
    Ok(Sheet {
        title: "4 KiB random writes, more and more mirrored SSDs",
        vendor: "16 nearline SAS disks, RAID 5; random writes of 60 GB at depth 128; 2, 4 and 8 SSDs of 100 GB, mirrored, cache blocks of 4 MiB; warm after 13, 9 and 6.5 min",
        ours: format!("the array emulated with 16 disks of 7,200 rpm, RAID 5; SSDs emulated with {} each; a read-write pool, write-back, its dirty watermark at 90 %", test.speed),
        scale: "512 MiB of data (1/112) and SSDs of 5/3 of that each, as the vendor's; rates and depth are not scaled".to_owned(),
        unit: Unit::Iops,
        rows,
        panels: vec![panel],
        remarks: vec![
            "The vendor's cache has to be filled block by block before writes hit it; ours takes a write to any page at once, so there is nothing to warm up.".to_owned(),
            "Of each of two SSDs three fifths may be dirty at once, which is all of the data and hardly more, and shortly before that more and more writes go to the array. The vendor's cache keeps dirty blocks where they lie, and may fill up with them.".to_owned(),
            "Writes are gathered into batches: an SSD's rate in bytes is the limit, not its operations, so the share of the SSDs may be above 100 %.".to_owned(),
        ],
    })
}

impl Test {
    fn run(&self, bench: &Bench, name: &str) -> Result<(Vec<Row>, Panel)> {
        let data = if bench.quick { self.data_bytes / 8 } else { self.data_bytes };
        let mut rows = Vec::new();
        let mut curves = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let rig = Rig::start(bench, &format!("{name}-{number}"))?;
            let volume = rig.volume("data", self.array, data)?;
            let load = random(self.access, 4096, DEPTH, rig.seconds(5), data);
            let without = rig.warmed_load(&[&volume], load)?;
            let streaming = rig.stream(&volume, data)?;
            let ssds = Ssds { count: step.ssds, bytes: (self.ssd_bytes)(data, step.ssds), speed: self.speed };
            rig.pool("pool", self.kind, ssds, self.options)?;
            rig.daemon.set_fetch_rate("pool", "high")?;
            if self.kind == Kind::ReadWrite {
                rig.daemon.clean_little("pool")?;
            }
            rig.daemon.enable_cache("data", "pool")?;
            let curve = rig.warm_up(&[&volume], load, rig.seconds(self.warm_up_seconds))?;
            let with = rig.load(&[&volume], load)?;
            let what = if step.ssds == 1 { "1 SSD".to_owned() } else { format!("{} SSDs", step.ssds) };
            rows.push(self.row(
                step,
                &what,
                &without,
                &with,
                Some((warm_after(&curve, with.iops), to_mb(data) / streaming)),
            ));
            curves.push((what, curve));
        }
        Ok((rows, Panel::warm_up("Warm-up", curves)))
    }

    fn row(&self, step: &Step, what: &str, without: &Measured, with: &Measured, warm: Option<(f64, f64)>) -> Row {
        let copies = if self.kind == Kind::ReadWrite { 2.0 } else { 1.0 };
        let all = self.ssd_iops * f64::from(u32::try_from(step.ssds).unwrap_or(u32::MAX)) / copies;
        Row {
            warm_up: warm.map(|(ours, streaming)| WarmUp {
                vendor: Some(step.vendor_seconds),
                ours,
                streaming: Some(streaming),
            }),
            note: limit_of(with, all),
            ..Row::new(what, Some((self.vendor_without, step.vendor_iops)), (without.iops, with.iops))
        }
    }
}

#[allow(clippy::as_conversions, clippy::cast_precision_loss, reason = "far below 2^53")]
pub(super) fn to_mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
