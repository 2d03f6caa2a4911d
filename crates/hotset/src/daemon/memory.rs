//! How much memory the daemon may have: what the machine has, or less by one of its control groups or by its own limits; and how
//! that is divided.
//!
//! A control group that grows too large is not refused memory: it is throttled, or a process of it is killed. So what the
//! daemon takes is measured by the least limit of its group and all groups around it, of both versions
//! (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).

use std::fs;
use std::path::{Path, PathBuf};

use super::thread_limits::OWN_THREADS;
use crate::size::human;

/// What the daemon takes beside what is given out here.
const OWN_BYTES: u64 = 20 << 20;

/// The least that it serves with: two of the longest requests, buffers for them, and itself.
const LEAST_BYTES: u64 = OWN_BYTES + REQUESTS_BYTES_MIN + REGISTERED_BYTES_MIN + KEPT_BYTES_MIN;

const REQUESTS_BYTES_MIN: u64 = 64 << 20;
const REGISTERED_BYTES_MIN: u64 = 4 << 20;
const KEPT_BYTES_MIN: u64 = 8 << 20;

/// What a process may have for itself, by the name in /proc/PID/limits (proc_pid_limits(5)): the limit, and how it is raised.
const OWN_LIMITS: [(&str, &str); 2] = [
    ("Max address space", "RLIMIT_AS: LimitAS=infinity of the service, or `ulimit -v unlimited`"),
    ("Max data size", "RLIMIT_DATA: LimitDATA=infinity of the service, or `ulimit -d unlimited`"),
];

/// Addresses that a thread takes: its stack, and what the allocator sets aside for it.
const ADDRESSES_OF_A_THREAD: u64 = 66 << 20;

/// What a control group of version 1 says that has no limit, and everything near it.
const NO_LIMIT: u64 = 1 << 60;

/// How much there is, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) bytes: u64,
    /// For people: "the machine", or the file that has the limit.
    pub(crate) set_by: String,
}

impl Memory {
    /// Of this process. `root` is where /proc and /sys are: `/`, but for tests.
    ///
    /// # Errors
    /// If the kernel does not say how much the machine has.
    pub(crate) fn of_this_process(root: &Path) -> Result<Self, String> {
        let machine = Self { bytes: machine_bytes(root)?, set_by: "the machine".to_owned() };
        let groups = limits_of_groups(root);
        let all = groups.into_iter().chain(own_limits(root)).chain([machine]);
        Ok(all.min_by_key(|memory| memory.bytes).expect("there is a machine"))
    }

    /// # Errors
    /// It is too little: whatever the daemon did, a few hosts could make the kernel kill it.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.bytes >= LEAST_BYTES {
            return Ok(());
        }
        let (has, needed) = (human(self.bytes), human(LEAST_BYTES));
        Err(format!(
            "memory: {} gives {has}, and requests of hosts need {needed} at least; raise that limit",
            self.set_by
        ))
    }

    /// What the tables of all pools may take, unless the configuration says otherwise.
    pub(crate) fn for_tables(&self) -> u64 {
        (self.bytes / 4).min(self.beside_requests() / 4 * 3)
    }

    /// What pages in memory may take, unless the configuration says otherwise.
    pub(crate) fn for_memory_cache(&self) -> u64 {
        (self.bytes / 16).min(4 << 30).min(self.beside_requests() / 4)
    }

    /// What is left when hosts ask for as much as they may.
    fn beside_requests(&self) -> u64 {
        let buffers = self.for_requests() + self.for_registered_buffers() + self.for_kept_buffers();
        let taken = u64::try_from(buffers).expect("memory is addressed with 64 bits") + OWN_BYTES;
        self.bytes.saturating_sub(taken)
    }

    /// The most that pages in memory may take beside tables of `tables_bytes` bytes: half of what is left.
    pub(crate) fn for_memory_cache_at_most(&self, tables_bytes: u64) -> u64 {
        self.bytes.saturating_sub(tables_bytes) / 2
    }

    /// What the requests of hosts may take while they are under way.
    pub(crate) fn for_requests(&self) -> usize {
        self.share_between(8, REQUESTS_BYTES_MIN, 512 << 20)
    }

    /// Buffers that are kept at hand for the devices.
    pub(crate) fn for_registered_buffers(&self) -> usize {
        self.share_between(32, REGISTERED_BYTES_MIN, 64 << 20)
    }

    /// Buffers that are kept for reuse beside them.
    pub(crate) fn for_kept_buffers(&self) -> usize {
        self.share_between(16, KEPT_BYTES_MIN, 128 << 20)
    }

    /// What a connection may have in the kernel, in each direction.
    pub(crate) fn for_socket_buffer(&self) -> usize {
        self.share_between(2048, 128 << 10, 2 << 20)
    }

    fn share_between(&self, part: u64, least: u64, most: u64) -> usize {
        usize::try_from((self.bytes / part).clamp(least, most)).expect("it is clamped to what fits")
    }

    /// For the log.
    pub(crate) fn told(&self, tables_bytes: u64, memory_cache_bytes: u64) -> String {
        let requests = u64::try_from(self.for_requests()).expect("memory is addressed with 64 bits");
        format!(
            "memory: {} by {}; at most {} for tables of pools, {} for pages (memory cache), {} for requests of hosts",
            human(self.bytes),
            self.set_by,
            human(tables_bytes),
            human(memory_cache_bytes),
            human(requests)
        )
    }
}

