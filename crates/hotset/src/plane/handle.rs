//! Reaching the data plane from other threads: jobs, which run there, each as a task of its own.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::open::{Plane, Snapshot, ThreadPlace, Timed};
use super::places::{OpeningPlace, Places};
use super::stop::StopReport;
use super::volumes::TakenOfVolume;
use futures_util::future::{select_all, try_join_all};
use hotset_api::ApiError;
use hotset_block::{Env, Executor, ExecutorOptions, HostEnv, Machine};
use hotset_cache::advisor::tap::Wanted;
use hotset_cache::config::{PoolName, VolumeName};
use hotset_cache::{Error, ErrorKind, MemoryCacheStatus};
use hotset_serve::{Door, ServerCounters, ServerSettings};
use tokio::sync::{mpsc, oneshot};

/// Jobs that wait at most; who has more waits with them.
const JOBS_MAX: usize = 64;

type PlaneJob = Box<dyn FnOnce(Rc<Plane>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Reaches the data plane from other threads. A handle: cloning it is cheap. When the last one goes, the threads end.
#[derive(Clone)]
pub(crate) struct Handle {
    threads: Arc<[Thread]>,
    places: Places,
}

/// One thread of the data plane, to be asked from others.
#[derive(Clone)]
pub(crate) struct Thread {
    jobs: mpsc::Sender<PlaneJob>,
}

/// The memory cache of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadMemory {
    pub(crate) memory: MemoryCacheStatus,
    /// Whether any volume is there.
    pub(crate) has_volumes: bool,
}

impl Handle {
    /// Starts `count` threads, which divide among them what `settings` and `options` give to all.
    pub(crate) fn start(
        count: NonZero<usize>,
        settings: ServerSettings,
        options: ExecutorOptions,
        machine: &Machine,
    ) -> std::io::Result<(Self, Vec<std::thread::JoinHandle<()>>)> {
        let count = count.get();
        let places = Places::new(count);
        let settings = ServerSettings { memory_bytes: settings.memory_bytes / count, ..settings };
        let options = ExecutorOptions {
            registered_bytes: options.registered_bytes / count,
            kept_bytes: options.kept_bytes / count,
            ..options
        };
        let mut threads = Vec::new();
        for (thread, door) in Door::for_threads(count).into_iter().enumerate() {
            let (place, machine) = (ThreadPlace { places: places.clone(), thread }, machine.clone());
            let begin = move |env: HostEnv| Plane::new(env.on_machine(machine), settings, door, place);
            threads.push(Thread::start(&format!("data-plane-{thread}"), options, begin)?);
        }
        let (threads, running): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
        Ok((Self { threads: threads.into(), places }, running))
    }

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The thread where hosts connect; it also has what is neither a pool's nor a volume's.
    pub(crate) fn first(&self) -> &Thread {
        &self.threads[0]
    }

    /// The thread that has the pool; any, if none has.
    pub(crate) fn of_pool(&self, name: &PoolName) -> &Thread {
        &self.threads[self.places.of_pool(name).unwrap_or(0)]
    }

    /// The thread that has the volume; any, if none has.
    pub(crate) fn of_volume(&self, name: &VolumeName) -> &Thread {
        &self.threads[self.places.of_volume(name).unwrap_or(0)]
    }

    /// The thread for a pool that is about to be opened; it counts there until the second value is dropped.
    pub(crate) fn for_pool(&self) -> (&Thread, OpeningPlace) {
        let (thread, opening) = self.places.for_pool();
        (&self.threads[thread], opening)
    }

    /// Brings a volume without a cache to the thread of a pool that it is about to join, if it is on another one. Its hosts wait
    /// meanwhile, and notice nothing else.
    pub(crate) async fn bring_to_pool(&self, volume: &VolumeName, pool: &PoolName) -> Result<(), ApiError> {
        self.bring(volume, self.places.of_pool(pool).unwrap_or(0)).await
    }

    /// Serves a volume no more; what it wrote is flushed first.
    ///
    /// # Errors
    /// There is none of this name; or its flush failed, or took too long: it is gone all the same.
    pub(crate) async fn remove_volume(&self, volume: &VolumeName) -> Result<(), ApiError> {
        let name = volume.clone();
        self.of_volume(volume).call(move |plane| plane.remove_volume(name)).await
    }

    /// Brings a volume that has left its pool to the first thread, in the same manner.
    pub(crate) async fn bring_home(&self, volume: &VolumeName) -> Result<(), ApiError> {
        self.bring(volume, 0).await
    }

