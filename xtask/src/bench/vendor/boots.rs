//! B8: machines that boot. One is recorded as it boots from a volume of ours, and its block requests are replayed for many.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::Bench;
use super::super::clients::{Export, value_of};
use super::plot::{Axis, Panel, Shape};
use super::rig::{Kind, Rig, Ssds};
use super::sheet::{Row, Sheet, Unit};
use crate::command::{command, output_within, root, succeed, target_dir};
use crate::running::Running;

const ARRAY: &str = "preset=b1,disks=4,disk-cache=1M";
const SPEED: &str = "iops=80000,rate=500MB,flush=100us";
const SSD_BYTES: u64 = 3 << 30;
const OPTIONS: &[&str] = &["--block-size", "256K", "--populate-on-read", "1", "--populate-on-write", "1"];
/// How many machines, and the vendor's seconds without and with.
const STEPS: [(u64, f64, f64); 4] = [(5, 61.0, 27.0), (10, 105.0, 33.0), (20, 234.0, 58.0), (50, 938.0, 233.0)];
/// Machines that boot for real: one, and these.
const TOGETHER: u64 = 5;
/// A machine is emulated with all of its processor, which takes about so many times as long as a real one.
const EMULATED: f64 = 10.0;
/// What a machine takes, at most, until it mounts its image.
const BEFORE_MOUNT_SECONDS: f64 = 20.0;
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// The longest takes a minute and a half.
const REPLAY_LIMIT: Duration = Duration::from_secs(1200);
const BEGINS: &str = "guest: mount -t ext4";
const ENDS: &str = "boot: done";

/// A request of the recorded machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    at_us: u64,
    write: bool,
    offset: u64,
    length: u64,
}

/// The machine's parts.
struct Lab {
    folder: PathBuf,
    image_bytes: u64,
}

pub(super) fn measure(bench: &Bench) -> Result<Sheet> {
    let steps = if bench.quick { &STEPS[..1] } else { &STEPS[..] };
    let lab = Lab::build()?;
    let trace = bench.scratch.file("boot.csv");
    let most = steps.last().map_or(0, |step| step.0);
    // Replays write nothing that a machine could boot from: their images lie behind those of the real ones.
    let volume_bytes = (TOGETHER + most) * lab.image_bytes;
    let rig = Rig::start(bench, "b8")?;
    let store = rig.sparse_store("machines", volume_bytes)?;
    lab.copy(&store, TOGETHER)?;
    let volume = rig.volume_on("machines", ARRAY, volume_bytes, &store)?;
    let replay = |machines, think| lab.replay(&volume, &trace, machines, think);
    let mut remarks = Vec::new();
    let real = if bench.quick { vec![1] } else { vec![1, TOGETHER] };
    let real_without = real.iter().map(|&machines| lab.boot(&rig, &volume, machines)).collect::<Result<Vec<_>>>()?;
    let requests = record(bench, &lab, real_without[0])?;
    fs::write(&trace, gaps(&requests))?;
    for (&machines, booted) in real.iter().zip(&real_without) {
        // Machines that are emulated share the processors, which no real ones do.
        let shared = (as_number(machines) / processors()).max(1.0);
        let replayed = replay(machines, shared)?;
        remarks.push(format!(
            "Validation, without a cache: {machines} real boot{} took {booted:.1} s, the replay with the recorded pauses{} {replayed:.1} s ({:+.0} %).",
            if machines == 1 { "" } else { "s at once" },
            if shared > 1.0 { format!(" times {shared}, as the machines shared {} processors,", processors()) } else { String::new() },
            100.0 * (replayed / booted - 1.0)
        ));
    }
    let think = 1.0 / EMULATED;
    let without = steps.iter().map(|step| replay(step.0, think)).collect::<Result<Vec<_>>>()?;
    let ssd_bytes = if bench.quick { SSD_BYTES / 8 } else { SSD_BYTES };
    rig.pool("pool", Kind::ReadWrite, Ssds { count: 2, bytes: ssd_bytes, speed: SPEED }, OPTIONS)?;
    rig.daemon.enable_cache("machines", "pool")?;
    rig.daemon.set_fetch_rate("pool", "high")?;
    for _ in 0..2 {
        replay(most, think)?;
    }
    rig.daemon.set_fetch_rate("pool", "medium")?;
    let mut rows = Vec::new();
    for (step, without) in steps.iter().zip(&without) {
        let before = rig.daemon.counters("machines")?;
        let with = replay(step.0, think)?;
        let hits = rig.daemon.counters("machines")?.hit_ratio_since(&before);
        let note = format!(
            "{:.1} % of the reads hit; {:.1} s of a machine are pauses that no cache shortens",
            100.0 * hits,
            pauses(&requests) * think
        );
        rows.push(Row { note, ..Row::new(format!("{} machines", step.0), Some((step.1, step.2)), (*without, with)) });
    }
    for (&machines, without) in real.iter().zip(&real_without) {
        lab.boot(&rig, &volume, machines)?;
        let with = lab.boot(&rig, &volume, machines)?;
        remarks.push(format!(
            "For real: {machines} machine{} booted in {without:.1} s without and {with:.1} s with the cache. QEMU emulates their processors here, which is most of it.",
            if machines == 1 { "" } else { "s at once" }
        ));
    }
    let (reads, read_bytes, written_bytes) = sums(&requests);
    Ok(Sheet {
        title: "Machines that boot at once (a replay)",
        vendor: "5, 10, 20 and 50 virtual machines that boot at once: 61, 105, 234 and 938 s become 27, 33, 58 and 233 s",
        ours: format!(
            "a replay: the block requests of one Debian that booted with systemd from a volume (QEMU over NBD), recorded in this run ({reads} reads of {:.0} MB, {:.0} MB written), by so many machines at once, each with an image of its own on one volume; 4 disks of 7,200 rpm, RAID 5; two SSDs emulated with {SPEED} each, mirrored, blocks of 256 KiB; every machine has booted before",
            read_bytes / 1e6,
            written_bytes / 1e6
        ),
        scale: format!(
            "a small Debian; the recorded pauses between requests are divided by {EMULATED}, as the recorded machine's processor was emulated by a program"
        ),
        unit: Unit::Seconds,
        panels: vec![over_machines(&rows, steps)],
        rows,
        remarks,
    })
}

