//! An NBD server over a volume in memory, for measuring the server itself: `nbd_memory SOCKET [MIB]`. Serves the export
//! `memory` until it is killed.

use std::path::PathBuf;

use hotset_block::{Executor, ExecutorOptions, HostDevice, HostEnv, MemoryDevice};
use hotset_cache::Volume;
use hotset_cache::config::{VolumeSettings, VolumeSpec};
use hotset_serve::nbd::Server;
use hotset_serve::{Door, Exports, ServerSettings};

fn main() {
    let mut words = std::env::args().skip(1);
    let socket = PathBuf::from(words.next().expect("usage: nbd_memory SOCKET [MIB]"));
    let mib: u64 = words.next().map_or(1024, |word| word.parse().expect("MIB is a number"));
    let executor = Executor::new(ExecutorOptions::default()).expect("io_uring is available");
    executor.run(|env| async move { serve(&env, &socket, mib << 20).await });
}

async fn serve(env: &HostEnv, socket: &std::path::Path, size_bytes: u64) {
    let name = "memory".parse().expect("a valid name");
    let spec = VolumeSpec { name, backing: "memory".to_owned(), settings: VolumeSettings::default() };
    let device = HostDevice::Memory(MemoryDevice::new(size_bytes, 512));
    let volume = Volume::open(env.clone(), spec, device).expect("a volume over memory");
    let exports = Exports::new(env.clone(), ServerSettings::default(), Door::alone());
    exports.add(volume).expect("the first export");
    println!("{}", Server::new(exports).listen_unix(socket, None).expect("the socket can be made"));
    std::future::pending::<()>().await;
}
