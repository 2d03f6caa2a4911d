//! Servers of one's own: `hotset serve`, driven through its command line, and `qemu-nbd`. Each leads a process group, so that no key ends it
//! before who uses it.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Bench;
use super::clients::Export;
use crate::command::{command, output_within};
use crate::running::{check_interruption, end};

/// A start that takes longer has failed.
const START_LIMIT: Duration = Duration::from_secs(30);
/// More than systemd gives it (`contrib/hotset.service`).
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// The longest verbs wait for an SSD that is emptied.
const VERB_LIMIT: Duration = Duration::from_secs(1200);
const POLL: Duration = Duration::from_millis(50);

/// A daemon that knows nothing yet. Dropping it stops it.
pub(crate) struct Daemon {
    child: Child,
    program: PathBuf,
    api: String,
    nbd: PathBuf,
}

impl Daemon {
    /// Without a memory cache: what is measured is what lies below. `name` tells its files from those of the run's other daemons.
    pub(crate) fn start(bench: &Bench, name: &str) -> Result<Self> {
        Self::start_with(bench, name, &["--memory-cache", "0"])
    }

    /// With more arguments to `serve`.
    pub(crate) fn start_with(bench: &Bench, name: &str, arguments: &[&str]) -> Result<Self> {
        let program = bench.release.join("hotset");
        let api = format!("unix:{}", bench.scratch.socket(&format!("{name}.api")).display());
        let nbd = bench.scratch.socket(&format!("{name}.nbd"));
        let log = bench.scratch.file(&format!("{name}.log"));
        let mut serve = command(&program.to_string_lossy(), &["serve", "--api", &api, "--log", "warn"]);
        serve.arg("--nbd").arg(format!("unix:{}", nbd.display()));
        serve.arg("--state").arg(bench.scratch.file(&format!("{name}.state")));
        serve.args(arguments);
        let output = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        serve.stdout(output.try_clone()?).stderr(output);
        let child = serve.process_group(0).spawn().context("cannot start hotset serve")?;
        let mut daemon = Self { child, program, api, nbd };
        let ready = daemon.wait_until_ready();
        ready.with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.answers() {
            check_interruption()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("hotset serve ended at its start ({status})");
            }
            if started.elapsed() > START_LIMIT {
                bail!("hotset serve does not answer after {START_LIMIT:?}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        let mut status = command(&self.program.to_string_lossy(), &["--api", &self.api, "status"]);
        status.stdout(Stdio::null()).stderr(Stdio::null());
        status.status().is_ok_and(|status| status.success())
    }

    /// Runs a verb; what it answers.
    pub(crate) fn verb(&self, words: &[&str]) -> Result<Value> {
        let mut verb = command(&self.program.to_string_lossy(), &["--api", &self.api, "-o", "json"]);
        verb.args(words);
        let text = output_within(verb, VERB_LIMIT)?;
        serde_json::from_str(&text).with_context(|| format!("hotset {} printed no JSON", words.join(" ")))
    }

    /// Makes a fully written SSD image and a read pool of it.
    pub(crate) fn create_pool(&self, bench: &Bench, name: &str, ssd_bytes: u64, options: &[&str]) -> Result<PathBuf> {
        self.create_pool_on(bench, name, ssd_bytes, |path| path.to_string_lossy().into_owned(), options)
    }

    /// The same on an image that is spelled like this.
    pub(crate) fn create_pool_on(
        &self,
        bench: &Bench,
        name: &str,
        ssd_bytes: u64,
        spell: impl Fn(&Path) -> String,
        options: &[&str],
    ) -> Result<PathBuf> {
        let ssd = bench.scratch.file(&format!("{name}.ssd"));
        self.verb(&["image", "create", &ssd.to_string_lossy(), &ssd_bytes.to_string()])?;
        let spelled = spell(&ssd);
        let words = ["pool", "create", name, "--type", "read", "--io-type", "database", "--ssd", &spelled];
        self.verb(&[&words[..], options].concat())?;
        Ok(ssd)
    }

    /// Makes two fully written SSD images and a read-write pool of them that cleans as little as it can.
    pub(crate) fn create_mirrored_pool(&self, bench: &Bench, name: &str, ssd_bytes: u64) -> Result<[PathBuf; 2]> {
        let ssds = self.create_pair(bench, name, ssd_bytes, |path| path.to_string_lossy().into_owned())?;
        self.clean_little(name)?;
        Ok(ssds)
    }

    /// Makes two fully written SSD images and a read-write pool of them, spelled like this.
    pub(crate) fn create_pair(
        &self,
        bench: &Bench,
        name: &str,
        ssd_bytes: u64,
        spell: impl Fn(&Path) -> String,
    ) -> Result<[PathBuf; 2]> {
        let ssds = [1, 2].map(|number| bench.scratch.file(&format!("{name}.ssd{number}")));
        for ssd in &ssds {
            self.verb(&["image", "create", &ssd.to_string_lossy(), &ssd_bytes.to_string()])?;
        }
        let spelled = ssds.each_ref().map(|ssd| spell(ssd));
        let words = ["pool", "create", name, "--type", "read-write", "--io-type", "database", "--ssd"];
        self.verb(&[&words[..], &[&spelled[0], &spelled[1]]].concat())?;
        Ok(ssds)
    }

    /// Leaves what is dirty where it is, as far as there is room.
    pub(crate) fn clean_little(&self, pool: &str) -> Result<()> {
        self.verb(&["pool", "set", pool, "dirty-watermark=90", "dirty-age=30d", "flush-rate=low"]).map(drop)
    }

    /// A number that `pool show` or `volume show` prints, by the names of the objects that it lies in.
    pub(crate) fn number(&self, noun: &str, name: &str, keys: &[&str]) -> Result<f64> {
        let shown = self.verb(&[noun, "show", name])?;
        let value = keys.iter().fold(&shown, |value, key| &value[*key]);
        value.as_f64().with_context(|| format!("{noun} show misses {}", keys.join(".")))
    }

    /// Ends the daemon as a crash does.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Bytes that were moved for the volume, and bytes that hosts wrote.
    pub(crate) fn moved_and_written(&self, volume: &str) -> Result<(f64, f64)> {
        let shown = self.verb(&["volume", "show", volume])?;
        let number = |key: &str| shown["stats"][key].as_f64().with_context(|| format!("volume show misses {key}"));
        Ok((number("moved_bytes")?, number("write_bytes")?))
    }

    pub(crate) fn create_volume(&self, name: &str, backing: &str) -> Result<Export> {
        self.verb(&["volume", "create", name, "--backing", backing])?;
        Ok(Export { socket: self.nbd.clone(), name: name.to_owned(), server: self.child.id() })
    }

    pub(crate) fn enable_cache(&self, volume: &str, pool: &str) -> Result<()> {
        self.verb(&["volume", "enable-cache", volume, "--pool", pool]).map(drop)
    }

    pub(crate) fn disable_cache(&self, volume: &str) -> Result<()> {
        self.verb(&["volume", "disable-cache", volume]).map(drop)
    }

    pub(crate) fn set_fetch_rate(&self, pool: &str, rate: &str) -> Result<()> {
        self.verb(&["pool", "set", pool, &format!("fetch-rate={rate}")]).map(drop)
    }

    /// The counters of a volume.
    pub(crate) fn counters(&self, volume: &str) -> Result<Counters> {
        let shown = self.verb(&["volume", "show", volume])?;
        let stats = &shown["stats"];
        let number = |value: &Value| value.as_f64().context("volume show misses a number");
        Ok(Counters {
            reads: number(&stats["reads"])?,
            hits: number(&stats["read_hits"])?,
            populated_bytes: number(&stats["populated_bytes"])?,
            cached_bytes: number(&shown["cache_used_bytes"])?,
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = end(&mut self.child, STOP_LIMIT) {
            eprintln!("cargo x bench: cannot stop hotset serve: {error:#}");
        }
    }
}

/// At one moment; differences of two tell what happened between.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    pub(crate) reads: f64,
    pub(crate) hits: f64,
    pub(crate) populated_bytes: f64,
    pub(crate) cached_bytes: f64,
}

impl Counters {
    pub(crate) fn hit_ratio_since(&self, earlier: &Self) -> f64 {
        (self.hits - earlier.hits) / (self.reads - earlier.reads).max(1.0)
    }
}

/// Our own NBD server on a volume in memory: a round trip and nothing else. Dropping it stops it.
pub(crate) struct MemoryNbd {
    child: Child,
    pub(crate) export: Export,
}

impl MemoryNbd {
    pub(crate) fn start(bench: &Bench) -> Result<Self> {
        let socket = bench.scratch.socket("memory.nbd");
        let program = bench.release.join("examples/nbd_memory");
        let mut server = command(&program.to_string_lossy(), &[]);
        server.arg(&socket).arg("256").stdout(Stdio::null());
        let child = server.process_group(0).spawn().context("cannot start nbd_memory")?;
        let export = Export { socket, name: "memory".to_owned(), server: child.id() };
        let mut server = Self { child, export };
        wait_for_socket("nbd_memory", &server.export, &mut server.child)?;
        Ok(server)
    }
}

impl Drop for MemoryNbd {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            eprintln!("cargo x bench: cannot stop nbd_memory: {error}");
        }
    }
}

fn wait_for_socket(name: &str, export: &Export, server: &mut Child) -> Result<()> {
    let started = Instant::now();
    while !export.socket.exists() {
        check_interruption()?;
        if let Some(status) = server.try_wait()? {
            bail!("{name} ended at its start ({status})");
        }
        if started.elapsed() > START_LIMIT {
            bail!("{name} does not listen after {START_LIMIT:?}");
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// `qemu-nbd` on a file. Dropping it stops it.
pub(crate) struct QemuNbd {
    child: Child,
    pub(crate) export: Export,
}

impl QemuNbd {
    pub(crate) fn start(bench: &Bench, file: &Path) -> Result<Self> {
        Self::serve(bench, file, &["--cache=none", "--read-only"])
    }

    pub(crate) fn start_writable(bench: &Bench, file: &Path) -> Result<Self> {
        Self::serve(bench, file, &["--cache=none"])
    }

    /// What was read of the file stays in the kernel's memory.
    pub(crate) fn start_in_page_cache(bench: &Bench, file: &Path) -> Result<Self> {
        Self::serve(bench, file, &["--cache=writeback", "--read-only"])
    }

    fn serve(bench: &Bench, file: &Path, options: &[&str]) -> Result<Self> {
        let socket = bench.scratch.socket("qemu.nbd");
        let mut server = command("qemu-nbd", &["--aio=io_uring", "--persistent"]);
        server.args(options);
        server.args(["--format=raw", "--export-name=raw", "--shared=8", "--socket"]).arg(&socket).arg(file);
        let child = server.process_group(0).spawn().context("cannot start qemu-nbd")?;
        let export = Export { socket, name: "raw".to_owned(), server: child.id() };
        let mut server = Self { child, export };
        wait_for_socket("qemu-nbd", &server.export, &mut server.child)?;
        Ok(server)
    }
}

impl Drop for QemuNbd {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            eprintln!("cargo x bench: cannot stop qemu-nbd: {error}");
        }
    }
}
