//! Power cuts. The daemon runs in a virtual machine, on disks that forget at a cut what was not flushed: SSDs, backing
//! devices and the state directory's disk, each by itself. Nothing that was flushed may be missing afterwards.
//!
//! The journal of what was flushed is out here: of the volume `pages`, to which this program writes over the network, and
//! of the files that the machine's kernel made safe on ext4 and on xfs, which it tells on its console.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hotset_e2e::daemon::{binary, free_port};
use hotset_e2e::files::{MIB, Site, build_folder, read_part, usize_of};
use hotset_e2e::nbd::{Client, Error, FLAG_FUA, Verb};
use hotset_e2e::pattern::{Random, SECTOR, SECTOR_BYTES, Version, describe, is_sector, sectors};
use hotset_e2e::tools::{command, succeed};

use crate::guest_disk::{Disk, Power};

/// The disks by serial number, and their sizes in MiB. Small SSDs: rows fill, are moved and freed.
const DISKS: [(&str, u64); 6] = [("ssd0", 48), ("ssd1", 56), ("pages", 24), ("ext4", 64), ("xfs", 64), ("state", 32)];
/// The part of the volume `pages` that is written.
const REGION_SECTORS: u64 = 12 * MIB / SECTOR_BYTES;
/// How many requests are in flight.
const DEPTH: usize = 16;
/// A machine that says nothing of what is waited for within this time has failed.
const PATIENCE: Duration = Duration::from_secs(100);

/// Power cuts in a run; `HOTSET_CUTS` asks for another number.
fn cuts() -> u64 {
    let asked = std::env::var("HOTSET_CUTS").ok();
    asked.map_or(2, |cuts| cuts.parse().expect("HOTSET_CUTS is a number"))
}

// proves: D6, D11, F7, F8
#[test]
fn whatever_was_flushed_survives_power_cuts_of_disks_with_volatile_caches() {
    let lab = Lab::new();
    let (mut pages, mut files) = (Pages::new(), Files::default());
    let mut random = Random::new(23);
    for boot in 0..cuts() {
        let mut machine = lab.boot(boot, false);
        let start = machine.wait_for("guest: serving");
        let mut client = lab.connect(&start);
        pages.settle_after_cut(&mut client);
        let began = machine.wait_for("guest: forget");
        files.check(&began);
        files.learn(&began);
        let moment = random.below(700);
        let answered = pages.work_until_the_power_goes(&mut client, |answered| {
            let enough = answered >= moment && machine.said_so_far().contains("guest: safe");
            if enough && lab.unflushed_bytes() > 0 {
                lab.power.cut();
                machine.kill();
            }
        });
        files.learn(&machine.rest());
        let at_risk = lab.unflushed_bytes();
        // Everything is lost, or most, or hardly anything: a cache that was just being emptied.
        let kept_percent = [0, 15, 50, 90][usize_of(random.below(4))];
        println!("cut {boot}: {answered} answers, {files}, {at_risk} bytes at risk, {kept_percent} % of them kept");
        lab.disks.iter().for_each(|disk| disk.settle(&mut random, kept_percent));
        lab.power.restore();
    }

    let mut machine = lab.boot(cuts(), true);
    let start = machine.wait_for("guest: serving");
    pages.settle_after_cut(&mut lab.connect(&start));
    files.check(&machine.wait_for("guest: checked xfs"));
    machine.tell("go on");
    machine.wait_for("guest: done");
    // The cache is empty now, and the backing devices alone have everything.
    lab.disks.iter().for_each(|disk| disk.settle(&mut random, 0));
    pages.check_file(&lab.site.path("pages"));
    succeed("e2fsck", &["-f", "-n", &lab.site.path("ext4").display().to_string()]);
    succeed("xfs_repair", &["-n", &lab.site.path("xfs").display().to_string()]);
}

/// The machine's parts, and what outlives it.
struct Lab {
    site: Site,
    power: Power,
    disks: Vec<Arc<Disk>>,
    /// The daemon's NBD port, on our loopback.
    port: u16,
}

