//! What somebody else uses is refused, by whatever name. With QEMU's own programs and loop devices; says so loudly where
//! they are not there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use hotset_block::{
    Access, DeviceErrorKind, FileDevice, FileOptions, Footprint, HostEnv, OpenError, User, create_image, holder_of,
    latecomers, user_of,
};

use crate::together::Alone;

const SIZE_BYTES: u64 = 8 << 20;
const TO_READ: FileOptions = FileOptions { read_only: true, claimed: false, to_the_end: false };

fn image(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    create_image(&path, SIZE_BYTES, &mut |_| ()).unwrap();
    path
}

fn refusal(env: &HostEnv, path: &Path, options: FileOptions) -> OpenError {
    let error = FileDevice::open(env, path, options).map(drop).unwrap_err();
    assert_eq!(error.kind, DeviceErrorKind::Busy, "{error}");
    error
}

/// `qemu-io` that has an image open until it is dropped.
struct Qemu {
    process: Child,
    commands: ChildStdin,
}

impl Qemu {
    fn open(path: &Path) -> Option<Self> {
        let mut command = Command::new("qemu-io");
        command.args(["-f", "raw"]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut process) = command.spawn() else {
            skipped("qemu-io is not there");
            return None;
        };
        let (mut commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        commands.write_all(b"length\n").unwrap();
        // It answers when the image is open.
        let answer = BufReader::new(answers).lines().next().unwrap().unwrap();
        assert!(answer.contains("8 MiB"), "{answer}");
        Some(Self { process, commands })
    }

    fn close(mut self) {
        self.commands.write_all(b"quit\n").unwrap();
        self.process.wait().unwrap();
    }
}

/// Past the test harness, which keeps to itself what a passing test prints.
fn skipped(why: &str) {
    writeln!(std::io::stdout(), "\nSKIPPED: {why}").expect("standard output takes what tests print");
}

/// A loop device that goes away with the value.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(path: &Path, options: &[&str]) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).args(options).arg(path).output();
        match output {
            Ok(output) if output.status.success() => {
                let device = Self(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()));
                if !options.contains(&"--read-only") {
                    device.set_writable();
                }
                Some(device)
            }
            Ok(_) | Err(_) => {
                skipped("a loop device cannot be made here (needs root and losetup)");
                None
            }
        }
    }

    /// Whoever had it before may have left it read-only.
    fn set_writable(&self) {
        assert!(Command::new("blockdev").arg("--setrw").arg(&self.0).status().unwrap().success());
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        assert!(detached.is_ok_and(|status| status.success()), "{} stays behind", self.0.display());
    }
}

// proves: F10
#[test]
fn an_image_that_qemu_has_open_is_refused_by_name_and_taken_when_it_is_closed() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let Some(qemu) = Qemu::open(&path) else { return };
    alone.run(async |env| {
        let error = refusal(&env, &path, FileOptions::default()).to_string();
        assert!(error.contains("qemu-io (process "), "{error}");
        refusal(&env, &path, TO_READ);
        qemu.close();
        FileDevice::open(&env, &path, FileOptions::default()).unwrap();
    });
}

// proves: F10
#[test]
fn qemu_refuses_an_image_that_is_ours_and_reads_one_that_we_only_read() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let qemu_io = |options: &[&str]| Command::new("qemu-io").args(options).args(["-f", "raw"]).arg(&path).output();
    if qemu_io(&["-c", "length"]).is_err() {
        return skipped("qemu-io is not there");
    }
    alone.run(async |env| {
        let ours = FileDevice::open(&env, &path, FileOptions::default()).unwrap();
        for options in [&["-c", "length"][..], &["-r", "-c", "length"]] {
            let output = qemu_io(options).unwrap();
            assert!(!output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("lock"), "{output:?}");
        }
        drop(ours);
        let reader = FileDevice::open(&env, &path, TO_READ).unwrap();
        assert!(qemu_io(&["-r", "-c", "length"]).unwrap().status.success());
        assert!(!qemu_io(&["-c", "length"]).unwrap().status.success(), "nobody writes what we read");
        drop(reader);
        assert!(qemu_io(&["-c", "length"]).unwrap().status.success());
    });
}

