//! What the driver for block devices of user space is told and tells (`linux/ublk_cmd.h`): bytes from values and back, in the
//! machine's own order.

use hotset_block::UBLK_REQUEST_BYTES;

use crate::exports::ExportInfo;
use crate::nbd::wire::{Command, Request, command_flag};

/// In the driver's unit, whatever the device's own sector is.
const SECTOR_SHIFT: u32 = 9;

/// Requests at once, and what one moves at most.
pub(super) const DEPTH: u16 = 128;
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// What one discard or zeroing covers at most.
const RANGE_BYTES_MAX: u32 = 1 << 30;

/// Commands, as numbers of ioctls.
pub(super) mod command {
    /// What is read only, and what is read and written too.
    const READ: u32 = 2 << 30;
    const BOTH: u32 = 3 << 30;
    /// The type, and the length of `struct ublksrv_ctrl_cmd`.
    const KIND: u32 = 32 << 16 | 0x75 << 8;

    pub(in super::super) const DEVICE_INFO: u32 = READ | KIND | 0x02;
    pub(in super::super) const ADD: u32 = BOTH | KIND | 0x04;
    pub(in super::super) const DELETE: u32 = BOTH | KIND | 0x05;
    pub(in super::super) const START: u32 = BOTH | KIND | 0x06;
    pub(in super::super) const STOP: u32 = BOTH | KIND | 0x07;
    pub(in super::super) const SET_PARAMETERS: u32 = BOTH | KIND | 0x08;
    pub(in super::super) const START_RECOVERY: u32 = BOTH | KIND | 0x10;
    pub(in super::super) const END_RECOVERY: u32 = BOTH | KIND | 0x11;
    pub(in super::super) const FEATURES: u32 = READ | KIND | 0x13;
    pub(in super::super) const DELETE_LATER: u32 = READ | KIND | 0x14;
    pub(in super::super) const UPDATE_SIZE: u32 = BOTH | KIND | 0x15;
}

/// What a driver can do: requests wait for the next server, and those that the last one had not answered are asked again; commands
/// are numbered as ioctls; bytes of requests are read and written by the device's file.
const RECOVERY: u64 = 1 << 3;
const RECOVERY_REISSUE: u64 = 1 << 4;
const IOCTL_NUMBERS: u64 = 1 << 6;
const USER_COPY: u64 = 1 << 7;
const NEEDED: u64 = RECOVERY | RECOVERY_REISSUE | IOCTL_NUMBERS | USER_COPY;
/// Sizes can be changed.
const SIZE_UPDATES: u64 = 1 << 10;

/// Features, as the driver tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features(u64);

impl Features {
    pub(super) const BYTES: usize = 8;

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u64::from_ne_bytes(bytes)))
    }

    /// All that our devices need.
    pub(super) fn suffice(self) -> bool {
        self.0 & NEEDED == NEEDED
    }

    pub(super) fn can_resize(self) -> bool {
        self.0 & SIZE_UPDATES != 0
    }
}

/// Whether somebody serves a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was never started, or is stopped.
    Dead,
    Live,
    /// Its requests wait for another server.
    Waiting,
    /// One that is not known here.
    Other(u16),
}

/// `struct ublksrv_ctrl_dev_info`, as far as we use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceInfo {
    pub(super) depth: u16,
    pub(super) state: State,
    pub(super) device: u32,
    /// Kept for whoever made it, and not understood by the driver: by what its server knows it.
    pub(super) mark: u64,
}

impl DeviceInfo {
    pub(super) const BYTES: usize = 64;

