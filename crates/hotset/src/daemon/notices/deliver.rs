//! One notice to one target, once. Blocks, for a limited time.

use super::delivery::{Delivery, DeliveryFailure};
use super::notice::Notice;
use super::{mail, web_hook};
use crate::daemon::notice_settings::{NoticeSettings, NoticeTarget};

/// Answers what the target said to it.
pub(super) fn deliver(
    target: NoticeTarget,
    settings: &NoticeSettings,
    notice: &Notice,
    insists: bool,
) -> Result<Delivery, DeliveryFailure> {
    match target {
        NoticeTarget::WebHook => match &settings.web_hook {
            Some(hook) => web_hook::post(hook, notice, settings.timeout),
            None => Ok(Delivery::to_all("it is not configured any more")),
        },
        NoticeTarget::Mail => match &settings.mail {
            Some(mail) => mail::send(mail, notice, insists, settings.timeout),
            None => Ok(Delivery::to_all("it is not configured any more")),
        },
    }
}
