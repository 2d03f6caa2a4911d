//! Which daemon this is, on which machine: what tells it from all others that may reach the same devices.

/// See the file's summary. Numbers that are made from the names of machines are hashed for this purpose alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The daemon: kept beside its state, or configured, and never the same on two machines.
    pub daemon: u128,
    /// What the daemon is called while its state cannot be written.
    pub fallback: u128,
    /// The machine, or the container.
    pub machine: u128,
    /// One run of its kernel.
    pub boot: u128,
    /// How people know the machine.
    pub name: String,
}

impl Machine {
    /// Of worlds that have one machine.
    pub fn only() -> Self {
        Self { daemon: 1, fallback: 1, machine: 1, boot: 1, name: "this machine".to_owned() }
    }
}