    /// Of a device that is to be made, with any number.
    pub(super) fn new_device(mark: u64) -> Vec<u8> {
        let mut bytes = vec![0; Self::BYTES];
        bytes[0..2].copy_from_slice(&1_u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&DEPTH.to_ne_bytes());
        bytes[8..12].copy_from_slice(&TRANSFER_BYTES_MAX.to_ne_bytes());
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[24..32].copy_from_slice(&NEEDED.to_ne_bytes());
        bytes[32..40].copy_from_slice(&mark.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let state = match u16_at(bytes, 4)? {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Waiting,
            other => State::Other(other),
        };
        Some(Self { depth: u16_at(bytes, 2)?, state, device: u32_at(bytes, 12)?, mark: u64_at(bytes, 32)? })
    }
}

/// `struct ublk_params`, with what the block device is like and what it can discard.
pub(super) fn parameters(export: &ExportInfo) -> Vec<u8> {
    const BYTES: u32 = 60;
    const BASIC_AND_DISCARD: u32 = 1 | 2;
    const READ_ONLY: u32 = 1;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    let attributes = VOLATILE_CACHE | FUA | if export.read_only { READ_ONLY } else { 0 };
    let (logical, preferred) = (shift_of(export.block_bytes_min), shift_of(export.block_bytes_preferred));
    let sectors = |bytes: u32| bytes >> SECTOR_SHIFT;
    let mut bytes = Vec::with_capacity(60);
    let mut push = |word: u32| bytes.extend(word.to_ne_bytes());
    [BYTES, BASIC_AND_DISCARD, attributes].into_iter().for_each(&mut push);
    // Logical and physical block, best and smallest transfer.
    push(u32::from_ne_bytes([logical, logical, preferred, preferred]));
    // The longest request, and no border that a request must not cross.
    [sectors(TRANSFER_BYTES_MAX), 0].into_iter().for_each(&mut push);
    bytes.extend((export.size_bytes >> SECTOR_SHIFT).to_ne_bytes());
    bytes.extend(0_u64.to_ne_bytes());
    let discard = if export.trims { sectors(RANGE_BYTES_MAX) } else { 0 };
    let mut push = |word: u32| bytes.extend(word.to_ne_bytes());
    [0, export.block_bytes_preferred, discard, sectors(RANGE_BYTES_MAX)].into_iter().for_each(&mut push);
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend(0_u16.to_ne_bytes());
    bytes
}

fn shift_of(bytes: u32) -> u8 {
    u8::try_from(bytes.ilog2()).expect("there are 32 bits")
}

/// In the driver's unit.
pub(super) fn sectors(size_bytes: u64) -> u64 {
    size_bytes >> SECTOR_SHIFT
}

/// `struct ublksrv_io_desc`, as the request that it is to a volume.
pub(super) fn request(tag: u16, bytes: &[u8; UBLK_REQUEST_BYTES]) -> Request {
    const FUA: u32 = 1 << 13;
    const NO_HOLE: u32 = 1 << 15;
    let (words, _) = bytes.as_chunks::<4>();
    let word = |index: usize| u32::from_ne_bytes(words[index]);
    let asked = word(0);
    let command = match asked & 0xff {
        0 => Command::Read,
        1 => Command::Write,
        2 => Command::Flush,
        3 => Command::Trim,
        5 => Command::WriteZeroes,
        _ => Command::Unknown(u16::MAX),
    };
    let mut flags = 0;
    if asked & FUA != 0 {
        flags |= command_flag::FUA;
    }
    if asked & NO_HOLE != 0 && command == Command::WriteZeroes {
        flags |= command_flag::NO_HOLE;
    }
    let start = u64_at(bytes, 8).expect("a description has 24 bytes");
    // What is too long to be told is too long to be done.
    let length = word(1).saturating_mul(1 << SECTOR_SHIFT);
    Request { flags, command, cookie: u64::from(tag), offset: start.saturating_mul(1 << SECTOR_SHIFT), length }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the driver describes it: operation and flags, sectors, first sector.
    fn described(operation: u32, sectors: u32, first: u64) -> Request {
        let mut bytes = [0; UBLK_REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&operation.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&first.to_ne_bytes());
        request(9, &bytes)
    }

    #[test]
    fn commands_have_the_numbers_of_the_kernels_header() {
        // As a C compiler has them of `linux/ublk_cmd.h`.
        assert_eq!(command::DEVICE_INFO, 0x8020_7502);
        assert_eq!(command::ADD, 0xc020_7504);
        assert_eq!(command::FEATURES, 0x8020_7513);
        assert_eq!(command::DELETE_LATER, 0x8020_7514);
        assert_eq!(command::UPDATE_SIZE, 0xc020_7515);
    }

    #[test]
    fn a_device_is_made_to_outlive_its_server_and_known_again_by_its_mark() {
        let bytes = DeviceInfo::new_device(0x1234_5678_9abc_def0);
        assert_eq!(bytes.len(), 64);
        assert_eq!(u64_at(&bytes, 24), Some(0b1101_1000));
        assert_eq!((u16_at(&bytes, 0), u32_at(&bytes, 8)), (Some(1), Some(1 << 20)));
        let info = DeviceInfo::decode(&bytes).unwrap();
        assert_eq!((info.mark, info.depth, info.device), (0x1234_5678_9abc_def0, 128, u32::MAX));
        assert_eq!(DeviceInfo::decode(&bytes[..39]), None);
    }

    #[test]
    fn what_becomes_of_a_device_is_understood() {
        let mut bytes = DeviceInfo::new_device(1);
        for (number, state) in [(0, State::Dead), (1, State::Live), (2, State::Waiting), (9, State::Other(9))] {
            bytes[4] = number;
            assert_eq!(DeviceInfo::decode(&bytes).map(|info| info.state), Some(state));
        }
    }

    #[test]
    fn a_driver_that_lacks_one_of_our_needs_is_not_used() {
        let features = |bits: u64| Features::decode(&bits.to_ne_bytes()).unwrap();
        assert!(features(0xd8).suffice() && !features(0xd8).can_resize() && features(0x4d8).can_resize());
        for bit in [3, 4, 6, 7] {
            assert!(!features(0xffff & !(1 << bit)).suffice(), "without bit {bit}");
        }
        assert_eq!(Features::decode(&[0; 7]), None);
    }

    #[test]
    fn parameters_tell_size_blocks_cache_and_limits() {
        let export = ExportInfo { size_bytes: 3 << 20, block_bytes_min: 512, ..ExportInfo::sample("a") };
        let bytes = parameters(&export);
        assert_eq!((bytes.len(), u32_at(&bytes, 0), u32_at(&bytes, 4)), (60, Some(60), Some(3)));
        assert_eq!((u32_at(&bytes, 8), &bytes[12..16]), (Some(0b1100), &[9, 9, 12, 12][..]));
        assert_eq!((u32_at(&bytes, 16), u32_at(&bytes, 20), u64_at(&bytes, 24)), (Some(2048), Some(0), Some(6144)));
        let limits = [40, 44, 48, 52].map(|at| u32_at(&bytes, at).unwrap());
        assert_eq!((limits, u16_at(&bytes, 56)), ([0, 4096, 2 << 20, 2 << 20], Some(1)));
        let plain = parameters(&ExportInfo { read_only: true, trims: false, block_bytes_min: 4096, ..export });
        assert_eq!((u32_at(&plain, 8), plain[12], u32_at(&plain, 48)), (Some(0b1101), 12, Some(0)));
    }

    #[test]
    fn requests_are_those_of_a_volume() {
        let read = Request { flags: 0, command: Command::Read, cookie: 9, offset: 1024, length: 4096 };
        assert_eq!(described(0, 8, 2), read);
        let durable = Request { flags: command_flag::FUA, command: Command::Write, ..read };
        assert_eq!(described(1 | 1 << 13, 8, 2), durable);
        let flush = Request { command: Command::Flush, offset: 0, length: 0, ..read };
        assert_eq!(described(2, 0, 0), flush);
        assert_eq!(described(3 | 1 << 15, 8, 2), Request { command: Command::Trim, ..read });
        let zeroes = Request { command: Command::WriteZeroes, ..read };
        assert_eq!(described(5, 8, 2), zeroes);
        assert_eq!(described(5 | 1 << 15, 8, 2), Request { flags: command_flag::NO_HOLE, ..zeroes });
        assert_eq!(described(4, 8, 2).command, Command::Unknown(u16::MAX));
        assert_eq!(described(0, u32::MAX, u64::MAX).length, u32::MAX, "longer than can be told");
    }
}
