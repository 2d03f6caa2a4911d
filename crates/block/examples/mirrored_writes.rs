//! What a mirrored write that is durable takes at least: 4 KiB written to two files at once, one write at a time, and
//! nothing else. Two ways take turns: written durable in one operation each (`durable_us`), and written, then flushed
//! (`flushed_us`); of each the median in microseconds is printed.
//!
//! `mirrored_writes SECONDS SPAN FILE FILE` writes random pages of the first SPAN bytes of both files, which it overwrites.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join;
use hotset_block::{Device, DeviceError, Env, Executor, ExecutorOptions, FileDevice, FileOptions, HostEnv};

const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy)]
enum Way {
    Durable,
    Flushed,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, span, first, second] = &arguments[..] else {
        return Err("usage: mirrored_writes SECONDS SPAN FILE FILE".into());
    };
    let (duration, pages) = (Duration::from_secs(seconds.parse()?), span.parse::<u64>()? / 4096);
    if pages == 0 {
        return Err("SPAN is less than a page of 4096 bytes".into());
    }
    Executor::new(ExecutorOptions::default())?.run(async |env: HostEnv| {
        let open = |path: &String| FileDevice::open(&env, Path::new(path), FileOptions::default());
        let files = [open(first)?, open(second)?];
        let deadline = env.now().plus(duration);
        let mut times = [Vec::new(), Vec::new()];
        while env.now() < deadline {
            for (way, times) in [Way::Durable, Way::Flushed].into_iter().zip(&mut times) {
                let offset = env.random() % pages * 4096;
                let began = env.now();
                let copies = files.each_ref().map(|file| write(&env, file, offset, way));
                let [one, other] = copies;
                let (one, other) = join(one, other).await;
                one.and(other)?;
                times.push(env.now().since(began));
            }
        }
        let [durable, flushed] = times.map(median_us);
        println!("durable_us={durable:.1} flushed_us={flushed:.1}");
        Ok(())
    })
}

async fn write(env: &HostEnv, file: &FileDevice, offset: u64, way: Way) -> Result<(), DeviceError> {
    let buf = env.buffers().take(PAGE_BYTES);
    match way {
        Way::Durable => file.write_durable(offset, buf).await.1,
        Way::Flushed => {
            file.write(offset, buf).await.1?;
            file.flush().await
        }
    }
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
