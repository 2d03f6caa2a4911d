//! A disk with a volatile write cache, for the virtual machine: QEMU reaches it by NBD over a unix socket. What was not
//! flushed lives in memory alone, and at a power cut each of its sectors is kept or lost as chance has it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

use hotset_e2e::files::usize_of;
use hotset_e2e::pattern::{Random, SECTOR, SECTOR_BYTES};

const FLAG_HAS_FLAGS: u16 = 1;
const FLAG_SEND_FLUSH: u16 = 4;

/// The power of all disks of one machine: cut at one moment for all of them.
#[derive(Clone, Default)]
pub(crate) struct Power(Arc<RwLock<Cut>>);

/// Whether the power is cut.
#[derive(Default)]
struct Cut(bool);

impl Power {
    /// From now on no disk does anything, nor answers.
    pub(crate) fn cut(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).0 = true;
    }

    pub(crate) fn restore(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// One disk: the file holds what was flushed, or lay there long enough.
pub(crate) struct Disk {
    file: File,
    unflushed: Mutex<BTreeMap<u64, [u8; SECTOR]>>,
    power: Power,
}

impl Disk {
    pub(crate) fn new(path: &Path, size_bytes: u64, power: Power) -> Arc<Self> {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        let file = file.expect("an image can be made");
        file.set_len(size_bytes).expect("an image can be sparse");
        Arc::new(Self { file, unflushed: Mutex::default(), power })
    }

    /// Serves whoever connects, for as long as the test program runs.
    pub(crate) fn serve(self: &Arc<Self>, socket: &Path) {
        let listener = UnixListener::bind(socket).expect("a socket can be made");
        let disk = Arc::clone(self);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let disk = Arc::clone(&disk);
                // A client that goes away in the middle is a machine without power.
                thread::spawn(move || disk.session(stream).ok());
            }
        });
    }

    /// After a power cut: each sector that was not flushed is kept with this chance in a hundred, else lost.
    pub(crate) fn make_some_durable(&self, random: &mut Random, kept_percent: u64) {
        let mut unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        unflushed.retain(|_, _| random.below(100) < kept_percent);
        self.store(&mut unflushed).expect("the image can be written");
    }

    /// Bytes that a power cut could take.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        let unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(unflushed.len()).expect("memory is limited") * SECTOR_BYTES
    }

    fn store(&self, unflushed: &mut BTreeMap<u64, [u8; SECTOR]>) -> io::Result<()> {
        for (sector, bytes) in std::mem::take(unflushed) {
            self.file.write_all_at(&bytes, sector * SECTOR_BYTES)?;
        }
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.read_exact_at(bytes, offset)?;
        for (sector, piece) in (offset / SECTOR_BYTES..).zip(bytes.chunks_exact_mut(SECTOR)) {
            if let Some(newer) = unflushed.get(&sector) {
                piece.copy_from_slice(newer);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let mut unflushed = self.unflushed.lock().unwrap_or_else(PoisonError::into_inner);
        for (sector, piece) in (offset / SECTOR_BYTES..).zip(bytes.chunks_exact(SECTOR)) {
            unflushed.insert(sector, piece.try_into().expect("a piece is a sector"));
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.store(&mut self.unflushed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn session(&self, mut stream: UnixStream) -> io::Result<()> {
        self.greet(&mut stream)?;
        let mut head = [0; 28];
        loop {
            stream.read_exact(&mut head)?;
            let verb = u16::from_be_bytes([head[6], head[7]]);
            let offset = u64::from_be_bytes(head[16..24].try_into().expect("eight bytes"));
            let length = u32::from_be_bytes(head[24..28].try_into().expect("four bytes"));
            let mut bytes = vec![0; if verb == 3 { 0 } else { usize_of(u64::from(length)) }];
            if verb == 1 {
                stream.read_exact(&mut bytes)?;
            }
            // Held until the answer is out: a cut comes before or after a request, for all disks alike.
            let cut = self.power.0.read().unwrap_or_else(PoisonError::into_inner);
            if cut.0 {
                continue;
            }
            match verb {
                0 => self.read(offset, &mut bytes)?,
                1 => self.write(offset, &std::mem::take(&mut bytes)),
                2 => return Ok(()),
                3 => self.flush()?,
                other => return Err(io::Error::other(format!("request {other} was not offered"))),
            }
            stream.write_all(&[&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &head[8..16], &bytes].concat())?;
        }
    }

    /// Fixed newstyle, as far as QEMU needs it.
    fn greet(&self, stream: &mut UnixStream) -> io::Result<()> {
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
        stream.read_exact(&mut [0; 4])?;
        loop {
            let mut head = [0; 16];
            stream.read_exact(&mut head)?;
            let option = u32::from_be_bytes(head[8..12].try_into().expect("four bytes"));
            let length = u32::from_be_bytes(head[12..16].try_into().expect("four bytes"));
            stream.read_exact(&mut vec![0; usize_of(u64::from(length))])?;
            let mut reply = |kind: u32, data: &[u8]| {
                let length = u32::try_from(data.len()).expect("a reply is below 4 GiB").to_be_bytes();
                let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
                stream.write_all(&[&magic[..], &head[8..12], &kind.to_be_bytes(), &length, data].concat())
            };
            // INFO and GO; nothing else is needed, and all else is refused.
            if option != 6 && option != 7 {
                reply(0x8000_0001, &[])?;
                continue;
            }
            let flags = FLAG_HAS_FLAGS | FLAG_SEND_FLUSH;
            let size_bytes = self.file.metadata()?.len().to_be_bytes();
            reply(3, &[&[0, 0][..], &size_bytes, &flags.to_be_bytes()].concat())?;
            reply(1, &[])?;
            if option == 7 {
                return Ok(());
            }
        }
    }
}

#[test]
fn a_power_cut_takes_what_was_not_flushed_and_nothing_else() {
    let site = hotset_e2e::files::Site::new();
    let power = Power::default();
    let disk = Disk::new(&site.path("disk"), 1 << 20, power.clone());
    disk.serve(&site.socket("disk"));
    let mut client = hotset_e2e::nbd::Client::connect(&site.socket("disk"), "").expect("it serves");
    client.write(0, &[1; 4096]).expect("a write");
    client.flush().expect("a flush");
    client.write(2048, &[2; 4096]).expect("a write");
    client.write(1024, &[4; 512]).expect("a write");
    let all = client.read(0, 8192).expect("a read");
    assert_eq!((all[1024], all[2047], all[2048], all[6143], all[6144]), (4, 1, 2, 2, 0));
    power.cut();
    disk.make_some_durable(&mut Random::new(1), 0);
    drop(client);
    power.restore();
    let mut client = hotset_e2e::nbd::Client::connect(&site.socket("disk"), "").expect("it serves again");
    let all = client.read(0, 8192).expect("a read");
    assert!(all[..4096].iter().all(|byte| *byte == 1) && all[4096..].iter().all(|byte| *byte == 0));
    assert_eq!(disk.unflushed_bytes(), 0);
}
