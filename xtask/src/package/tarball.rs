//! The portable archive: the program with its pages and completions, the units, and a script that puts them in their places.

use anyhow::Result;

use super::tree::Tree;
use super::{Parts, add_units};
use crate::command::{command, succeed};

pub(super) fn make(parts: &Parts) -> Result<()> {
    let name = format!("hotset-{}-{}", parts.version, std::env::consts::ARCH);
    let tree = Tree::new(parts.scratch.join(&name))?;
    parts.add_program(&tree, ".")?;
    add_units(&tree, "systemd")?;
    tree.copy("contrib/61-hotset.rules", "udev/61-hotset.rules")?;
    for (from, to) in [
        ("contrib/hotset.toml", "hotset.toml"),
        ("LICENSE", "LICENSE"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("docs/INSTALL.md", "INSTALL.md"),
        ("packaging/install.sh", "install.sh"),
        ("contrib/initramfs-hook", "initramfs-hook"),
        ("contrib/needrestart.conf", "needrestart.conf"),
    ] {
        tree.copy(from, to)?;
    }
    tree.mode("install.sh", 0o755)?;
    tree.mode("initramfs-hook", 0o755)?;
    let file = parts.out.join(format!("{name}.tar.gz")).display().to_string();
    let (folder, time) = (parts.scratch.display().to_string(), format!("--mtime=@{}", parts.epoch_s));
    let owners = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--use-compress-program=gzip -9n"];
    succeed(command(
        "tar",
        &[&owners[..], &[&time, "--directory", &folder, "--create", "--file", &file, &name]].concat(),
    ))?;
    println!("{file}");
    Ok(())
}
