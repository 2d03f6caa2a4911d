//! A volume with hosts at work on it, each in a region of its own.

use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::load::Host;
use hotset_e2e::pattern::PAGE_BYTES;

use super::SILENCE_MAX;
use crate::restart::connect_again_to;

/// Sectors of one host's region: 4 MiB.
const REGION: u64 = 4 * MIB / 512;
const HOSTS: u64 = 2;
/// What a volume has at first; it grows to twice as much.
const FIRST_MIB: u64 = HOSTS * REGION * 512 / MIB;

/// See the file's summary.
pub(super) struct Volume {
    pub(super) name: &'static str,
    pub(super) backing: PathBuf,
    pub(super) size_mib: u64,
    hosts: Vec<Host>,
    working: Vec<JoinHandle<(Host, Duration)>>,
    stop: Arc<AtomicBool>,
    /// The longest time in which a host got no answer.
    pub(super) longest_pause: Duration,
}

impl Volume {
    /// Its backing device is made, and nothing else.
    pub(super) fn new(daemon: &Daemon, name: &'static str, seed: u64, answered: &Arc<AtomicU64>) -> Self {
        let backing = daemon.site.numbered(name, FIRST_MIB * MIB / PAGE_BYTES);
        let host = |index| {
            let mut host = Host::new(index * REGION, REGION, seed + index);
            host.count_in(answered);
            host
        };
        let (hosts, stop) = ((0..HOSTS).map(host).collect(), Arc::default());
        let longest_pause = Duration::ZERO;
        Self { name, backing, size_mib: FIRST_MIB, hosts, working: Vec::new(), stop, longest_pause }
    }

    /// Hosts begin to work, through whatever happens to the daemon.
    pub(super) fn start(&mut self, socket: &Path) {
        self.stop = Arc::default();
        for mut host in self.hosts.drain(..) {
            let (name, socket, stop) = (self.name, socket.to_owned(), Arc::clone(&self.stop));
            self.working.push(thread::spawn(move || {
                let pause = host.work_through(|| connect_again_to(&socket, name, SILENCE_MAX), &stop);
                (host, pause)
            }));
        }
    }

    /// Panics with a host that did.
    pub(super) fn watch(&mut self) {
        if let Some(index) = self.working.iter().position(JoinHandle::is_finished) {
            match self.working.swap_remove(index).join() {
                Err(panic) => resume_unwind(panic),
                Ok(_) => panic!("a host of volume {} ended by itself", self.name),
            }
        }
    }

    /// Waits for what is in flight.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for working in self.working.drain(..) {
            let (host, pause) = working.join().unwrap_or_else(|panic| resume_unwind(panic));
            assert!(pause < SILENCE_MAX, "a host of volume {} got no answer for {pause:?}", self.name);
            self.longest_pause = self.longest_pause.max(pause);
            self.hosts.push(host);
        }
    }

    /// Every byte, as the daemon serves it; hosts are stopped.
    pub(super) fn check(&mut self, daemon: &Daemon) {
        let mut client = daemon.client(self.name);
        self.hosts.iter_mut().for_each(|host| host.check_all(&mut client));
    }

    /// Every byte, without the daemon.
    pub(super) fn check_backing(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.check_file(&self.backing));
    }

    /// Makes the backing device larger, or as small as it was at first if it is full-grown.
    pub(super) fn resize_backing(&mut self, size_mib: u64) {
        let file = File::options().write(true).open(&self.backing).expect("it is a file of ours");
        file.set_len(size_mib * MIB).expect("a file can have any size");
        self.size_mib = size_mib;
    }

    pub(super) fn is_full_grown(&self) -> bool {
        self.size_mib >= 2 * FIRST_MIB
    }

    pub(super) fn shrink(&mut self) {
        self.resize_backing(FIRST_MIB);
    }
}

impl Drop for Volume {
    /// Nothing else would end its hosts.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
