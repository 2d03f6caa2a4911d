//! The harness of the end-to-end tests: a daemon of one's own, clients, and data whose every byte is known.
//!
//! It starts the built binary and talks to it as users do: by its command line and its sockets. It knows nothing of
//! the product's code.

pub mod apart;
pub mod clock;
pub mod daemon;
pub mod faulty;
pub mod files;
pub mod http;
pub mod load;
pub mod loops;
pub mod nbd;
pub mod pattern;
pub mod served;
pub mod tools;
