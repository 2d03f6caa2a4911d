//! The emulated arrays' figures beside those of the vendors' real ones: the table of the example `emulated_presets`.

use anyhow::{Result, bail};

use super::Bench;
use super::figure::{Figure, Judged, Target};
use crate::command::{command, output_of};

/// Within 15 %.
const TARGET: Target = Target::Between(0.85, 1.15);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let program = bench.release.join("examples/emulated_presets");
    let text = output_of(command(&program.to_string_lossy(), &[&bench.seconds.to_string()]))?;
    let figures: Vec<Figure> = text.lines().filter_map(figure).collect();
    if figures.is_empty() {
        bail!("the example emulated_presets printed no table: {text}");
    }
    Ok(figures)
}

/// A line of the table: what was measured, the vendor's figure or `-`, ours, and the ratio or `-`.
fn figure(line: &str) -> Option<Figure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name @ .., vendor, emulated, ratio] = &words[..] else { return None };
    let emulated = emulated.parse().ok()?;
    let (vendor, ratio) = (published(vendor)?, published(ratio)?);
    let what = name.join(" ");
    Some(Figure {
        unit: if what.ends_with("MB/s") { "MB/s" } else { "IOPS" },
        what,
        measured: Some(emulated),
        reference: vendor,
        judged: ratio.map_or(Judged::Measured, Judged::Ratio),
        target: if ratio.is_some() { TARGET } else { Target::None },
        note: String::new(),
    })
}

/// A number, or that there is none; the outer `None` for any other word.
fn published(word: &str) -> Option<Option<f64>> {
    if word == "-" { Some(None) } else { word.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Outcome;

    #[test]
    fn lines_of_the_table_are_read_and_its_head_is_not() {
        let read = figure("b1: 4 KiB random reads, depth 128, per second     4512      4480   0.99").expect("a figure");
        assert_eq!((read.measured, read.reference, read.outcome()), (Some(4480.0), Some(4512.0), Outcome::Met));
        let stream = figure("b6: streaming reads, MB/s       -      1070      -").expect("a figure");
        assert_eq!((stream.unit, stream.reference, stream.outcome()), ("MB/s", None, Outcome::Informs));
        assert!(figure("emulated arrays, measured in real time for 1 s each; volumes of 1024 MiB").is_none());
        assert!(figure("figure     vendor  emulated  ratio").is_none());
    }
}
