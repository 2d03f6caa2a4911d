//! A virtual machine in which the daemon runs, on disks of ours that survive it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hotset_e2e::daemon::{binary, free_port};
use hotset_e2e::files::{MIB, Site, build_folder};
use hotset_e2e::nbd::Client;
use hotset_e2e::pattern::Random;
use hotset_e2e::tools::{command, command_within, run, succeed};

use crate::guest_disk::{Disk, Power};

/// The disks by serial number, and their sizes in MiB. Small SSDs: rows fill, are moved and freed.
const DISKS: [(&str, u64); 6] = [("ssd0", 48), ("ssd1", 56), ("pages", 24), ("ext4", 128), ("xfs", 64), ("state", 32)];
/// The memory of most machines.
const MEMORY_MIB: u64 = 768;
/// The longest that a machine may run, whatever it says: a machine is as slow as what else runs here makes it, so that only one that never
/// comes to an end is caught by this.
const LIMIT_S: u64 = 1800;
/// Emulated as a plain one: what newer processors have slows the emulation down by a fifth.
pub(crate) const USUAL_PROCESSOR: &str = "Westmere,+rdrand";
/// A machine that says nothing for so long has failed.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The machine's parts, and what outlives it.
pub(crate) struct Lab {
    pub(crate) site: Site,
    power: Power,
    disks: Vec<Arc<Disk>>,
    /// The daemon's NBD port, on our loopback.
    port: u16,
    parts: Parts,
    memory_mib: u64,
}

/// What a machine starts from.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    /// Where the kernel is, and the archive of the machine's programs.
    folder: &'static Path,
    programs: &'static str,
    processor: &'static str,
}

impl Parts {
    /// Debian's kernel.
    pub(crate) fn usual() -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        Self::of(BUILT.get_or_init(|| build("lab-power", &[])), "initrd-daemon")
    }

    /// With PostgreSQL among the programs.
    pub(crate) fn with_database() -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        Self::of(BUILT.get_or_init(|| build("lab-database", &["database"])), "initrd-database")
    }

    /// With fio among the programs.
    pub(crate) fn with_fio() -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        Self::of(BUILT.get_or_init(|| build("lab-local", &["local"])), "initrd-local")
    }

    /// With systemd among the programs.
    pub(crate) fn with_systemd() -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        Self::of(BUILT.get_or_init(|| build("lab-systemd", &["systemd"])), "initrd-systemd")
    }

    /// The kernel of Debian's backports, which has ublk.
    pub(crate) fn with_ublk() -> Self {
        Self::of_backports("initrd-daemon")
    }

    /// With fio among the programs besides.
    pub(crate) fn with_ublk_and_fio() -> Self {
        Self::of_backports("initrd-local")
    }

    /// With systemd among the programs besides.
    pub(crate) fn with_ublk_and_systemd() -> Self {
        Self::of_backports("initrd-systemd")
    }

    fn of_backports(programs: &'static str) -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let parts = Self::of(BUILT.get_or_init(|| build("lab-ublk", &["ublk"])), programs);
        // In QEMU 7.2 this instruction spoils what newer kernels keep of memory.
        Self { processor: "Westmere,+rdrand,-cx16", ..parts }
    }

    fn of(folder: &'static Path, programs: &'static str) -> Self {
        Self { folder, programs, processor: USUAL_PROCESSOR }
    }
}

impl Lab {
    pub(crate) fn new(parts: Parts) -> Self {
        let (site, power, port) = (Site::new(), Power::default(), free_port());
        let disk = |(name, size_mib)| {
            let disk = Disk::new(&site.path(name), size_mib * MIB, power.clone());
            disk.serve(&site.socket(name));
            disk
        };
        let disks = DISKS.into_iter().map(disk).collect();
        relay(&site.socket("relay"), port);
        Self { site, power, disks, port, parts, memory_mib: MEMORY_MIB }
    }

    /// The next machine with these disks starts from something else.
    pub(crate) fn use_parts(&mut self, parts: Parts) {
        self.parts = parts;
    }

