//! A server on a thread of its own, and clients of all kinds: one program.

mod nbd_clients;
mod nbd_hostile;
mod serving;
