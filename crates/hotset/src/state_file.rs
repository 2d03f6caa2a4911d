//! How a file of the state directory is opened, read and replaced: the one way for all of them.
//!
//! Whatever lies under such a name (a folder, a pipe that nobody writes to, a device) is an error that says so, and never
//! something that is waited for. A file is replaced as a whole: written beside, synced, renamed, and its folder synced, so that
//! a crash leaves the old one or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Opens what is there, or is made by these options, if it is an ordinary file.
///
/// # Errors
/// As of any open; also if it is no ordinary file.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // A pipe would be waited for, until somebody opens its other end.
    let file = options.clone().mode(0o600).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not an ordinary file"))
}

/// What the file holds; `None`: there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Puts a file with these bytes in the place of what is there, durably. What is left behind where that fails is in nobody's way.
///
/// # Errors
/// As of any write; they name the file.
pub(crate) fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    replace_file(directory, name, bytes).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

fn replace_file(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = directory.join(format!("{name}.new"));
    remove_if_there(&beside)?;
    let mut file = open(&beside, OpenOptions::new().write(true).create_new(true))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&beside, directory.join(name)));
    if renamed.is_err() {
        // The room that it takes is needed.
        let _ = fs::remove_file(&beside);
    }
    renamed?;
    File::open(directory)?.sync_all()
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let name = path.file_name().unwrap_or_default().display();
            Err(io::Error::new(error.kind(), format!("{name}: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What the name of a file that was set aside goes on with.
pub(crate) const BROKEN: &str = ".broken";

/// Moves a file out of the way, to the first of `NAME.broken`, `NAME.broken.2`, … that is free; answers which.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(BROKEN);
        if number > 1 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    let is_free =
        |aside: &PathBuf| fs::symlink_metadata(aside).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let aside = (1..=ASIDE_MAX).map(numbered).find(is_free);
    let aside =
        aside.ok_or_else(|| io::Error::other(format!("{ASIDE_MAX} files were set aside before it: look at them")))?;
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Files of one name that are set aside at most.
const ASIDE_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    // proves: F11
    #[test]
    fn what_is_no_ordinary_file_is_an_error_at_once_and_never_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        assert_eq!(read(&path).unwrap(), None);
        pipe(&path);
        assert!(read(&path).unwrap_err().to_string().contains("not an ordinary file"));
        open(&path, OpenOptions::new().append(true)).unwrap_err();
        open(&path, OpenOptions::new().read(true).write(true)).unwrap_err();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        read(&path).unwrap_err();
        replace(directory.path(), "record", b"new").unwrap_err();
        assert!(!directory.path().join("record.new").exists(), "nothing is left behind");
        read(Path::new("/dev/zero")).unwrap_err();
    }

    // proves: F11
    #[test]
    fn a_file_is_replaced_whatever_lies_in_the_way_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        replace(directory.path(), "record", b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        pipe(&directory.path().join("record.new"));
        replace(directory.path(), "record", b"two").unwrap();
        assert_eq!(read(&path).unwrap(), Some(b"two".to_vec()));
    }

    // proves: F11
    #[test]
    fn what_was_set_aside_before_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.sqlite");
        for (content, name) in [("a", "history.sqlite.broken"), ("b", "history.sqlite.broken.2")] {
            fs::write(&path, content).unwrap();
            assert_eq!(set_aside(&path).unwrap(), directory.path().join(name));
        }
        assert_eq!(fs::read(directory.path().join("history.sqlite.broken")).unwrap(), b"a");
    }
}
