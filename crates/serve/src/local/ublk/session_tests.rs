//! What serves a device's requests, without a driver: an ordinary file has the bytes of each tag at its place.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::emulated::EmulatedArray;
use hotset_block::sync::Promise;
use hotset_block::{Env, Executor, ExecutorOptions, FileOptions, HostDevice, HostEnv, MemoryDevice, UblkData};
use hotset_cache::Volume;
use hotset_cache::config::{VolumeSettings, VolumeSpec};

use super::requests::{Asker, UblkRequests, failed};
use super::serve;
use crate::exports::{Door, Exports, Link, ServerSettings};
use crate::nbd::wire::{Command, Request, command_flag, errno};

const SIZE: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(10);

/// A volume that is exported, and the requests of its device.
struct World {
    env: HostEnv,
    exports: Exports,
    volume: Volume<HostEnv>,
    data: UblkData,
    requests: UblkRequests,
    asker: Rc<Asker>,
}

impl World {
    fn new(env: HostEnv, settings: VolumeSettings) -> Self {
        let device = HostDevice::Memory(MemoryDevice::new(SIZE, 512));
        Self::over(env, settings, device, ServerSettings::default(), Door::alone())
    }

    fn over(env: HostEnv, settings: VolumeSettings, device: HostDevice, server: ServerSettings, door: Door) -> Self {
        let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".to_owned(), settings };
        let volume = Volume::open(env.clone(), spec, device).unwrap();
        let exports = Exports::new(env.clone(), server, door);
        exports.add(volume.clone()).unwrap();
        let data = UblkData::of(tempfile::tempfile().unwrap());
        let (requests, asker) = UblkRequests::over(data.clone());
        Self { env, exports, volume, data, requests, asker: Rc::new(asker) }
    }

    fn serve(&self) -> bool {
        serve(&self.exports, "disk", &self.requests).unwrap()
    }

    async fn ask(&self, request: Request) -> i32 {
        self.asker.ask(request).await
    }

    /// Asks, and does not wait for the answer.
    fn begin(&self, request: Request) -> impl Future<Output = i32> {
        let (answer, answered) = Promise::new();
        let asker = Rc::clone(&self.asker);
        self.env.spawn(async move { answer.set(asker.ask(request).await) });
        async move { answered.await.expect("its task goes on") }
    }

    fn sessions(&self) -> usize {
        let connections = self.exports.connections();
        connections.iter().filter(|one| one.link == Link::LocalDevice && one.export.as_deref() == Some("disk")).count()
    }
}

fn run(settings: VolumeSettings, test: impl AsyncFnOnce(World)) {
    let executor = Executor::new(ExecutorOptions::default()).expect("io_uring is available");
    executor.run(async |env| test(World::new(env, settings)).await);
}

fn request(command: Command, tag: u64, offset: u64, length: u32) -> Request {
    Request { flags: 0, command, cookie: tag, offset, length }
}

#[test]
fn what_a_request_writes_is_taken_and_what_it_reads_is_given_at_the_place_of_its_tag() {
    run(VolumeSettings::default(), async |world| {
        assert!(world.serve());
        assert_eq!(world.sessions(), 1);
        world.data.give(7, &[0xab; 4096]).unwrap();
        let write = Request { flags: command_flag::FUA, ..request(Command::Write, 7, 8192, 4096) };
        assert_eq!(world.ask(write).await, 4096);
        assert_eq!(world.ask(request(Command::Flush, 7, 0, 0)).await, 0);
        assert_eq!(world.ask(request(Command::Read, 3, 8192, 4096)).await, 4096);
        let mut read = [0; 4096];
        world.data.take(3, &mut read).unwrap();
        assert_eq!(read, [0xab; 4096]);
        assert_eq!(world.ask(request(Command::WriteZeroes, 3, 8192, 512)).await, 0);
        assert_eq!(world.ask(request(Command::Read, 3, 8192, 1024)).await, 1024);
        world.data.take(3, &mut read).unwrap();
        assert_eq!((&read[..512], &read[512..1024]), (&[0; 512][..], &[0xab; 512][..]));
    });
}

