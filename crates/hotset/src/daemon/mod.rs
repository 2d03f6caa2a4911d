//! The daemon: starts the data plane, opens what is recorded, answers the control API, and stops cleanly.
//!
//! The main thread runs the control plane (tokio); the data plane has a thread of its own and never waits for it.

mod api_socket;
mod clock;
mod config;
mod connect;
mod conversion;
mod events;
mod failures;
mod history;
mod hook;
mod http;
mod inherited;
mod manager;
mod observer;
mod patience;
mod probe;
mod register;
mod runs;
mod scan;
mod smart;
mod state;
mod tokens;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotset_serve::TlsFiles;
use hotset_serve::nbd::ServerSettings;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing_subscriber::EnvFilter;

use self::api_socket::Listeners;
use self::config::Config;
use self::events::EventLog;
use self::hook::Hook;
use self::http::{Control, Gate};
use self::inherited::Inherited;
use self::manager::Manager;
use self::observer::Observer;
use self::register::Register;
use self::runs::LastRun;
use self::state::StateDirectory;
use self::tokens::Tokens;
use crate::args::ServeArguments;
use crate::endpoint::{Endpoint, Socket};
use crate::plane::{Handle, StopReport};

pub(crate) use http::Document;
pub(crate) use state::{GivenUp, given_up};

/// How long the control API waits at most for pools and volumes to open before it answers: later it says what is missing.
const FIRST_PASS_LIMIT: Duration = Duration::from_secs(10);

/// How long a clean stop may take; its steps have shorter limits of their own.
const STOP_LIMIT: Duration = Duration::from_secs(25);