// proves: F10
#[test]
fn the_file_under_a_loop_device_is_refused_and_so_are_two_loop_devices_over_one_file() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let Some(first) = LoopDevice::over(&path, &[]) else { return };
    alone.run(async |env| {
        let error = refusal(&env, &path, FileOptions::default()).to_string();
        assert!(error.contains("losetup -d"), "{error}");
        refusal(&env, &path, TO_READ);
        let ours = FileDevice::open(&env, &first.0, FileOptions::default()).unwrap();
        let error = refusal(&env, &path, FileOptions::default()).to_string();
        assert!(error.contains("this daemon"), "{error}");
        let Some(second) = LoopDevice::over(&path, &[]) else { return };
        let error = refusal(&env, &second.0, FileOptions::default()).to_string();
        assert!(error.contains("this daemon"), "{error}");
        drop(ours);
        let error = refusal(&env, &second.0, FileOptions::default()).to_string();
        assert!(error.contains("shows the same bytes"), "{error}");
        let Some(upon) = LoopDevice::over(&second.0, &[]) else { return };
        refusal(&env, &second.0, FileOptions::default());
        drop(first);
        FileDevice::open(&env, &upon.0, FileOptions::default()).unwrap();
    });
}

// proves: F10
#[test]
fn loop_devices_over_different_parts_of_one_file_are_two_devices() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let half = "--sizelimit=4194304";
    let Some(first) = LoopDevice::over(&path, &[half]) else { return };
    let Some(second) = LoopDevice::over(&path, &["--offset=4194304"]) else { return };
    alone.run(async |env| {
        let _first = FileDevice::open(&env, &first.0, FileOptions::default()).unwrap();
        let _second = FileDevice::open(&env, &second.0, FileOptions::default()).unwrap();
        let whole = Footprint::of(&path).unwrap();
        assert!(whole.overlaps(&Footprint::of(&first.0).unwrap()));
        assert!(whole.overlaps(&Footprint::of(&second.0).unwrap()));
    });
}

// proves: P1
#[test]
fn a_loop_device_fails_with_the_disk_that_its_file_lies_on() {
    let _alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (image(directory.path(), "disk"), image(directory.path(), "other"));
    let Some(first) = LoopDevice::over(&path, &[]) else { return };
    let parent = |path: &Path| hotset_block::identify(path).unwrap().parent;
    assert_eq!(parent(&first.0), parent(&other));
}

// proves: F10
#[test]
fn a_loop_device_that_cannot_write_keeps_nobody_from_reading_its_file() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let Some(_reads) = LoopDevice::over(&path, &["--read-only"]) else { return };
    alone.run(async |env| {
        FileDevice::open(&env, &path, TO_READ).unwrap();
        refusal(&env, &path, FileOptions::default());
    });
}

fn disk_with_file_system(directory: &Path) -> Option<LoopDevice> {
    let path = image(directory, "disk");
    if !Command::new("mke2fs").arg("-q").arg(&path).status().is_ok_and(|status| status.success()) {
        skipped("mke2fs is not there");
        return None;
    }
    LoopDevice::over(&path, &[])
}

// proves: F10
#[test]
fn a_mounted_device_is_refused_by_where_it_is_mounted() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = disk_with_file_system(directory.path()) else { return };
    let place = directory.path().join("place");
    std::fs::create_dir(&place).unwrap();
    if !Command::new("mount").arg(&disk.0).arg(&place).status().unwrap().success() {
        return skipped("nothing can be mounted here");
    }
    alone.run(async |env| {
        for options in [FileOptions::default(), TO_READ] {
            let error = refusal(&env, &disk.0, options).to_string();
            assert!(error.contains(&format!("mounted at {}", place.display())), "{error}");
        }
    });
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
}

// proves: F10
#[test]
fn a_file_that_a_program_writes_without_any_lock_is_refused() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    alone.run(async |env| {
        let writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        refusal(&env, &path, FileOptions::default());
        refusal(&env, &path, TO_READ);
        drop(writer);
        FileDevice::open(&env, &path, FileOptions::default()).unwrap();
    });
}

/// A program that holds something until it is dropped, and has said so.
struct Holder(Child);

