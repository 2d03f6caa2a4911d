//! `cargo x sim`: the cache on a seeded executor, in a world that fails, against a model.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, command, succeed, target_dir};
use crate::test::build_all;

/// What `cargo x test` runs: the program that was built beside the unit tests.
///
/// It takes what processor time nobody else wants: the real clients and the browser mostly wait.
pub(crate) struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    pub(crate) fn begin() -> Result<Self> {
        build_all()?;
        let target = target_dir()?;
        let (program, log) = (target.join("debug/hotset-sim"), target.join("simulator.log"));
        let mut simulator = command("chrt", &["--idle", "0", &program.to_string_lossy(), "--seeds=1000"]);
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        simulator.stderr(out.try_clone()?).stdout(out);
        let child = simulator.spawn().context("cannot start chrt (util-linux)")?;
        Ok(Self { child, log })
    }

    /// Waits for its end; prints what it said.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        print!("{}", fs::read_to_string(&self.log)?);
        if !status.success() {
            bail!("the simulator failed ({status})");
        }
        Ok(())
    }
}

impl Drop for Beside {
    /// Nobody waited for it: what came between failed to start.
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Hands its arguments to the simulator. In the development profile: there our assertions and those of the arithmetic
/// are on, and a panic can be caught and told with its history.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--package=hotset-sim", "--"];
    words.extend(arguments);
    succeed(cargo(&words))
}
