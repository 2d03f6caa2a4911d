//! What is installed: the Debian packages from their making to their purge, the manual, the completions, the units.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hotset_e2e::daemon::{Daemon, binary};
use hotset_e2e::files::{MIB, Site, build_folder};
use hotset_e2e::tools::{command, run, succeed, text};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The version of the package that the tests make.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Units that the package has, as systemd would start them.
const UNITS: [&str; 5] =
    ["hotset.service", "hotset-replace.service", "hotset.socket", "hotset-scrub@p.service", "hotset-scrub@p.timer"];

/// The package of the program under test, made once: where it is.
pub(crate) fn package() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = build_folder().join("package");
        make("deb", &folder);
        deb_in(&folder, "hotset_")
    })
}

/// `cargo x deb` or another chore, of the program under test.
fn make(chore: &str, folder: &Path) {
    // What an earlier run made is not what is looked at.
    let _ = fs::remove_dir_all(folder);
    let (binary, out) = (binary().display().to_string(), folder.display().to_string());
    let mut making = command("cargo", &["x", chore, "--fast", "--binary", &binary, "--out", &out]);
    let output = making.current_dir(REPOSITORY).output().expect("cargo can be started");
    assert!(output.status.success(), "{}", text(&output));
}

fn deb_in(folder: &Path, start: &str) -> PathBuf {
    let files =
        fs::read_dir(folder).expect("the package was made").map(|entry| entry.expect("a folder can be read").path());
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    files.filter(is_it).find(|path| path.extension().is_some_and(|end| end == "deb")).expect("there is one")
}

/// A package that differs from the one under test in its version, and in what `change` does to its parts.
pub(crate) fn repacked(site: &Site, version: &str, change: impl FnOnce(&Path)) -> PathBuf {
    let (tree, file) = (site.path(&format!("tree-{version}")), site.path(&format!("hotset_{version}.deb")));
    succeed("dpkg-deb", &["--raw-extract", &shown(package()), &shown(&tree)]);
    let control = tree.join("DEBIAN/control");
    let written = fs::read_to_string(&control).expect("a package has it");
    fs::write(&control, written.replace(&format!("Version: {VERSION}\n"), &format!("Version: {version}\n")))
        .expect("it is ours");
    change(&tree);
    succeed("dpkg-deb", &["-Znone", "--root-owner-group", "--build", &shown(&tree), &shown(&file)]);
    file
}

/// The newest on-disk format that the package knows, as its preinst has it.
fn known_format() -> u32 {
    let script = succeed("dpkg-deb", &["--info", &shown(package()), "preinst"]);
    let known = script.lines().find_map(|line| line.strip_prefix("known="));
    known.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no format in {script}"))
}

/// Its preinst does not know the newest format.
pub(crate) fn knows_less(tree: &Path) {
    let preinst = tree.join("DEBIAN/preinst");
    let script = fs::read_to_string(&preinst).expect("a package has it");
    let (known, less) = (known_format(), known_format() - 1);
    fs::write(&preinst, script.replace(&format!("\nknown={known}\n"), &format!("\nknown={less}\n")))
        .expect("it is ours");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

// proves: O1
#[test]
fn the_package_has_all_its_parts_and_lintian_finds_nothing() {
    let deb = shown(package());
    let listed = succeed("dpkg-deb", &["--contents", &deb]);
    for file in [
        "/usr/bin/hotset",
        "/etc/hotset/hotset.toml",
        "/etc/needrestart/conf.d/hotset.conf",
        "/usr/lib/systemd/system/hotset.service",
        "/usr/lib/systemd/system/hotset-replace.service",
        "/usr/lib/systemd/system/hotset.socket",
        "/usr/lib/systemd/system/hotset-scrub@.timer",
        "/usr/lib/udev/rules.d/61-hotset.rules",
        "/usr/share/initramfs-tools/hooks/hotset",
        "/usr/share/man/man1/hotset.1.gz",
        "/usr/share/man/man1/hotset-pool-create.1.gz",
        "/usr/share/man/man5/hotset.toml.5.gz",
        "/usr/share/man/man7/hotset-concepts.7.gz",
        "/usr/share/bash-completion/completions/hotset",
        "/usr/share/zsh/vendor-completions/_hotset",
        "/usr/share/fish/vendor_completions.d/hotset.fish",
        "/usr/share/doc/hotset/copyright",
    ] {
        assert!(listed.contains(&format!(".{file}\n")), "{file}\n{listed}");
    }
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    assert_eq!(succeed("dpkg-deb", &["--field", &deb, "Version"]).trim(), VERSION);
    assert!(succeed("dpkg-deb", &["--field", &deb, "Depends"]).contains("libc6 (>="));
    let symbols = deb_in(package().parent().expect("a file is in a folder"), "hotset-dbgsym_");
    assert!(succeed("dpkg-deb", &["--contents", &shown(&symbols)]).contains("/usr/lib/debug/.build-id/"));
    let mut words = vec!["--allow-root", "--fail-on=error,warning", "--tag-display-limit=0"];
    if !succeed("readelf", &["--sections".as_ref(), binary()]).contains(".debug_info") {
        // The program under test is a development build, which has none.
        words.push("--suppress-tags=debug-file-with-no-debug-symbols");
    }
    let symbols = shown(&symbols);
    words.extend([deb.as_str(), symbols.as_str()]);
    let found = text(&run("lintian", &words));
    assert!(found.starts_with("exit status: 0"), "{found}");
}

// proves: O1
#[test]
fn the_same_program_makes_the_same_package() {
    let site = Site::new();
    make("deb", &site.path("again"));
    let again = deb_in(&site.path("again"), "hotset_");
    assert!(fs::read(package()).expect("it was made") == fs::read(again).expect("it was made"), "two packages differ");
}

/// A system of its own, below a folder, as far as dpkg goes.
struct System {
    root: PathBuf,
}

impl System {
    fn new(site: &Site) -> Self {
        let root = site.path("root");
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).expect("a folder can be made");
        }
        for file in ["status", "available"] {
            fs::write(root.join("var/lib/dpkg").join(file), "").expect("a file can be made");
        }
        Self { root }
    }

    fn dpkg(&self, words: &[&str]) -> Output {
        let (root, log) = (format!("--root={}", shown(&self.root)), "--log=/dev/null");
        let forced = "--force-script-chrootless,depends,not-root,bad-path";
        run("dpkg", &[&[&root, log, forced][..], words].concat())
    }

    fn succeed(&self, words: &[&str]) -> String {
        let output = self.dpkg(words);
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    }

    fn has(&self, file: &str) -> bool {
        self.root.join(file).symlink_metadata().is_ok()
    }
}

