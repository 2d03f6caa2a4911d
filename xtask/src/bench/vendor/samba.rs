//! B7: reads of a file on an SMB share: Samba on ext4, on a volume, without and with a cache.
//!
//! The volume is a block device by `nbdfuse` and a loop device, so that no other machine is needed. What the kernel's page cache
//! has of the file is dropped all the time: it is the volume that is measured.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::Bench;
use super::super::clients::{Export, value_of};
use super::plot::Panel;
use super::rig::{Curve, Kind, Rig, Ssds, warm_after};
use super::sheet::{Row, Sheet, Unit, WarmUp};
use crate::command::{clean_up, command, output_of, output_within, root, succeed};
use crate::running::{check_interruption, end};

const ARRAY: &str = "preset=b1,disks=4,disk-cache=1M,span=8G";
const SPEED: &str = "iops=50000,rate=500MB,flush=100us";
const VOLUME_BYTES: u64 = 640 << 20;
const FILE_BYTES: u64 = 512 << 20;
const SSD_BYTES: u64 = 384 << 20;
const OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "1", "--populate-on-write", "0"];
const CLIENTS: [u64; 3] = [1, 8, 16];
const REQUEST_BYTES: u64 = 64 << 10;
const VENDOR: (f64, f64) = (183.0, 1946.0);
const PORT: u16 = 44_445;
const START_LIMIT: Duration = Duration::from_secs(30);
/// A server that takes longer to end is killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Clients may take so much beside their seconds: until all are connected, and until the last read is answered.
const READ_SLACK: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// The file leaves the page cache so often.
const DROP: Duration = Duration::from_millis(200);
const WARM_HITS: f64 = 0.98;

pub(super) fn measure(bench: &Bench) -> Result<Sheet> {
    let scale = if bench.quick { 4 } else { 1 };
    let file_bytes = FILE_BYTES / scale;
    let rig = Rig::start(bench, "b7")?;
    let volume = rig.volume("share", ARRAY, VOLUME_BYTES / scale)?;
    let share = Share::start(bench, &volume, file_bytes)?;
    let clients: Vec<u64> = if bench.quick { vec![1, 8] } else { CLIENTS.to_vec() };
    let reads = |clients, seconds| share.reads(clients, seconds, file_bytes);
    let each = || clients.iter().map(|&clients| reads(clients, rig.seconds(8))).collect::<Result<Vec<_>>>();
    let without = each()?;
    rig.pool("pool", Kind::Read, Ssds { count: 2, bytes: SSD_BYTES / scale, speed: SPEED }, OPTIONS)?;
    rig.daemon.enable_cache("share", "pool")?;
    rig.daemon.set_fetch_rate("pool", "high")?;
    let curve = warm_up(&rig, &share, file_bytes)?;
    rig.daemon.set_fetch_rate("pool", "medium")?;
    let before = rig.daemon.counters("share")?;
    let with = each()?;
    let hits = rig.daemon.counters("share")?.hit_ratio_since(&before);
    let warm = warm_after(&curve, *with.last().context("there are clients")?);
    let rows = clients.iter().enumerate().map(|(index, clients)| {
        let what = if *clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        Row {
            warm_up: (index + 1 == with.len()).then_some(WarmUp { vendor: None, ours: warm, streaming: None }),
            note: format!(
                "{:.1} % of the reads hit; with the cache {:.0} MB/s come through Samba, clients, Samba, nbdfuse and daemon sharing this machine's processors",
                100.0 * hits,
                with[index] * 65_536.0 / 1e6
            ),
            ..Row::new(what, Some(VENDOR), (without[index], with[index]))
        }
    });
    Ok(Sheet {
        title: "64 KiB random reads of a file on an SMB share",
        vendor: "64 KiB random reads over SMB: 183 become 1,946 IOPS; neither disks nor clients were published, so each row stands beside that",
        ours: format!(
            "Samba (smbd) on ext4 on the volume, by nbdfuse and a loop device; clients of Samba's library on the same machine, each a process with a session and one read in flight; 4 disks of 7,200 rpm, RAID 5; a read pool of two SSDs emulated with {SPEED} each. The file leaves the kernel's page cache every {} ms",
            DROP.as_millis()
        ),
        scale: format!("a file of {} MiB; rates are not scaled", FILE_BYTES >> 20),
        unit: Unit::Iops,
        rows: rows.collect(),
        panels: vec![Panel::warm_up("Warm-up", vec![("16 clients".to_owned(), curve)])],
        remarks: vec![
            "Samba reads with the host's page cache between, whose misses are what reaches the volume.".to_owned(),
        ],
    })
}

