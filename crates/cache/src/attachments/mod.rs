//! Which volume is whose: how volumes join and leave a pool, and how a backing device is recognised.

// Nouns: what is true now.
pub(crate) mod evidence;

// Verbs: what happens.
pub(crate) mod catalogue;
pub(crate) mod identity;
