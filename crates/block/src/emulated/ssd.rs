//! An emulated SSD: the file beneath, slowed down to a stated number of operations and bytes a second.
//!
//! For showing what a cache makes of slow SSDs on a machine that has none. Operations are served one after the other; the
//! time passes on timers and costs no processor. The bytes are those of the file, and as safe as there.

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::join;

use super::spelling::{SpellingError, parse_number, parse_size, parse_time_us, refuse, spell_size, spell_time};
use crate::{
    Buf, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Env, Extent, FileDevice, FileOptions, HostEnv,
    Instant, OpenError, ZeroMode,
};

/// What the spelling starts with.
pub(super) const PREFIX: &str = "emulated-ssd:";

/// How fast an emulated SSD is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdSpeed {
    /// Operations per second: 1 to 1,000,000.
    pub iops: u32,
    /// Bytes per second.
    pub rate: u64,
    /// The time of a flush, in microseconds.
    pub flush_us: u64,
}

impl SsdSpeed {
    fn transfer_time(&self, bytes: usize) -> Duration {
        let length = u64::try_from(bytes).expect("a buffer's length fits 64 bits");
        let operation_ns = 1_000_000_000 / u64::from(self.iops);
        let transfer_ns = u128::from(length) * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(operation_ns.max(u64::try_from(transfer_ns).unwrap_or(u64::MAX)))
    }
}

/// An emulated SSD and the file that is slowed down, spelled `emulated-ssd:iops=4000,rate=400M,flush=1ms,file=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedSsdSpec {
    pub speed: SsdSpeed,
    pub file: PathBuf,
}

impl EmulatedSsdSpec {
    /// Whether `text` means an emulated SSD rather than the path of a device.
    pub fn is_spelled_by(text: &str) -> bool {
        text.starts_with(PREFIX)
    }
}

impl FromStr for EmulatedSsdSpec {
    type Err = SpellingError;

    fn from_str(text: &str) -> Result<Self, SpellingError> {
        let form = || refuse(format!("an emulated SSD is spelled `{PREFIX}iops=N,rate=SIZE,flush=TIME,file=PATH`"));
        let list = text.strip_prefix(PREFIX).ok_or_else(form)?;
        let (mut iops, mut rate, mut flush_us, mut file) = (None, None, None, None);
        for item in list.split(',') {
            let (name, value) = item.split_once('=').ok_or_else(form)?;
            let wrong = |allowed: &str| refuse(format!("`{item}` of an emulated SSD: {allowed} is expected"));
            let again = match name {
                "iops" => {
                    let number = parse_number(value, 1, 1_000_000);
                    iops.replace(number.ok_or_else(|| wrong("a number from 1 to 1000000"))?).is_some()
                }
                "rate" => {
                    let parsed = parse_size(value).filter(|rate| (1 << 20..=100 << 30).contains(rate));
                    rate.replace(parsed.ok_or_else(|| wrong("bytes per second from 1M to 100G"))?).is_some()
                }
                "flush" => {
                    let time = parse_time_us(value).ok_or_else(|| wrong("a time from 10us to 100ms"))?;
                    flush_us.replace(time).is_some()
                }
                "file" if !value.is_empty() => file.replace(PathBuf::from(value)).is_some(),
                _ => return Err(form()),
            };
            if again {
                return Err(refuse(format!("`{name}` of an emulated SSD is given twice")));
            }
        }
        let speed = SsdSpeed {
            iops: iops.ok_or_else(form)?,
            rate: rate.ok_or_else(form)?,
            flush_us: flush_us.ok_or_else(form)?,
        };
        Ok(Self { speed, file: file.ok_or_else(form)? })
    }
}

impl fmt::Display for EmulatedSsdSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SsdSpeed { iops, rate, flush_us } = self.speed;
        let (rate, flush) = (spell_size(rate), spell_time(flush_us));
        write!(f, "{PREFIX}iops={iops},rate={rate},flush={flush},file={}", self.file.display())
    }
}

/// See the file's summary. A handle: cloning it is cheap.
pub struct EmulatedSsd<E: Env, S: Device> {
    shared: Rc<Shared<E, S>>,
}

struct Shared<E: Env, S: Device> {
    env: E,
    store: S,
    speed: SsdSpeed,
    /// When it has served everything that it was asked so far.
    busy_until: Cell<Instant>,
}

impl<E: Env, S: Device> Clone for EmulatedSsd<E, S> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