/// `MemTotal` of /proc/meminfo (proc_meminfo(5)), which is in KiB.
fn machine_bytes(root: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(root.join("proc/meminfo")).map_err(|error| format!("/proc/meminfo: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib =
        line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|number| number.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "/proc/meminfo does not say MemTotal; set memory_limit".to_owned())
}

/// What is left of the limits of this process itself, when it and its threads have what they take.
fn own_limits(root: &Path) -> Vec<Memory> {
    let limits = fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default();
    let limit_of = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = u64::try_from(cores + OWN_THREADS).expect("an address has 64 bits at most");
    let limited = OWN_LIMITS.into_iter().filter_map(|(name, how)| Some((limit_of(name)?, how)));
    let left = limited.map(|(bytes, how)| Memory {
        bytes: bytes.saturating_sub(addresses(root) + threads * ADDRESSES_OF_A_THREAD),
        set_by: format!("the limit of {} ({how}), beside the program and its threads,", human(bytes)),
    });
    left.collect()
}

/// What this process takes now (proc_pid_status(5)).
fn addresses(root: &Path) -> u64 {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The limits of this process's groups, and of all around them as far as they can be seen.
fn limits_of_groups(root: &Path) -> Vec<Memory> {
    let mut limits = Vec::new();
    for (version, directory) in groups_of(root) {
        for file in version.files() {
            let shown = directory.join(file);
            let inside = shown.strip_prefix("/").unwrap_or(&shown);
            let bytes = fs::read_to_string(root.join(inside)).ok().and_then(|text| text.trim().parse::<u64>().ok());
            if let Some(bytes) = bytes.filter(|bytes| *bytes < NO_LIMIT) {
                limits.push(Memory { bytes, set_by: format!("the control group ({})", shown.display()) });
            }
        }
    }
    limits
}

/// The directories of this process's group of version 2, and of all around it as far as they can be seen, the innermost first.
pub(super) fn groups_of_version_two(root: &Path) -> Vec<PathBuf> {
    let of_two = groups_of(root).into_iter().filter(|(version, _)| *version == CgroupVersion::Two);
    of_two.map(|(_, directory)| directory).collect()
}

fn groups_of(root: &Path) -> Vec<(CgroupVersion, PathBuf)> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mounts = mounts.lines().filter_map(Mount::parse);
    mounts
        .flat_map(|mount| mount.directories_of(&groups).into_iter().map(move |directory| (mount.version, directory)))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    /// With the memory controller.
    One,
    Two,
}

impl CgroupVersion {
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::One => &["memory.limit_in_bytes"],
            // Above "high" a group is throttled until it stands still: that is no memory to be used.
            Self::Two => &["memory.max", "memory.high"],
        }
    }
}

