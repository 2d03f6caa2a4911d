//! Clean copies: what is cached, what is evicted, how blocks come in, when they are believed, and how they are dropped.

// Nouns: what is true now.
pub(crate) mod counters;
pub(crate) mod fills;
pub(crate) mod ghost;
pub(crate) mod grace;
pub(crate) mod index_journal;
pub(crate) mod links;
pub(crate) mod map;
pub(crate) mod page_set;
pub(crate) mod pages;
pub(crate) mod policy;
pub(crate) mod sets;
pub(crate) mod shares;
pub(crate) mod slot_ranges;
pub(crate) mod sweep;
pub(crate) mod table;

// Verbs: what happens.
pub(crate) mod fill;
pub(crate) mod invalidate;
pub(crate) mod journal;
pub(crate) mod publish;
pub(crate) mod recover;
pub(crate) mod share;
pub(crate) mod slot_ssd;
pub(crate) mod wear;