#[test]
fn what_cannot_be_done_is_an_error_and_counted() {
    run(VolumeSettings::default(), async |world| {
        assert!(world.serve());
        for (asked, error) in [
            (request(Command::Read, 0, SIZE, 512), errno::EINVAL),
            (request(Command::Write, 0, SIZE - 512, 1024), errno::ENOSPC),
            (request(Command::Read, 0, 1, 512), errno::EINVAL),
            (request(Command::Unknown(9), 0, 0, 512), errno::EINVAL),
            // The driver has no such bytes.
            (request(Command::Write, 9, 0, 512), errno::EIO),
        ] {
            assert_eq!(world.ask(asked).await, failed(error), "{asked:?}");
        }
        let stats = world.volume.status().stats;
        assert_eq!((stats.errors, stats.invalid), (1, 4));
    });
    let settings = VolumeSettings { read_only: true, ..VolumeSettings::default() };
    run(settings, async |world| {
        assert!(world.serve());
        assert_eq!(world.ask(request(Command::Write, 0, 0, 512)).await, failed(errno::EPERM));
    });
}

#[test]
fn requests_wait_for_a_session_and_outlive_it_and_there_is_one_at_a_time() {
    run(VolumeSettings::default(), async |world| {
        let early = world.begin(request(Command::Read, 0, 0, 4096));
        assert!(world.serve());
        assert_eq!(early.await, 4096);
        assert!(!world.serve(), "it is served");
        assert!(world.exports.remove("disk", LIMIT).await);
        assert_eq!(world.sessions(), 0);
        let between = world.begin(request(Command::Read, 1, 0, 4096));
        assert!(!world.serve(), "there is no such export");
        world.exports.add(world.volume.clone()).unwrap();
        assert!(world.serve());
        assert_eq!(between.await, 4096);
    });
}

#[test]
fn what_a_session_has_not_done_at_its_end_is_asked_of_the_next_one() {
    run(VolumeSettings::default(), async |world| {
        let asked = world.requests.take().expect("nobody serves it");
        let waiting = world.begin(request(Command::Read, 0, 0, 4096));
        let mut asked = asked;
        drop(asked.recv().await.expect("it is asked"));
        drop(asked);
        assert!(world.serve());
        assert_eq!(waiting.await, 4096);
    });
}

#[test]
fn requests_of_a_device_that_is_to_end_fail_when_nobody_serves_them() {
    run(VolumeSettings::default(), async |world| {
        let waiting = world.begin(request(Command::Read, 0, 0, 4096));
        world.env.end_of_turn().await;
        world.requests.refuse();
        assert_eq!(waiting.await, failed(errno::EIO));
        assert_eq!(world.ask(request(Command::Read, 0, 0, 4096)).await, failed(errno::EIO));
    });
}

#[test]
fn what_nobody_serves_when_the_process_ends_does_not_fail_for_the_next_one_is_asked() {
    run(VolumeSettings::default(), async |world| {
        let World { env, requests, asker, .. } = world;
        let answered = Rc::new(Cell::new(0));
        for tag in 0..2 {
            let (asker, answered) = (Rc::clone(&asker), Rc::clone(&answered));
            env.spawn(async move {
                asker.ask(request(Command::Read, tag, 0, 4096)).await;
                answered.set(answered.get() + 1);
            });
        }
        env.end_of_turn().await;
        drop(requests);
        env.sleep(Duration::from_millis(20)).await;
        assert_eq!(answered.get(), 0, "a host gets an error because the daemon ends");
    });
}