impl Lab {
    fn new() -> Self {
        let folder = Self::folder().display().to_string();
        let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/build.sh");
        succeed("sh", &[build, &folder, &binary().display().to_string()]);
        let (site, power, port) = (Site::new(), Power::default(), free_port());
        let disk = |(name, size_mib)| {
            let disk = Disk::new(&site.path(name), size_mib * MIB, power.clone());
            disk.serve(&site.socket(name));
            disk
        };
        let disks = DISKS.into_iter().map(disk).collect();
        relay(&site.socket("relay"), port);
        Self { site, power, disks, port }
    }

    fn folder() -> std::path::PathBuf {
        build_folder().join("lab-power")
    }

    /// To the volume `pages`; `start` is what the machine said of its start.
    fn connect(&self, start: &str) -> Client {
        let client = Client::connect(&self.site.socket("relay"), "pages");
        client.unwrap_or_else(|error| panic!("no volume: {error}\n{start}"))
    }

    /// What a power cut could take now.
    fn unflushed_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.unflushed_bytes()).sum()
    }

    fn boot(&self, boot: u64, last: bool) -> Machine {
        let port = self.port;
        let fixed = format!(
            "-accel tcg,thread=multi -cpu max -smp 2 -m 512 -nographic -no-reboot -monitor none -serial stdio \
            -netdev user,id=net,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:10809 -device virtio-net-pci,netdev=net,romfile="
        );
        let mut arguments: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
        for (name, _) in DISKS {
            let socket = self.site.socket(name).display().to_string();
            let drive = format!("driver=nbd,server.type=unix,server.path={socket},if=none,id={name},cache=writeback");
            let device = format!("virtio-blk-pci,drive={name},serial={name},num-queues=1");
            arguments.extend(["-drive".to_owned(), drive, "-device".to_owned(), device]);
        }
        let part = |name: &str| Self::folder().join(name).display().to_string();
        let last = u8::from(last);
        let append =
            format!("console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init phase=power boot={boot} last={last}");
        let files = ["-kernel", &part("vmlinuz"), "-initrd", &part("initrd-daemon"), "-append", &append];
        arguments.extend(files.map(str::to_owned));
        Machine::start(&arguments)
    }
}

/// Passes connections to a unix socket on to a TCP port, for our client.
fn relay(socket: &Path, port: u16) {
    let listener = UnixListener::bind(socket).expect("a socket can be made");
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let both = (near.try_clone().expect("a socket is shared"), far.try_clone().expect("a socket is shared"));
            thread::spawn(move || pass_on(near, far));
            thread::spawn(move || pass_back(both.1, both.0));
        }
    });
}

fn pass_on(mut near: UnixStream, mut far: TcpStream) {
    io::copy(&mut near, &mut far).ok();
    far.shutdown(Shutdown::Both).ok();
}

fn pass_back(mut far: TcpStream, mut near: UnixStream) {
    io::copy(&mut far, &mut near).ok();
    near.shutdown(Shutdown::Both).ok();
}

/// A running machine and its console.
struct Machine {
    /// The program that limits its time, leader of a group of its own.
    child: Child,
    lines: mpsc::Receiver<String>,
    said: String,
}

impl Machine {
    fn start(arguments: &[String]) -> Self {
        let mut command = command("qemu-system-x86_64", arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("QEMU can be started");
        let console = BufReader::new(child.stdout.take().expect("its console is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = console.split(b'\n').map_while(Result::ok);
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).try_for_each(|line| sender.send(line)).ok();
        });
        Self { child, lines, said: String::new() }
    }

    /// Waits until it says so; returns all that it said since it was asked last.
    #[track_caller]
    fn wait_for(&mut self, word: &str) -> String {
        let started = Instant::now();
        while !self.said.contains(word) {
            let line = self.lines.recv_timeout(PATIENCE.saturating_sub(started.elapsed()));
            self.said += &line.unwrap_or_else(|error| panic!("no {word:?} ({error}) in:\n{}", self.said));
            self.said += "\n";
            assert!(!self.said.contains("FAILED") || self.said.contains(word), "{}", self.rest());
        }
        std::mem::take(&mut self.said)
    }

