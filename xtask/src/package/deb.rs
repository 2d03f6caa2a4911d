//! The Debian packages: `hotset`, and `hotset-dbgsym` with what debuggers need.

use std::fs;

use anyhow::{Context, Result, bail};

use super::tree::Tree;
use super::{Parts, add_units, filled, symbols, template};
use crate::command::{command, output_of, succeed};

/// Who is named where DEBFULLNAME and DEBEMAIL, Debian's own way to say it, are not set.
const MAINTAINER: (&str, &str) = ("Hotset maintainers", "hotset@packages.invalid");

/// From the repository to where Debian has them.
const FILES: &[(&str, &str)] = &[
    ("contrib/hotset.toml", "etc/hotset/hotset.toml"),
    ("contrib/61-hotset.rules", "usr/lib/udev/rules.d/61-hotset.rules"),
    ("contrib/needrestart.conf", "etc/needrestart/conf.d/hotset.conf"),
    ("packaging/debian/copyright", "usr/share/doc/hotset/copyright"),
    ("packaging/debian/lintian-overrides", "usr/share/lintian/overrides/hotset"),
];

pub(super) fn make(parts: &Parts) -> Result<()> {
    let architecture =
        output_of(command("dpkg", &["--print-architecture"])).context("dpkg is needed: this makes Debian packages")?;
    let (architecture, maintainer) = (architecture.trim(), maintainer());
    let package = |name: &str| format!("{name}_{}_{architecture}.deb", parts.version);

    let tree = Tree::new(parts.scratch.join("hotset"))?;
    parts.add_program(&tree, "usr")?;
    FILES.iter().try_for_each(|(from, to)| tree.copy(from, to))?;
    add_units(&tree, "usr/lib/systemd/system")?;
    tree.copy("contrib/initramfs-hook", "usr/share/initramfs-tools/hooks/hotset")?;
    tree.mode("usr/share/initramfs-tools/hooks/hotset", 0o755)?;
    tree.write_compressed("usr/share/doc/hotset/changelog.gz", &parts.changelog.debian(&parts.version, &maintainer))?;
    let depends = depends(parts, &tree)?;
    let size = tree.size_kib()?.to_string();
    let control = filled(
        &template("packaging/debian/control")?,
        &[
            ("VERSION", &parts.version),
            ("ARCH", architecture),
            ("MAINTAINER", &maintainer),
            ("SIZE", &size),
            ("DEPENDS", &depends),
        ],
    )?;
    tree.write("DEBIAN/control", &control)?;
    for file in ["conffiles", "triggers"] {
        tree.copy(&format!("packaging/debian/{file}"), &format!("DEBIAN/{file}"))?;
    }
    let format = parts.format_version()?.to_string();
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        let text = filled(&template(&format!("packaging/debian/{script}"))?, &[("FORMAT", &format)])?;
        tree.write(&format!("DEBIAN/{script}"), &text)?;
        tree.mode(&format!("DEBIAN/{script}"), 0o755)?;
    }
    finish(parts, &tree, &package("hotset"))?;

    match symbols::build_id(&parts.binary)? {
        Some(build_id) => make_symbols(parts, architecture, &maintainer, &build_id, &package("hotset-dbgsym")),
        None => bail!("{} has no build id, by which debuggers find its symbols", parts.binary.display()),
    }
}

fn make_symbols(parts: &Parts, architecture: &str, maintainer: &str, build_id: &str, file: &str) -> Result<()> {
    let tree = Tree::new(parts.scratch.join("hotset-dbgsym"))?;
    symbols::add(&tree, &parts.binary, build_id)?;
    tree.link("usr/share/doc/hotset-dbgsym", "hotset")?;
    let size = tree.size_kib()?.to_string();
    let control = filled(
        &template("packaging/debian/control.dbgsym")?,
        &[
            ("VERSION", &parts.version),
            ("ARCH", architecture),
            ("MAINTAINER", maintainer),
            ("SIZE", &size),
            ("BUILD_ID", build_id),
        ],
    )?;
    tree.write("DEBIAN/control", &control)?;
    finish(parts, &tree, file)
}

/// Checksums, times, and the archive.
fn finish(parts: &Parts, tree: &Tree, file: &str) -> Result<()> {
    let mut sums = String::new();
    for name in tree.files()? {
        if fs::symlink_metadata(tree.root().join(&name))?.is_file() {
            let sum = output_of(command("md5sum", &[&tree.root().join(&name).display().to_string()]))?;
            let sum = sum.split_whitespace().next().context("md5sum prints a sum")?;
            sums.push_str(&format!("{sum}  {name}\n"));
        }
    }
    tree.write("DEBIAN/md5sums", &sums)?;
    tree.set_times(parts.epoch_s)?;
    let (from, to) = (tree.root().display().to_string(), parts.out.join(file).display().to_string());
    let compression: &[&str] = if parts.fast { &["-Zgzip", "-z1"] } else { &["-Zxz"] };
    let words = [compression, &["--root-owner-group", "--build", &from, &to]].concat();
    let mut build = command("dpkg-deb", &words);
    build.env("SOURCE_DATE_EPOCH", parts.epoch_s.to_string()).stdout(std::process::Stdio::null());
    succeed(build)?;
    println!("{to}");
    Ok(())
}

/// The libraries that the program is linked with, by the packages that have them.
fn depends(parts: &Parts, tree: &Tree) -> Result<String> {
    let folder = parts.scratch.join("depends");
    fs::create_dir_all(folder.join("debian"))?;
    fs::write(folder.join("debian/control"), "Source: hotset\n\nPackage: hotset\nArchitecture: any\n")?;
    let program = tree.root().join("usr/bin/hotset").display().to_string();
    let mut tool = command("dpkg-shlibdeps", &["-O", "--warnings=0", &program]);
    tool.current_dir(&folder);
    let told = output_of(tool).context("dpkg-shlibdeps comes with the package dpkg-dev")?;
    let depends = told.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(str::to_owned).with_context(|| format!("dpkg-shlibdeps told no libraries: {told}"))
}

fn maintainer() -> String {
    let (name, mail) = MAINTAINER;
    let name = std::env::var("DEBFULLNAME").unwrap_or_else(|_| name.to_owned());
    let mail = std::env::var("DEBEMAIL").unwrap_or_else(|_| mail.to_owned());
    format!("{name} <{mail}>")
}