    /// The machine has so little memory that its kernel kills programs rather than wait for a disk that is slow because other tests run: it
    /// and its disks go before those, if this user may say so.
    pub(crate) fn with_little_memory(parts: Parts, memory_mib: u64) -> Self {
        let this = fs::read_link("/proc/thread-self").expect("threads have a folder");
        let id = this.file_name().and_then(OsStr::to_str).expect("it ends with a number");
        // Threads and programs that this one starts inherit it.
        run("renice", &["-n", "-10", "-p", id]);
        Self { memory_mib, ..Self::new(parts) }
    }

    /// To the volume `pages`; `start` is what the machine said of its start.
    pub(crate) fn connect(&self, start: &str) -> Client {
        let client = Client::connect(&self.site.socket("relay"), "pages");
        client.unwrap_or_else(|error| panic!("no volume: {error}\n{start}"))
    }

    /// What a power cut could take now.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.unflushed_bytes()).sum()
    }

    /// The power goes, for the machine and all disks at one moment.
    pub(crate) fn cut_power(&self, machine: &mut Machine) {
        self.power.cut();
        machine.kill();
    }

    /// Each sector that was not flushed is kept with this chance in a hundred, else lost; then there is power again.
    pub(crate) fn keep_some_writes(&self, random: &mut Random, kept_percent: u64) {
        self.disks.iter().for_each(|disk| disk.make_some_durable(random, kept_percent));
        self.power.restore();
    }

    /// Starts the machine: which script it runs, for the how-manieth time on these disks, and whether for the last time.
    pub(crate) fn boot(&self, phase: &str, boot: u64, last: bool) -> Machine {
        let (port, memory_mib) = (self.port, self.memory_mib);
        let Parts { folder, programs, processor } = self.parts;
        // One processor: two would be emulated in turn, and take a quarter longer for the same.
        let fixed = format!(
            "-accel tcg,thread=single -cpu {processor} -smp 1 -m {memory_mib} -nographic -no-reboot -monitor none \
            -serial stdio \
            -netdev user,id=net,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:10809 -device virtio-net-pci,netdev=net,romfile="
        );
        let mut arguments: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
        for (name, _) in DISKS {
            let socket = self.site.socket(name).display().to_string();
            let drive = format!("driver=nbd,server.type=unix,server.path={socket},if=none,id={name},cache=writeback");
            let device = format!("virtio-blk-pci,drive={name},serial={name},id=disk-{name},num-queues=1");
            arguments.extend(["-drive".to_owned(), drive, "-device".to_owned(), device]);
        }
        let part = |name: &str| folder.join(name).display().to_string();
        let last = u8::from(last);
        let append = format!(
            "console=ttyS0 earlyprintk=ttyS0 quiet panic=-1 mitigations=off rdinit=/init phase={phase} boot={boot} last={last}"
        );
        let files = ["-kernel", &part("vmlinuz"), "-initrd", &part(programs), "-append", &append];
        arguments.extend(files.map(str::to_owned));
        let control = self.site.socket(&format!("control{boot}"));
        arguments.extend(["-qmp".to_owned(), format!("unix:{},server=on,wait=off", control.display())]);
        let mut machine = Machine::start(&arguments, control.clone());
        // Now and then QEMU 7.2 ends before the newer kernel has said a word, let alone a program of ours run.
        if processor != USUAL_PROCESSOR && machine.ended_without_a_word() {
            eprintln!("QEMU ended before the kernel's first word, and is started a second time: {}", machine.said);
            machine = Machine::start(&arguments, control);
        }
        machine
    }
}

