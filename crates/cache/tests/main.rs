//! Whole pools on devices in memory, and traces: one program, because each has the whole engine in it once more.

#![allow(clippy::unwrap_used)] // the lint spares test functions, but not what they call

mod advisor;
mod any_bytes;
mod block_status;
mod carried;
mod copied_segments;
mod flush_now;
mod golden;
mod golden_live;
mod golden_log;
mod harness;
mod held_requests;
mod hung_state;
mod in_memory;
mod kept;
mod late_flush;
mod live;
mod lost_tail;
mod memory_at_scale;
mod missed;
mod offline;
mod old_copies;
mod on_record;
mod one_machine;
mod packed;
mod pool;
mod records;
mod reinsert;
mod return_of_ssds;
mod scrub;
mod second_loss;
mod shares;
mod stream_reads;
mod traces;
mod upgrade;
mod world;
mod write_back;
