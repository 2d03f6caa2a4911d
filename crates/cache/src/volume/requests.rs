//! What a host may ask for beside a range.

/// When a write may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is visible; a later flush makes it durable.
    Volatile,
    /// When it is durable (FUA).
    Durable,
}

/// How long zeroing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroEffort {
    /// As long as writing the zeroes takes.
    Any,
    /// Fail with `Unsupported` at once if it is not faster than writing (NBD's `FAST_ZERO`).
    FastOnly,
}