/// A mounted hierarchy of control groups.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: CgroupVersion,
    /// Which of its groups is at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// Of a line of mountinfo (proc_pid_mountinfo(5)).
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1).unwrap_or(""));
        let version = match kind {
            "cgroup2" => CgroupVersion::Two,
            "cgroup" if options.split(',').any(|option| option == "memory") => CgroupVersion::One,
            _ => return None,
        };
        Some(Self { version, root: PathBuf::from(root), point: PathBuf::from(point) })
    }

    /// The group of this process and those around it, as directories. `groups` is /proc/self/cgroup (cgroups(7)).
    fn directories_of(&self, groups: &str) -> Vec<PathBuf> {
        let group = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_it = match self.version {
                CgroupVersion::One => controllers.split(',').any(|controller| controller == "memory"),
                CgroupVersion::Two => controllers.is_empty(),
            };
            is_it.then_some(path)
        });
        let Some(group) = group else { return Vec::new() };
        // From inside a container its own group is all that there is to see.
        let below = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let inside = if below.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            self.point.join(below)
        } else {
            self.point.clone()
        };
        let around = inside.ancestors().take_while(|directory| directory.starts_with(&self.point));
        around.map(Path::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine of 64 GiB with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB\n");
        files.iter().for_each(|(path, text)| write(path, text));
        root
    }

    fn limit(files: &[(&str, &str)]) -> Memory {
        Memory::of_this_process(machine(files).path()).unwrap()
    }

    const V2: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    const V1: (&str, &str) = (
        "proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - \
         cgroup cgroup rw,memory\n",
    );

    #[test]
    fn without_control_groups_there_is_what_the_machine_has() {
        assert_eq!(limit(&[]), Memory { bytes: 64 * GIB, set_by: "the machine".to_owned() });
    }

    #[test]
    fn the_least_limit_of_a_group_and_all_around_it_counts() {
        let group = ("proc/self/cgroup", "0::/system.slice/hotset.service\n");
        for (files, bytes) in [
            (&[("sys/fs/cgroup/system.slice/hotset.service/memory.max", "1073741824\n")][..], GIB),
            (&[("sys/fs/cgroup/system.slice/memory.max", "2147483648\n")], 2 * GIB),
            (&[("sys/fs/cgroup/system.slice/hotset.service/memory.high", "536870912\n")], GIB / 2),
            (
                &[
                    ("sys/fs/cgroup/system.slice/hotset.service/memory.max", "max\n"),
                    ("sys/fs/cgroup/system.slice/hotset.service/memory.high", "max\n"),
                    ("sys/fs/cgroup/memory.max", "3221225472\n"),
                ],
                3 * GIB,
            ),
            (&[("sys/fs/cgroup/other.slice/memory.max", "4096\n")], 64 * GIB),
            (&[("sys/fs/cgroup/system.slice/memory.max", "999999999999999\n")], 64 * GIB),
        ] {
            let memory = limit(&[&[V2, group], files].concat());
            assert_eq!(memory.bytes, bytes, "{files:?}");
        }
    }

    #[test]
    fn version_one_counts_too_and_its_no_limit_is_none() {
        let group = ("proc/self/cgroup", "8:pids:/\n4:memory:/docker/abc\n0::/\n");
        let files = [
            V1,
            group,
            ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "314572800\n"),
        ];
        let memory = limit(&files);
        assert_eq!(memory.bytes, 314_572_800);
        assert!(memory.set_by.contains("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes"), "{}", memory.set_by);
    }

    #[test]
    fn inside_a_container_the_mount_point_is_its_own_group() {
        let mount = |root: &str, options: &str| {
            format!("35 31 0:32 {root} /sys/fs/cgroup/memory ro - cgroup cgroup {options}\n")
        };
        let limited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        for (root, group) in
            [("/docker/abc", "4:memory:/docker/abc\n"), ("/docker/abc", "4:memory:/\n"), ("/..", "4:memory:/..\n")]
        {
            let mounts = mount(root, "rw,memory");
            let files = [("proc/self/mountinfo", mounts.as_str()), ("proc/self/cgroup", group), limited];
            assert_eq!(limit(&files).bytes, GIB, "{root} {group}");
        }
    }

    // proves: F11
    #[test]
    fn a_limit_of_the_process_counts_without_what_it_takes_itself_and_is_named() {
        let limits = |address_space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             {data:<20} unlimited            bytes     \n\
                 Max address space         {address_space:<20} unlimited            bytes     \n"
            )
        };
        let of = |address_space: &str, data: &str| {
            limit(&[
                ("proc/self/limits", &limits(address_space, data)),
                ("proc/self/status", "VmSize:\t  1048576 kB\n"),
            ])
        };
        assert_eq!(of("unlimited", "unlimited").bytes, 64 * GIB);
        let [by_addresses, by_data] = [of("42949672960", "unlimited"), of("unlimited", "42949672960")];
        for (memory, name) in [(by_addresses, "RLIMIT_AS"), (by_data, "RLIMIT_DATA")] {
            assert!(memory.bytes < 39 * GIB && memory.bytes > 20 * GIB, "{memory:?}");
            assert!(memory.set_by.contains(name) && memory.set_by.contains("40 GiB"), "{memory:?}");
        }
        let refused = of("1073741824", "unlimited").check().unwrap_err();
        assert!(refused.contains("RLIMIT_AS") && refused.contains("ulimit -v unlimited"), "{refused}");
    }

    // proves: F11
    #[test]
    fn what_a_small_limit_gives_out_fits_it_and_too_small_a_limit_is_named() {
        let memory = |bytes| Memory { bytes, set_by: "the control group (memory.max)".to_owned() };
        for mib in [96, 100, 112, 128, 150, 200, 256] {
            let memory = memory(mib << 20);
            assert_eq!(memory.check(), Ok(()), "{mib} MiB");
            let buffers = memory.for_requests() + memory.for_registered_buffers() + memory.for_kept_buffers();
            let all = memory.for_tables() + memory.for_memory_cache() + u64::try_from(buffers).unwrap() + OWN_BYTES;
            assert!(all <= memory.bytes, "{mib} MiB: {all}");
        }
        let refused = memory(48 << 20).check().unwrap_err();
        assert!(refused.contains("memory.max") && refused.contains("96 MiB"), "{refused}");
    }

    #[test]
    fn what_is_given_out_fits_what_there_is() {
        for bytes in [300 << 20, GIB, 4 * GIB, 1024 * GIB] {
            let memory = Memory { bytes, set_by: String::new() };
            let buffers = memory.for_requests() + memory.for_registered_buffers() + memory.for_kept_buffers();
            let all = memory.for_tables() + memory.for_memory_cache() + u64::try_from(buffers).unwrap();
            assert!(all <= bytes * 13 / 20, "{bytes}: {all}");
            assert!(memory.for_memory_cache() <= memory.for_memory_cache_at_most(memory.for_tables()));
            assert!(memory.for_requests() >= 2 * (32 << 20), "two of the longest requests");
        }
    }
}
