//! The simulator's own tests, and flows of the engine in its world. They are built with the simulator, because each program has the
//! whole engine in it once more.

#![allow(clippy::unwrap_used)] // the lint spares test functions, but not what they call

mod at_once;
mod bad_pages;
mod cleaned_move;
mod crash_at_every_write;
mod explained;
mod hung;
mod page_loss;
mod second_loss;
mod seeds;
mod slow_ssd;
mod stage;
mod without_state;
mod world;
