//! File descriptors: how many this process may have, and who may have the last ones.
//!
//! The kernel gives out the lowest number that is free: a descriptor's number says how many are taken at least. So whoever
//! got one too near to the limit gives it back, and what must work at the limit too (the state directory, then the API,
//! then devices) finds some left, however many hosts connect and volumes are opened again and again.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::sys;

/// More is asked of nobody: tables of that length cost memory.
const WANTED: u64 = 1 << 20;

/// What the classes of use leave to each other, where there are descriptors enough.
const STEP: u64 = 64;

/// What a descriptor is for, by how near to the limit it may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorUse {
    /// Connections of hosts.
    Host,
    /// SSDs and backing devices.
    Device,
    /// Connections of administrators.
    Administrator,
}

/// Lets this process have as many as it may let itself have. Answers how many that is.
///
/// # Errors
/// What the kernel says; the limit is then what it was.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    sys::raise_limit(libc::RLIMIT_NOFILE, WANTED)
}

/// How many descriptors there may be for a use, all others that are open included.
///
/// # Errors
/// If the kernel does not say how many this process may have.
pub fn descriptors_for(usage: DescriptorUse) -> io::Result<u64> {
    Ok(share(sys::limits_of(libc::RLIMIT_NOFILE)?.0, usage))
}

/// Whether a descriptor that was just made may be kept for a use.
pub fn may_keep(descriptor: &impl AsFd, usage: DescriptorUse) -> bool {
    let number = u64::try_from(descriptor.as_fd().as_raw_fd()).unwrap_or(u64::MAX);
    descriptors_for(usage).is_ok_and(|share| number < share)
}

fn share(limit: u64, usage: DescriptorUse) -> u64 {
    let step = STEP.min(limit / 16);
    let left_to_others = match usage {
        DescriptorUse::Host => 5 * step,
        DescriptorUse::Device => 3 * step,
        DescriptorUse::Administrator => step,
    };
    limit - left_to_others
}

/// The error of one who got a descriptor that others need more.
pub(crate) fn none_left(usage: DescriptorUse) -> io::Error {
    let limit = sys::limits_of(libc::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    let what = match usage {
        DescriptorUse::Host => "connections of hosts",
        DescriptorUse::Device => "devices",
        DescriptorUse::Administrator => "connections of administrators",
    };
    io::Error::other(format!(
        "no file descriptor is left for {what}: this process may have {limit}, and the last are kept for what matters more; \
         raise its limit (LimitNOFILE= of the service, `ulimit -n`: RLIMIT_NOFILE)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_more_may_come_nearer_to_the_limit_whatever_that_is() {
        for limit in [16, 64, 256, 1024, 1 << 20] {
            let shares = [DescriptorUse::Host, DescriptorUse::Device, DescriptorUse::Administrator];
            let shares = shares.map(|usage| share(limit, usage));
            assert!(shares.is_sorted() && shares[0] < shares[1] && shares[2] < limit, "{limit}: {shares:?}");
            assert!(shares[0] >= limit / 2, "{limit}: most are for hosts");
        }
    }

    #[test]
    fn a_descriptor_with_a_low_number_may_be_kept() {
        assert!(may_keep(&std::io::stderr(), DescriptorUse::Host));
        assert!(descriptors_for(DescriptorUse::Host).unwrap() > 2);
    }
}
