//! Whole pools on devices in memory: one program, because each has the whole engine in it once more. What watches all memory
//! of a process, or has no pool, has one of its own.

#![allow(clippy::unwrap_used)] // the lint spares test functions, but not what they call

mod any_bytes;
mod carried;
mod flush_now;
mod golden;
mod golden_live;
mod golden_log;
mod harness;
mod hung_state;
mod in_memory;
mod kept;
mod late_flush;
mod live;
mod lost_tail;
mod missed;
mod offline;
mod old_copies;
mod on_record;
mod one_machine;
mod packed;
mod pool;
mod records;
mod return_of_ssds;
mod scrub;
mod second_loss;
mod shares;
mod upgrade;
mod world;
mod write_back;
