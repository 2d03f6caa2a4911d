//! What the data plane does for volumes that are block devices of this machine.

use std::os::unix::net::UnixStream;
use std::rc::Rc;

use hotset_cache::config::VolumeName;
use hotset_cache::{Error, ErrorKind};
use hotset_serve::local::ublk::{self, PreparedUblk, UblkRequests};
use hotset_serve::{ExportInfo, local};

use super::open::Plane;

impl Plane {
    /// Serves a volume over `end`, whose other end a driver gets. Answers what the driver has to be told; `None`: hosts may not use the
    /// volume now.
    pub(crate) async fn serve_local(
        self: Rc<Self>,
        name: VolumeName,
        end: UnixStream,
    ) -> Result<Option<ExportInfo>, Error> {
        local::serve(&self.exports, name.as_str(), end).map_err(|error| no_connection(&name, &error))
    }

    /// What a driver has to be told of a volume; `None`: hosts may not use it now.
    pub(crate) async fn local_export(self: Rc<Self>, name: VolumeName) -> Result<Option<ExportInfo>, Error> {
        Ok(local::export_info(&self.exports, name.as_str()))
    }

    /// Fetches the requests of a device of a volume on this thread from now on.
    pub(crate) async fn fetch_local(
        self: Rc<Self>,
        name: VolumeName,
        prepared: PreparedUblk,
    ) -> Result<UblkRequests, Error> {
        Ok(ublk::fetch(&self.exports, name.as_str(), prepared))
    }

    /// Serves the requests of a device. False: hosts may not use the volume now.
    pub(crate) async fn serve_fetched(self: Rc<Self>, name: VolumeName, requests: UblkRequests) -> Result<bool, Error> {
        ublk::serve(&self.exports, name.as_str(), &requests).map_err(|error| no_connection(&name, &error))
    }
}

fn no_connection(name: &VolumeName, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Media, format!("volume {name}: a connection for its local device: {error}"))
}
