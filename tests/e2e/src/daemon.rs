//! A daemon of one's own: `hotset serve` on sockets and files that no other test sees.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::clock::Moment;
use crate::files::{MIB, Site};
use crate::nbd::Client;
use crate::pattern::{PAGE_BYTES, assert_pages};
use crate::tools;

/// A start that takes longer has failed.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A stop that takes longer has failed: "within seconds, whatever the load".
pub const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The binary under test: `HOTSET_BIN`, else the one that cargo builds beside this program.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("HOTSET_BIN") {
            return PathBuf::from(path);
        }
        let built = Command::new("cargo").args(["build", "--quiet", "--package=hotset"]).status();
        assert!(built.is_ok_and(|status| status.success()), "hotset does not build");
        let program = std::env::current_exe().expect("a program can ask for its own path");
        program.ancestors().nth(2).expect("cargo puts test programs into TARGET/PROFILE/deps").join("hotset")
    })
}

/// A TCP port on which nobody listens. Ports are given out in turn, so that no other test gets the same soon.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A running (or stopped) daemon with its files. Dropping it kills it; a failing test prints its log.
pub struct Daemon {
    pub site: Site,
    arguments: Vec<String>,
    /// A program and its arguments, after which come the daemon's.
    run_by: Vec<String>,
    /// Another program than [`binary`].
    build: Option<PathBuf>,
    child: Option<Child>,
    kept: Option<KeptSockets>,
    /// Takes its standard error, if that is no file of ours.
    log_sink: Option<OwnedFd>,
    /// What the newest start told its service manager, until it was ready.
    told_at_start: Vec<String>,
}

/// Sockets that outlive the daemon, as a service manager keeps them for it.
struct KeptSockets {
    nbd: OwnedFd,
    api: OwnedFd,
}

impl Daemon {
    /// Starts a daemon that knows no pools and no volumes, and has no memory cache: what hosts read comes from SSDs and backing devices.
    pub fn start() -> Self {
        Self::start_with("--missing-wait 1")
    }

    /// The same, with more arguments to `serve`.
    pub fn start_with(arguments: &str) -> Self {
        let mut daemon = Self::prepare(arguments);
        daemon.launch();
        daemon
    }

    /// One that is not started yet.
    pub fn prepare(arguments: &str) -> Self {
        Self {
            site: Site::new(),
            arguments: words(&format!("--memory-cache 0 {arguments}")),
            run_by: Vec::new(),
            build: None,
            child: None,
            kept: None,
            log_sink: None,
            told_at_start: Vec::new(),
        }
    }

    /// From the next start on it has what only its configuration and its records say of a memory cache.
    pub fn allow_memory_cache(&mut self) {
        self.arguments.retain(|word| !["--memory-cache", "0"].contains(&word.as_str()));
    }

    /// From the next start on its sockets are there already, and stay when it ends. With a port, hosts come over TCP.
    pub fn keep_sockets(&mut self, port: Option<u16>) {
        let unix = |path| OwnedFd::from(UnixListener::bind(path).expect("a socket can be made"));
        let nbd = match port {
            None => unix(self.nbd_socket()),
            Some(port) => TcpListener::bind(("127.0.0.1", port)).expect("the port is free").into(),
        };
        self.kept = Some(KeptSockets { nbd, api: unix(self.api_socket()) });
    }

    /// From the next start on its standard error goes there.
    pub fn log_to(&mut self, sink: impl Into<OwnedFd>) {
        self.log_sink = Some(sink.into());
    }

    /// More arguments to `serve`, from the next start on.
    pub fn add_arguments(&mut self, arguments: &str) {
        self.arguments.extend(words(arguments));
    }

    /// From the next start on it is this program that runs the daemon, in its place: it gets the daemon's command line and has
    /// to become it.
    pub fn run_by(&mut self, program: &[&str]) {
        self.run_by = program.iter().map(|&word| word.to_owned()).collect();
    }

    /// From the next start on it is this build of the daemon.
    pub fn use_build(&mut self, build: &Path) {
        self.build = Some(build.to_owned());
    }

    /// Asserts that it did not end by itself.
    #[track_caller]
    pub fn assert_running(&mut self) {
        let ended = self.child.as_mut().expect("it was started").try_wait().expect("a child can be asked");
        assert!(ended.is_none(), "the daemon ended by itself: {ended:?}");
    }

