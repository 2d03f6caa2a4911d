//! What the parts of the log work on.

use std::rc::Rc;

use hotset_block::Env;

use crate::attachment_ids::AttachmentIds;
use crate::clean::Clean;
use crate::config::PoolName;
use crate::log::signals::Signals;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::pool_life::PoolLife;

/// See the file's summary.
pub(super) struct Shared<E: Env> {
    pub(super) env: E,
    pub(super) pool_name: PoolName,
    pub(super) life: Rc<PoolLife>,
    pub(super) members: Rc<Members<E>>,
    pub(super) clean: Rc<Clean<E>>,
    pub(super) ids: Rc<AttachmentIds>,
    pub(super) state: Rc<WriteLog>,
    pub(super) signals: Rc<Signals>,
}
