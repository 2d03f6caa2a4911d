//! Embeds the web console's built files, if there are any in `console/dist`: as they are, and compressed.
//!
//! A build without them works; the daemon then says that the console was left out.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let dist = Path::new(&manifest).join("../../console/dist");
    println!("cargo::rerun-if-changed=build.rs");
    if is_watchable(&dist) {
        println!("cargo::rerun-if-changed={}", dist.display());
    }
    let mut files = Vec::new();
    collect(&dist, &mut files);
    files.sort();
    let mut table = String::from("&[\n");
    for (index, file) in files.iter().enumerate() {
        let content = fs::read(file).expect("a file that was just listed");
        let compressed = out.join(format!("console-{index}.gz"));
        fs::write(&compressed, gzip(&content)).expect("OUT_DIR can be written");
        let name = file.strip_prefix(&dist).expect("it is in there").to_str().expect("the build makes plain names");
        let path = fs::canonicalize(file).expect("a file that was just listed");
        writeln!(
            table,
            "ConsoleFile {{ path: {:?}, tag: {:?}, plain: include_bytes!({path:?}), compressed: include_bytes!({compressed:?}) }},",
            format!("/{name}"),
            tag(&content)
        )
        .expect("strings take all");
    }
    table.push(']');
    fs::write(out.join("console_files.rs"), table).expect("OUT_DIR can be written");
}

/// Makes an empty folder where there is none: cargo takes what is missing for changed, and would build the binary anew each time.
/// The folder is old, so that its making is no change either; a console that is built into it is one. A tree that cannot be
/// written to gets no console.
fn is_watchable(dist: &Path) -> bool {
    if dist.is_dir() {
        return true;
    }
    let made = fs::create_dir_all(dist).and_then(|()| fs::File::open(dist)?.set_modified(UNIX_EPOCH));
    made.is_ok()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// Tells one content from another; not secret, and stable within one version of the toolchain, which is all it needs.
fn tag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