impl EmulatedSsd<HostEnv, FileDevice> {
    /// Opens and locks the file, past the page cache. Blocks briefly.
    ///
    /// # Errors
    /// As [`FileDevice::open_apart`].
    pub async fn open(env: &HostEnv, spec: &EmulatedSsdSpec, options: FileOptions) -> Result<Self, OpenError> {
        let store = FileDevice::open_apart(env, Path::new(&spec.file), options).await?.into_store();
        Ok(Self::new(env, spec.speed, store))
    }
}

impl<E: Env, S: Device> EmulatedSsd<E, S> {
    /// An SSD of this speed whose bytes are those of `store`.
    pub fn new(env: &E, speed: SsdSpeed, store: S) -> Self {
        let shared = Shared { env: env.clone(), store, speed, busy_until: Cell::new(Instant(0)) };
        Self { shared: Rc::new(shared) }
    }

    /// Serves something that takes so long, after everything before it.
    async fn takes(&self, time: Duration) {
        let now = self.shared.env.now();
        let done = self.shared.busy_until.get().max(now).plus(time);
        self.shared.busy_until.set(done);
        self.shared.env.sleep(done.since(now)).await;
    }

    async fn takes_operation(&self) {
        self.takes(self.shared.speed.transfer_time(0)).await;
    }
}

impl<E: Env, S: Device> Device for EmulatedSsd<E, S> {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { emulated: true, ..self.shared.store.info() }
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        self.shared.store.identity()
    }

    async fn identity_now(&self) -> Result<DeviceIdentity, DeviceError> {
        self.shared.store.identity_now().await
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let time = self.shared.speed.transfer_time(buf.len());
        join(self.shared.store.read(offset, buf), self.takes(time)).await.0
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let time = self.shared.speed.transfer_time(buf.len());
        join(self.shared.store.write(offset, buf), self.takes(time)).await.0
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let time = Duration::from_micros(self.shared.speed.flush_us);
        join(self.shared.store.flush(), self.takes(time)).await.0
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        join(self.shared.store.discard(range), self.takes_operation()).await.0
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        join(self.shared.store.write_zeroes(range, mode), self.takes_operation()).await.0
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.shared.store.allocation(range, extents_max).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, ExecutorOptions, MemoryDevice};

    const SLOW: SsdSpeed = SsdSpeed { iops: 4000, rate: 400_000_000, flush_us: 1000 };

    #[test]
    fn a_spelling_says_all_of_it_and_is_said_back() {
        let text = "emulated-ssd:iops=4000,rate=400MB,flush=1ms,file=/a/b";
        let spec: EmulatedSsdSpec = text.parse().unwrap();
        assert_eq!(spec, EmulatedSsdSpec { speed: SLOW, file: PathBuf::from("/a/b") });
        assert_eq!(spec.to_string(), text);
        for wrong in [
            "emulated-ssd:",
            "emulated-ssd:iops=4000,rate=400M,flush=1ms",
            "emulated-ssd:iops=0,rate=400M,flush=1ms,file=a",
            "emulated-ssd:iops=1,rate=1,flush=1ms,file=a",
            "emulated-ssd:iops=1,rate=400M,flush=1h,file=a",
            "emulated-ssd:iops=1,iops=2,rate=400M,flush=1ms,file=a",
            "emulated-ssd:iops=1,rate=400M,flush=1ms,file=a,size=1G",
            "/dev/sda",
        ] {
            assert!(wrong.parse::<EmulatedSsdSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_transfers_take_their_turn_and_long_ones_their_bytes() {
        assert_eq!(SLOW.transfer_time(4096), Duration::from_micros(250));
        assert_eq!(SLOW.transfer_time(400_000), Duration::from_millis(1));
    }

    #[test]
    fn operations_at_once_are_served_one_after_the_other_and_keep_their_bytes() {
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let ssd = EmulatedSsd::new(&env, SLOW, MemoryDevice::new(1 << 20, 512));
            assert!(ssd.info().emulated);
            let mut buf = Buf::zeroed(4096);
            buf.fill(7);
            let began = env.now();
            let (one, other) = join(ssd.write(0, buf), ssd.write(8192, Buf::zeroed(4096))).await;
            one.1.and(other.1).unwrap();
            ssd.flush().await.unwrap();
            assert!(env.now().since(began) >= Duration::from_micros(2 * 250 + 1000));
            let (buf, read) = ssd.clone().read(0, Buf::zeroed(4096)).await;
            read.unwrap();
            assert_eq!(buf[4095], 7);
        });
    }
}