/// Makes the machine's parts, once in a run.
fn build(folder: &str, more: &[&str]) -> PathBuf {
    let folder = build_folder().join(folder);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/build.sh");
    let (to, daemon) = (folder.display().to_string(), binary().display().to_string());
    succeed("sh", &[&[script, &to, &daemon], more].concat());
    folder
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

/// Panics unless the machine that said this came to its end and nothing failed there; what did comes first.
#[track_caller]
pub(crate) fn assert_done(said: &str) {
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAILED")).collect();
    assert!(failed.is_empty(), "{}\nall that it said:\n{said}", failed.join("\n"));
    let last = said.lines().next_back().unwrap_or_default();
    assert!(said.contains("guest: done"), "its last words were: {last}\nall that it said:\n{said}");
}

/// A running machine and its console.
pub(crate) struct Machine {
    /// The program that limits its time, leader of a group of its own.
    child: Child,
    lines: mpsc::Receiver<String>,
    said: String,
    started: Instant,
    /// All that it said, each line with the second at which it did: for whoever asks why a test failed.
    transcript: String,
    /// The socket at which QEMU takes commands.
    control: PathBuf,
}

impl Machine {
    fn start(arguments: &[String], control: PathBuf) -> Self {
        let mut command = command_within(LIMIT_S, "qemu-system-x86_64", arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("QEMU can be started");
        let console = BufReader::new(child.stdout.take().expect("its console is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = console.split(b'\n').map_while(Result::ok);
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).try_for_each(|line| sender.send(line)).ok();
        });
        Self { child, lines, said: String::new(), started: Instant::now(), transcript: String::new(), control }
    }

    fn hear(&mut self, line: &str) {
        self.said += line;
        self.said += "\n";
        self.transcript += &format!("[{:5.1}] {line}\n", self.started.elapsed().as_secs_f64());
    }

    /// Why no more is heard of it.
    fn silence(&mut self, error: mpsc::RecvTimeoutError) -> String {
        match error {
            mpsc::RecvTimeoutError::Timeout => format!("it said nothing for {} s", TIMEOUT.as_secs()),
            mpsc::RecvTimeoutError::Disconnected => match self.child.wait() {
                Ok(status) => format!("it ended with {status}"),
                Err(error) => format!("its console is closed, and how it ended is unknown: {error}"),
            },
        }
    }

    /// Waits for the first word of a program of ours; whether the machine ended before that, and before its kernel said why.
    fn ended_without_a_word(&mut self) -> bool {
        while !self.said.contains("guest: ") {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    self.hear(&line);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return !self.said.contains("Kernel panic"),
                // Whoever waits for more says so.
                Err(mpsc::RecvTimeoutError::Timeout) => return false,
            }
        }
        false
    }

    /// Waits until it says so; returns all that it said since it was asked last.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, word: &str) -> String {
        while !self.said.contains(word) {
            let line = match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => line,
                Err(error) => panic!("no {word:?}, {}:\n{}", self.silence(error), self.transcript),
            };
            self.hear(&line);
            if self.said.contains("FAILED") && !self.said.contains(word) {
                assert_done(&self.rest());
            }
        }
        std::mem::take(&mut self.said)
    }

    /// What it said since it was waited for.
    pub(crate) fn said_so_far(&mut self) -> &str {
        while let Ok(line) = self.lines.try_recv() {
            self.hear(&line);
        }
        assert!(!self.said.contains("FAILED"), "{}", self.said);
        &self.said
    }

    /// What it said since it was waited for, and is not said again.
    pub(crate) fn take(&mut self) -> String {
        self.said_so_far();
        std::mem::take(&mut self.said)
    }

    /// Everything up to its end.
    pub(crate) fn rest(&mut self) -> String {
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            self.hear(&line);
        }
        std::mem::take(&mut self.said)
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let console = self.child.stdin.as_mut().expect("its console is piped");
        writeln!(console, "{line}").expect("it listens");
    }

    /// Pulls a disk out of the running machine; returns when the machine has let go of it.
    pub(crate) fn pull(&self, disk: &str) {
        let mut control = UnixStream::connect(&self.control).expect("QEMU listens");
        control.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a limit");
        let commands = [
            r#"{"execute":"qmp_capabilities"}"#.to_owned(),
            format!(r#"{{"execute":"device_del","arguments":{{"id":"disk-{disk}"}}}}"#),
        ];
        commands.iter().for_each(|command| writeln!(control, "{command}").expect("QEMU listens"));
        let mut answers = BufReader::new(control).lines().map(|line| line.expect("QEMU answers"));
        let gone = answers.find(|line| line.contains("\"error\"") || line.contains("DEVICE_DELETED"));
        let gone = gone.expect("QEMU goes on");
        assert!(gone.contains("DEVICE_DELETED"), "{disk} cannot be pulled: {gone}");
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