    async fn bring(&self, volume: &VolumeName, to: usize) -> Result<(), ApiError> {
        match self.places.of_volume(volume) {
            Some(from) if from != to => {
                let (name, to) = (volume.clone(), self.threads[to].clone());
                self.threads[from].call(move |plane| plane.move_volume(name, to)).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The memory cache of each thread, the first one's first.
    pub(crate) async fn memory_of_threads(&self) -> Result<Vec<ThreadMemory>, ApiError> {
        let memories = self.all(|plane| async move { Ok(plane.memory.status()) }).await?;
        let with_volumes = self.places.with_volumes();
        Ok(memories
            .into_iter()
            .zip(with_volumes)
            .map(|(memory, has_volumes)| ThreadMemory { memory, has_volumes })
            .collect())
    }

    /// Gives the memory cache of each thread its size in bytes, and what it may have of that for now. `threads` is how they were: those that
    /// get less give what is too much first.
    pub(crate) async fn give_memory(&self, threads: &[ThreadMemory], given: &[(u64, u64)]) -> Result<(), ApiError> {
        let mut all: Vec<_> = self.threads.iter().zip(threads).zip(given.iter().copied()).collect();
        all.sort_by_key(|((_, before), (size_bytes, _))| *size_bytes > before.memory.size_bytes);
        for ((thread, _), (size_bytes, allowed_bytes)) in all {
            thread.call(move |plane| plane.give_memory(size_bytes, allowed_bytes)).await?;
        }
        Ok(())
    }

    /// Runs `work` on all threads at once, and answers what each says, the first thread's first.
    pub(crate) async fn all<T, F, W>(&self, work: F) -> Result<Vec<T>, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Plane>) -> W + Clone + Send + 'static,
        W: Future<Output = Result<T, Error>> + 'static,
    {
        try_join_all(self.threads.iter().map(|thread| thread.call(work.clone()))).await
    }

    /// Completes when a thread of the data plane has ended, which it does not do while there are handles, unless it died.
    pub(crate) async fn died(&self) {
        select_all(self.threads.iter().map(|thread| Box::pin(thread.jobs.closed()))).await;
    }

    /// Of each thread at about the same moment.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, ApiError> {
        self.all(|plane| async move { Ok(plane.snapshot()) }).await.map(Snapshot::of)
    }

    /// A snapshot, and how long requests took.
    pub(crate) async fn look(&self) -> Result<(Snapshot, Vec<(VolumeName, Timed)>), ApiError> {
        let looks = self.all(|plane| async move { Ok((plane.snapshot(), plane.latencies())) }).await?;
        let (snapshots, latencies): (Vec<_>, Vec<_>) = looks.into_iter().unzip();
        let latencies: BTreeMap<VolumeName, Timed> = latencies.into_iter().flatten().collect();
        Ok((Snapshot::of(snapshots), latencies.into_iter().collect()))
    }

    /// What was accessed of all volumes since the last time; from now on what is wanted of each is kept.
    pub(crate) async fn take_accesses(
        &self,
        wanted: Arc<BTreeMap<VolumeName, Wanted>>,
    ) -> Result<Vec<TakenOfVolume>, ApiError> {
        let taken = self.all(|plane| plane.take_accesses(wanted)).await?;
        Ok(taken.into_iter().flatten().collect())
    }

    /// What the server of hosts counts, and whom it refused last.
    pub(crate) async fn server_counters(&self) -> Result<(ServerCounters, String), ApiError> {
        let counted = self.all(|plane| async move { Ok(plane.server_counters()) }).await?;
        let sum = counted.iter().fold(ServerCounters::default(), |sum, (counters, _)| sum.plus(*counters));
        Ok((
            sum,
            counted.into_iter().map(|(_, refused)| refused).find(|refused| !refused.is_empty()).unwrap_or_default(),
        ))
    }

    /// Stops all threads at once. Nothing serves after it.
    pub(crate) async fn stop(&self) -> Result<StopReport, ApiError> {
        self.all(|plane| plane.stop()).await.map(StopReport::of)
    }
}

impl Thread {
    fn start(
        name: &str,
        options: ExecutorOptions,
        begin: impl FnOnce(HostEnv) -> Plane + Send + 'static,
    ) -> std::io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (jobs, inbox) = mpsc::channel(JOBS_MAX);
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || match Executor::new(options) {
            Ok(executor) => {
                let _ = ready.send(Ok(()));
                executor.run(|env: HostEnv| serve(begin(env), inbox));
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(std::io::Error::other("the data plane's thread died at once")))?;
        Ok((Self { jobs }, thread))
    }

    /// Runs `work` on this thread and waits for its answer. Dropping this future does not stop the work. Fails, without
    /// doing it, once the data plane stops.
    pub(crate) async fn call<T, F, W>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Plane>) -> W + Send + 'static,
        W: Future<Output = Result<T, Error>> + 'static,
    {
        self.ask(work).await.map_err(|error| crate::words::error(&error))
    }

    /// The same, for another thread of the data plane.
    pub(super) async fn ask<T, F, W>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Plane>) -> W + Send + 'static,
        W: Future<Output = Result<T, Error>> + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: PlaneJob = Box::new(move |plane| {
            Box::pin(async move {
                // Pools that are closed look as if all that they had were gone: nobody is to see and record that.
                let answer = if plane.stopping.get() { Err(stopping()) } else { work(plane).await };
                // Who asked may be gone: then nobody wants the answer.
                let _ = reply.send(answer);
            })
        });
        self.jobs.send(job).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }
}

