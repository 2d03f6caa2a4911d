//! The clients that load a server or a file: `fio`, and the project's own, which batches and costs little.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::cpu;
use crate::command::{command, output_within};

/// What a load may take beside its seconds: until it is connected, and until the last request is answered.
const LOAD_SLACK: Duration = Duration::from_secs(120);

/// Reads or writes, for some time.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) access: Access,
    pub(crate) pattern: Pattern,
    pub(crate) request_bytes: u64,
    /// Requests in flight.
    pub(crate) depth: u64,
    pub(crate) seconds: u64,
    /// From the start of the volume.
    pub(crate) span_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Each write is followed by a flush. With `fio` only.
    WriteAndFlush,
    /// So many percent of the requests are reads. With our client only.
    Mixed(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    Random,
    Sequential,
    /// Random, some pages far more often than others (Zipf, 1.1). With `fio` only.
    Zipf,
}

impl Load {
    /// A client that takes longer hangs.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.seconds) + LOAD_SLACK
    }

    pub(crate) fn random_4k(depth: u64, seconds: u64, span_bytes: u64) -> Self {
        Self { access: Access::Read, pattern: Pattern::Random, request_bytes: 4096, depth, seconds, span_bytes }
    }

    pub(crate) fn sequential_1m(seconds: u64, span_bytes: u64) -> Self {
        Self {
            access: Access::Read,
            pattern: Pattern::Sequential,
            request_bytes: 1 << 20,
            depth: 8,
            seconds,
            span_bytes,
        }
    }
}

/// An export, and the process that serves it.
pub(crate) struct Export {
    pub(crate) socket: PathBuf,
    pub(crate) name: String,
    pub(crate) server: u32,
}

/// What one client saw in one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) iops: f64,
    /// Of a write and its flush together, where each is flushed.
    pub(crate) median_us: f64,
    pub(crate) mb_per_second: f64,
    /// CPU time of the server per request; 0 where there is no server.
    pub(crate) server_us: f64,
}

/// `fio` over NBD.
pub(crate) fn fio_nbd(export: &Export, load: Load) -> Result<Measured> {
    let mut fio = fio();
    let uri = format!("--uri=nbd+unix:///{}?socket={}", export.name, export.socket.display());
    fio.args(["--name=bench", "--ioengine=nbd"]).arg(uri).args(job(load));
    with_server(export, || read_fio(fio, load))
}

/// `fio` on a file, past the page cache.
pub(crate) fn fio_file(path: &Path, load: Load) -> Result<Measured> {
    fio_files(&[path], load)
}

/// `fio` on files, past the page cache, on all at once with the same load each: rates of all together, the latency of one.
pub(crate) fn fio_files(paths: &[&Path], load: Load) -> Result<Measured> {
    let mut fio = fio();
    for path in paths {
        fio.args(["--name=bench", "--ioengine=io_uring", "--direct=1", "--filename"]).arg(path).args(job(load));
    }
    let (measured, _) = read_fio(fio, load)?;
    Ok(measured)
}

/// Page by page written to both files at once and durable, without a server or a client: what no mirror on them is faster
/// than. Of the ways to do that, the fastest. Only a latency is measured.
pub(crate) fn mirrored(release: &Path, files: [&Path; 2], load: Load) -> Result<Measured> {
    let program = release.join("examples/mirrored_writes");
    let mut writer = command(&program.to_string_lossy(), &[]);
    writer.args([load.seconds.to_string(), load.span_bytes.to_string()]).args(files);
    // Both ways take their seconds.
    let line = output_within(writer, 2 * load.limit())?;
    let median = |key: &str| value_of(&line, key).with_context(|| format!("mirrored_writes printed no {key}: {line}"));
    let median_us = median("durable_us")?.min(median("flushed_us")?);
    Ok(Measured { iops: 1e6 / median_us, median_us, mb_per_second: 0.0, server_us: 0.0 })
}

fn fio() -> Command {
    command("fio", &["--output-format=json"])
}

fn job(load: Load) -> Vec<String> {
    let pattern = match (load.pattern, load.access) {
        (Pattern::Random | Pattern::Zipf, Access::Read) => "randread",
        (Pattern::Sequential, Access::Read) => "read",
        (Pattern::Random | Pattern::Zipf, Access::Write | Access::WriteAndFlush) => "randwrite",
        (Pattern::Sequential, Access::Write | Access::WriteAndFlush) => "write",
        (Pattern::Random | Pattern::Zipf | Pattern::Sequential, Access::Mixed(_)) => {
            unreachable!("only our client mixes")
        }
    };
    let mut job = vec![
        format!("--rw={pattern}"),
        format!("--bs={}", load.request_bytes),
        format!("--iodepth={}", load.depth),
        format!("--size={}", load.span_bytes),
        "--time_based".to_owned(),
        format!("--runtime={}", load.seconds),
        // Without a map of what was read already, fio costs less than what it measures.
        "--norandommap".to_owned(),
        "--randrepeat=0".to_owned(),
    ];
    if load.pattern == Pattern::Zipf {
        job.push("--random_distribution=zipf:1.1".to_owned());
    }
    if load.access == Access::WriteAndFlush {
        // Its NBD engine knows no other kind of flush.
        job.push("--fsync=1".to_owned());
    }
    job
}

