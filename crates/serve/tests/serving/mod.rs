//! A server on a thread of its own, for tests that talk to it from outside.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hotset_block::emulated::EmulatedArray;
use hotset_block::sync::Promise;
use hotset_block::{Executor, ExecutorOptions, FileDevice, FileOptions, HostDevice, HostEnv, MemoryDevice, Remote};
use hotset_cache::Volume;
use hotset_cache::config::{VolumeSettings, VolumeSpec};
use hotset_serve::nbd::Server;
use hotset_serve::{Door, Exports, ServerSettings, TlsAcceptor, TlsFiles};
use tempfile::TempDir;

/// How long anything may take before a test fails.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A program that is being started has, for a moment, whatever is open in this process: none is while files are opened, which are
/// refused if somebody else has them.
static STARTING: Mutex<()> = Mutex::new(());

thread_local! {
    static VOLUMES: RefCell<Vec<Volume<HostEnv>>> = const { RefCell::new(Vec::new()) };
    static EXPORTS: RefCell<Option<Exports>> = const { RefCell::new(None) };
    static DONE: RefCell<Option<Promise<()>>> = const { RefCell::new(None) };
}

/// What lies under a volume.
#[derive(Clone, Debug)]
pub(crate) enum Backing {
    Memory(u64),
    File(PathBuf),
    /// As an administrator spells it.
    Emulated(String),
}

/// A volume to be served.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) name: &'static str,
    pub(crate) backing: Backing,
    pub(crate) settings: VolumeSettings,
}

impl Served {
    pub(crate) fn memory(name: &'static str, size_bytes: u64) -> Self {
        Self { name, backing: Backing::Memory(size_bytes), settings: VolumeSettings::default() }
    }

    pub(crate) async fn open(&self, env: &HostEnv) -> Volume<HostEnv> {
        let device = match &self.backing {
            Backing::Memory(size_bytes) => HostDevice::Memory(MemoryDevice::new(*size_bytes, 512)),
            Backing::File(path) => {
                let options =
                    FileOptions { read_only: self.settings.read_only, to_the_end: true, ..FileOptions::default() };
                HostDevice::File(FileDevice::open(env, path, options).expect("the file can be opened"))
            }
            Backing::Emulated(spelling) => {
                let array = spelling.parse().expect("a valid spelling");
                let opened = EmulatedArray::open(env, &array, FileOptions::default()).await;
                HostDevice::Emulated(opened.expect("the array can be made"))
            }
        };
        let backing = format!("{:?}", self.backing);
        let spec = VolumeSpec { name: self.name.parse().expect("a valid name"), backing, settings: self.settings };
        Volume::open(env.clone(), spec, device).expect("the volume can be opened")
    }
}

/// A running server with a unix socket, a TCP port, and one with TLS if it was given files. Stops when dropped.
pub(crate) struct Serving {
    pub(crate) directory: TempDir,
    pub(crate) tcp: SocketAddr,
    pub(crate) tls: Option<SocketAddr>,
    remote: Remote,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub(crate) fn volumes(volumes: &[Served]) -> Self {
        Self::start(volumes, ServerSettings::default(), None)
    }

    pub(crate) fn start(volumes: &[Served], settings: ServerSettings, tls: Option<TlsFiles>) -> Self {
        Self::start_at(volumes, settings, tls, Door::alone())
    }

