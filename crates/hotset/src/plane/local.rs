//! What the data plane does for volumes that are block devices of this machine.

use std::os::unix::net::UnixStream;
use std::rc::Rc;

use hotset_cache::config::VolumeName;
use hotset_cache::{Error, ErrorKind};
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
        local::serve(&self.exports, name.as_str(), end).map_err(|error| {
            Error::new(ErrorKind::Media, format!("volume {name}: a connection for its local device: {error}"))
        })
    }
}
