//! Programs of the Python package index that tests drive, every version pinned: Schemathesis, which tests an API by its own document, and
//! ansible-core.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::command::{command, root, succeed, target_dir};

/// Where the packages of `tests/e2e/NAME.txt` are, after bringing them if they are not those of the list.
pub(crate) fn bring(name: &str) -> Result<PathBuf> {
    let list = root().join(format!("tests/e2e/{name}.txt"));
    let directory = target_dir()?.join(name);
    // Written last: what is there is whole.
    let installed = directory.join("installed.txt");
    let wanted = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    if fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(directory);
    }
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
    }
    let (list, target) = (list.display().to_string(), directory.display().to_string());
    // What is used is compiled at its first use.
    let options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--only-binary=:all:"];
    let words = [&["-m", "pip", "install"], &options[..], &["--target", &target, "--requirement", &list]].concat();
    succeed(command("python3", &words)).with_context(|| format!("python3 with pip brings the packages of {list}"))?;
    fs::write(&installed, wanted).with_context(|| installed.display().to_string())?;
    Ok(directory)
}