/// Records of a pool as a Hotset of this format keeps them.
fn records_of_format(system: &System, format: u32) {
    let folder = system.root.join("var/lib/hotset/pools");
    fs::create_dir_all(&folder).expect("a folder can be made");
    fs::write(folder.join("quick.json"), "{}").expect("a record can be made");
    let member = fs::File::create(folder.join("quick.member")).expect("a member can be made");
    member.set_len(MIB).expect("it can be long");
    for (offset, format) in [(0, 1), (65_536, format)] {
        member.write_all_at(b"HOTSETmr", offset).expect("it can be written");
        member.write_all_at(&format.to_le_bytes(), offset + 8).expect("it can be written");
    }
}

// proves: O1, P16
#[test]
fn dpkg_installs_upgrades_refuses_a_downgrade_over_a_newer_format_removes_and_purges() {
    let site = Site::new();
    let system = System::new(&site);
    system.succeed(&["--install", &shown(package())]);
    assert!(system.has("usr/bin/hotset") && system.has("etc/systemd/system/sysinit.target.wants/hotset.service"));
    assert!(system.has("etc/systemd/system/sysinit.target.wants/hotset.socket"));

    // What the administrator wrote stays.
    let configuration = system.root.join("etc/hotset/hotset.toml");
    fs::write(&configuration, "log = \"info\"\n").expect("it is there");
    records_of_format(&system, known_format());
    system.succeed(&["--install", &shown(&repacked(&site, "99.0", |_| {}))]);
    assert_eq!(fs::read_to_string(&configuration).expect("it is there"), "log = \"info\"\n");

    // The next version brings the pool to its format. This one does not know it, and a downgrade over what it knows is fine.
    let refused = text(&system.dpkg(&["--install", &shown(&repacked(&site, "0.0.9", knows_less))]));
    assert!(
        refused.contains(&format!("quick (format {})", known_format())) && refused.contains("Nothing was replaced"),
        "{refused}"
    );
    assert!(system.succeed(&["--status", "hotset"]).contains("Version: 99.0"));
    system.succeed(&["--install", &shown(package())]);

    let rules = system.root.join("etc/udev/rules.d/63-z-hotset.rules");
    fs::create_dir_all(rules.parent().expect("it is in a folder")).expect("a folder can be made");
    fs::write(&rules, "# volume data\n").expect("it can be written");
    let removed = system.succeed(&["--remove", "hotset"]);
    assert!(removed.contains("63-z-hotset.rules stays"), "{removed}");
    assert!(!system.has("usr/bin/hotset") && system.has("var/lib/hotset/pools/quick.member"));
    let ssd = site.blank("ssd", MIB);
    let purged = system.succeed(&["--purge", "hotset"]);
    assert!(purged.contains("pools quick") && purged.contains("not touched"), "{purged}");
    assert!(purged.contains("63-z-hotset.rules stays") && rules.is_file(), "{purged}");
    for file in ["etc/hotset", "var/lib/hotset", "etc/systemd/system/sysinit.target.wants/hotset.service"] {
        assert!(!system.has(file), "{file} is left");
    }
    assert_eq!(fs::metadata(ssd).expect("it is there").len(), MIB);
}