/// Runs until a signal ends it. An error is one message for people.
pub(crate) fn run(arguments: &ServeArguments, api: &[Endpoint]) -> Result<ExitCode, String> {
    let config = Config::load(arguments, api)?;
    start_log(&config.log)?;
    let register = Register::default();
    let state = StateDirectory::open(&config.state)?;
    state.wait_for_predecessor();
    failures::remember_panics(state.path());
    let sockets = Sockets::of(&config)?;
    let server =
        ServerSettings { request_timeout: Duration::from_secs(config.request_timeout_s), ..Default::default() };
    let (plane, _thread) = Handle::start(server).map_err(|error| format!("data plane: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("control plane: {error}"))?;
    let outcome = runtime.block_on(serve(plane, state, config, sockets, register));
    // Blocking steps that are still under way belong to changes that nobody waits for any more.
    runtime.shutdown_background();
    outcome
}

fn start_log(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("log filter {filter:?}: {error}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    log.with_ansi(std::io::stderr().is_terminal()).init();
    Ok(())
}

/// Where hosts and administrators connect.
struct Sockets {
    api: Vec<Socket>,
    nbd: Vec<Socket>,
}

impl Sockets {
    fn of(config: &Config) -> Result<Self, String> {
        let mut inherited = Inherited::of_this_process()?;
        let sockets = Self { api: inherited.take(&config.api), nbd: inherited.take(&config.nbd) };
        inherited.check_all_taken()?;
        Ok(sockets)
    }
}

async fn serve(
    plane: Handle,
    state: StateDirectory,
    config: Config,
    sockets: Sockets,
    register: Register,
) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let mut signals = Signals::new().map_err(|error| format!("signals: {error}"))?;
    let api_tls =
        config.api_tls.as_ref().map(|files| http::tls_acceptor(&files.certificate, &files.key)).transpose()?;
    let listeners = api_socket::bind(sockets.api, api_tls.as_ref()).await?;
    let names = config.api_names.clone();
    let tokens = Arc::new(Tokens::load(&state)?);
    let state_path = state.path().to_owned();
    let events = Arc::new(EventLog::open(&state_path));
    let hook = Hook::start(config.event_hook.clone(), register.clone());
    let last_run = LastRun::of(&events);
    observer::record(&events, hook.as_ref(), vec![last_run.started()]).await;
    let (tls, smartctl) = (config.tls.clone().map(tls_files), config.smartctl.clone());
    let manager = Arc::new(Manager::new(plane.clone(), state, config, register.clone()));
    // Hosts may come at once: each waits until its volume is open.
    manager.expect_recorded_volumes().await.map_err(|error| error.to_string())?;
    let nbd = sockets.nbd;
    let listening = plane.call(move |plane| plane.listen(nbd, tls)).await.map_err(|error| error.to_string())?;
    manager.listens(listening);
    let first_pass = Arc::new(Notify::new());
    let start = tokio::spawn({
        let (manager, first_pass) = (Arc::clone(&manager), Arc::clone(&first_pass));
        async move { manager.start(first_pass).await }
    });
    let opened = tokio::select! {
        () = first_pass.notified() => true,
        () = tokio::time::sleep(FIRST_PASS_LIMIT) => true,
        () = signals.stop() => false,
    };
    if opened {
        if let Some(serving) = last_run.serving(begun) {
            tracing::info!("serving hosts: {}", serving.cause);
            observer::record(&events, hook.as_ref(), vec![serving]).await;
        }
        let history =
            history::Handle::start(&state_path, register.clone()).map_err(|error| format!("history: {error}"))?;
        manager.keeps_statistics(history.clone());
        let (latest, status) = tokio::sync::watch::channel(None);
        let control = Control {
            history: history.clone(),
            manager: Arc::clone(&manager),
            events: Arc::clone(&events),
            tokens,
            latest: status,
        };
        answer(listeners, &control, names);
        tokio::spawn(smart::watch(Arc::clone(&manager), smartctl));
        let observer = Observer { manager: Arc::clone(&manager), log: Arc::clone(&events), hook, history, register };
        tokio::spawn(observer.run(latest));
        let run = async {
            announce(start).await;
            manager.retry_offline_volumes().await;
        };
        tokio::select! {
            () = run => {}
            () = signals.stop() => {}
            () = plane.died() => return Err("the data plane died; the log says why, the next start recovers".to_owned()),
        }
    }
    events.append(vec![runs::stopping()]);
    let code = stop(&manager, &plane, signals).await;
    if code == ExitCode::SUCCESS {
        manager.ends_cleanly();
        events.append(vec![runs::stopped()]);
    }
    Ok(code)
}

/// Answers administrators, and keeps what they ask for up to date: in the background, until the runtime ends.
fn answer(listeners: Listeners, control: &Control, names: Vec<String>) {
    let names = Arc::new(names);
    listeners.serve(|door| {
        let gate = Gate { door, tokens: Arc::clone(&control.tokens), names: Arc::clone(&names) };
        http::router(control.clone(), gate)
    });
    tokio::spawn(control.history.clone().sample(Arc::clone(&control.manager)));
    tokio::spawn(Arc::clone(&control.manager).follow_members());
    tokio::spawn(Arc::clone(&control.manager).follow_growth());
    tokio::spawn(Arc::clone(&control.manager).watch_paths());
    tokio::spawn(Arc::clone(&control.manager).keep_records());
}

fn tls_files(files: config::TlsFiles) -> TlsFiles {
    TlsFiles { certificate: files.certificate, key: files.key, client_ca: files.client_ca }
}

/// Tells the service manager when everything is open, or known not to open.
async fn announce(start: tokio::task::JoinHandle<()>) {
    notify(&[NotifyState::Status("opening pools and volumes")]);
    if start.await.is_ok() {
        notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
        tracing::info!("ready");
    }
}

/// Without a service manager there is nobody to tell.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("service manager: {error}");
    }
}

/// Stops cleanly; at the second signal at once.
async fn stop(manager: &Manager, plane: &Handle, mut signals: Signals) -> ExitCode {
    notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    tracing::info!("stopping");
    manager.stops();
    let before = plane.snapshot().await.ok();
    manager.count_written().await;
    let stopping = tokio::time::timeout(STOP_LIMIT, plane.call(|plane| plane.stop()));
    let report = tokio::select! {
        report = stopping => report,
        () = signals.stop() => {
            tracing::error!("a second signal: stopping at once; the next start recovers");
            return ExitCode::FAILURE;
        }
    };
    match report {
        Ok(Ok(StopReport { problems, clean_pools })) => {
            for problem in &problems {
                tracing::error!("{problem}");
            }
            if let Some(before) = before {
                manager.lift_guards(&before, &clean_pools).await;
            }
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            tracing::error!("the clean stop failed: {error}; the next start recovers");
            ExitCode::FAILURE
        }
        Err(_) => {
            tracing::error!("the clean stop took more than {} s; the next start recovers", STOP_LIMIT.as_secs());
            ExitCode::FAILURE
        }
    }
}

/// The signals that end the daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Completes at the next of them.
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
