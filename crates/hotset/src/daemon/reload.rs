//! What HUP does: the configuration is read again, and what can be changed while the daemon runs is.
//!
//! What is wrong in it changes nothing, and is told; the rest of the file is for the next start.

use super::certificates::{self, Certificates};
use super::config::Config;
use super::log::Log;
use super::signals::Signals;
use crate::args::ServeArguments;
use crate::endpoint::Endpoint;

/// See the file's summary.
pub(super) struct Reload {
    /// The command line, which goes before the file.
    pub(super) arguments: ServeArguments,
    pub(super) api: Vec<Endpoint>,
    pub(super) log: Log,
}

impl Reload {
    /// Until the runtime ends.
    pub(super) async fn follow(self, mut signals: Signals, mut certificates: Certificates) {
        certificates.look();
        loop {
            let hours = tokio::time::sleep(certificates::INTERVAL);
            tokio::select! {
                () = signals.reload() => {}
                () = hours => {
                    certificates.look();
                    continue;
                }
            }
            let (arguments, api) = (self.arguments.clone(), self.api.clone());
            let read = tokio::task::spawn_blocking(move || Config::load(&arguments, &api)).await;
            match read {
                Ok(Ok(config)) => {
                    self.change_filter(&config);
                    certificates.reload(&config).await;
                }
                Ok(Err(error)) => tracing::error!("HUP: {error}; nothing was changed"),
                Err(error) => tracing::error!("HUP: a background step failed: {error}; nothing was changed"),
            }
        }
    }

    fn change_filter(&self, config: &Config) {
        match self.log.set_filter(&config.log) {
            Ok(()) => tracing::info!("HUP: the log filter is {:?}", config.log),
            Err(error) => tracing::error!("HUP: {error}; the log goes on as before"),
        }
    }
}
