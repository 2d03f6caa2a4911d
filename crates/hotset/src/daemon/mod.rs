//! The daemon: starts the data plane, opens what is recorded, answers the control API, and stops cleanly.
//!
//! The main thread runs the control plane (tokio); the data plane has threads of its own and never waits for it.

mod advisor;
mod api_socket;
mod blocking;
mod certificates;
mod changes;
mod changing;
mod check;
mod clients;
mod config;
mod conversion;
mod counters;
mod failures;
mod history;
mod http;
mod inherited;
mod log;
mod memory;
mod naming;
mod notice_settings;
mod notices;
mod opening;
mod pressure;
mod register;
mod reload;
mod reporting;
mod room;
mod rooms;
mod scrub_records;
mod signals;
mod smart;
mod state;
mod thread_limits;
mod tokens;
mod volume_counters;
mod who;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hotset_api::ConditionKind;
use hotset_block::{DescriptorUse, ExecutorOptions, descriptors_for, never_wait_for_writeback, raise_descriptor_limit};
use hotset_serve::ServerSettings;
use sd_notify::NotifyState;
use tokio::sync::Notify;

use self::advisor::Advisor;
use self::api_socket::Listeners;
use self::certificates::Certificates;
use self::config::Config;
use self::counters::Counters;
use self::http::{ApiTls, Control, Gate};
use self::inherited::Inherited;
use self::log::{LAST_WORDS_LIMIT, Log, LogSink};
use self::notices::Notices;
use self::opening::local_devices;
use self::opening::local_devices::LocalDevices;
use self::register::ConditionRegister;
use self::reload::Reload;
use self::reporting::events::EventLog;
use self::reporting::hook::Hook;
use self::reporting::memory_pressure::MemoryPressure;
use self::reporting::observer::{self, Observer};
use self::reporting::runs::{self, LastRun};
use self::reporting::selfcheck::SelfCheck;
use self::rooms::Rooms;
use self::signals::Signals;
use self::state::StateDirectory;
use self::thread_limits::{OWN_THREADS, check_threads};
use self::tokens::Tokens;
use crate::args::ServeArguments;
use crate::endpoint::{Endpoint, Socket};
use crate::machine;
use crate::plane::{Handle, StopReport};
use crate::running_time::{self, Countdown};
use crate::size::human;

pub(crate) use check::check_config;
pub(crate) use http::Document;
#[cfg(test)]
pub(crate) use reporting::status::{bare_volume, with_settings};
pub(crate) use state::{DiscardedCaches, discarded};

/// How long the control API waits at most for pools and volumes to open before it answers: later it says what is missing.
const FIRST_PASS_LIMIT: Duration = Duration::from_secs(10);

/// How long a clean stop may take; its steps have shorter limits of their own.
const STOP_LIMIT: Duration = Duration::from_secs(25);

/// How long a thread for what blocks waits for more to do: while there is one, what cannot have another waits for it.
const KEEP_ALIVE: Duration = Duration::from_hours(1);

/// How long a service manager may take to hear how the daemon is.
const NOTIFY_LIMIT: Duration = Duration::from_secs(1);

/// How long a start may take beside its waiting for missing SSDs, before a service manager gives it up. Hosts may be served long before.
const START_LIMIT: Duration = Duration::from_mins(10);

/// What a start asks a service manager for, again and again.
const START_EXTENSION: Duration = Duration::from_secs(60);

/// How often it asks.
const START_EXTENSION_INTERVAL: Duration = Duration::from_secs(10);

/// How long devices of this machine may take at a clean stop to be taken away.
const LOCAL_STOP_LIMIT: Duration = Duration::from_secs(8);

