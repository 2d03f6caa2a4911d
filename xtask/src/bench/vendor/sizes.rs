//! B6: a cache of half the data, and of all of it.

use anyhow::Result;

use super::super::Bench;
use super::super::clients::Access;
use super::plot::Panel;
use super::rig::{Curve, Kind, Rig, Ssds, random};
use super::sheet::{Row, Sheet, Unit};

const ARRAY: &str = "preset=b6,disk-cache=1M";
const SPEED: &str = "iops=20000,rate=500MB,flush=100us";
const DEPTH: u64 = 32;
const DATA_BYTES: u64 = 512 << 20;
/// Room for what describes the cached data.
const OVERHEAD_BYTES: u64 = 48 << 20;
const OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "1", "--populate-on-write", "1"];

/// What is asked for, and the vendor's rates: without, with a cache of half the data, with one of all of it.
const LOADS: [(&str, Access, [f64; 3]); 3] = [
    ("random reads", Access::Read, [1016.0, 1435.0, 14_426.0]),
    ("half reads, half writes", Access::Mixed(50), [586.0, 1337.0, 9785.0]),
    ("random writes", Access::Write, [562.0, 1374.0, 11_077.0]),
];

pub(super) fn measure(bench: &Bench) -> Result<Sheet> {
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for (what, access, [before, half, whole]) in LOADS {
        for (share, percent, vendor) in [("half the data", 50, half), ("all of the data", 100, whole)] {
            let (row, curve) = run(bench, access, percent)?;
            let what = format!("{what}, {share}");
            rows.push(Row { note: row.2, ..Row::new(what.clone(), Some((before, vendor)), (row.0, row.1)) });
            curves.push((what, curve));
        }
    }
    Ok(Sheet {
        title: "A cache of half the data, and of all of it",
        vendor: "10 disks, RAID 5; 20 GB of data, 4 KiB at depth 32; a cache of 10 GB and of 20 GB",
        ours: format!("the array emulated with 10 disks of 5,400 rpm, RAID 5; a read-write pool of two SSDs emulated with {SPEED} each, blocks of 1 MiB, thresholds 1; each SSD as large as the vendor's cache"),
        scale: "512 MiB of data (1/37), SSDs of half of that and of all of it; rates and depth are not scaled".to_owned(),
        unit: Unit::Iops,
        rows,
        panels: vec![Panel::warm_up("Warm-up", curves)],
        remarks: vec![
            "Clean data is on one SSD of two, so the half cache holds more reads than a mirror would; dirty data is on both.".to_owned(),
        ],
    })
}

fn run(bench: &Bench, access: Access, percent: u64) -> Result<((f64, f64, String), Curve)> {
    let data = if bench.quick { DATA_BYTES / 4 } else { DATA_BYTES };
    let rig = Rig::start(bench, "b6")?;
    let volume = rig.volume("data", ARRAY, data)?;
    let load = random(access, 4096, DEPTH, rig.seconds(5), data);
    let without = rig.warmed_load(&[&volume], load)?;
    let ssds = Ssds { count: 2, bytes: data * percent / 100 + OVERHEAD_BYTES, speed: SPEED };
    rig.pool("pool", Kind::ReadWrite, ssds, OPTIONS)?;
    rig.daemon.enable_cache("data", "pool")?;
    rig.daemon.set_fetch_rate("pool", "high")?;
    let curve = rig.warm_up(&[&volume], load, rig.seconds(16))?;
    rig.daemon.set_fetch_rate("pool", "medium")?;
    let (with, hits) = rig.hit_ratio_in(&volume, || rig.load(&[&volume], load))?;
    let dirty = rig.daemon.number("pool", "pool", &["write_log", "dirty_bytes"])?;
    let note = match access {
        Access::Read => format!("{:.0} % of the reads hit, the others wait for the array", 100.0 * hits),
        Access::Mixed(_) => format!("{:.0} % of the reads hit; {:.0} MB are dirty", 100.0 * hits, dirty / 1e6),
        Access::Write | Access::WriteAndFlush => {
            format!(
                "{:.0} MB are dirty at the end, and writes beyond that wait until the array has taken others",
                dirty / 1e6
            )
        }
    };
    Ok(((without.iops, with.iops, note), curve))
}
