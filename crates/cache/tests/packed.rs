//! Files of tests that are kept compressed (zstd).

use std::fs;
use std::io::Read;
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

pub(crate) fn read(path: &Path) -> Vec<u8> {
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    let mut bytes = Vec::new();
    let mut decoder = StreamingDecoder::new(file).expect("it is a zstd file");
    decoder.read_to_end(&mut bytes).unwrap_or_else(|error| panic!("cannot unpack {}: {error}", path.display()));
    bytes
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, compress_to_vec(bytes, CompressionLevel::Fastest)).unwrap();
}
