//! Little-endian writing and bounds-checked reading, and the two checksums of the format.

use std::fmt;

use crc_fast::CrcAlgorithm;

use super::{FORMAT_VERSION, OLDEST_VERSION, STREAM};

/// Bytes that break the format: which rule, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt(pub(crate) String);

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something whole, of a later version of the format than this one. What is known of it stands at the same place in every
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newer {
    pub version: u32,
    pub pool_uuid: u128,
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version;
        write!(f, "it needs a Hotset that knows format version {version}; this one knows version {FORMAT_VERSION}")
    }
}

/// Something whole, of this stream of its pool: a later Hotset has split the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherStream(pub(crate) u16);

impl fmt::Display for OtherStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it needs a newer Hotset: it is of stream {} of its pool, and this one knows stream {STREAM} alone",
            self.0
        )
    }
}

/// Why bytes that carry a version of the format cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    Corrupt(Corrupt),
    Newer(Newer),
}

/// Why bytes that belong to a stream of the pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Corrupt(Corrupt),
    OtherStream(OtherStream),
}

impl From<Corrupt> for Unreadable {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(corrupt) => corrupt.fmt(f),
            Self::OtherStream(other) => other.fmt(f),
        }
    }
}

impl From<Corrupt> for Unusable {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(corrupt) => corrupt.fmt(f),
            Self::Newer(newer) => newer.fmt(f),
        }
    }
}

/// Whether a structure of this version can be read. What is of a later one is told by what the caller knows of it.
pub(crate) fn knows_version(version: u32) -> bool {
    (OLDEST_VERSION..=FORMAT_VERSION).contains(&version)
}

/// CRC-32C (Castagnoli; RFC 3720 appendix B.4): pages, headers, index sectors.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let wide = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    u32::try_from(wide).expect("a 32-bit checksum fits in 32 bits")
}

/// CRC-64/NVME (NVM Command Set Specification 1.0, section 5.2.1.3.4): fingerprints of a backing device.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The highest value of a number that counts (records, sectors, epochs, sessions, ids).
pub(crate) const COUNTER_MAX: u64 = 1 << 62;

/// Bytes of the seal before the body of a header: magic, CRC-32C of everything behind the seal, reserved.
const SEAL_BYTES: usize = 16;

