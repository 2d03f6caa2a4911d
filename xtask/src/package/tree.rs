//! The folder that becomes a package: files with the modes that they are installed with, and the time that all of them have.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{command, root, succeed};

pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Empty.
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file is, after its folders were made.
    pub(super) fn path(&self, file: &str) -> Result<PathBuf> {
        let mut folder = self.root.clone();
        let mut parts: Vec<&str> = file.split('/').collect();
        let name = parts.pop().context("a file has a name")?;
        for part in parts {
            folder.push(part);
            if !folder.exists() {
                fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
                fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(folder.join(name))
    }

    pub(super) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path(file)?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        self.mode(file, 0o644)
    }

    /// By gzip, without name and time.
    pub(super) fn write_compressed(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path(file)?;
        let mut gzip =
            Command::new("gzip").args(["-9n"]).stdin(Stdio::piped()).stdout(fs::File::create(&path)?).spawn()?;
        gzip.stdin.take().context("it was asked for as a pipe")?.write_all(text.as_bytes())?;
        if !gzip.wait()?.success() {
            bail!("gzip failed on {file}");
        }
        self.mode(file, 0o644)
    }

    /// A file of the repository.
    pub(super) fn copy(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path(to)?;
        fs::copy(root().join(from), &path).with_context(|| from.to_owned())?;
        self.mode(to, 0o644)
    }

    pub(super) fn link(&self, file: &str, leads_to: &str) -> Result<()> {
        Ok(symlink(leads_to, self.path(file)?)?)
    }

    pub(super) fn mode(&self, file: &str, mode: u32) -> Result<()> {
        let path = self.root.join(file);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).with_context(|| path.display().to_string())
    }

    /// All files, without the folder that dpkg keeps for itself, in order.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        walk(&self.root, &mut files)?;
        let mut names: Vec<String> = files
            .iter()
            .filter_map(|path| path.strip_prefix(&self.root).ok()?.to_str().map(str::to_owned))
            .filter(|name| !name.starts_with("DEBIAN/"))
            .collect();
        names.sort();
        Ok(names)
    }

    /// In KiB, as Debian counts: each file by its own, and one for each folder and link.
    pub(super) fn size_kib(&self) -> Result<u64> {
        let sizes =
            self.files()?.into_iter().map(|file| Ok(fs::symlink_metadata(self.root.join(file))?.len().div_ceil(1024)));
        sizes.sum()
    }

    /// Every file has this time.
    pub(super) fn set_times(&self, epoch_s: u64) -> Result<()> {
        let (folder, time) = (self.root.display().to_string(), format!("--date=@{epoch_s}"));
        succeed(command("find", &[&folder, "-exec", "touch", "--no-dereference", &time, "{}", "+"]))
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { walk(&entry.path(), files)? } else { files.push(entry.path()) }
    }
    Ok(())
}
