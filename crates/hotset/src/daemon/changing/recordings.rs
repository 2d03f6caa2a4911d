//! Requests of volumes are recorded for whoever asks for them.

use std::fmt::Write;
use std::sync::Arc;

use hotset_api::{ApiError, Recorded};
use hotset_cache::advisor::access::Direction;
use hotset_cache::config::VolumeName;

use crate::daemon::opening::records::Records;

/// Records requests of volumes.
pub(crate) struct Recordings {
    pub(crate) records: Arc<Records>,
}

impl Recordings {
    /// Answers the recording's id.
    pub(crate) async fn begin(&self, name: &str) -> Result<u64, ApiError> {
        let name = self.volume(name).await?;
        self.records.plane.of_volume(&name.clone()).call(move |plane| plane.begin_recording(name)).await
    }

    /// Ends the recording of this id; another one goes on.
    pub(crate) async fn end(&self, name: &str, id: u64) -> Result<(), ApiError> {
        let name = self.volume(name).await?;
        self.records.plane.of_volume(&name.clone()).call(move |plane| plane.end_recording(name, id)).await
    }

    /// What was recorded since the portion before this one, or this one again.
    pub(crate) async fn take(&self, name: &str, id: u64, portion: u64) -> Result<Recorded, ApiError> {
        let name = self.volume(name).await?;
        let thread = self.records.plane.of_volume(&name);
        let taken = thread.call(move |plane| plane.take_recorded(name, id, portion)).await?;
        let Some(recorded) = taken else {
            return Ok(Recorded { requests: String::new(), dropped: 0, ended: true });
        };
        let mut requests = String::with_capacity(recorded.requests.len() * 32);
        for request in &recorded.requests {
            let op = match request.direction {
                Direction::Read => 'R',
                Direction::Write => 'W',
            };
            let (time_us, range) = (request.at.as_micros(), request.range);
            writeln!(requests, "{time_us},{op},{},{}", range.start, range.length()).expect("memory takes it");
        }
        Ok(Recorded { requests, dropped: recorded.dropped, ended: false })
    }

    async fn volume(&self, name: &str) -> Result<VolumeName, ApiError> {
        Ok(self.records.open_volume_status(name).await?.name)
    }
}
