//! A volume changes its thread, because it joins a pool of another one or has left its pool, while hosts use it.
//!
//! Its hosts wait at a request's boundary until all that they asked for is done; what they wrote is flushed; its device is
//! closed here and opened there; and they go there with it. Until the last step everything can go on here, and does if one of
//! them fails.

use std::rc::Rc;

use hotset_cache::config::VolumeName;
use hotset_cache::{Error, ErrorKind, Relocated, Volume};
use hotset_serve::ExportId;

use super::device;
use super::handle::Thread;
use super::open::Plane;
use super::stop::HOSTS_LIMIT;

impl Plane {
    /// Brings a volume without a cache, and the hosts that use it, to another thread.
    pub(super) async fn move_volume(self: Rc<Self>, name: VolumeName, to: Thread) -> Result<(), Error> {
        let volume = self.volume(&name)?;
        // Its hosts wait the shorter.
        volume.flush_to_relocate().await?;
        let export = self.exports.export_of(name.as_str());
        if let Some(export) = export
            && !self.exports.pause(export, HOSTS_LIMIT).await
        {
            let message = format!(
                "volume {name} cannot change its thread now: requests of its hosts have not ended within {} s; try again",
                HOSTS_LIMIT.as_secs()
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        // What is told of it meanwhile is how it was before.
        self.moving.borrow_mut().insert(name.clone(), volume.status());
        let moved = self.hand_over(&volume, export, &to).await;
        self.moving.borrow_mut().remove(&name);
        if moved.is_ok() {
            self.forget_volume(&name);
        }
        match (export, &moved) {
            (Some(export), Ok(())) => self.exports.depart(export).await,
            (Some(export), Err(_)) => self.exports.resume(export),
            (None, _) => {}
        }
        moved
    }

    async fn hand_over(
        &self,
        volume: &Volume<hotset_block::HostEnv>,
        export: Option<ExportId>,
        to: &Thread,
    ) -> Result<(), Error> {
        let relocated = volume.relocate().await?;
        let spec = relocated.spec().clone();
        let opened = to.ask(move |plane| plane.take_over(relocated, export)).await;
        if opened.is_err()
            && let Err(error) = volume.stay(async || device::open_backing(&self.env, &spec).await).await
        {
            tracing::error!(volume = %spec.name, "its backing device is closed, which is tried again: {error}");
        }
        opened
    }

    /// Opens a volume that another thread has closed.
    async fn take_over(self: Rc<Self>, relocated: Relocated, export: Option<ExportId>) -> Result<(), Error> {
        let name = relocated.spec().name.clone();
        let backing = device::open_backing(&self.env, relocated.spec()).await?;
        let volume = Volume::arrive(self.env.at_work_for(&format!("volume {name}")), relocated, backing, &self.memory)?;
        self.keep_volume(name, volume.clone());
        if let Some(export) = export {
            self.exports.take_over(export, volume);
        }
        Ok(())
    }
}
