//! What the advisor and the memory cache cost a read in the engine (`crates/cache/benches/hit.rs`), and how long what-if takes.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::Bench;
use super::engine::{Estimates, figure};
use super::figure::{Figure, Judged, Target};
use crate::command::{cargo, command, output_of, target_dir, watch};

const REQUESTS: u32 = 1_000_000;
/// What a daemon takes of a processor for a hit that it serves, at the least (docs/benchmarks, B1: 4.7 to 5.0 us).
const SERVED_US: f64 = 4.0;
/// Blocks of 64 KiB that they are for: 8 GiB.
const BLOCKS: f64 = 131_072.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    const NAMES: [&str; 4] = ["hit_4k_with_checksums", "hit_4k_watched", "hit_4k_recorded", "hit_4k_in_memory"];
    let estimates = Estimates::none_yet(target_dir()?.join("criterion"), &NAMES)?;
    let command = cargo(&["bench", "--quiet", "--package=hotset-cache-benches", "--bench=hit", "--", "hit_4k"]);
    if !watch(command, |_| {})? {
        bail!("the engine's benchmark failed");
    }
    let [plain, watched, recorded, in_memory] =
        NAMES.map(|name| estimates.nanoseconds(name).map(|nanoseconds| nanoseconds / 1000.0));
    let (plain, watched, recorded) = (plain?, watched?, recorded?);
    let beside = |what: &str, measured: f64, (judged, most): (Judged, f64), note: String| Figure {
        what: format!("CPU of the engine per 4 KiB hit: {what}"),
        unit: "us",
        measured: Some(measured),
        reference: Some(plain),
        judged,
        target: Target::AtMost(most),
        note,
    };
    let watching = beside(
        "every block watched / none",
        watched,
        (Judged::Ratio(watched / plain), 1.02),
        "more than a daemon watches of a volume of this size".to_owned(),
    );
    let recording = beside(
        "requests recorded / not",
        recorded,
        (Judged::Difference(recorded - plain), 0.02 * SERVED_US),
        format!("at most 2 % of the {SERVED_US} us that a daemon takes for a hit over NBD, for hotset trace record"),
    );
    let in_memory =
        figure("CPU of the engine per 4 KiB memory hit".to_owned(), "us", in_memory?, 0.25, "its page is lent");
    Ok(vec![watching, recording, in_memory, whatif(bench)?])
}

/// A trace of which few blocks get most.
fn whatif(bench: &Bench) -> Result<Figure> {
    let trace = bench.scratch.file("requests.csv");
    write_trace(&trace)?;
    let program = bench.release.join("hotset");
    let (program, path) = (program.to_string_lossy(), trace.to_string_lossy());
    let begun = Instant::now();
    output_of(command(&program, &["whatif", &path, "--size", "64M,256M,1G,4G"]))?;
    let seconds = begun.elapsed().as_secs_f64();
    bench.scratch.remove(&[&trace])?;
    Ok(figure("hotset whatif, a million requests, four sizes".to_owned(), "s", seconds, 2.0, "from a CSV file"))
}

/// Reads of 4 KiB, one of four a write, in the CSV that `hotset trace record` writes; xorshift64 chooses.
fn write_trace(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path).with_context(|| format!("cannot make {}", path.display()))?);
    writeln!(file, "time_us,op,offset_bytes,length_bytes")?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..REQUESTS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let part = f64::from(u32::try_from(state >> 32).context("32 bits")?) / f64::from(u32::MAX);
        let offset = 65_536.0 * (BLOCKS * part.powi(4)).floor();
        let op = if state.is_multiple_of(4) { "W" } else { "R" };
        writeln!(file, "{},{op},{offset:.0},4096", 100 * u64::from(number))?;
    }
    file.flush().context("the trace cannot be written")
}
