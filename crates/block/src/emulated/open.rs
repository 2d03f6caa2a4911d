//! Opens an emulated array on this machine: its store is a sparse file, made if it is not there.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::spelling::spell_size;
use super::{EmulatedArray, EmulatedArraySpec};
use crate::apart::apart;
use crate::{FileDevice, FileOptions, HostEnv, OpenError};

impl EmulatedArray<HostEnv, FileDevice> {
    /// Opens and locks the array's file, which is made sparse if it is not there. Its transfers go through the page
    /// cache: the time that they take is the model's, not the file's.
    ///
    /// # Errors
    /// If there is something at the path that is no file of the right size, or the file is in use; and `Gone` if there is no
    /// answer within ten seconds.
    pub async fn open(env: &HostEnv, spec: &EmulatedArraySpec, options: FileOptions) -> Result<Self, OpenError> {
        let (path, size_bytes) = (spec.file.clone(), spec.parameters.size_bytes);
        let prepared = apart(env, move || prepare(&path, size_bytes, options)).await;
        prepared.map_err(|source| OpenError::unanswered(&spec.file, source))??;
        let store = FileDevice::open_cached(env, &spec.file, options).await?.into_store();
        Ok(Self::new(env, &spec.parameters, store))
    }
}

/// Afterwards, there is a file of `size_bytes`.
fn prepare(path: &Path, size_bytes: u64, options: FileOptions) -> Result<(), OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) => check(&metadata, size_bytes).map_err(|error| OpenError::new(path, "use", error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !options.read_only => {
            create(path, size_bytes).map_err(|error| OpenError::new(path, "create", error))
        }
        Err(error) => Err(OpenError::new(path, "find", error)),
    }
}

fn check(metadata: &Metadata, size_bytes: u64) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the data of an emulated array lie in a regular file"));
    }
    let found = metadata.len();
    if found == size_bytes {
        return Ok(());
    }
    let (found, wanted) = (spell_size(found), spell_size(size_bytes));
    let message = format!("its size is {found}, not {wanted}: say size={found}, name another file, or remove it");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// A file that could not get its size does not stay.
fn create(path: &Path, size_bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let sized: io::Result<()> = File::set_len(&file, size_bytes);
    if sized.is_err() {
        std::fs::remove_file(path)?;
    }
    sized
}