fn stopping() -> Error {
    Error::new(ErrorKind::Stopping, "the daemon is stopping")
}

/// The root of a thread: starts every job as its own task, until all handles are gone.
async fn serve(plane: Plane, mut inbox: mpsc::Receiver<PlaneJob>) {
    let plane = Rc::new(plane);
    while let Some(job) = inbox.recv().await {
        plane.env.spawn(job(Rc::clone(&plane)));
    }
}

#[cfg(test)]
mod tests {
    use hotset_api::ApiErrorKind;
    use hotset_cache::config::{VolumeSettings, VolumeSpec};

    use super::*;

    // proves: P9
    #[tokio::test]
    async fn nobody_sees_what_pools_look_like_that_are_closed() {
        let (plane, threads) = start(2);
        assert!(plane.snapshot().await.is_ok());
        plane.stop().await.expect("nothing is in its way");
        let refused = plane.snapshot().await.expect_err("it has stopped");
        assert_eq!(refused.kind, ApiErrorKind::Unavailable);
        drop(plane);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }

    fn start(count: usize) -> (Handle, Vec<std::thread::JoinHandle<()>>) {
        let count = NonZero::new(count).expect("there is a thread at least");
        Handle::start(count, ServerSettings::default(), ExecutorOptions::default(), &Machine::only())
            .expect("the kernel has io_uring")
    }

    fn volume(name: &str, backing: &std::path::Path) -> VolumeSpec {
        let backing = backing.to_str().expect("a path in UTF-8").to_owned();
        VolumeSpec { name: name.parse().expect("a name"), backing, settings: VolumeSettings::default() }
    }

    #[tokio::test]
    async fn a_volume_is_found_where_it_was_brought_with_its_counts_and_nowhere_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let backing = directory.path().join("backing");
        std::fs::write(&backing, vec![0; 1 << 20]).expect("a file");
        let (plane, _threads) = start(3);
        let spec = volume("disk", &backing);
        let name = spec.name.clone();
        plane.first().call(move |plane| plane.open_volume(spec)).await.expect("it opens");
        let exported = name.clone();
        plane.of_volume(&name).call(move |plane| plane.export(exported)).await.expect("the name is free");
        let written = name.clone();
        let write = async move |plane: Rc<Plane>| {
            let mut buf = plane.env.buffers().take(4096);
            buf.fill(7);
            plane.volume(&written)?.write(0, buf, hotset_cache::Durability::Volatile).await
        };
        plane.of_volume(&name).call(write).await.expect("it is written");
        for thread in [2, 1, 0] {
            plane.bring(&name, thread).await.expect("nothing is in its way");
            assert_eq!(plane.places.of_volume(&name), Some(thread));
            let there = plane.all(|plane| async move { Ok(plane.volumes.borrow().len()) }).await.expect("they run");
            let expected: Vec<usize> = (0..3).map(|other| usize::from(other == thread)).collect();
            assert_eq!(there, expected);
            let snapshot = plane.snapshot().await.expect("they run");
            assert_eq!((snapshot.volumes.len(), snapshot.volumes[0].stats.writes), (1, 1));
        }
        assert_eq!(std::fs::read(&backing).expect("it is there")[..4096], [7; 4096]);
    }

    #[tokio::test]
    async fn a_volume_whose_device_is_not_there_any_more_stays_where_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let (backing, away) = (directory.path().join("backing"), directory.path().join("away"));
        std::fs::write(&backing, vec![0; 1 << 20]).expect("a file");
        let (plane, _threads) = start(2);
        let spec = volume("disk", &backing);
        let name = spec.name.clone();
        plane.first().call(move |plane| plane.open_volume(spec)).await.expect("it opens");
        std::fs::rename(&backing, &away).expect("it is moved");
        plane.bring(&name, 1).await.expect_err("it is not there");
        assert_eq!(plane.places.of_volume(&name), Some(0));
        std::fs::rename(&away, &backing).expect("it is moved back");
        let cleared = name.clone();
        plane.of_volume(&name).call(move |plane| plane.clear_volume(cleared)).await.expect("it is there again");
        plane.bring(&name, 1).await.expect("nothing is in its way");
        assert_eq!(plane.places.of_volume(&name), Some(1));
    }

    #[tokio::test]
    async fn two_threads_do_not_open_the_same_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        let backing = directory.path().join("backing");
        std::fs::write(&backing, vec![0; 1 << 20]).expect("a file");
        let (plane, _threads) = start(2);
        let (one, other) = (volume("one", &backing), volume("other", &backing));
        plane.threads[0].call(move |plane| plane.open_volume(one)).await.expect("it opens");
        let refused = plane.threads[1].call(move |plane| plane.open_volume(other)).await.expect_err("it is in use");
        assert!(refused.message.contains("this daemon uses the same storage"), "{refused}");
    }
}
