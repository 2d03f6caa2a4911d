//! Pools, volumes and their settings as text: `export` writes what is, `apply` brings about what a file says.
//!
//! A site file is TOML: `[pool.NAME]` and `[volume.NAME]`, with the keys and values of `pool set` and `volume set`, and beside them what is
//! given when something is made. What a file does not name stays as it is.

mod apply;
mod export;
mod file;
mod plan;
mod wanted;

pub(crate) use apply::run as run_apply;
pub(crate) use export::run as run_export;
