//! A pool of the first version of the format is opened by this one, and what a later one may write is refused: a start that is cut at any
//! write leaves a pool that opens with all it had, and that an older version refuses by name as soon as anything in it is newer.

use std::path::Path;
use std::pin::pin;

use futures_util::future::{Either, select};
use hotset_cache::offline::Offline;
use hotset_cache::{ErrorKind, Missing, Named, Pool};

use crate::golden_log::{Dirty, Image, check, golden, named};
use crate::harness::{Kill, TestDevice, run};
use crate::packed;

const KIB: usize = 1 << 10;
/// Where an SSD of the images has its superblocks, and both areas of each record: members, witness, rows, catalogue.
const SUPERBLOCKS: [usize; 2] = [0, 64 * KIB];
const RECORDS: [usize; 8] = [128, 192, 180, 244, 256, 384, 512, 640];
/// The member file has its records at the same places, counted from 0; catalogues are as large there as they get.
const STATE_RECORDS: [usize; 8] = [0, 64, 52, 116, 128, 256, 384, 384 + 4096];
const OWNER_MARK: std::ops::Range<usize> = 32 * KIB..36 * KIB;

fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The version of the superblock or record at a place, if it is whole as far as every version can tell.
fn version_at(bytes: &[u8], at: usize) -> Option<u32> {
    let page = &bytes[at..at + 4096];
    let whole = match &page[..8] {
        b"HOTSETsb" => u32_at(page, 12) == crc32c(&page[16..]),
        b"HOTSETmr" => u32_at(page, 48) == crc32c(&page[..48]),
        _ => false,
    };
    whole.then(|| u32_at(page, 8))
}

/// The versions of everything in an image that says its own: what an older Hotset judges by.
fn versions(image: &Image) -> Vec<u32> {
    let mut versions = Vec::new();
    for ssd in &image.0[..2] {
        let places = SUPERBLOCKS.into_iter().chain(RECORDS.map(|place| place * KIB));
        versions.extend(places.filter_map(|place| version_at(ssd, place)));
    }
    versions.extend(STATE_RECORDS.iter().filter_map(|place| version_at(&image.0[2], place * KIB)));
    versions
}

fn without_marks(image: &Image) -> Vec<Vec<u8>> {
    let mut devices = image.0.clone();
    devices[..2].iter_mut().for_each(|ssd| ssd[OWNER_MARK].fill(0));
    devices
}

/// Opens an image with a kill at this write of all; `None`: it was open before.
fn cut(image: &Image, kill_at: u64, tears: bool) -> Option<Image> {
    let mut left = None;
    run(async |env| {
        let devices = image.devices().await;
        let kill = Kill::at(kill_at, tears);
        devices.iter().for_each(|device| device.killed_by(&kill));
        let open = pin!(Pool::open(env.clone(), named(&devices), Some(devices[2].clone()), Missing::Refuse));
        match select(open, pin!(kill.happens())).await {
            Either::Left((opened, _)) => drop(opened.unwrap()),
            Either::Right(_) => left = Some(Image::of(&devices).await),
        }
    });
    left
}

/// Cuts every write of the start of an image in turn; answers how many there are.
fn cut_every_write(image: &Image, dirty: &Dirty) -> usize {
    let mut writes = 0;
    for kill_at in 0.. {
        // Whole pages that were not written, or half of what was.
        let tears = kill_at % 2 == 0;
        let Some(left) = cut(image, kill_at, tears) else { return writes };
        let is_newer = versions(&left).iter().any(|version| *version > 1);
        let is_untouched = without_marks(&left) == without_marks(image);
        assert!(is_newer || is_untouched, "write {kill_at}: an older Hotset would open what this one began to write");
        run(async |env| check(&env, &left, dirty, None).await);
        writes += 1;
    }
    writes
}

// proves: P16, D14
#[test]
fn a_start_of_an_older_pool_that_is_cut_at_any_write_leaves_one_that_opens_with_all_it_had() {
    let directory = golden(1).join("killed");
    let (image, dirty) = (Image::read(&directory), Dirty::read(&directory.join("expected.txt")));
    assert!(versions(&image).len() > 20 && versions(&image).iter().all(|version| *version == 1));
    let writes = cut_every_write(&image, &dirty);
    assert!(writes > 20, "{writes}");
}

// proves: P16
#[test]
fn a_pool_that_was_opened_is_of_this_version_everywhere() {
    run(async |env| {
        for left in ["clean", "killed"] {
            let devices = Image::read(&golden(1).join(left)).devices().await;
            let pool =
                Pool::open(env.clone(), named(&devices), Some(devices[2].clone()), Missing::Refuse).await.unwrap();
            pool.close().await.unwrap();
            let image = Image::of(&devices).await;
            for ssd in &image.0[..2] {
                assert_eq!(SUPERBLOCKS.map(|place| version_at(ssd, place)), [Some(2); 2]);
            }
            for kind in RECORDS.chunks(2) {
                let newest = |device: &[u8]| {
                    let of = |place: &usize| {
                        let number = u64::from_le_bytes(device[place * KIB + 32..][..8].try_into().unwrap());
                        (number, version_at(device, place * KIB))
                    };
                    kind.iter().map(of).max().unwrap().1
                };
                assert_eq!(newest(&image.0[0]), Some(2), "the newest of the records at {kind:?} KiB");
            }
        }
    });
}

/// A structure that says to which stream it belongs: its magic, where it says so, and which bytes its checksum covers.
struct Stamped {
    magic: &'static [u8],
    stream_at: usize,
    checksum_at: usize,
    covered_from: usize,
    /// In pages, at this place; else it is one sector.
    pages_at: Option<usize>,
}