/// What `fio` measured, and how many requests that were.
fn read_fio(fio: Command, load: Load) -> Result<(Measured, f64)> {
    let text = output_within(fio, load.limit())?;
    let start = text.find('{').context("fio printed no JSON")?;
    let document: Value = serde_json::from_str(&text[start..]).context("fio printed no JSON")?;
    let jobs = document["jobs"].as_array().context("fio's JSON is not as expected")?;
    let mut sum = Measured { iops: 0.0, median_us: 0.0, mb_per_second: 0.0, server_us: 0.0 };
    let mut requests = 0.0;
    for job in jobs {
        if job["error"].as_u64() != Some(0) {
            bail!("fio met an error: {}", job["error"]);
        }
        let read = match load.access {
            Access::Read => &job["read"],
            Access::Write | Access::WriteAndFlush | Access::Mixed(_) => &job["write"],
        };
        let number = |value: &Value| value.as_f64().context("fio's JSON is not as expected");
        let median = |part: &Value| number(&part["percentile"]["50.000000"]).map(|nanoseconds| nanoseconds / 1000.0);
        let flush_us = if load.access == Access::WriteAndFlush { median(&job["sync"]["lat_ns"])? } else { 0.0 };
        sum.iops += number(&read["iops"])?;
        sum.mb_per_second += number(&read["bw_bytes"])? / 1e6;
        sum.median_us += median(&read["clat_ns"])? + flush_us;
        requests += number(&read["total_ios"])?;
    }
    sum.median_us /= f64::from(u32::try_from(jobs.len()).unwrap_or(u32::MAX).max(1));
    Ok((sum, requests))
}

/// The project's own client over NBD.
pub(crate) fn batching(release: &Path, export: &Export, load: Load) -> Result<Measured> {
    with_server(export, || {
        let line = output_within(batching_command(release, export, load), load.limit())?;
        measured_by(&line)
    })
}

/// The same of several exports of one server at once, each with a client of its own: rates of all together.
pub(crate) fn batching_all(release: &Path, exports: &[&Export], load: Load) -> Result<Measured> {
    with_server(exports[0], || {
        let one = |export: &Export| {
            let line = output_within(batching_command(release, export, load), load.limit())?;
            measured_by(&line)
        };
        let clients = std::thread::scope(|scope| {
            let clients: Vec<_> = exports.iter().map(|&export| scope.spawn(move || one(export))).collect();
            clients
                .into_iter()
                .map(|client| client.join().expect("a client does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        let mut sum = Measured { iops: 0.0, median_us: 0.0, mb_per_second: 0.0, server_us: 0.0 };
        let mut requests = 0.0;
        for (measured, asked) in clients {
            sum.iops += measured.iops;
            sum.mb_per_second += measured.mb_per_second;
            sum.median_us = measured.median_us.max(sum.median_us);
            requests += asked;
        }
        Ok((sum, requests))
    })
}

/// What our client printed, and how many requests that were.
fn measured_by(line: &str) -> Result<(Measured, f64)> {
    let number = |key: &str| value_of(line, key).with_context(|| format!("nbd_load printed no {key}: {line}"));
    if number("errors")? > 0.0 {
        bail!("nbd_load met errors: {line}");
    }
    let iops = number("iops")?;
    let measured =
        Measured { iops, median_us: number("p50_us")?, mb_per_second: number("mb_per_second")?, server_us: 0.0 };
    Ok((measured, number("requests")?))
}

/// Every load reads in another order than those before: what they brought into the cache explains no hits.
static SEED: AtomicU64 = AtomicU64::new(1);

pub(crate) fn batching_command(release: &Path, export: &Export, load: Load) -> Command {
    let pattern = match load.pattern {
        Pattern::Random => "pattern=random",
        Pattern::Sequential => "pattern=sequential",
        Pattern::Zipf => unreachable!("only fio prefers some pages"),
    };
    let program = release.join("examples/nbd_load");
    let mut client = command(&program.to_string_lossy(), &[]);
    client.arg(format!("unix:{}", export.socket.display())).arg(&export.name).arg(pattern);
    match load.access {
        Access::Read => {}
        Access::Write | Access::WriteAndFlush => {
            client.arg("read=0");
        }
        Access::Mixed(percent) => {
            client.arg(format!("read={percent}"));
        }
    }
    client.arg(format!("depth={}", load.depth)).arg(format!("size={}", load.request_bytes));
    client.arg(format!("seconds={}", load.seconds)).arg(format!("span={}", load.span_bytes));
    client.arg(format!("seed={}", SEED.fetch_add(1, Ordering::Relaxed)));
    client
}

/// The number after `key=`.
pub(crate) fn value_of(line: &str, key: &str) -> Option<f64> {
    let words = line.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter(|(name, _)| *name == key).find_map(|(_, value)| value.parse().ok())
}

/// Adds what the server's process took per request.
fn with_server(export: &Export, client: impl FnOnce() -> Result<(Measured, f64)>) -> Result<Measured> {
    let before = cpu::seconds_of(export.server)?;
    let (measured, requests) = client()?;
    let server_us = (cpu::seconds_of(export.server)? - before) * 1e6 / requests.max(1.0);
    Ok(Measured { server_us, ..measured })
}