impl Holder {
    /// `script`: of Python; it ends with the path of what it holds.
    fn python(script: &str) -> Option<(Self, PathBuf)> {
        let script = format!("{script}\nprint(path, flush=True)\nimport sys\nsys.stdin.read()");
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut process) = command.spawn() else {
            skipped("python3 is not there");
            return None;
        };
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Some((Self(process), PathBuf::from(line.trim())))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Memory as a file that never had a name; `fd` is open for writing.
const MEMFD: &str =
    "import os, mmap\nfd = os.memfd_create('disk')\nos.ftruncate(fd, 8 << 20)\npath = f'/proc/{os.getpid()}/fd/{fd}'";

// proves: F10
#[test]
fn a_file_that_never_had_a_name_is_refused_while_another_program_can_write_it() {
    let alone = Alone::among_tests();
    let only_reads = "os.dup2(os.open(path, os.O_RDONLY), fd)";
    let in_memory = format!("memory = mmap.mmap(fd, 8 << 20)\n{only_reads}");
    for (what, script) in [("open", ""), ("in memory", in_memory.as_str())] {
        let Some((_holder, path)) = Holder::python(&format!("{MEMFD}\n{script}")) else { return };
        alone.run(async |env| {
            for options in [FileOptions::default(), TO_READ] {
                let error = refusal(&env, &path, options).to_string();
                assert!(error.contains("python3 (process "), "{what}: {error}");
            }
        });
    }
    let Some((_reader, path)) = Holder::python(&format!("{MEMFD}\n{only_reads}")) else { return };
    alone.run(async |env| FileDevice::open(&env, &path, FileOptions::default()).map(drop).unwrap());
}

// proves: F10
#[test]
fn a_deleted_file_that_another_program_writes_is_refused_by_the_name_of_its_descriptor() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let script = format!(
        "import os\nfd = os.open('{0}', os.O_RDWR)\nos.unlink('{0}')\npath = f'/proc/{{os.getpid()}}/fd/{{fd}}'",
        path.display()
    );
    let Some((_holder, path)) = Holder::python(&script) else { return };
    alone.run(async |env| {
        refusal(&env, &path, FileOptions::default());
        refusal(&env, &path, TO_READ);
    });
}

// proves: F10
#[test]
fn a_block_device_that_a_program_writes_without_a_claim_is_refused_by_whatever_node() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path(), "disk");
    let Some(disk) = LoopDevice::over(&path, &[]) else { return };
    let script = format!("import os\npath = '{}'\nfd = os.open(path, os.O_RDWR)", disk.0.display());
    let Some((holder, _)) = Holder::python(&script) else { return };
    alone.run(async |env| {
        for options in [FileOptions::default(), TO_READ] {
            let error = refusal(&env, &disk.0, options).to_string();
            assert!(error.contains("python3 (process "), "{error}");
        }
        drop(holder);
        FileDevice::open(&env, &disk.0, FileOptions::default()).map(drop).unwrap();
    });
}

// proves: F10
#[test]
fn a_device_that_is_mounted_where_nobody_here_sees_it_is_in_use_before_it_is_opened() {
    let _alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = disk_with_file_system(directory.path()) else { return };
    let script = format!("mount {} /mnt && echo mounted && read line", disk.0.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut process) = command.spawn() else { return skipped("unshare is not there") };
    let mut said = [0; 8];
    if process.stdout.take().unwrap().read_exact(&mut said).is_err() {
        return skipped("nothing can be mounted apart here");
    }
    assert_eq!(user_of(&disk.0, Access::Alone).unwrap(), Some(User::Claimed));
    assert_eq!(holder_of(&disk.0).unwrap(), Some(User::Claimed), "nor is it taken away");
    drop(process.stdin.take());
    process.wait().unwrap();
    assert_eq!((user_of(&disk.0, Access::Alone).unwrap(), holder_of(&disk.0).unwrap()), (None, None));
    let Some(over) = LoopDevice::over(&disk.0, &[]) else { return };
    let name = over.0.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(holder_of(&disk.0).unwrap(), Some(User::Loop(name)));
}

// proves: F10
#[test]
fn a_loop_device_that_is_made_over_what_is_open_already_is_noticed_until_it_is_detached() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (image(directory.path(), "disk"), image(directory.path(), "other"));
    let writers_of = |path: &Path| -> Vec<User> {
        latecomers().into_iter().filter(|(of, _)| of == path).map(|(_, user)| user).collect()
    };
    let name = |device: &LoopDevice| device.0.file_name().unwrap().to_str().unwrap().to_owned();
    alone.run(async |env| {
        let _ours = FileDevice::open(&env, &path, FileOptions::default()).unwrap();
        let Some(below) = LoopDevice::over(&other, &[]) else { return };
        let _upon = FileDevice::open(&env, &below.0, FileOptions::default()).unwrap();
        assert_eq!((writers_of(&path), writers_of(&below.0)), (vec![], vec![]), "nobody else has them");
        let Some(reads) = LoopDevice::over(&path, &["--read-only"]) else { return };
        assert_eq!(writers_of(&path), [], "it only reads");
        drop(reads);
        for (of, over) in [(&path, &path), (&below.0, &other), (&below.0, &below.0)] {
            let Some(late) = LoopDevice::over(over, &[]) else { return };
            assert_eq!(writers_of(of), [User::Loop(name(&late))], "{} over {}", of.display(), over.display());
            drop(late);
            assert_eq!(writers_of(of), []);
        }
    });
}