const BATCH: Stamped =
    Stamped { magic: b"HOTSETlb", stream_at: 62, checksum_at: 8, covered_from: 16, pages_at: Some(52) };
const INDEX: Stamped = Stamped { magic: b"HSix", stream_at: 36, checksum_at: 4, covered_from: 8, pages_at: None };
const CHECKPOINT: Stamped =
    Stamped { magic: b"HOTSETcp", stream_at: 64, checksum_at: 8, covered_from: 16, pages_at: None };

impl Stamped {
    /// Makes all of them ones of stream 3; answers how many there are.
    fn split(&self, ssd: &mut [u8]) -> usize {
        let mut found = 0;
        for at in (512 * KIB..ssd.len()).step_by(512) {
            if !ssd[at..].starts_with(self.magic) {
                continue;
            }
            let length = self.pages_at.map_or(512, |pages| usize::try_from(u32_at(ssd, at + pages)).unwrap() * 4096);
            let whole = &mut ssd[at..at + length];
            assert_eq!(u32_at(whole, self.checksum_at), crc32c(&whole[self.covered_from..]));
            whole[self.stream_at] = 3;
            let checksum = crc32c(&whole[self.covered_from..]);
            whole[self.checksum_at..][..4].copy_from_slice(&checksum.to_le_bytes());
            found += 1;
        }
        found
    }
}

/// Makes every record at these places whose payload has a stream there one of stream 3.
fn split_records(device: &mut [u8], places: &[usize], stream_at: usize) {
    for place in places {
        let at = place * KIB;
        if version_at(device, at) != Some(2) {
            continue;
        }
        let length = usize::try_from(u32_at(device, at + 40)).unwrap();
        if length <= stream_at {
            continue;
        }
        device[at + 64 + stream_at] = 3;
        let payload = crc32c(&device[at + 64..at + 64 + length]);
        device[at + 44..at + 48].copy_from_slice(&payload.to_le_bytes());
        let header = crc32c(&device[at..at + 48]);
        device[at + 48..at + 52].copy_from_slice(&header.to_le_bytes());
    }
}

/// The image is refused with words that say what is needed, by a start and without a daemon; what lies behind the records stays as
/// it is.
fn refuse(what: &str, image: &Image) {
    run(async |env| {
        for missing in [Missing::Refuse, Missing::Leave, Missing::AcceptLoss] {
            let devices = image.devices().await;
            let opened = Pool::open(env.clone(), named(&devices), Some(devices[2].clone()), missing).await;
            let error = opened.err().unwrap_or_else(|| panic!("{what}: opened with {missing:?}"));
            assert_eq!(error.kind, ErrorKind::OtherStream, "{what}: {error}");
            assert!(error.to_string().contains("needs a newer Hotset: it is of stream 3"), "{what}: {error}");
            let after = Image::of(&devices).await;
            for (before, after) in image.0[..2].iter().zip(&after.0) {
                assert!(before[768 * KIB..] == after[768 * KIB..], "{what}: something was written");
            }
        }
    });
}

fn refuse_offline(what: &str, image: &Image) {
    run(async |env| {
        let devices = image.devices().await;
        let ssds: Vec<Named<TestDevice>> = named(&devices);
        let error = Offline::open(env, ssds).await.err().unwrap_or_else(|| panic!("{what}: read"));
        assert_eq!(error.kind, ErrorKind::OtherStream, "{what}: {error}");
    });
}

// proves: P16, F7
#[test]
fn what_is_of_another_stream_is_refused_by_name_and_never_taken_for_damage() {
    let image = |left: &str| Image::read(&golden(2).join(left));
    let mut batches = image("killed");
    assert!(batches.0[..2].iter_mut().map(|ssd| BATCH.split(ssd)).sum::<usize>() > 10);
    refuse("batches", &batches);
    refuse_offline("batches", &batches);
    // The row records: behind the oldest live row and the number of rows. The witness: behind the SSDs and the number of streams.
    for (what, places, stream_at) in [("row records", 4..6, 12), ("a witness record", 2..4, 2 + 2 * 48 + 2)] {
        let mut records = image("clean");
        for ssd in &mut records.0[..2] {
            split_records(ssd, &RECORDS[places.clone()], stream_at);
        }
        refuse(what, &records);
        refuse_offline(what, &records);
        let mut state = image("clean");
        split_records(&mut state.0[2], &STATE_RECORDS[places], stream_at);
        refuse(what, &state);
    }
}

// proves: P16
#[test]
fn a_slot_index_of_another_stream_is_refused_and_not_emptied() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v2/killed");
    for (what, stamped) in [("index sectors", INDEX), ("checkpoints", CHECKPOINT)] {
        run(async |env| {
            let (mut ssd, state) =
                (packed::read(&directory.join("ssd.zst")), packed::read(&directory.join("state.zst")));
            assert!(stamped.split(&mut ssd) > 0, "{what}");
            let device = TestDevice::holding(&ssd).await;
            let named = Named { path: "ssd".to_owned(), device: device.clone() };
            let state = TestDevice::holding(&state).await;
            let error = Pool::open(env, vec![named], Some(state), Missing::Refuse).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::OtherStream, "{what}: {error}");
            assert!(error.to_string().contains("needs a newer Hotset"), "{what}: {error}");
            assert!(device.content().await[768 * KIB..] == ssd[768 * KIB..], "{what}: something was written");
        });
    }
}