/// Writes a sealed header into `bytes`: the seal, the body, zeroes up to the end.
pub(crate) fn seal_into(bytes: &mut [u8], magic: [u8; 8], body: &[u8]) {
    bytes.fill(0);
    bytes[..8].copy_from_slice(&magic);
    bytes[SEAL_BYTES..SEAL_BYTES + body.len()].copy_from_slice(body);
    let checksum = crc32c(&bytes[SEAL_BYTES..]);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks the seal of a header; answers a reader of what is behind it.
pub(crate) fn unseal<'a>(bytes: &'a [u8], magic: [u8; 8], what: &'static str) -> Result<Reader<'a>, Corrupt> {
    let mut reader = Reader::new(bytes, what);
    let found = reader.bytes(8)?;
    reader.require(found == magic, "its magic is missing")?;
    let (checksum, reserved) = (reader.u32()?, reader.u32()?);
    reader.require(reserved == 0, "a reserved field is not zero")?;
    let covered = bytes.get(SEAL_BYTES..).unwrap_or_default();
    reader.require(crc32c(covered) == checksum, "its checksum does not match")?;
    Ok(reader)
}

/// Appends little-endian values to a vector.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(crate) fn flag(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// A number that counts: what is read again as [`Reader::counter`].
    ///
    /// # Panics
    /// If it is higher than anything can have counted: nobody could read what it stands in.
    pub(crate) fn counter(&mut self, value: u64) -> &mut Self {
        assert!(value <= COUNTER_MAX, "{value} is higher than anything can have counted");
        self.u64(value)
    }

    pub(crate) fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// To which stream of the pool it belongs.
    pub(crate) fn stream(&mut self) -> &mut Self {
        self.u16(STREAM)
    }

    /// A flag, then the value or zero.
    pub(crate) fn option_u64(&mut self, value: Option<u64>) -> &mut Self {
        self.flag(value.is_some()).u64(value.unwrap_or(0))
    }

    /// A 16-bit length, then the bytes.
    ///
    /// # Panics
    /// If the text is longer than 65,535 bytes: the limits in `config.rs` are far below.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let length = u16::try_from(text.len()).expect("texts are limited when they enter the engine");
        self.u16(length).bytes(text.as_bytes())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A rule of the format that a value breaks; `None`: it is sound. Decoding refuses bytes that break it, and encoding is sure that it
/// holds: what breaks it could never be read again.
pub(crate) type BrokenRule = Option<&'static str>;

/// # Panics
/// If a rule is broken: better the process ends than that this is written.
pub(crate) fn assert_sound(what: &str, broken: BrokenRule) {
    assert!(broken.is_none(), "{what} that is to be written: {}", broken.unwrap_or_default());
}

/// Reads little-endian values from a slice, never past its end.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` names the structure in error messages.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    pub(crate) fn corrupt(&self, rule: &str) -> Corrupt {
        Corrupt(format!("{}: {rule}", self.what))
    }

    /// `Err` with `rule` unless `holds`.
    pub(crate) fn require(&self, holds: bool, rule: &str) -> Result<(), Corrupt> {
        if holds { Ok(()) } else { Err(self.corrupt(rule)) }
    }

    pub(crate) fn require_sound(&self, broken: BrokenRule) -> Result<(), Corrupt> {
        broken.map_or(Ok(()), |rule| Err(self.corrupt(rule)))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Corrupt> {
        let (head, tail) = self.bytes.split_at_checked(length).ok_or_else(|| self.corrupt("it ends too early"))?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        Ok(self.bytes(N)?.try_into().expect("`bytes` returned N bytes"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Corrupt> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.corrupt(&format!("a flag is 0 or 1, not {other}"))),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Corrupt> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Values one after the other.
    pub(crate) fn u64s<const N: usize>(&mut self) -> Result<[u64; N], Corrupt> {
        let (values, _) = self.bytes(8 * N)?.as_chunks();
        Ok(std::array::from_fn(|place| u64::from_le_bytes(values[place])))
    }

    /// So many values, one after the other.
    pub(crate) fn u32s(&mut self, count: usize) -> Result<impl Iterator<Item = u32> + 'a, Corrupt> {
        let (values, _) = self.bytes(count.saturating_mul(4))?.as_chunks();
        Ok(values.iter().map(|value| u32::from_le_bytes(*value)))
    }

    /// A number that rises one by one and is added to: far from where that could overflow.
    pub(crate) fn counter(&mut self) -> Result<u64, Corrupt> {
        let value = self.u64()?;
        self.require(value <= COUNTER_MAX, "a number in it is higher than anything can have counted")?;
        Ok(value)
    }

    /// To which stream of the pool it belongs: only what is of this one is understood.
    pub(crate) fn stream(&mut self) -> Result<(), Unreadable> {
        match self.u16()? {
            STREAM => Ok(()),
            other => Err(Unreadable::OtherStream(OtherStream(other))),
        }
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Corrupt> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn option_u64(&mut self) -> Result<Option<u64>, Corrupt> {
        let some = self.flag()?;
        let value = self.u64()?;
        Ok(some.then_some(value))
    }

    pub(crate) fn text(&mut self, length_max: usize) -> Result<&'a str, Corrupt> {
        let length = usize::from(self.u16()?);
        self.require(length <= length_max, "a text is longer than allowed")?;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.corrupt("a text is not UTF-8"))
    }

    /// A value that has words or limits of its own.
    pub(crate) fn parse<T>(&mut self, length_max: usize) -> Result<T, Corrupt>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text = self.text(length_max)?;
        text.parse().map_err(|error| self.corrupt(&format!("{error}")))
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), Corrupt> {
        self.require(self.bytes.is_empty(), "bytes follow its end")
    }

    /// Only zeroes may follow.
    pub(crate) fn zeroes(&self) -> Result<(), Corrupt> {
        self.require(self.bytes.iter().all(|byte| *byte == 0), "its padding is not zero")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_the_standard_ones() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc64(b"123456789"), 0xAE8B_1486_0A79_9888);
    }

    #[test]
    fn a_counter_that_could_overflow_is_corrupt() {
        for (value, good) in [(0, true), (COUNTER_MAX, true), (COUNTER_MAX + 1, false), (u64::MAX, false)] {
            let read = Reader::new(&value.to_le_bytes(), "test").counter();
            assert_eq!(read.is_ok(), good, "{value}");
        }
    }

    #[test]
    #[should_panic(expected = "higher than anything can have counted")]
    fn a_counter_that_nobody_could_read_is_not_written() {
        Writer::new().counter(COUNTER_MAX + 1);
    }

    #[test]
    fn reading_past_the_end_is_corrupt_and_not_a_panic() {
        let mut reader = Reader::new(&[1, 2, 3], "test");
        assert!(reader.u64().is_err());
        assert_eq!(reader.u16(), Ok(0x0201));
        assert!(reader.text(10).is_err());
    }
}