    /// What it said since it was waited for.
    fn said_so_far(&mut self) -> &str {
        while let Ok(line) = self.lines.try_recv() {
            self.said += &line;
            self.said += "\n";
        }
        assert!(!self.said.contains("FAILED"), "{}", self.said);
        &self.said
    }

    /// Everything up to its end.
    fn rest(&mut self) -> String {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said += &line;
            self.said += "\n";
        }
        std::mem::take(&mut self.said)
    }

    fn tell(&mut self, line: &str) {
        let console = self.child.stdin.as_mut().expect("its console is piped");
        writeln!(console, "{line}").expect("it listens");
    }

    fn kill(&mut self) {
        // With the program that limits its time, which is the leader of their group.
        let group = format!("-{}", self.child.id());
        command("kill", &["-KILL", "--", &group]).status().expect("kill is a program");
        self.child.wait().expect("the machine is ours");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// What a sector of the volume may hold.
#[derive(Clone, Default)]
struct Sector {
    /// Flushed: nothing older may come back.
    flushed: u64,
    /// The newest one that was answered.
    answered: u64,
    /// Sent, and newer than the flushed one.
    since: Vec<u64>,
    busy: bool,
}

/// What waits for its answer.
enum Sent {
    Write {
        first: u64,
        count: u64,
        version: u64,
        through: bool,
    },
    /// With the versions that were answered when it was sent.
    Flush(Vec<u64>),
}

/// The journal of the volume `pages`.
struct Pages {
    known: Vec<Sector>,
    version: u64,
    random: Random,
}

impl Pages {
    fn new() -> Self {
        Self { known: vec![Sector::default(); usize_of(REGION_SECTORS)], version: 0, random: Random::new(7) }
    }

    fn range(&mut self, first: u64, count: u64) -> &mut [Sector] {
        &mut self.known[usize_of(first)..usize_of(first + count)]
    }

    /// Writes and flushes; `look` is told how many were answered, and cuts the power at some time. Returns how many.
    fn work_until_the_power_goes(&mut self, client: &mut Client, mut look: impl FnMut(u64)) -> u64 {
        let (mut sent, mut answered) = (BTreeMap::new(), 0);
        loop {
            while client.in_flight() < DEPTH {
                match self.send(client) {
                    Ok((cookie, request)) => sent.insert(cookie, request),
                    Err(_) => return answered,
                };
            }
            match client.receive() {
                Err(Error::Connection(_)) => return answered,
                Err(error) => panic!("{error}"),
                Ok(reply) => {
                    // Without power, its devices are gone for the daemon too.
                    assert_eq!(reply.error, 0, "after {answered} answers");
                    self.settle(sent.remove(&reply.cookie).expect("the client checks that it was asked"));
                }
            }
            answered += 1;
            look(answered);
        }
    }

    fn send(&mut self, client: &mut Client) -> Result<(u64, Sent), Error> {
        let kind = self.random.below(200);
        if kind < 3 {
            let answered = self.known.iter().map(|sector| sector.answered).collect();
            return Ok((client.send(Verb::Flush, 0, 0, 0, &[])?, Sent::Flush(answered)));
        }
        let (first, count) = self.free_range();
        self.version += 1;
        let (version, through) = (self.version, kind < 6);
        for sector in self.range(first, count) {
            sector.busy = true;
            sector.since.push(version);
        }
        let data = sectors(first, count, Version::Number(version));
        let length = u32::try_from(count * SECTOR_BYTES).expect("requests are short");
        let flags = if through { FLAG_FUA } else { 0 };
        let cookie = client.send(Verb::Write, flags, first * SECTOR_BYTES, length, &data)?;
        Ok((cookie, Sent::Write { first, count, version, through }))
    }

    /// A random range that nothing in flight touches: whole pages, parts of them, and now and then many.
    fn free_range(&mut self) -> (u64, u64) {
        loop {
            let count = [8, 8, 8, 1 + self.random.below(24), 256][usize_of(self.random.below(5))];
            let first = self.random.below((REGION_SECTORS - count) / 8) * 8;
            let first = if count < 8 { first + self.random.below(8 - count) } else { first };
            if self.range(first, count).iter().all(|sector| !sector.busy) {
                return (first, count);
            }
        }
    }

    fn settle(&mut self, sent: Sent) {
        match sent {
            Sent::Write { first, count, version, through } => {
                for sector in self.range(first, count) {
                    sector.busy = false;
                    sector.answered = version;
                    if through {
                        sector.flush_up_to(version);
                    }
                }
            }
            Sent::Flush(answered) => {
                self.known.iter_mut().zip(answered).for_each(|(sector, version)| sector.flush_up_to(version));
            }
        }
    }

    /// Asserts that every sector is in a legal version, and flushes: it is the only one from now on.
    fn settle_after_cut(&mut self, client: &mut Client) {
        for first in (0..REGION_SECTORS).step_by(512) {
            let bytes = client.read(first * SECTOR_BYTES, 512 * 512).expect("a read");
            for (number, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
                let sector = &mut self.range(number, 1)[0];
                let found = sector.find(number, bytes);
                *sector = Sector { flushed: found, answered: found, since: Vec::new(), busy: false };
            }
        }
        client.flush().expect("a flush");
    }

    /// Asserts that a file is what was found last.
    fn check_file(&self, path: &Path) {
        let bytes = read_part(path, 0, usize_of(REGION_SECTORS * SECTOR_BYTES));
        for ((number, bytes), sector) in (0..).zip(bytes.chunks_exact(SECTOR)).zip(&self.known) {
            sector.find(number, bytes);
        }
    }
}

impl Sector {
    fn flush_up_to(&mut self, version: u64) {
        self.flushed = self.flushed.max(version);
        let flushed = self.flushed;
        self.since.retain(|version| *version > flushed);
    }

    /// The version that these bytes are; panics unless it is a legal one.
    fn find(&self, number: u64, bytes: &[u8]) -> u64 {
        let is = |version| match version {
            0 => is_sector(bytes, number, Version::Zeroes),
            version => is_sector(bytes, number, Version::Number(version)),
        };
        let found = self.since.iter().copied().chain([self.flushed]).find(|version| is(*version));
        found.unwrap_or_else(|| {
            panic!("sector {number}: flushed {}, sent {:?}, but it is {}", self.flushed, self.since, describe(bytes))
        })
    }
}

/// The files that the machine's kernel said are safe: of each file system, its files and their sums.
#[derive(Default)]
struct Files(BTreeMap<String, BTreeMap<String, String>>);

impl Files {
    /// Takes down what the machine said, in its order.
    fn learn(&mut self, said: &str) {
        for line in said.lines() {
            if let Some(name) = line.split("guest: forget ").nth(1) {
                self.0.insert(name.trim().to_owned(), BTreeMap::new());
            } else if let Some((name, sum, path)) = sum_line(line, "guest: safe ") {
                self.0.entry(name).or_default().insert(path, sum);
            }
        }
    }

    /// Asserts that the file systems that were just checked have all of their safe files.
    fn check(&self, said: &str) {
        for name in said.lines().filter_map(|line| line.split("guest: checked ").nth(1)) {
            let name = name.trim();
            let lines = said.lines().filter_map(|line| sum_line(line, "guest: sum "));
            let found: BTreeMap<_, _> = lines.filter(|line| line.0 == name).map(|(_, sum, path)| (path, sum)).collect();
            for (path, sum) in self.0.get(name).into_iter().flatten() {
                assert_eq!(found.get(path), Some(sum), "{path} on {name} was safe:\n{said}");
            }
        }
    }
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> =
            self.0.iter().map(|(name, files)| format!("{} files safe on {name}", files.len())).collect();
        f.write_str(&counts.join(", "))
    }
}

/// File system, sum and path of such a line.
fn sum_line(line: &str, mark: &str) -> Option<(String, String, String)> {
    let mut words = line.split(mark).nth(1)?.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?, words.next()?))
}
