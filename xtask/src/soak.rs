//! `cargo x soak`: a long life in fast motion (tests/e2e/tests/soak), and the report of it.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use plotters::prelude::{BLUE, RGBColor};
use serde_json::Value;

use crate::bench::{build, date, machine};
use crate::command::{cargo, command_line, root, succeed, target_dir, watch};
use crate::over_minutes::{self, Plot};

/// The test that is the run.
const TEST: &str =
    "soak::a_life_of_random_administration_faults_pauses_kills_and_upgrades_costs_no_host_an_error_or_a_byte";
/// Left by the test in the folder of the run.
const RECORD: &str = "record.json";
/// A shorter run is no proof of anything that `docs/` should tell.
const TOLD_SECONDS: u64 = 600;
const RULE: &str = "The rule: a straight line through the samples after the first tenth rises, from there to the end, by no more than a \
    tenth of their mean, or 16 MB or 8 descriptors if that is more. It is judged of the daemon that is never replaced; a run that breaks it has failed.";

#[derive(Args)]
pub(crate) struct Options {
    /// How long, in time in which it runs: it may be stopped with all that it started (`kill -STOP`), and go on later
    #[arg(long, default_value_t = 0)]
    hours: u64,
    /// And so many minutes more
    #[arg(long, default_value_t = 0)]
    minutes: u64,
    /// Of the choices: the same seed makes the same ones again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The daemon; by default the one that is built here, with its assertions
    #[arg(long)]
    build: Option<PathBuf>,
    /// The build that daemons are upgraded to and back; by default a copy of the same
    #[arg(long)]
    other_build: Option<PathBuf>,
    /// Where the report goes, a plot beside it; by default docs/soak.md, if the run takes 10 minutes or more
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Runs it, and writes the report. A run that failed keeps what it left in the target directory, and says where.
pub(crate) fn run(options: &Options) -> Result<()> {
    let seconds = 3600 * options.hours + 60 * options.minutes;
    if seconds == 0 {
        bail!("say how long: --hours or --minutes");
    }
    let target = target_dir()?;
    let folder = target.join("soak");
    let daemon = match &options.build {
        Some(build) => fs::canonicalize(build).with_context(|| format!("no build at {}", build.display()))?,
        None => target.join("debug/hotset"),
    };
    // What is committed while it is built or runs is not in it.
    let build = build(options.build.is_none());
    remove_record(&folder)?;
    if options.build.is_none() {
        succeed(cargo(&["build", "--quiet", "--package=hotset", "--bin=hotset"]))?;
    }
    let words = ["test", "--quiet", "--package=hotset-e2e", "--test=e2e", "--", TEST, "--exact", "--nocapture"];
    let mut soak = cargo(&words);
    soak.env("HOTSET_BIN", &daemon).env("HOTSET_SOAK_FOLDER", &folder);
    soak.env("HOTSET_SOAK_SECONDS", seconds.to_string()).env("HOTSET_SOAK_SEED", options.seed.to_string());
    if let Some(other) = &options.other_build {
        let other = fs::canonicalize(other).with_context(|| format!("no build at {}", other.display()))?;
        soak.env("HOTSET_SOAK_OTHER_BUILD", other);
    }
    if !watch(soak, |_| {})? {
        bail!("it failed with seed {}: logs and steps are in {}", options.seed, folder.display());
    }
    let record = record_in(&folder)?;
    let told = options.report.clone().or_else(|| (seconds >= TOLD_SECONDS).then(|| root().join("docs/soak.md")));
    match told {
        Some(path) => report(&path, &record, &Told { machine: machine(&target), build }),
        None => {
            println!("{}", tables(&record));
            Ok(())
        }
    }
}

/// That of an earlier run.
fn remove_record(folder: &Path) -> Result<()> {
    match fs::remove_file(folder.join(RECORD)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("an earlier run's record stays"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// That of this run. There is none of a test that did not run, which is no failure to cargo.
fn record_in(folder: &Path) -> Result<Value> {
    let record = fs::read(folder.join(RECORD)).with_context(|| format!("the run left no record; did {TEST} run?"))?;
    serde_json::from_slice(&record).context("the run's record is no JSON")
}

/// What ran, and where.
struct Told {
    machine: String,
    build: String,
}

fn report(path: &Path, record: &Value, told: &Told) -> Result<()> {
    let picture = path.with_extension("svg");
    draw(&picture, record).map_err(|error| anyhow!("cannot draw {}: {error}", picture.display()))?;
    let drawn = picture.file_name().unwrap_or_default().to_string_lossy();
    let minutes = number(&record["seconds"]) / 60.0;
    let page = format!(
        "# A long life in fast motion\n\nTwo daemons under hosts that check every byte they read, over NBD, while they are administered, their SSDs \
        fail one after the other, they are stopped and continued, and one of them is killed, restarted and upgraded, all by chance. At the end every \
        byte is compared, with the daemon and without. Local devices are tried in virtual machines instead (`tests/lab/local.sh`). This page is written by the run.\n\n\
        | | |\n|---|---|\n| machine | {} |\n| date | {} |\n| build | {} |\n| command | `{}` |\n| seed | {} |\n| minutes | {minutes:.0} |\n{}\n\
        ## Memory and descriptors\n\n{RULE}\n\n![Memory and descriptors over the run]({drawn})\n",
        told.machine,
        date()?,
        told.build,
        command_line(),
        record["seed"],
        tables(record),
    );
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("written: {} and {}", path.display(), picture.display());
    Ok(())
}

fn worlds(record: &Value) -> &[Value] {
    record["worlds"].as_array().map_or(&[], Vec::as_slice)
}

fn world(record: &Value, lasting: bool) -> &Value {
    worlds(record).iter().find(|world| world["lasting"] == lasting).unwrap_or(&Value::Null)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Every key of both worlds' tables, once.
fn keys(record: &Value, table: &str) -> Vec<String> {
    let tables = worlds(record).iter().filter_map(|world| world[table].as_object());
    let mut keys: Vec<String> = tables.flat_map(|table| table.keys().cloned()).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// What was done and seen, of both daemons side by side.
fn tables(record: &Value) -> String {
    let both = |cell: &dyn Fn(&Value) -> String| [false, true].map(|lasting| cell(world(record, lasting))).join(" | ");
    let mut text = "\n| | the daemon that is replaced | the one that lasts |\n|---|--:|--:|\n".to_owned();
    let mut row = |what: &str, cells: String| {
        writeln!(text, "| {what} | {cells} |").expect("a string takes everything");
    };
    row("requests verified", both(&|world| world["requests"].to_string()));
    row(
        "longest time in which a host got no answer",
        both(&|world| format!("{:.1} s", number(&world["longest_pause_seconds"]))),
    );
    row("memory and descriptors", both(&|world| world["flatness"].as_str().unwrap_or_default().to_owned()));
    for what in keys(record, "steps") {
        let cell = |world: &Value| {
            let (done, refused) = (number(&world["steps"][&what][0]), number(&world["steps"][&what][1]));
            if refused > 0.0 { format!("{done}, and {refused} refused") } else { format!("{done}") }
        };
        row(&what, both(&cell));
    }
    for what in keys(record, "faults") {
        row(&format!("SSD fault: {what}"), both(&|world| number(&world["faults"][&what]).to_string()));
    }
    text
}

/// Memory and descriptors of both daemons over the minutes of the run.
fn draw(path: &Path, record: &Value) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let plot = |title, index, unit| {
        let points = |lasting| -> Vec<(f64, f64)> {
            let samples = world(record, lasting)["samples"].as_array().map_or(&[][..], Vec::as_slice);
            samples.iter().map(|sample| (number(&sample[0]) / 60.0, number(&sample[index]) / unit)).collect()
        };
        Plot { title, lines: vec![(points(false), RGBColor(160, 160, 160)), (points(true), BLUE)] }
    };
    let plots = [
        plot("memory in MB: the daemon that lasts (blue), the one that is replaced (grey)", 1, 1e6),
        plot("descriptors", 2, 1.0),
    ];
    over_minutes::draw(path, number(&record["seconds"]) / 60.0, &plots)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_record_of_an_earlier_run_is_not_taken_for_that_of_this_one() {
        let folder = std::env::temp_dir().join(format!("xtask-soak-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be made");
        fs::write(folder.join(RECORD), "{\"seed\": 1}").expect("it can be written");
        assert!(record_in(&folder).is_ok_and(|record| record["seed"] == 1));
        let removed = [remove_record(&folder), remove_record(&folder)];
        let error = record_in(&folder).map(drop);
        fs::remove_dir_all(&folder).expect("it can be removed");
        assert!(removed.iter().all(Result::is_ok), "the second time there is none");
        assert!(error.is_err_and(|error| error.to_string().contains("did soak::a_life")));
        assert!(remove_record(&folder).is_ok(), "there has been no run");
    }

    #[test]
    fn both_worlds_stand_side_by_side() {
        let record = json!({ "worlds": [
            { "lasting": true, "requests": 7, "longest_pause_seconds": 1.25, "steps": { "grow": [2, 1] }, "faults": {}, "flatness": "flat" },
            { "lasting": false, "requests": 8, "longest_pause_seconds": 2.0, "steps": { "kill -9": [3, 0] }, "faults": { "Hang": 1 }, "flatness": "" },
        ] });
        let tables = tables(&record);
        for row in [
            "| requests verified | 8 | 7 |",
            "| grow | 0 | 2, and 1 refused |",
            "| kill -9 | 3 | 0 |",
            "| SSD fault: Hang | 1 | 0 |",
        ] {
            assert!(tables.contains(row), "{row}: {tables}");
        }
    }
}