/// Seconds over machines, the vendor's and ours.
fn over_machines(rows: &[Row], steps: &[(u64, f64, f64)]) -> Panel {
    let line = |name: &str, of: &dyn Fn(usize) -> f64| {
        let points = steps.iter().enumerate().map(|(index, step)| (as_number(step.0), of(index)));
        (name.to_owned(), points.collect())
    };
    Panel {
        title: "Until all have booted".to_owned(),
        x: "machines".to_owned(),
        y: "s".to_owned(),
        axis: Axis::Logarithmic,
        shape: Shape::Lines {
            series: vec![
                line("vendor, without", &|index| steps[index].1),
                line("vendor, with", &|index| steps[index].2),
                line("ours, without", &|index| rows[index].ours.without),
                line("ours, with", &|index| rows[index].ours.with),
            ],
        },
        limit: None,
    }
}

/// What a machine asks for while it boots from a volume that is as fast as memory; from a slow one, it took so long.
#[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
fn record(bench: &Bench, lab: &Lab, slow_seconds: f64) -> Result<Vec<Request>> {
    let rig = Rig::start(bench, "b8-record")?;
    let store = rig.sparse_store("recorded", lab.image_bytes)?;
    lab.copy(&store, 1)?;
    let volume = rig.daemon.create_volume("recorded", &store)?;
    let out = bench.scratch.file("boot.csv.zst");
    let seconds = (slow_seconds + BEFORE_MOUNT_SECONDS) as u64;
    let words = ["trace", "record", "recorded", "--seconds", &seconds.to_string(), "--out", &out.to_string_lossy()];
    let recorder = thread::scope(|scope| {
        let recorder = scope.spawn(|| rig.daemon.verb(&words));
        lab.boot(&rig, &volume, 1)?;
        if recorder.is_finished() {
            bail!("the boot took longer than the recording, {seconds} s");
        }
        recorder.join().expect("a verb does not panic")
    })?;
    if recorder["dropped_requests"] != 0 {
        bail!("requests are missing: {recorder}");
    }
    let packed = fs::read(&out).with_context(|| format!("cannot read {}", out.display()))?;
    let requests = parse(&unpack(&packed)?);
    if requests.is_empty() {
        bail!("the boot was not recorded");
    }
    Ok(requests)
}

fn unpack(packed: &[u8]) -> Result<String> {
    let mut text = String::new();
    let mut rest = packed;
    while !rest.is_empty() {
        let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest)?;
        frame.read_to_string(&mut text)?;
    }
    Ok(text)
}