/// Runs until a signal ends it. An error is one message for people.
pub(crate) fn run(arguments: &ServeArguments, api: &[Endpoint]) -> Result<ExitCode, String> {
    // Before there are threads, which inherit it.
    let flusher = never_wait_for_writeback();
    check_threads(OWN_THREADS)?;
    let config = Config::load(arguments, api)?;
    config.memory.check()?;
    check_threads(OWN_THREADS + config.threads.get())?;
    let signals = Signals::start().map_err(|error| format!("signals: {error}"))?;
    let (counters, register) = (Counters::default(), ConditionRegister::default());
    let log = Log::start(&config.log, counters.clone())?;
    if let Err(error) = flusher {
        tracing::debug!("memory may be waited for by writing to block devices: {error}");
    }
    let sink = log.sink.clone();
    let reload = Reload { arguments: arguments.clone(), api: api.to_vec(), log };
    let outcome = run_logged(config, Own { signals, counters, register, log: sink.clone(), reload });
    sink.wait_written(LAST_WORDS_LIMIT);
    outcome
}

/// What the daemon has of itself, whatever it serves.
struct Own {
    signals: Signals,
    counters: Counters,
    register: ConditionRegister,
    log: LogSink,
    reload: Reload,
}

fn run_logged(config: Config, own: Own) -> Result<ExitCode, String> {
    let state = StateDirectory::open(&config.state)?;
    local_devices::check_state_directory(&state)?;
    state.wait_for_predecessor();
    failures::remember_panics(state.path());
    let sockets = Sockets::of(&config, &own.register)?;
    tell_limits(&config);
    let server = ServerSettings {
        request_timeout: Duration::from_secs(config.request_timeout_s),
        socket_mode: config.nbd_socket_mode,
        socket_group: config.nbd_socket_group,
        memory_bytes: config.memory.for_requests(),
        socket_buffer_bytes: config.memory.for_socket_buffer(),
        ..Default::default()
    };
    let buffers = ExecutorOptions {
        registered_bytes: config.memory.for_registered_buffers(),
        kept_bytes: config.memory.for_kept_buffers(),
        ..Default::default()
    };
    let (machine, kept) = machine::of_daemon(state.path(), config.machine_id.as_deref());
    own.register.follow(ConditionKind::DaemonId, &kept);
    let (plane, _threads) =
        Handle::start(config.threads, server, buffers, &machine).map_err(|error| format!("data plane: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().thread_keep_alive(KEEP_ALIVE).build();
    let runtime = runtime.map_err(|error| format!("control plane: {error}"))?;
    let outcome = runtime.block_on(serve(plane, state, config, sockets, own));
    // Blocking steps that are still under way belong to changes that nobody waits for any more.
    runtime.shutdown_background();
    outcome
}

/// Raises what may be raised, and tells what the daemon has to live with.
fn tell_limits(config: &Config) {
    tracing::info!("{}", config.memory.told(config.memory_limit_bytes, config.memory_cache_bytes));
    if config.memory_limit_bytes > config.memory.bytes {
        let (limit, memory) = (human(config.memory_limit_bytes), human(config.memory.bytes));
        tracing::warn!("memory_limit {limit}: {} gives only {memory}", config.memory.set_by);
    }
    match raise_descriptor_limit().and_then(|limit| Ok((limit, descriptors_for(DescriptorUse::Host)?))) {
        Ok((limit, hosts)) => {
            tracing::info!("file descriptors: {limit}; connections of hosts may take them up to number {hosts}");
        }
        Err(error) => tracing::warn!("file descriptors: their limit cannot be raised: {error}"),
    }
}

/// Where hosts and administrators connect.
struct Sockets {
    api: Vec<Socket>,
    nbd: Vec<Socket>,
}

impl Sockets {
    fn of(config: &Config, register: &ConditionRegister) -> Result<Self, String> {
        let mut inherited = Inherited::of_this_process()?;
        let sockets = Self { api: inherited.take(&config.api), nbd: inherited.take(&config.nbd) };
        inherited.turn_away(register);
        Ok(sockets)
    }
}

async fn serve(
    plane: Handle,
    state: StateDirectory,
    config: Config,
    sockets: Sockets,
    own: Own,
) -> Result<ExitCode, String> {
    let begun = Instant::now();
    let Own { mut signals, counters, register, log, reload } = own;
    let api_tls = config.api_tls.as_ref().map(|files| ApiTls::load(&files.certificate, &files.key)).transpose()?;
    let hosts_tls = config.tls.as_ref().map(certificates::for_hosts).transpose()?;
    let listeners = api_socket::bind(sockets.api, api_tls.as_ref()).await?;
    let names = config.api_names.clone();
    let tokens = Arc::new(Tokens::load(&state));
    let state_path = state.path().to_owned();
    let events = Arc::new(EventLog::open(&state_path, counters.clone()));
    let hook = Hook::start(config.event_hook.clone(), register.clone());
    let notices = Notices::start(
        config.notices.clone(),
        Arc::clone(&events),
        register.clone(),
        counters.clone(),
        state_path.clone(),
    );
    let last_run = LastRun::of(&events);
    observer::record(&events, hook.as_ref(), vec![last_run.started()]);
    let smartctl = config.smartctl.clone();
    let certificates = Certificates {
        api: api_tls,
        hosts: hosts_tls.clone(),
        register: register.clone(),
        paths: certificates::paths(&config),
        unusable: Vec::new(),
    };
    let rooms = Arc::new(Rooms::new(plane.clone(), state, config, register.clone(), counters.clone()));
    // Hosts may come at once: each waits until its volume is open.
    rooms.opening.expect_recorded_volumes().await.map_err(|error| error.to_string())?;
    let nbd = sockets.nbd;
    let listening =
        plane.first().call(move |plane| plane.listen(nbd, hosts_tls)).await.map_err(|error| error.to_string())?;
    rooms.reporting.listens(listening);
    tokio::spawn(reload.follow(signals.clone(), certificates, notices.clone()));
    signals.heed();
    let check = SelfCheck {
        plane: plane.clone(),
        counters: counters.clone(),
        register: register.clone(),
        log,
        events: Arc::clone(&events),
    };
    tokio::spawn(check.run());
    let (memory, log) = (Arc::clone(&rooms.memory), Arc::clone(&events));
    tokio::spawn(MemoryPressure { memory, events: log, hook: hook.clone() }.run());
    let first_pass = Arc::new(Notify::new());
    let start = tokio::spawn({
        let (rooms, first_pass) = (Arc::clone(&rooms), Arc::clone(&first_pass));
        async move { rooms.start(first_pass).await }
    });
    let opened = tokio::select! {
        () = first_pass.notified() => true,
        () = running_time::sleep(FIRST_PASS_LIMIT) => true,
        () = signals.stop() => false,
    };
    if opened {
        if let Some(serving) = last_run.serving(begun) {
            tracing::info!("serving hosts: {}", serving.cause);
            observer::record(&events, hook.as_ref(), vec![serving]);
        }
        let history = history::HistoryHandle::start(&state_path, register.clone())
            .map_err(|error| format!("history: {error}"))?;
        let advisor = Advisor::new(plane.clone(), history.clone());
        rooms.volumes.keeps_statistics(history.clone(), Arc::clone(&advisor));
        let (latest, status) = tokio::sync::watch::channel(None);
        let control = Control {
            history: history.clone(),
            advisor: Arc::clone(&advisor),
            rooms: Arc::clone(&rooms),
            events: Arc::clone(&events),
            notices,
            tokens,
            latest: status,
        };
        answer(listeners, &control, names, &counters);
        tokio::spawn(Arc::clone(&rooms.drives).watch(smartctl));
        let observer = Observer {
            reporting: Arc::clone(&rooms.reporting),
            volumes: Arc::clone(&rooms.volumes),
            upkeep: Arc::clone(&rooms.upkeep),
            log: Arc::clone(&events),
            hook,
            history,
            register,
            changes: rooms.records.changes.clone(),
        };
        tokio::spawn(observer.run(latest));
        let watching = tokio::spawn(Arc::clone(&advisor).run());
        let run = async {
            announce(start, &rooms.local, START_LIMIT + Duration::from_secs(rooms.records.config.missing_wait_s)).await;
            rooms.serving.retry_offline_volumes().await;
        };
        tokio::select! {
            () = run => {}
            () = signals.stop() => {}
            () = plane.died() => return Err("the data plane died; the log says why, the next start recovers".to_owned()),
        }
        watching.abort();
        // A hanging disk is waited for only a moment.
        let _ = running_time::timeout(LAST_WORDS_LIMIT, advisor.save()).await;
    }
    events.append(vec![runs::stopping()]);
    rooms.upkeep.save_host_errors().await;
    let code = stop(&rooms, &plane, signals).await;
    if code == ExitCode::SUCCESS {
        rooms.records.ends_cleanly();
        events.append(vec![runs::stopped()]);
    }
    events.wait_written(LAST_WORDS_LIMIT);
    Ok(code)
}

/// Answers administrators, and keeps what they ask for up to date: in the background, until the runtime ends.
fn answer(listeners: Listeners, control: &Control, names: Vec<String>, counters: &Counters) {
    let names = Arc::new(names);
    listeners.serve(counters, |door| {
        let (tokens, counters) = (Arc::clone(&control.tokens), counters.clone());
        let gate = Gate { door, tokens, counters, names: Arc::clone(&names) };
        http::router(control.clone(), gate)
    });
    control.rooms.keep_up(Arc::clone(&control.tokens), control.history.clone());
}

/// Tells the service manager when everything is open, or known not to open, and until then that the start goes on.
async fn announce(start: tokio::task::JoinHandle<()>, local: &LocalDevices, limit: Duration) {
    notify([NotifyState::Status("opening pools and volumes")]);
    let opening = async {
        let begun = start.await;
        if begun.is_ok() {
            local.start().await;
        }
        begun
    };
    let begun = tokio::select! {
        begun = opening => begun,
        never = ask_for_time(limit) => match never {},
    };
    if begun.is_ok() {
        notify([NotifyState::Ready, NotifyState::Status("serving")]);
        tracing::info!("ready");
    }
}

async fn ask_for_time(limit: Duration) -> Infallible {
    let extension_us = u32::try_from(START_EXTENSION.as_micros()).unwrap_or(u32::MAX);
    let left = Countdown::of(limit);
    loop {
        if !left.is_over() {
            notify([NotifyState::ExtendTimeoutUsec(extension_us)]);
        }
        running_time::sleep(START_EXTENSION_INTERVAL).await;
    }
}

/// Without a service manager there is nobody to tell; one that does not listen is waited for only a moment.
fn notify<const N: usize>(state: [NotifyState<'static>; N]) {
    let (done, told) = mpsc::channel();
    let tell = move || {
        if let Err(error) = sd_notify::notify(&state) {
            tracing::warn!("service manager: {error}");
        }
        let _ = done.send(());
    };
    match std::thread::Builder::new().name("notify".to_owned()).spawn(tell) {
        Ok(_) => drop(running_time::receive(&told, NOTIFY_LIMIT)),
        Err(error) => tracing::warn!("service manager: {error}"),
    }
}

/// Stops cleanly; at the second signal at once.
async fn stop(rooms: &Rooms, plane: &Handle, mut signals: Signals) -> ExitCode {
    notify([NotifyState::Stopping, NotifyState::Status("stopping")]);
    tracing::info!("stopping");
    let stopping = async {
        if running_time::timeout(LOCAL_STOP_LIMIT, rooms.local.end_unheld()).await.is_err() {
            tracing::warn!("local devices that are left wait for the next start: taking them away took too long");
        }
        rooms.records.stops();
        let before = plane.snapshot().await.ok();
        rooms.drives.count_written().await;
        (before, running_time::timeout(STOP_LIMIT, plane.stop()).await)
    };
    let (before, report) = tokio::select! {
        stopped = stopping => stopped,
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
                rooms.guard.lift_guards(&before, &clean_pools).await;
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
