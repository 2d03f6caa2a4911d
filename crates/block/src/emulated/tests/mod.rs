//! The model in virtual time: the same requests always take the same time, so these tests cannot flicker.

mod behaviour;
mod host;
mod layout;
mod presets;
mod spelling;