    /// As one of several threads that serve.
    pub(crate) fn start_at(volumes: &[Served], settings: ServerSettings, tls: Option<TlsFiles>, door: Door) -> Self {
        let directory = TempDir::new().expect("a directory");
        let socket = directory.path().join("nbd.sock");
        let volumes = volumes.to_vec();
        let (started, start) = mpsc::channel();
        let no_program_starts = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::spawn(move || {
            let executor = Executor::new(ExecutorOptions::default()).expect("io_uring is available");
            let remote = executor.remote();
            executor.run(|env: HostEnv| async move {
                let exports = Exports::new(env.clone(), settings, door);
                let server = Server::new(exports.clone());
                for volume in &volumes {
                    let volume = volume.open(&env).await;
                    VOLUMES.with_borrow_mut(|volumes| volumes.push(volume.clone()));
                    exports.add(volume).expect("a new name");
                }
                server.listen_unix(&socket, None).expect("the socket can be made");
                let tcp = listen_tcp(&server, None);
                let tls = tls.map(|files| listen_tcp(&server, Some(TlsAcceptor::of(&files).expect("good files"))));
                let (done, ended) = Promise::new();
                DONE.set(Some(done));
                EXPORTS.set(Some(exports));
                started.send((tcp, tls, remote)).expect("the test waits");
                ended.await;
            });
            EXPORTS.take();
            VOLUMES.take();
        });
        let (tcp, tls, remote) = start.recv().expect("the server has started");
        drop(no_program_starts);
        Self { directory, tcp, tls, remote, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("nbd.sock")
    }

    pub(crate) fn unix_uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub(crate) fn tcp_uri(&self, export: &str) -> String {
        format!("nbd://{}/{export}", self.tcp)
    }

    pub(crate) fn tls_uri(&self, export: &str, certificates: &Path) -> String {
        let port = self.tls.expect("a server with TLS").port();
        format!("nbds://localhost:{port}/{export}?tls-certificates={}", certificates.display())
    }

    /// Takes in what was added under the volume of that number, as its daemon does; answers its size.
    pub(crate) fn grow(&self, number: usize) -> u64 {
        self.ask(move |_, exports| async move {
            let volume = VOLUMES.with_borrow(|volumes| volumes[number].clone());
            let size_bytes = volume.grow().await.expect("it can grow");
            exports.refresh(&volume);
            size_bytes
        })
    }

    /// Runs `task` on the server's thread and waits for what it makes.
    pub(crate) fn ask<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        task: impl FnOnce(HostEnv, Exports) -> F + Send + 'static,
    ) -> T {
        use hotset_block::Env;
        let (answer, answered) = mpsc::channel();
        let command = move |env: &HostEnv| {
            let exports = EXPORTS.with_borrow(Clone::clone).expect("the server runs");
            let future = task(env.clone(), exports);
            env.spawn(async move { answer.send(future.await).expect("the test waits") });
        };
        self.remote.post(Box::new(command)).expect("the server runs");
        answered.recv_timeout(TEST_TIMEOUT).expect("the server answers")
    }
}

fn listen_tcp(server: &Server, tls: Option<TlsAcceptor>) -> SocketAddr {
    let address = server.listen_tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), tls).expect("a free port");
    address.strip_prefix("tcp:").expect("a TCP address").parse().expect("an address")
}

impl Drop for Serving {
    fn drop(&mut self) {
        let end = |_: &HostEnv| {
            DONE.take();
        };
        // If the server's thread has panicked there is nobody to be told.
        let _ = self.remote.post(Box::new(end));
        let ended = self.thread.take().expect("joined once").join();
        if !std::thread::panicking() {
            ended.expect("the server did not panic");
        }
    }
}

/// Runs a tool and answers what it printed; the test fails if the tool does, or is missing.
pub(crate) fn run(tool: &str, package: &str, arguments: &[&str]) -> String {
    let output = attempt(tool, package, arguments);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?} failed ({}):\n{stdout}\n{stderr}", output.status);
    stdout
}

/// Runs a tool, which may fail; the test fails if the tool is missing.
pub(crate) fn attempt(tool: &str, package: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", tool]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    start(&mut command)
        .wait_with_output()
        .ok()
        .filter(|output| output.status.code() != Some(127))
        .unwrap_or_else(|| panic!("this test needs {tool}: install the package {package} (apt-get install {package})"))
}

/// Returns when the program has begun, and has nothing of this process.
pub(crate) fn start(command: &mut Command) -> Child {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().expect("every machine has timeout(1)")
}