fn parse(csv: &str) -> Vec<Request> {
    let request = |line: &str| {
        let mut fields = line.split(',');
        let (at_us, op) = (fields.next()?.parse().ok()?, fields.next()?);
        let (offset, length) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Request { at_us, write: op == "W", offset, length })
    };
    csv.lines().filter_map(request).collect()
}

/// For the program that replays: the time since the request before, and the request.
fn gaps(requests: &[Request]) -> String {
    let mut before = requests.first().map_or(0, |request| request.at_us);
    let line = |request: &Request| {
        let gap = request.at_us.saturating_sub(before);
        before = request.at_us;
        format!("{gap},{},{},{}\n", if request.write { "W" } else { "R" }, request.offset, request.length)
    };
    requests.iter().map(line).collect()
}

/// Seconds from the first request to the last.
fn pauses(requests: &[Request]) -> f64 {
    match (requests.first(), requests.last()) {
        (Some(first), Some(last)) => as_number(last.at_us - first.at_us) / 1e6,
        (None, _) | (_, None) => 0.0,
    }
}

/// How many reads, and bytes read and written.
fn sums(requests: &[Request]) -> (usize, f64, f64) {
    let bytes = |write: bool| {
        requests.iter().filter(|request| request.write == write).map(|request| as_number(request.length)).sum()
    };
    (requests.iter().filter(|request| !request.write).count(), bytes(false), bytes(true))
}

impl Lab {
    fn build() -> Result<Self> {
        let folder = target_dir()?.join("boot");
        fs::create_dir_all(&folder)?;
        let script = root().join("xtask/src/bench/vendor/boot.sh");
        succeed(command("sh", &[&script.to_string_lossy(), &folder.to_string_lossy()]))
            .context("the machine that boots is made by root, of Debian's packages")?;
        let image_bytes = fs::metadata(folder.join("root.img"))?.len();
        Ok(Self { folder, image_bytes })
    }

    /// So many images, one behind the other.
    fn copy(&self, store: &str, count: u64) -> Result<()> {
        const CHUNK_BYTES: usize = 1 << 20;
        let mut image = fs::File::open(self.folder.join("root.img"))?;
        let store = fs::File::options().write(true).open(store)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        loop {
            let read = image.read(&mut chunk)?;
            if read == 0 {
                return Ok(());
            }
            if chunk[..read].iter().any(|&byte| byte != 0) {
                for number in 0..count {
                    store.write_all_at(&chunk[..read], number * self.image_bytes + offset)?;
                }
            }
            offset += u64::try_from(read)?;
        }
    }