fn warm_up(rig: &Rig<'_>, share: &Share, file_bytes: u64) -> Result<Curve> {
    let mut curve = Curve::new();
    let began = Instant::now();
    let limit = Duration::from_secs(rig.seconds(30));
    while began.elapsed() < limit {
        let before = rig.daemon.counters("share")?;
        let iops = share.reads(16, 1, file_bytes)?;
        curve.push((began.elapsed().as_secs_f64(), iops));
        if rig.daemon.counters("share")?.hit_ratio_since(&before) >= WARM_HITS {
            break;
        }
    }
    Ok(curve)
}

/// A share with one file. Dropping it takes it all away.
struct Share {
    folder: PathBuf,
    // In the order in which they end.
    _server: Server,
    _mounted: Undo,
    _attached: Undo,
    _unmounts_served: Undo,
    _served: Server,
}

impl Share {
    fn start(bench: &Bench, volume: &Export, file_bytes: u64) -> Result<Self> {
        let folder = bench.scratch.file("samba");
        for name in ["fuse", "share", "private", "home"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let disk = path("fuse/disk");
        let uri = format!("nbd+unix:///{}?socket={}", volume.name, volume.socket.display());
        let mut served = Server::start(bench, "nbdfuse", &[&disk, &uri])?;
        let unmounts_served = Undo::new("fusermount3", &["-u", "-z", "-q", &path("fuse")]);
        served.wait_until("nbdfuse has mounted", || Path::new(&disk).exists())?;
        let device = output_of(command("losetup", &["--find", "--show", "--direct-io=on", &disk]))?.trim().to_owned();
        let attached = Undo::new("losetup", &["--detach", &device]);
        succeed(command("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device]))?;
        succeed(command("mount", &["-t", "ext4", "-o", "noatime,nosuid,nodev", &device, &path("share")]))?;
        let mounted = Undo::new("umount", &[&path("share")]);
        let (of, count) = (format!("of={}", path("share/data")), format!("count={}", file_bytes >> 20));
        succeed(command("dd", &["if=/dev/urandom", &of, "bs=1M", &count, "conv=fsync", "status=none"]))?;
        fs::write(folder.join("smb.conf"), configuration(&folder.to_string_lossy()))?;
        let options = ["--foreground", "--no-process-group", &format!("--configfile={}", path("smb.conf"))];
        // Whoever answers there is ours.
        TcpListener::bind(("127.0.0.1", PORT)).with_context(|| format!("port {PORT} is for smbd, and taken"))?;
        let mut server = Server::start(bench, "smbd", &options).context("Samba is in the package samba")?;
        server.wait_until("smbd listens", || TcpStream::connect(("127.0.0.1", PORT)).is_ok())?;
        Ok(Self {
            folder,
            _server: server,
            _mounted: mounted,
            _attached: attached,
            _unmounts_served: unmounts_served,
            _served: served,
        })
    }

    /// What so many clients read in a second.
    fn reads(&self, clients: u64, seconds: u64, file_bytes: u64) -> Result<f64> {
        /// Each in another order than those before.
        static SEED: AtomicU64 = AtomicU64::new(1);
        let script = root().join("xtask/src/bench/vendor/smb_reads.py");
        let url = format!("smb://127.0.0.1:{PORT}/share/data");
        let numbers = [clients, seconds, file_bytes, REQUEST_BYTES, SEED.fetch_add(1, Ordering::Relaxed)];
        let mut readers = command("python3", &["-B", &script.to_string_lossy(), &url]);
        readers.args(numbers.map(|number| number.to_string())).env("HOME", self.folder.join("home"));
        let ended = AtomicBool::new(false);
        let line = thread::scope(|scope| {
            let dropped = scope.spawn(|| self.keep_out_of_page_cache(&ended));
            let line = output_within(readers, Duration::from_secs(seconds) + READ_SLACK);
            ended.store(true, Ordering::Relaxed);
            dropped.join().expect("it does not panic")?;
            line
        })?;
        value_of(&line, "iops").with_context(|| format!("smb_reads.py printed no iops: {line}"))
    }

    fn keep_out_of_page_cache(&self, ended: &AtomicBool) -> Result<()> {
        let file = format!("if={}", self.folder.join("share/data").display());
        while !ended.load(Ordering::Relaxed) {
            succeed(command("dd", &[&file, "iflag=nocache", "count=0", "status=none"]))?;
            thread::sleep(DROP);
        }
        Ok(())
    }
}

/// Guests read as root what lies in the folder's `share`.
fn configuration(folder: &str) -> String {
    let folders: String =
        ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"]
            .iter()
            .map(|name| format!("  {name} = {folder}/private\n"))
            .collect();
    format!(
        "[global]\n  server role = standalone server\n  map to guest = bad user\n  guest account = root\n  smb ports = {PORT}\n  \
        interfaces = 127.0.0.1\n  bind interfaces only = yes\n  disable netbios = yes\n  load printers = no\n  disable spoolss = yes\n  \
        log file = {folder}/private/log\n{folders}[share]\n  path = {folder}/share\n  guest ok = yes\n  read only = yes\n"
    )
}

/// A program that serves until the value is dropped.
struct Server(Child);

impl Server {
    fn start(bench: &Bench, program: &str, arguments: &[&str]) -> Result<Self> {
        let log = fs::File::create(bench.scratch.file(&format!("{program}.log")))?;
        let mut server = command(program, arguments);
        // It ends when the value does, not with a key; smbd ends all of its process group with itself.
        server.stdout(Stdio::from(log.try_clone()?)).stderr(log).process_group(0);
        Ok(Self(server.spawn().with_context(|| format!("cannot start {program}"))?))
    }

    /// Waits for what the server does at its start.
    fn wait_until(&mut self, what: &str, mut there: impl FnMut() -> bool) -> Result<()> {
        let began = Instant::now();
        loop {
            // Before the server is believed to have done it: what is there may be another's.
            if let Some(status) = self.0.try_wait()? {
                bail!("it ended at its start ({status}), not yet: {what}");
            }
            if there() {
                return Ok(());
            }
            check_interruption()?;
            if began.elapsed() > START_LIMIT {
                bail!("not after {START_LIMIT:?}: {what}");
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = end(&mut self.0, STOP_LIMIT) {
            eprintln!("cargo x bench: cannot end a server: {error:#}");
        }
    }
}

/// A command that undoes something when the value is dropped.
struct Undo(Vec<String>);

impl Undo {
    fn new(program: &str, arguments: &[&str]) -> Self {
        Self(std::iter::once(&program).chain(arguments).map(|&word| word.to_owned()).collect())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        let began = Instant::now();
        // What used it may take a moment to be gone.
        while let Err(error) = clean_up(command(words[0], &words[1..])) {
            if began.elapsed() > START_LIMIT {
                eprintln!("cargo x bench: {error:#}");
                return;
            }
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ended_is_not_believed_to_have_done_what_another_did() {
        let server =
            |script: &str| Server(command("sh", &["-c", script]).process_group(0).spawn().expect("a shell starts"));
        let mut ended = server("exit 3");
        ended.0.wait().expect("it is waited for");
        let error = ended.wait_until("it listens", || true).expect_err("it has ended");
        assert_eq!(error.to_string(), "it ended at its start (exit status: 3), not yet: it listens");
        assert!(server("exec sleep 600").wait_until("it listens", || true).is_ok());
    }

    #[test]
    fn the_share_is_for_guests_of_this_machine_alone() {
        let text = configuration("/somewhere");
        for line in [
            "  interfaces = 127.0.0.1",
            "  smb ports = 44445",
            "  path = /somewhere/share",
            "  guest ok = yes",
            "  read only = yes",
            "  state directory = /somewhere/private",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
}
