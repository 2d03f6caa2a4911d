//! B4 and B5: two controllers, each with its SSDs; here two pools, each on a thread of its own.

use anyhow::Result;

use super::super::Bench;
use super::super::clients::Access;
use super::more_ssds::to_mb;
use super::plot::Panel;
use super::rig::{Kind, Rig, Ssds, limit_of, random, warm_after};
use super::sheet::{Row, Sheet, Unit, WarmUp};

/// What all rates are divided by: two processors do not do what two controllers and their hosts did.
const SCALE: f64 = 4.0;
const NAMES: [&str; 2] = ["one", "other"];
const SSDS_EACH: u64 = 4;
/// In flight in each pool: a quarter of the vendor's.
const DEPTH: u64 = 32;

struct Test {
    name: &'static str,
    access: Access,
    kind: Kind,
    array: &'static str,
    speed: &'static str,
    ssd_iops: f64,
    /// Of each pool.
    data_bytes: u64,
    ssd_bytes: fn(u64) -> u64,
    options: &'static [&'static str],
    vendor: (f64, f64),
    vendor_seconds: f64,
}

pub(super) fn reads(bench: &Bench) -> Result<Sheet> {
    let test = Test {
        name: "b4",
        access: Access::Read,
        kind: Kind::Read,
        array: "preset=b1,disks=3,span=4G",
        speed: "iops=18000,rate=250MB,flush=100us",
        ssd_iops: 18_000.0,
        data_bytes: 512 << 20,
        ssd_bytes: |data| data * 5 / 4 / SSDS_EACH + (32 << 20),
        options: &["--block-size", "4M", "--populate-on-read", "1", "--populate-on-write", "0"],
        vendor: (4986.0, 461_037.0),
        vendor_seconds: 810.0,
    };
    Ok(Sheet {
        title: "4 KiB random reads, two controllers",
        vendor: "two controllers; random reads of 180 GB; 8 SSDs; warm after 13.5 min",
        ..test.sheet(bench)?
    })
}

pub(super) fn writes(bench: &Bench) -> Result<Sheet> {
    let test = Test {
        name: "b5",
        access: Access::Write,
        kind: Kind::ReadWrite,
        array: "preset=b1,disks=3,disk-cache=1M,span=1500M",
        speed: "iops=18000,rate=250MB,flush=100us",
        ssd_iops: 9000.0,
        data_bytes: 512 << 20,
        // All of the data may be dirty at once, as it could with the vendor: of what each pair of its four SSDs holds about half is for that,
        // and cleaning begins at 90 % of it.
        ssd_bytes: |data| data * 3 / 2 + (32 << 20),
        options: &["--block-size", "4M", "--populate-on-read", "1", "--populate-on-write", "1"],
        vendor: (1268.0, 217_495.0),
        vendor_seconds: 1080.0,
    };
    Ok(Sheet {
        title: "4 KiB random writes, two controllers, mirrored SSDs",
        vendor: "two controllers; random writes of 180 GB; 8 SSDs, mirrored; warm after 18 min",
        ..test.sheet(bench)?
    })
}

impl Test {
    fn sheet(&self, bench: &Bench) -> Result<Sheet> {
        let (row, panel) = self.run(bench)?;
        let (before, after) = self.vendor;
        Ok(Sheet {
            title: "",
            vendor: "",
            ours: format!(
                "two volumes, each on an emulated array of 3 disks of 7,200 rpm, RAID 5 ({}), in a pool of its own of {SSDS_EACH} SSDs emulated with {} each; one daemon with two threads, two clients",
                self.array, self.speed
            ),
            scale: format!(
                "all rates by {SCALE}: disks, SSDs and requests in flight are a quarter of what the vendor's rates need (a quarter of its rates: {:.0} → {:.0} IOPS); {} MiB of data in each pool",
                before / SCALE,
                after / SCALE,
                self.data_bytes >> 20
            ),
            unit: Unit::Iops,
            rows: vec![row],
            panels: vec![panel],
            remarks: vec![
                "Two pools of one daemon stand for two controllers, until one volume can be served by two machines."
                    .to_owned(),
            ],
        })
    }

    fn run(&self, bench: &Bench) -> Result<(Row, Panel)> {
        // The share of the strokes would be another one in a quick run.
        let data = self.data_bytes;
        let rig = Rig::start_with(bench, self.name, &["--threads", "2"])?;
        let volumes = NAMES.iter().map(|name| rig.volume(name, self.array, data)).collect::<Result<Vec<_>>>()?;
        let volumes: Vec<_> = volumes.iter().collect();
        let load = random(self.access, 4096, DEPTH, rig.seconds(8), data);
        let without = rig.warmed_load(&volumes, load)?;
        let streaming = rig.stream(volumes[0], data)?;
        for name in NAMES {
            let ssds = Ssds { count: SSDS_EACH, bytes: (self.ssd_bytes)(data), speed: self.speed };
            rig.pool(name, self.kind, ssds, self.options)?;
            rig.daemon.set_fetch_rate(name, "high")?;
            if self.kind == Kind::ReadWrite {
                rig.daemon.clean_little(name)?;
            }
            rig.daemon.enable_cache(name, name)?;
        }
        let curve = rig.warm_up(&volumes, load, rig.seconds(30))?;
        let with = rig.load(&volumes, load)?;
        let ssds = u32::try_from(2 * SSDS_EACH)?;
        let (before, after) = self.vendor;
        let row = Row {
            warm_up: Some(WarmUp {
                vendor: Some(self.vendor_seconds),
                ours: warm_after(&curve, with.iops),
                streaming: Some(to_mb(data) / streaming),
            }),
            note: limit_of(&with, self.ssd_iops * f64::from(ssds)),
            ..Row::new("two pools", Some((before, after)), (without.iops, with.iops))
        };
        Ok((row, Panel::warm_up("Warm-up, both pools together", vec![("two pools".to_owned(), curve)])))
    }
}