    /// Boots so many machines at once, each from its image; how long it took from the first that mounted it to the last
    /// that was through.
    fn boot(&self, rig: &Rig<'_>, volume: &Export, machines: u64) -> Result<f64> {
        let seen = thread::scope(|scope| {
            let machines: Vec<_> =
                (0..machines).map(|number| scope.spawn(move || self.boot_one(rig.bench, volume, number))).collect();
            machines
                .into_iter()
                .map(|machine| machine.join().expect("a machine does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        let began = seen.iter().map(|(began, _)| *began).min().context("no machine")?;
        let ended = seen.iter().map(|(_, ended)| *ended).max().context("no machine")?;
        Ok(ended.duration_since(began).as_secs_f64())
    }

    fn boot_one(&self, bench: &Bench, volume: &Export, number: u64) -> Result<(Instant, Instant)> {
        let part = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let mut qemu = command("qemu-system-x86_64", &["-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "512"]);
        qemu.args([
            "-nographic",
            "-no-reboot",
            "-monitor",
            "none",
            "-serial",
            "stdio",
            "-nic",
            "user,model=virtio-net-pci",
        ]);
        qemu.args(["-kernel", &part("vmlinuz"), "-initrd", &part("initrd.gz")]);
        qemu.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init phase=packages"]);
        let (server, export) = (volume.socket.display(), &volume.name);
        let (size, offset) = (self.image_bytes, number * self.image_bytes);
        let drive = format!(
            "driver=raw,node-name=root,offset={offset},size={size},cache.direct=on,file.driver=nbd,file.server.type=unix,file.server.path={server},file.export={export}"
        );
        qemu.args(["-blockdev", &drive, "-device", "virtio-blk-pci,drive=root,serial=root"]);
        let log = fs::File::create(bench.scratch.file(&format!("machine{number}.log")))?;
        see_boot(qemu.stderr(log), Instant::now() + BOOT_LIMIT)
    }

    fn replay(&self, volume: &Export, trace: &Path, machines: u64, think: f64) -> Result<f64> {
        let script = root().join("xtask/src/bench/vendor/replay.py");
        let uri = format!("nbd+unix:///{}?socket={}", volume.name, volume.socket.display());
        let mut replay =
            command("/usr/bin/python3", &["-B", &script.to_string_lossy(), &uri, &trace.to_string_lossy()]);
        replay.args([machines, TOGETHER, self.image_bytes].map(|number| number.to_string())).arg(think.to_string());
        let line = output_within(replay, REPLAY_LIMIT)?;
        value_of(&line, "seconds").with_context(|| format!("replay.py printed no seconds: {line}"))
    }
}

/// Runs a machine until it has switched itself off: when it mounted its image, and when it said that it was through.
fn see_boot(machine: &mut Command, deadline: Instant) -> Result<(Instant, Instant)> {
    let mut machine = Running::start(machine.stdout(Stdio::piped()))?;
    let mut began = None;
    let mut said = String::new();
    for line in machine.lines_until(deadline) {
        let line = line.with_context(|| format!("a machine did not boot: {said}"))?;
        let text = String::from_utf8_lossy(&line);
        if text.contains(BEGINS) {
            began = Some(Instant::now());
        }
        if let (Some(began), true) = (began, text.contains(ENDS)) {
            let ended = Instant::now();
            machine.wait_until(deadline).context("a machine does not switch itself off")?;
            return Ok((began, ended));
        }
        said.push_str(&text);
    }
    bail!("a machine did not boot: {said}")
}

fn processors() -> f64 {
    thread::available_parallelism().map_or(1.0, |count| as_number(u64::try_from(count.get()).unwrap_or(1)))
}

#[allow(clippy::as_conversions, clippy::cast_precision_loss, reason = "far below 2^53")]
fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str =
        "time_us,op,offset_bytes,length_bytes\n# a comment\n1000,R,0,4096\n1500,R,8192,65536\n31500,W,4096,4096\n";

    #[test]
    fn a_recorded_boot_is_read_and_written_as_what_lies_between_its_requests() {
        let requests = parse(CSV);
        assert_eq!(requests.len(), 3);
        assert_eq!(requests[2], Request { at_us: 31_500, write: true, offset: 4096, length: 4096 });
        assert_eq!(gaps(&requests), "0,R,0,4096\n500,R,8192,65536\n30000,W,4096,4096\n");
        assert!((pauses(&requests) - 0.0305).abs() < 1e-9);
        assert_eq!(sums(&requests).0, 2);
        assert!((sums(&requests).1 - 69_632.0).abs() < 1e-9 && (sums(&requests).2 - 4096.0).abs() < 1e-9);
        assert!(gaps(&[]).is_empty() && pauses(&[]).abs() < 1e-9);
    }

    #[test]
    fn a_recording_of_several_frames_is_read_and_one_that_is_cut_off_is_refused() {
        let frame = |text: &str| {
            ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
        };
        let packed = [frame("1000,R,0,4096\n"), frame("1500,R,8192,65536\n")].concat();
        assert_eq!(unpack(&packed).expect("what was packed is text"), "1000,R,0,4096\n1500,R,8192,65536\n");
        assert!(unpack(&packed[..packed.len() - 3]).is_err());
    }

    #[test]
    fn a_machine_that_says_nothing_or_does_not_switch_itself_off_ends_at_the_deadline() {
        let seen = |script: &str, limit_ms| {
            see_boot(&mut command("sh", &["-c", script]), Instant::now() + Duration::from_millis(limit_ms))
        };
        let boots = format!("echo '{BEGINS}'; echo '{ENDS}'");
        let (began, ended) = seen(&boots, 600_000).expect("it boots");
        assert!(began <= ended);
        let hangs = ["exec sleep 600".to_owned(), format!("{boots}; exec sleep 600")];
        for hang in hangs {
            let error = format!("{:#}", seen(&hang, 100).expect_err("it hangs"));
            assert!(error.contains("deadline"), "{error}");
        }
        assert!(seen("echo panic", 600_000).expect_err("it ended").to_string().contains("did not boot: panic"));
    }

    #[test]
    fn the_plot_has_the_vendors_seconds_and_ours() {
        let row = Row::new("5 machines", Some((61.0, 27.0)), (20.0, 4.0));
        let Shape::Lines { series } = over_machines(&[row], &STEPS[..1]).shape else { panic!("lines") };
        assert_eq!(series[1].1, [(5.0, 27.0)]);
        assert_eq!(series[3].1, [(5.0, 4.0)]);
    }
}