// proves: O1
#[test]
fn the_units_are_right_and_keep_the_daemon_from_what_it_does_not_need() {
    let site = Site::new();
    let folder = site.path("units");
    fs::create_dir_all(&folder).expect("a folder can be made");
    for entry in fs::read_dir(format!("{REPOSITORY}/contrib")).expect("the repository has it") {
        let path = entry.expect("a folder can be read").path();
        if path.extension().is_some_and(|end| ["service", "socket", "timer"].iter().any(|unit| *unit == end)) {
            // The program is not installed here.
            let unit = fs::read_to_string(&path).expect("a unit is text").replace("/usr/bin/hotset", "/bin/true");
            fs::write(folder.join(path.file_name().expect("a file has a name")), unit).expect("it can be written");
        }
    }
    let words = [&["verify", "--man=no", "--recursive-errors=no"][..], &UNITS].concat();
    let mut verify = command("systemd-analyze", &words);
    let output = verify.env("SYSTEMD_UNIT_PATH", format!("{}:", shown(&folder))).output().expect("it can be started");
    let said = text(&output);
    assert!(output.status.success() && !said.contains("hotset"), "{said}");
    // 100 is a service without any bounds. 40 is what it calls OK.
    let secured =
        succeed("systemd-analyze", &["security", "--offline=true", "--threshold=40", &shown(&folder.join(UNITS[0]))]);
    println!("{secured}");
}

