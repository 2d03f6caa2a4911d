//! `cargo x deb` and `cargo x tarball`: what is installed, put together from the release binary and the repository's files.
//!
//! The same commit, compiler and tools make the same bytes: all times are SOURCE_DATE_EPOCH, by default the day of the newest entry of
//! CHANGELOG.md. What needs the program, its man pages and completions, is asked of the very binary that is packaged.

mod changelog;
mod deb;
mod symbols;
mod tarball;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::changelog::Changelog;
use self::tree::Tree;
use crate::command::{cargo, command, metadata, output_of, root, succeed, target_dir};

#[derive(Args)]
pub(crate) struct Options {
    /// Package this program rather than build one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the packages go; by default the target directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The package's version; by default that of the workspace
    #[arg(long, value_name = "VERSION")]
    package_version: Option<String>,
    /// Compress little, for a test
    #[arg(long)]
    fast: bool,
}

/// What systemd starts, in `contrib/`.
const UNITS: &[&str] =
    &["hotset.service", "hotset-replace.service", "hotset.socket", "hotset-scrub@.service", "hotset-scrub@.timer"];

fn add_units(tree: &Tree, folder: &str) -> Result<()> {
    UNITS.iter().try_for_each(|unit| tree.copy(&format!("contrib/{unit}"), &format!("{folder}/{unit}")))
}

/// What all packages are made of.
struct Parts {
    version: String,
    binary: PathBuf,
    changelog: Changelog,
    /// Seconds since 1970: the time of every file.
    epoch_s: u64,
    out: PathBuf,
    /// Made anew, and taken away afterwards.
    scratch: PathBuf,
    fast: bool,
}

impl Parts {
    fn gather(options: &Options) -> Result<Self> {
        let changelog = Changelog::parse(&fs::read_to_string(root().join("CHANGELOG.md"))?)?;
        let workspace = metadata()?["packages"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["name"] == "hotset"))
            .and_then(|one| one["version"].as_str())
            .context("the workspace has a package hotset")?
            .to_owned();
        changelog.must_begin_with(&workspace)?;
        let out = options.out.clone().map_or_else(target_dir, Ok)?;
        fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
        let out = fs::canonicalize(out)?;
        let scratch = out.join(format!("package-{}", std::process::id()));
        fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        let epoch_s = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text.parse().context("SOURCE_DATE_EPOCH is a number of seconds")?,
            Err(_) => changelog.newest_s(),
        };
        let binary = match &options.binary {
            Some(binary) => fs::canonicalize(binary).with_context(|| binary.display().to_string())?,
            None => build()?,
        };
        let version = options.package_version.clone().unwrap_or(workspace);
        Ok(Self { version, binary, changelog, epoch_s, out, scratch, fast: options.fast })
    }

    /// What people and shells get, below a folder as `usr`: the program without its symbols, man pages, completions, documents.
    fn add_program(&self, tree: &Tree, prefix: &str) -> Result<()> {
        let program = tree.path(&format!("{prefix}/bin/hotset"))?;
        fs::copy(&self.binary, &program)?;
        symbols::strip(&program)?;
        tree.mode(&format!("{prefix}/bin/hotset"), 0o755)?;
        self.add_manual(tree, &format!("{prefix}/share/man"))?;
        for (shell, file) in [
            ("bash", "share/bash-completion/completions/hotset"),
            ("zsh", "share/zsh/vendor-completions/_hotset"),
            ("fish", "share/fish/vendor_completions.d/hotset.fish"),
        ] {
            let script = output_of(self.program(&["completions", shell]))?;
            tree.write(&format!("{prefix}/{file}"), &script)?;
        }
        for example in [
            "contrib/grafana-dashboard.json",
            "contrib/prometheus-alerts.yml",
            "contrib/63-z-hotset.rules",
            "contrib/ansible/hotset.yml",
        ] {
            tree.copy(example, &format!("{prefix}/share/doc/hotset/examples/{}", name_of(example)))?;
        }
        for document in ["README.md", "docs/INSTALL.md", "docs/OPERATIONS.md", "docs/GLOSSARY.md", "docs/openapi.json"]
        {
            tree.copy(document, &format!("{prefix}/share/doc/hotset/{}", name_of(document)))?;
        }
        Ok(())
    }

    fn add_manual(&self, tree: &Tree, folder: &str) -> Result<()> {
        let pages = self.scratch.join("pages");
        succeed(self.program(&["man", "--dir", &pages.display().to_string()]))?;
        for page in fs::read_dir(&pages)? {
            let name = page?.file_name().into_string().ok().context("pages have plain names")?;
            let (_, section) = name.rsplit_once('.').context("pages have sections")?;
            let text = fs::read_to_string(pages.join(&name))?;
            tree.write_compressed(&format!("{folder}/man{section}/{name}.gz"), &text)?;
        }
        Ok(())
    }

    fn program(&self, arguments: &[&str]) -> std::process::Command {
        command(&self.binary.display().to_string(), arguments)
    }

    /// As the binary itself tells it.
    fn format_version(&self) -> Result<u32> {
        let told = output_of(self.program(&["--version"]))?;
        let number = told
            .split("on-disk format ")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        number
            .and_then(|digits| digits.parse().ok())
            .with_context(|| format!("hotset --version tells no format: {told}"))
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // What is left over is in the target directory.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

pub(crate) fn deb(options: &Options) -> Result<()> {
    deb::make(&Parts::gather(options)?)
}

pub(crate) fn tarball(options: &Options) -> Result<()> {
    tarball::make(&Parts::gather(options)?)
}

/// With the console in it.
fn build() -> Result<PathBuf> {
    succeed(cargo(&["build", "--release", "--package=hotset"]))?;
    Ok(target_dir()?.join("release/hotset"))
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The words that a template has between `@`.
fn filled(template: &str, words: &[(&str, &str)]) -> Result<String> {
    let text = words.iter().fold(template.to_owned(), |text, (word, value)| text.replace(&format!("@{word}@"), value));
    let parts: Vec<&str> = text.split('@').collect();
    let is_word = |part: &&&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    if let Some(left) = parts.iter().skip(1).take(parts.len().saturating_sub(2)).find(is_word) {
        bail!("a template has @{left}@, which nothing fills");
    }
    Ok(text)
}

/// A file of the repository.
fn template(path: &str) -> Result<String> {
    let path: &Path = &root().join(path);
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
