//! What an SSD is when it joins: it has a name of its own, and nothing that it holds is believed.

use hotset_block::Env;

use crate::error::Error;
use crate::format::members::Member;

/// Why newcomers are no members.
#[derive(Debug)]
pub(crate) struct NotJoined {
    pub(crate) error: Error,
    /// Their superblocks may say that they are of the pool, and no record does: no start misses them.
    pub(crate) is_only_labelled: bool,
}

impl From<Error> for NotJoined {
    /// Before anything was written that says that they are of the pool.
    fn from(error: Error) -> Self {
        Self { error, is_only_labelled: false }
    }
}

/// Of a pool, or of an SSD: never given twice.
pub fn random_uuid<E: Env>(env: &E) -> u128 {
    (u128::from(env.random()) << 64) | u128::from(env.random())
}

/// What the members record says of an SSD that joins: nothing that it holds is believed.
pub(crate) fn new_member<E: Env>(env: &E, path: &str, ssd_uuid: u128, size_bytes: u64) -> Member {
    Member { ssd_uuid, size_bytes, path: path.to_owned(), incarnation: env.random(), session: 0, journal_end: None }
}