// proves: O1
#[test]
fn the_manual_is_typeset_without_a_warning() {
    let site = Site::new();
    let folder = site.path("man");
    succeed(&shown(binary()), &["man", "--dir", &shown(&folder)]);
    let pages: Vec<String> = fs::read_dir(&folder)
        .expect("pages were made")
        .map(|page| shown(&page.expect("a folder can be read").path()))
        .collect();
    assert!(pages.len() > 50, "{} pages", pages.len());
    let mut words = vec!["-ww", "-z", "-man", "-Tutf8", "-Kutf8"];
    words.extend(pages.iter().map(String::as_str));
    let typeset = run("groff", &words);
    assert!(typeset.status.success() && typeset.stderr.is_empty(), "{}", text(&typeset));
    let page = folder.join("hotset-pool-create.1");
    let mut man = command("man", &["--warnings", "--local-file", &shown(&page)]);
    let output = man.env("MANWIDTH", "100").output().expect("man can be started");
    let said = text(&output);
    assert!(output.stderr.is_empty() && said.contains("hotset-pool-create - Make a pool from SSDs"), "{said}");
    for part in ["SYNOPSIS", "--populate-on-read", "EXAMPLES", "EXIT STATUS", "SEE ALSO", "hotset-concepts(7)"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Where the program is called `hotset`, as shells call it.
fn folder_of_program(site: &Site) -> String {
    let folder = site.path("bin");
    fs::create_dir_all(&folder).expect("a folder can be made");
    std::os::unix::fs::symlink(binary(), folder.join("hotset")).expect("a link can be made");
    format!("{}:{}", shown(&folder), std::env::var("PATH").unwrap_or_default())
}

// proves: O1
#[test]
fn shells_complete_the_names_that_the_daemon_knows_and_nothing_when_it_is_down() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[24], "");
    let path = folder_of_program(&daemon.site);
    let backing = daemon.site.blank("backing", MIB);
    daemon.ok(&format!("volume create archive --backing {} --pool p", backing.display()));
    let hotset = shown(binary());
    let api = format!("unix:{}", daemon.api_socket().display());
    let scripts = ["bash", "zsh", "fish"].map(|shell| {
        let script = daemon.site.path(&format!("completions.{shell}"));
        fs::write(&script, succeed(&hotset, &["completions", shell])).expect("it can be written");
        shown(&script)
    });
    let home = daemon.site.path("");
    let ask = |shell: &str, line: &str| {
        let mut asked = command(shell, &[if shell == "bash" { "--norc" } else { "--no-config" }, "-c", line]);
        if shell == "zsh" {
            asked = command(shell, &["-f", "-c", line]);
        }
        let output = asked.env("PATH", &path).env("HOTSET_API", &api).env("HOME", &home).output();
        let output = output.expect("a shell can be started");
        assert!(output.stderr.is_empty(), "{shell}: {line}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // As bash hands a line over: `=` and `:` are words of their own.
    let in_bash = |words: &str, current: &str| {
        ask(
            "bash",
            &format!(
                "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9; _hotset_words hotset '{current}' x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                scripts[0]
            ),
        )
    };
    assert_eq!(in_bash("hotset pool show ''", "").lines().next(), Some("p"));
    assert_eq!(in_bash("hotset volume delete arc", "arc").trim(), "archive");
    assert_eq!(in_bash("hotset pool set p policy = s3", "s3").trim(), "s3-fifo");
    assert_eq!(in_bash("hotset events --subject arc", "arc").trim(), "archive");
    assert_eq!(in_bash("hotset advise arc", "arc").trim(), "archive");
    assert!(in_bash("hotset pool add-s", "add-s").contains("add-ssd"));
    let in_fish = |line: &str| ask("fish", &format!("source {}; complete -C '{line}'", scripts[2]));
    assert!(in_fish("hotset volume show ").lines().any(|line| line == "archive"), "{}", in_fish("hotset volume show "));
    assert!(in_fish("hotset volume set archive mode=write-t").contains("mode=write-through"));
    assert!(
        in_fish("hotset pool remove-ssd p --ssd ").contains("ssd"),
        "{}",
        in_fish("hotset pool remove-ssd p --ssd ")
    );
    succeed("zsh", &["-n", &scripts[1]]);
    let in_zsh = ask("zsh", "COMPLETE=zsh _CLAP_COMPLETE_INDEX=3 hotset -- hotset volume show ''");
    assert!(in_zsh.contains("archive"), "{in_zsh}");
    // As compinit has it loaded at the first completion; what only works in a line that is edited shows what it is given.
    let functions = daemon.site.path("functions");
    fs::create_dir_all(&functions).expect("a folder can be made");
    fs::copy(&scripts[1], functions.join("_hotset")).expect("it can be copied");
    let first = ask(
        "zsh",
        &format!(
            "fpath=({} $fpath); compdef() {{ }}; _describe() {{ print -rl -- ${{(P)3}} }}; autoload -U _hotset; \
             words=(hotset volume show ''); CURRENT=4; _hotset",
            functions.display()
        ),
    );
    assert!(first.lines().any(|line| line.starts_with("archive")), "{first}");

    daemon.kill();
    let asked = Instant::now();
    assert!(!in_bash("hotset pool show ''", "").lines().any(|line| line == "p"));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

// proves: O1
#[test]
fn the_archive_installs_below_any_folder() {
    let site = Site::new();
    let folder = site.path("archive");
    make("tarball", &folder);
    let archive =
        fs::read_dir(&folder).expect("it was made").next().expect("there is one").expect("a folder can be read").path();
    succeed("tar", &["--extract", "--file", &shown(&archive), "--directory", &shown(&folder), "--strip-components=1"]);
    let to = site.path("installed");
    let mut install = command(&shown(&folder.join("install.sh")), &["/opt/hotset"]);
    let output = install.env("DESTDIR", &to).output().expect("it can be started");
    assert!(output.status.success(), "{}", text(&output));
    let program = to.join("opt/hotset/bin/hotset");
    assert!(fs::metadata(&program).expect("it is there").permissions().mode() & 0o111 != 0);
    assert!(succeed(&shown(&program), &["--version"]).contains(VERSION));
    let unit = fs::read_to_string(to.join("etc/systemd/system/hotset.service")).expect("it is there");
    assert!(unit.contains("ExecStart=/opt/hotset/bin/hotset serve"), "{unit}");
    assert!(to.join("opt/hotset/share/man/man1/hotset.1.gz").exists() && to.join("etc/hotset/hotset.toml").exists());
    assert!(!to.join("etc/initramfs-tools").exists(), "what the system does not have is not begun");

    // Where there is an initial RAM disk to be made, it gets its hook; and all of it can be taken away again.
    let hook = to.join("etc/initramfs-tools/hooks/hotset");
    fs::create_dir_all(hook.parent().expect("it is in a folder")).expect("a folder can be made");
    let script = |arguments: &[&str]| {
        let output = command(&shown(&folder.join("install.sh")), arguments).env("DESTDIR", &to).output();
        let output = output.expect("it can be started");
        assert!(output.status.success(), "{}", text(&output));
    };
    script(&["/opt/hotset"]);
    assert!(fs::metadata(&hook).expect("it is there").permissions().mode() & 0o111 != 0);
    script(&["--remove", "/opt/hotset"]);
    assert!(!program.exists() && !hook.exists() && !to.join("etc/systemd/system/hotset.service").exists());
    assert!(to.join("etc/hotset/hotset.toml").exists());
}
