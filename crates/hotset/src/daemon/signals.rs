//! Signals, on a thread of their own, so that one which asks for the end is heeded whatever the control plane does.
//!
//! TERM, INT and QUIT stop; HUP reads certificates, the log filter and names anew. Every other one that would end a
//! process, and is none of its own faults, does nothing: what it is about is an error of a system call, or not ours.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::running_time;

/// How long the clean stop may take, and what is done before and after it, until the process ends in any case.
const END_LIMIT: Duration = Duration::from_secs(35);

/// The same after a second signal.
const SECOND_END_LIMIT: Duration = Duration::from_secs(2);

/// Beside those of real time.
const NOT_FOR_US: [i32; 11] = [
    libc::SIGPIPE,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGXFSZ,
    libc::SIGXCPU,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// What the control plane knows of signals. Each of its parts may have one of its own.
#[derive(Clone)]
pub(super) struct Signals {
    stops: watch::Receiver<u64>,
    reloads: watch::Receiver<u64>,
    heeded: Arc<AtomicBool>,
}

impl Signals {
    /// From here on no signal has its usual effect. One that stops ends the process at once until [`Signals::heed`].
    pub(super) fn start() -> io::Result<Self> {
        let ((stop, stops), (reload, reloads)) = (watch::channel(0), watch::channel(0));
        let heeded = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::channel();
        let told = Arc::clone(&heeded);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            runtime.block_on(async {
                match Handlers::install() {
                    Ok(handlers) => {
                        let _ = ready.send(Ok(()));
                        handlers.run(stop, reload, &told).await;
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            });
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the signals died at once")))?;
        Ok(Self { stops, reloads, heeded })
    }

    /// From here on somebody waits for [`Signals::stop`].
    pub(super) fn heed(&self) {
        self.heeded.store(true, Ordering::Release);
    }

    /// Completes at the next signal that stops.
    pub(super) async fn stop(&mut self) {
        next(&mut self.stops).await;
    }

    /// Completes at the next HUP.
    pub(super) async fn reload(&mut self) {
        next(&mut self.reloads).await;
    }
}

/// The other end is a thread that ends with the process.
async fn next(signals: &mut watch::Receiver<u64>) {
    if signals.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

struct Handlers {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
}

impl Handlers {
    fn install() -> io::Result<Self> {
        // A handler that was once installed stays.
        for number in NOT_FOR_US.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
            drop(signal(SignalKind::from_raw(number))?);
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn run(mut self, stop: watch::Sender<u64>, reload: watch::Sender<u64>, heeded: &AtomicBool) {
        let mut end: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        loop {
            let ended = async {
                match &mut end {
                    Some(end) => end.await,
                    None => std::future::pending().await,
                }
            };
            let stops = tokio::select! {
                _ = self.terminate.recv() => true,
                _ = self.interrupt.recv() => true,
                _ = self.quit.recv() => true,
                _ = self.hangup.recv() => false,
                () = ended => {
                    tracing::error!("the stop takes too long: ending at once; the next start recovers");
                    // The log has a moment; it may be what hangs.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    std::process::exit(1);
                }
            };
            if !stops {
                reload.send_modify(|count| *count += 1);
                continue;
            }
            if !heeded.load(Ordering::Acquire) {
                // Nothing is open yet that would have to be closed.
                std::process::exit(0);
            }
            let limit = if end.is_none() { END_LIMIT } else { SECOND_END_LIMIT };
            end = Some(Box::pin(running_time::sleep(limit)));
            stop.send_modify(|count| *count += 1);
        }
    }
}