#[test]
fn a_session_ends_with_its_device() {
    run(VolumeSettings::default(), async |world| {
        assert!(world.serve() && world.requests.are_fetched());
        drop(world.asker);
        assert!(!world.requests.are_fetched());
        let connections = || world.exports.connections().len();
        while connections() > 0 {
            world.env.sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_session_pauses_finishes_what_it_took_and_goes_on() {
    run(VolumeSettings::default(), async |world| {
        assert!(world.serve());
        let export = world.exports.export_of("disk").unwrap();
        let taken = world.begin(request(Command::Read, 0, 0, 4096));
        world.env.end_of_turn().await;
        assert!(world.exports.pause(export, LIMIT).await);
        let later = world.begin(request(Command::Read, 1, 0, 4096));
        world.env.sleep(Duration::from_millis(5)).await;
        assert_eq!(world.exports.connections()[0].in_flight, 0, "nothing is taken");
        world.exports.resume(export);
        assert_eq!((taken.await, later.await), (4096, 4096));
    });
}

#[test]
fn a_session_goes_where_its_export_goes_and_requests_are_fetched_where_they_were() {
    let executor = Executor::new(ExecutorOptions::default()).expect("io_uring is available");
    executor.run(async |env| {
        let mut doors = Door::for_threads(2).into_iter();
        let device = HostDevice::Memory(MemoryDevice::new(SIZE, 512));
        let world = World::over(
            env.clone(),
            VolumeSettings::default(),
            device,
            ServerSettings::default(),
            doors.next().unwrap(),
        );
        let other = Exports::new(env, ServerSettings::default(), doors.next().unwrap());
        assert!(world.serve());
        let export = world.exports.export_of("disk").unwrap();
        assert!(world.exports.pause(export, LIMIT).await);
        let meanwhile = world.begin(request(Command::Read, 0, 0, 4096));
        other.take_over(export, world.volume.clone());
        world.exports.depart(export).await;
        assert_eq!(meanwhile.await, 4096);
        assert_eq!((world.sessions(), other.connections().len()), (0, 1));
    });
}

/// A device on which every read seeks for much longer than a request may take.
async fn slow(env: HostEnv, test: impl AsyncFnOnce(World)) {
    let folder = tempfile::tempdir().unwrap();
    let spelled = "emulated:disks=1,level=raid0,size=64M,seek-min=100ms,seek-max=100ms,file=";
    let spelled = format!("{spelled}{}", folder.path().join("array").display());
    let opened = EmulatedArray::open(&env, &spelled.parse().unwrap(), FileOptions::default()).await;
    let device = HostDevice::Emulated(opened.expect("the array can be made"));
    let server = ServerSettings { request_timeout: Duration::from_millis(8), ..ServerSettings::default() };
    test(World::over(env, VolumeSettings::default(), device, server, Door::alone())).await;
}

/// Reads that seek.
fn reads() -> impl Iterator<Item = Request> {
    (0..8).map(|tag| request(Command::Read, tag, ((tag * 7 + 3) % 16) << 22, 4096))
}

#[test]
fn a_late_request_is_an_error_and_what_it_reads_then_is_not_given_to_another_one() {
    let executor = Executor::new(ExecutorOptions::default()).expect("io_uring is available");
    executor.run(async |env| {
        let late = async |world: World| {
            assert!(world.serve());
            let all: Vec<_> = reads().map(|read| (read.cookie, world.begin(read))).collect();
            let mut tags = Vec::new();
            for (tag, answer) in all {
                if answer.await == failed(errno::EIO) {
                    tags.push(u16::try_from(tag).unwrap());
                }
            }
            assert!(!tags.is_empty(), "the device was faster than the time limit");
            assert_eq!(world.volume.status().stats.timed_out, u64::try_from(tags.len()).unwrap());
            // The bytes of their tags are those of other requests now.
            tags.iter().for_each(|tag| world.data.give(*tag, &[0xab; 4096]).unwrap());
            while world.exports.connections()[0].in_flight > 0 {
                world.env.sleep(Duration::from_millis(5)).await;
            }
            for tag in tags {
                let mut bytes = [0; 4096];
                world.data.take(tag, &mut bytes).unwrap();
                assert_eq!(bytes, [0xab; 4096]);
            }
        };
        slow(env, late).await;
    });
}

#[test]
fn what_hangs_when_a_session_ends_is_asked_of_the_next_one() {
    let executor = Executor::new(ExecutorOptions::default()).expect("io_uring is available");
    executor.run(async |env| {
        let hanging = async |world: World| {
            assert!(world.serve());
            let all: Vec<_> = reads().map(|read| world.begin(read)).collect();
            world.env.sleep(Duration::from_millis(1)).await;
            assert!(world.exports.remove("disk", Duration::ZERO).await);
            world.exports.add(world.volume.clone()).unwrap();
            assert!(world.serve());
            world.env.sleep(Duration::from_millis(1)).await;
            assert!(world.exports.connections()[0].in_flight > 0);
            for answer in all {
                // Some are late again.
                let answer = answer.await;
                assert!(answer == 4096 || answer == failed(errno::EIO), "{answer}");
            }
        };
        slow(env, hanging).await;
    });
}