    /// Starts it (again) and waits until it says that it is ready.
    #[track_caller]
    pub fn launch(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let notify = self.site.socket("notify");
        match fs::remove_file(&notify) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("the old notify socket stays: {error}"),
            _ => {}
        }
        let socket = UnixDatagram::bind(&notify).expect("a socket can be made");
        let log = File::options().create(true).append(true).open(self.site.path("log")).expect("the log can be opened");
        let mut command = self.serve_command();
        match &self.kept {
            None => command.stdout(log.try_clone().expect("a file can be shared")),
            Some(kept) => kept.pass_to(&mut command),
        };
        match &self.log_sink {
            None => command.stderr(log),
            Some(sink) => command.stderr(sink.try_clone().expect("a descriptor can be shared")),
        };
        command.env("NOTIFY_SOCKET", &notify);
        self.child = Some(command.spawn().expect("hotset can be started"));
        self.wait_until_ready(&socket);
    }

    /// Starts it and kills it before it can say anything.
    pub fn launch_and_kill_after(&mut self, life: Duration) {
        let mut child = self.serve_command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        thread::sleep(life);
        child.kill().expect("a child of ours can be killed");
        child.wait().expect("a child of ours can be waited for");
    }

    /// The lines that the newest start sent to its service manager, the last of which says that it is ready.
    pub fn told_at_start(&self) -> &[String] {
        &self.told_at_start
    }

    /// Starts it, and kills it as soon as its state says so: as a service manager kills one that does not get ready. A
    /// process ends only when its I/O has: `let_go` sees to that.
    pub fn launch_and_kill_when(&mut self, is_so: impl Fn(&Self) -> bool, let_go: impl FnOnce()) {
        let mut child = self.serve_command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        tools::eventually("the moment has come", START_LIMIT, || is_so(self));
        child.kill().expect("a child of ours can be killed");
        let_go();
        child.wait().expect("a child of ours can be waited for");
    }

    #[track_caller]
    fn wait_until_ready(&mut self, socket: &UnixDatagram) {
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("200 ms is a time");
        let started = Moment::now();
        let mut message = [0; 256];
        self.told_at_start.clear();
        loop {
            if let Ok(len) = socket.recv(&mut message) {
                let told = String::from_utf8_lossy(&message[..len]).lines().map(str::to_owned).collect::<Vec<_>>();
                let is_ready = told.iter().any(|line| line == "READY=1");
                self.told_at_start.extend(told);
                if is_ready {
                    return;
                }
            }
            let child = self.child.as_mut().expect("it was just started");
            if let Some(status) = child.try_wait().expect("a child can be asked") {
                panic!("the daemon ended at its start ({status})");
            }
            assert!(started.elapsed() < START_LIMIT, "the daemon is not ready after {START_LIMIT:?}");
        }
    }

    fn serve_command(&self) -> Command {
        let build = self.build.as_deref().unwrap_or_else(|| binary());
        let own = match &self.kept {
            None => Command::new(build),
            Some(_) => KeptSockets::starter(build),
        };
        let mut line = self.run_by.iter().map(OsString::from).chain([own.get_program().to_owned()]);
        let mut command = Command::new(line.next().expect("a line ends with the daemon"));
        command.args(line).args(own.get_args()).arg("serve").arg("--state").arg(self.site.path("state"));
        command.arg("--api").arg(format!("unix:{}", self.api_socket().display()));
        command.arg("--nbd").arg(format!("unix:{}", self.nbd_socket().display()));
        command.args(&self.arguments).stdin(Stdio::null()).env_remove("HOTSET_API");
        command
    }

    /// Starts a second one beside it, with the same or with other arguments, and waits for its end.
    pub fn second(&self, arguments: &str) -> Output {
        tools::command(&binary().to_string_lossy(), &words(arguments)).output().expect("hotset can be started")
    }

    pub fn api_socket(&self) -> PathBuf {
        self.site.socket("api")
    }

    pub fn nbd_socket(&self) -> PathBuf {
        self.site.socket("nbd")
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Power gone, for the daemon alone.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("a child of ours can be killed");
        child.wait().expect("a child of ours can be waited for");
    }

    /// Its process does not run for so long.
    pub fn pause_for(&self, duration: Duration) {
        let pid = self.pid().to_string();
        tools::succeed("kill", &["-STOP", &pid]);
        // The length of the pause is what a test varies.
        thread::sleep(duration);
        tools::succeed("kill", &["-CONT", &pid]);
    }

    /// Asks it to stop, and waits; panics if that takes longer than [`STOP_LIMIT`].
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.stop_by("-TERM")
    }

    /// Asks it to stop by a signal of one's choice.
    #[track_caller]
    pub fn stop_by(&mut self, signal: &str) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        tools::succeed("kill", &[signal, &child.id().to_string()]);
        let began = Moment::now();
        while began.elapsed() < STOP_LIMIT {
            if let Some(status) = child.try_wait().expect("a child of ours can be asked") {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        child.kill().expect("a child of ours can be killed");
        child.wait().expect("a child of ours can be waited for");
        panic!("the daemon did not stop within {STOP_LIMIT:?}");
    }

    /// A clean stop and a start.
    #[track_caller]
    pub fn restart(&mut self) {
        let status = self.stop();
        assert!(status.success(), "a clean stop ends with 0, not {status}");
        self.launch();
    }

    /// A verb that is not started yet; words are separated by spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = tools::command(&binary().to_string_lossy(), &words(arguments));
        command.env("HOTSET_API", format!("unix:{}", self.api_socket().display()));
        command
    }

    /// Runs a verb; words are separated by spaces.
    pub fn hotset(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("hotset can be started")
    }

    /// Runs a verb that must succeed; returns what it printed.
    #[track_caller]
    pub fn ok(&self, arguments: &str) -> String {
        let output = self.hotset(arguments);
        assert!(output.status.success(), "hotset {arguments}: {}", tools::text(&output));
        String::from_utf8(output.stdout).expect("hotset prints text")
    }

    /// Runs a verb that must succeed, with `-o json`.
    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        let text = self.ok(&format!("{arguments} -o json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("hotset {arguments} -o json: {error}: {text}"))
    }

    /// Runs a verb that must fail with this code, and with words that contain `part`, whatever their case.
    #[track_caller]
    pub fn refuse(&self, arguments: &str, code: i32, part: &str) -> String {
        let output = self.hotset(arguments);
        let text = tools::text(&output);
        assert_eq!(output.status.code(), Some(code), "hotset {arguments}: {text}");
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "hotset {arguments}: no {part:?} in: {text}");
        text
    }

    /// Whether hosts can use a volume now.
    pub fn is_online(&self, volume: &str) -> bool {
        let output = self.hotset(&format!("volume show {volume} -o json"));
        let shown: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        output.status.success() && shown.is_some_and(|shown| shown["state"] == "online")
    }

    /// A counter of a volume, by its JSON name.
    #[track_caller]
    pub fn stat(&self, volume: &str, name: &str) -> u64 {
        let shown = self.json(&format!("volume show {volume}"));
        shown["stats"][name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {shown}"))
    }

    /// Bytes of a volume that are acknowledged and not yet on its backing device.
    #[track_caller]
    pub fn dirty_bytes(&self, volume: &str) -> u64 {
        let shown = self.json(&format!("volume show {volume}"));
        shown["dirty_bytes"].as_u64().unwrap_or_else(|| panic!("no dirty_bytes in {shown}"))
    }

    /// Starts a verb that takes long; words are separated by spaces.
    pub fn begin(&self, arguments: &str) -> Child {
        let mut command = Command::new(binary());
        command.args(words(arguments)).env("HOTSET_API", format!("unix:{}", self.api_socket().display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("hotset can be started")
    }

    #[track_caller]
    pub fn cache_used_bytes(&self, volume: &str) -> u64 {
        let shown = self.json(&format!("volume show {volume}"));
        shown["cache_used_bytes"].as_u64().unwrap_or_else(|| panic!("no cache_used_bytes in {shown}"))
    }

    /// The address of an export, for other people's clients.
    pub fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.nbd_socket().display())
    }

    #[track_caller]
    pub fn client(&self, volume: &str) -> Client {
        Client::connect(&self.nbd_socket(), volume)
            .unwrap_or_else(|error| panic!("cannot connect to {volume}: {error}"))
    }

    /// Makes a read pool `p` of images of these sizes: `ssd0`, `ssd1`, …, with 64 KiB blocks and more arguments.
    #[track_caller]
    pub fn make_pool(&self, sizes_mib: &[u64], arguments: &str) {
        let ssds = self.make_ssds(sizes_mib);
        self.ok(&format!("pool create p --type read --io-type custom --block-size 64K {arguments} --ssd {ssds}"));
    }

    /// Makes a read-write pool `p` of SSDs of these sizes.
    #[track_caller]
    pub fn make_read_write_pool(&self, sizes_mib: &[u64], arguments: &str) {
        let ssds = self.make_ssds(sizes_mib);
        self.ok(&format!("pool create p --type read-write --io-type custom --block-size 64K {arguments} --ssd {ssds}"));
    }

    fn make_ssds(&self, sizes_mib: &[u64]) -> String {
        let sizes = sizes_mib.iter().enumerate();
        let paths = sizes.map(|(index, size_mib)| self.site.blank(&format!("ssd{index}"), size_mib * MIB));
        paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Makes volume `v` over a new image `backing` with pages in version 0, cached by pool `p` unless that is empty.
    #[track_caller]
    pub fn make_volume(&self, page_count: u64, pool: &str) -> PathBuf {
        let backing = self.site.numbered("backing", page_count);
        let pool = if pool.is_empty() { String::new() } else { format!("--pool {pool}") };
        self.ok(&format!("volume create v --backing {} {pool}", backing.display()));
        backing
    }

    /// Reads all of `v`, in pieces of 64 KiB, and asserts that it is in version 0.
    #[track_caller]
    pub fn assert_volume_pages(&self, page_count: u64) {
        let mut client = self.client("v");
        for first in (0..page_count).step_by(16) {
            let count = 16.min(page_count - first);
            let length = u32::try_from(count * PAGE_BYTES).expect("a piece is below 4 GiB");
            let bytes = client.read(first * PAGE_BYTES, length).unwrap_or_else(|error| panic!("page {first}: {error}"));
            assert_pages(&bytes, first, 0);
        }
    }

    /// Brings all of `v` into the cache and waits until it is there.
    #[track_caller]
    pub fn warm_up(&self, page_count: u64) {
        let mut client = self.client("v");
        let chunk = 256;
        for first in (0..page_count).step_by(chunk) {
            let count = (page_count - first).min(256);
            let length = u32::try_from(count * PAGE_BYTES).expect("a piece is below 4 GiB");
            client.cache(first * PAGE_BYTES, length).unwrap_or_else(|error| panic!("CACHE at page {first}: {error}"));
        }
        tools::eventually("the whole volume is in the cache", Duration::from_secs(30), || {
            self.cache_used_bytes("v") >= page_count * PAGE_BYTES
        });
    }

    /// What the daemon wrote to its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.site.path("log")).unwrap_or_default()
    }

    /// Memory that the daemon has in use now.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes_of(self.pid()).expect("the daemon runs")
    }
}

/// Memory that a process has in use now; none when there is none.
pub fn resident_bytes_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// How many descriptors a process has open now.
pub fn descriptors_of(pid: u32) -> Option<usize> {
    fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

impl KeptSockets {
    /// A shell that gives its standard input and output to the daemon as its sockets, and becomes the daemon
    /// (sd_listen_fds(3)).
    fn starter(build: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = r#"exec 3<&0 4<&1 </dev/null >&2; export LISTEN_FDS=2 LISTEN_PID=$$; exec "$@""#;
        command.args(["-c", script, "sh"]).arg(build);
        command
    }

    fn pass_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let share = |socket: &OwnedFd| Stdio::from(socket.try_clone().expect("a socket can be shared"));
        command.stdin(share(&self.nbd)).stdout(share(&self.api))
    }
}

fn words(arguments: &str) -> Vec<String> {
    arguments.split_whitespace().map(str::to_owned).collect()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
        if thread::panicking() {
            let log = self.log();
            let tail = log.lines().count().saturating_sub(60);
            let lines: Vec<_> = log.lines().skip(tail).collect();
            eprintln!("---- the daemon's last words ----\n{}\n----", lines.join("\n"));
        }
    }
}
