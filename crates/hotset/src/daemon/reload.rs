//! What HUP does: the configuration is read again, and what can be changed while the daemon runs is.
//!
//! What is wrong in it changes nothing, and is told; the rest of the file is for the next start.

use hotset_api::ConditionKind;

use super::certificates::{self, Certificates};
use super::config::Config;
use super::log::Log;
use super::notices::Notices;
use super::register::ConditionRegister;
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
    pub(super) async fn follow(self, mut signals: Signals, mut certificates: Certificates, notices: Notices) {
        certificates.look().await;
        loop {
            let hours = tokio::time::sleep(certificates::INTERVAL);
            tokio::select! {
                () = signals.reload() => {}
                () = hours => {
                    certificates.look().await;
                    continue;
                }
            }
            let (arguments, api) = (self.arguments.clone(), self.api.clone());
            let read = tokio::task::spawn_blocking(move || Config::load(&arguments, &api)).await;
            match read {
                Ok(Ok(config)) => {
                    let changed = self.change_filter(&config);
                    certificates.register.follow(ConditionKind::Reload, &changed);
                    notices.reload(config.notices.clone());
                    certificates.reload(&config).await;
                }
                Ok(Err(error)) => not_done(&certificates.register, &error),
                Err(error) => not_done(&certificates.register, &format!("a background step failed: {error}")),
            }
        }
    }

    fn change_filter(&self, config: &Config) -> Result<(), String> {
        self.log.set_filter(&config.log).map_err(|error| format!("HUP: {error}; the log goes on as before"))?;
        tracing::info!("HUP: the log filter is {:?}", config.log);
        Ok(())
    }
}

/// Nobody waits for what a HUP comes to.
fn not_done(register: &ConditionRegister, error: &str) {
    // Those with a bar show where in the file it is.
    let lines: Vec<&str> = error.lines().filter(|line| !line.contains('|')).collect();
    register.raise(ConditionKind::Reload, format!("HUP: {}; nothing was changed", lines.join(": ")));
}
