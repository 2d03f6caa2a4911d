//! The data plane: one thread with its executor, and on it all pools, all volumes and the NBD server.
//!
//! Other threads reach it through a [`Handle`], whose jobs run here, each as a task of its own. Nothing here blocks.

pub(crate) mod device;
mod listen;
mod pools;
mod stop;
mod volumes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use hotset_api::ApiError;
use hotset_block::{Env, Executor, ExecutorOptions, HostEnv, Machine, RealInstant};
use hotset_cache::config::{PoolName, VolumeName};
use hotset_cache::{Error, ErrorKind, LatencyCounters, Pool, PoolStatus, Volume, VolumeStatus};
use hotset_serve::{ConnectionStatus, Exports, ServerCounters, ServerSettings, TlsAcceptor, nbd};
use tokio::sync::{mpsc, oneshot};

pub(crate) use pools::{Opened, plan};
pub(crate) use stop::StopReport;

/// Jobs that wait at most; who has more waits with them.
const JOBS_MAX: usize = 64;

type Job = Box<dyn FnOnce(Rc<Plane>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// What lives on the data plane's thread.
pub(crate) struct Plane {
    env: HostEnv,
    exports: Exports,
    nbd: nbd::Server,
    /// With which hosts are met, if with TLS.
    tls: RefCell<Option<TlsAcceptor>>,
    pools: RefCell<BTreeMap<PoolName, Pool<HostEnv>>>,
    volumes: RefCell<BTreeMap<VolumeName, Volume<HostEnv>>>,
    /// Nothing is done any more but stopping.
    stopping: Cell<bool>,
}

/// Reads and writes of a volume.
pub(crate) type Timed = (LatencyCounters, LatencyCounters);

/// Everything that is open, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: RealInstant,
    pub(crate) pools: Vec<PoolStatus>,
    pub(crate) volumes: Vec<VolumeStatus>,
    /// Hosts that have chosen a volume, with how long they have been connected.
    pub(crate) connections: Vec<(ConnectionStatus, Duration)>,
}

impl Plane {
    fn new(env: HostEnv, server: ServerSettings) -> Self {
        let exports = Exports::new(env.clone(), server);
        Self {
            env,
            nbd: nbd::Server::new(exports.clone()),
            exports,
            tls: RefCell::default(),
            pools: RefCell::default(),
            volumes: RefCell::default(),
            stopping: Cell::default(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            at: self.env.real_now(),
            pools: self.pools.borrow().values().map(Pool::status).collect(),
            volumes: self.volumes.borrow().values().map(Volume::status).collect(),
            connections: self.connections(),
        }
    }

    /// What the server of hosts counts.
    pub(crate) fn server_counters(&self) -> (ServerCounters, String) {
        (self.exports.counters(), self.exports.refused_handshake())
    }

    fn connections(&self) -> Vec<(ConnectionStatus, Duration)> {
        let now = self.env.real_now();
        let serving = self.exports.connections().into_iter().filter(|connection| connection.export.is_some());
        serving
            .map(|connection| {
                let age = now.since(connection.since);
                (connection, age)
            })
            .collect()
    }

    /// How long the requests of hosts took, reads and writes, by volume: to be read elsewhere, at no cost to hosts.
    pub(crate) fn latencies(&self) -> Vec<(VolumeName, Timed)> {
        let volumes = self.volumes.borrow();
        volumes.iter().map(|(name, volume)| (name.clone(), volume.latencies())).collect()
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Result<Pool<HostEnv>, Error> {
        let found = self.pools.borrow().get(name).cloned();
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("pool {name}: there is no such pool, or it is offline"))
        })
    }

    fn volume(&self, name: &VolumeName) -> Result<Volume<HostEnv>, Error> {
        let found = self.volumes.borrow().get(name).cloned();
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("volume {name}: there is no such volume, or it is offline"))
        })
    }
}

/// Reaches the data plane from other threads. A handle: cloning it is cheap. When the last one goes, the thread ends.
#[derive(Clone)]
pub(crate) struct Handle {
    jobs: mpsc::Sender<Job>,
}

impl Handle {
    /// Starts the data plane's thread.
    pub(crate) fn start(
        settings: ServerSettings,
        options: ExecutorOptions,
        machine: Machine,
    ) -> std::io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (jobs, inbox) = mpsc::channel(JOBS_MAX);
        let (ready, started) = std::sync::mpsc::channel();
        let thread =
            std::thread::Builder::new().name("data-plane".to_owned()).spawn(move || match Executor::new(options) {
                Ok(executor) => {
                    let _ = ready.send(Ok(()));
                    executor.run(|env: HostEnv| serve(env.on_machine(machine), settings, inbox));
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })?;
        started.recv().unwrap_or_else(|_| Err(std::io::Error::other("the data plane's thread died at once")))?;
        Ok((Self { jobs }, thread))
    }

    /// Runs `work` on the data plane and waits for its answer. Dropping this future does not stop the work. Fails, without
    /// doing it, once the data plane stops.
    pub(crate) async fn call<T, F, W>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Plane>) -> W + Send + 'static,
        W: Future<Output = Result<T, Error>> + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |plane| {
            Box::pin(async move {
                // Pools that are closed look as if all that they had were gone: nobody is to see and record that.
                let answer = if plane.stopping.get() { Err(stopping()) } else { work(plane).await };
                // Who asked may be gone: then nobody wants the answer.
                let _ = reply.send(answer);
            })
        });
        self.jobs.send(job).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?.map_err(|error| crate::words::error(&error))
    }

    /// Completes when the data plane's thread has ended, which it does not do while there are handles, unless it died.
    pub(crate) async fn died(&self) {
        self.jobs.closed().await;
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot, ApiError> {
        self.call(|plane| async move { Ok(plane.snapshot()) }).await
    }
}

fn stopping() -> Error {
    Error::new(ErrorKind::Stopping, "the daemon is stopping")
}

fn stopped() -> ApiError {
    crate::words::error(&stopping())
}

/// The root of the data plane: starts every job as its own task, until all handles are gone.
async fn serve(env: HostEnv, settings: ServerSettings, mut inbox: mpsc::Receiver<Job>) {
    let plane = Rc::new(Plane::new(env.clone(), settings));
    while let Some(job) = inbox.recv().await {
        env.spawn(job(Rc::clone(&plane)));
    }
}

#[cfg(test)]
mod tests {
    use hotset_api::ApiErrorKind;

    use super::*;

    // proves: P9
    #[tokio::test]
    async fn nobody_sees_what_pools_look_like_that_are_closed() {
        let (plane, thread) = Handle::start(ServerSettings::default(), ExecutorOptions::default(), Machine::only())
            .expect("the kernel has io_uring");
        assert!(plane.snapshot().await.is_ok());
        plane.call(|plane| plane.stop()).await.expect("nothing is in its way");
        let refused = plane.snapshot().await.expect_err("it has stopped");
        assert_eq!(refused.kind, ApiErrorKind::Unavailable);
        drop(plane);
        thread.join().expect("it ends");
    }
}
