//! Measures the ground that the data plane stands on: random reads of a device, and the processor time of a task, of a
//! buffer and of a round trip over a socket (which other programs on the machine disturb less than the time that passed).
//!
//! `device_bench PATH [SECONDS]` makes PATH (256 MiB, fully written) if it is not there. To compare with fio, run in the
//! same minute: `fio --name=r --filename=PATH --rw=randread --bs=4k --ioengine=io_uring --direct=1 --iodepth=128
//! --time_based --runtime=5`.

use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Promise;
use hotset_block::{
    Buf, Device, Env, Executor, ExecutorOptions, FileDevice, FileOptions, HostEnv, Instant, Listener, Stream,
    create_image,
};

const IMAGE_BYTES: u64 = 256 << 20;
const READ_BYTES: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: device_bench PATH [SECONDS]")?;
    let duration = Duration::from_secs(arguments.next().map_or(Ok(5), |seconds| seconds.parse())?);
    let path = Path::new(&path);
    if !path.exists() {
        create_image(path, IMAGE_BYTES, &mut |_| ())?;
    }
    let started = processor_time();
    let executor = Executor::new(ExecutorOptions::default())?;
    report("executor with its registered buffers", 1, processor_time() - started);
    executor.run(async |env: HostEnv| {
        report("task, spawned and run", 1_000_000, measure_spawn(&env).await);
        report("4 KiB buffer, taken and dropped", 1_000_000, measure_buffers(&env));
        report("64 bytes there and back over a unix socket", 20_000, measure_round_trips(&env).await?);
        let device = FileDevice::open(&env, path, FileOptions { read_only: true, ..FileOptions::default() })?;
        for depth in [1, 128] {
            measure_reads(&env, &device, depth, duration).await;
        }
        Ok(())
    })
}

fn report(what: &str, count: u64, took: Duration) {
    println!("{what}: {} ns", took.as_nanos() / u128::from(count));
}

async fn measure_spawn(env: &HostEnv) -> Duration {
    let started = processor_time();
    for _ in 0..1000 {
        let left = Rc::new(Cell::new(1000));
        let (promise, promised) = Promise::new();
        let promise = Rc::new(Cell::new(Some(promise)));
        for _ in 0..1000 {
            let (left, promise) = (Rc::clone(&left), Rc::clone(&promise));
            env.spawn(async move {
                left.set(left.get() - 1);
                if left.get() == 0 {
                    promise.take().expect("taken once").set(());
                }
            });
        }
        promised.await;
    }
    processor_time() - started
}

fn measure_buffers(env: &HostEnv) -> Duration {
    let started = processor_time();
    for _ in 0..1_000_000 {
        std::hint::black_box(env.buffers().take(READ_BYTES));
    }
    processor_time() - started
}

async fn measure_round_trips(env: &HostEnv) -> std::io::Result<Duration> {
    let path = std::env::temp_dir().join(format!("device-bench-{}", std::process::id()));
    let listener = Listener::bind_unix(env, &path)?;
    let client = Stream::connect_unix(env, &path)?;
    let server = listener.accept().await?;
    env.spawn(async move {
        loop {
            let (buf, result) = server.recv(Buf::zeroed(64)).await;
            if !result.is_ok_and(|count| count > 0) || server.send_all(vec![buf]).await.is_err() {
                return;
            }
        }
    });
    let started = processor_time();
    for _ in 0..20_000 {
        client.send_all(vec![Buf::zeroed(64)]).await?;
        client.recv(Buf::zeroed(64)).await.1?;
    }
    Ok(processor_time() - started)
}

async fn measure_reads(env: &HostEnv, device: &FileDevice, depth: u32, duration: Duration) {
    let count = Rc::new(Cell::new(0_u64));
    let started = env.now();
    let deadline = started.plus(duration);
    let processor_time = processor_time();
    let mut readers = Vec::new();
    for _ in 0..depth {
        let (promise, promised) = Promise::new();
        readers.push(promised);
        let (env, device, count) = (env.clone(), device.clone(), Rc::clone(&count));
        env.clone().spawn(async move {
            read_until(&env, &device, deadline, &count).await;
            promise.set(());
        });
    }
    for reader in readers {
        reader.await;
    }
    let (reads, took) = (u128::from(count.get()), env.now().since(started).as_nanos());
    let per_read = (self::processor_time() - processor_time).as_nanos() / reads;
    println!("random reads, depth {depth}: {} IOPS, {per_read} ns CPU each", reads * 1_000_000_000 / took);
}

async fn read_until(env: &HostEnv, device: &FileDevice, deadline: Instant, count: &Cell<u64>) {
    let blocks = device.info().size_bytes / 4096;
    while env.now() < deadline {
        let offset = env.random() % blocks * 4096;
        let (_, result) = device.read(offset, env.buffers().take(READ_BYTES)).await;
        result.expect("the image can be read");
        count.set(count.get() + 1);
    }
}

/// User and system time of this process so far.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
