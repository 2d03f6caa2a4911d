//! The command line: every verb and its arguments. Completions and man pages are generated from these definitions.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use hotset_api::AdviceWindow;
use hotset_cache::FORMAT_VERSION;
use hotset_cache::config::{BlockBytes, IoType, PolicyKind, PoolKind, PoolName, VolumeName, WriteMode};

use crate::client::Address;
use crate::endpoint::Endpoint;
use crate::settings::{self, PoolSetting, VolumeSetting};
use crate::since::Since;
use crate::size::{Endurance, Size};

/// Hotset, an SSD cache for slow block storage: `hotset serve` is the daemon, the other verbs talk to it.
#[derive(Debug, Parser)]
#[command(name = "hotset", version, long_version = long_version(), propagate_version = true, max_term_width = 120)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage; `status --check`: 0 healthy, 1 degraded, 2 failed.")]
pub(crate) struct Arguments {
    /// The daemon's control API: unix:PATH, tcp:ADDRESS:PORT, or https://HOST:PORT with a token; by default what HOTSET_API
    /// names. (`serve` takes the first two, several times, and does not look at HOTSET_API)
    #[arg(long, global = true, value_name = "ENDPOINT", value_parser = Address::from_str)]
    pub(crate) api: Vec<Address>,

    /// Certificate of the daemon at https://HOST:PORT, or of its authority (PEM); by default what HOTSET_API_CA names, else the
    /// system's authorities
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) api_ca: Option<PathBuf>,

    /// File with the token for the API; by default what HOTSET_TOKEN_FILE names. HOTSET_TOKEN, the token itself, wins over it
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Stop waiting when there is no sign of the daemon for so many seconds; 0 waits for ever. What takes long is waited for as long
    /// as the daemon answers at all
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) timeout: u64,

    /// How results and errors are printed: text, json with stable keys, or, of a list, its columns, as name,size
    #[arg(short, long, global = true, default_value = "text", value_name = "FORMAT|COLUMNS", value_parser = OutputFormat::from_str)]
    pub(crate) output: OutputFormat,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// With the newest format that this program reads and writes on SSDs: what decides whether an older one may take its place.
fn long_version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{} (on-disk format {FORMAT_VERSION})", env!("CARGO_PKG_VERSION")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs: stable keys.
    Json,
}

/// What `--output` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    /// Of a list, in this order.
    Columns(Vec<String>),
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            columns => {
                let names: Vec<String> = columns.split(',').map(str::to_owned).collect();
                let is_name = |name: &String| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-/_".contains(c))
                };
                let wrong = || format!("{text:?}: it is text, json, or names of columns, as name,size");
                if names.iter().all(is_name) { Ok(Self::Columns(names)) } else { Err(wrong()) }
            }
        }
    }
}

/// How a list is printed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TableArguments {
    /// The column by which rows are ordered; from the greatest down with - before it, as --sort=-size
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    /// Rows alone, for programs
    #[arg(long)]
    pub(crate) no_headings: bool,
    /// Sizes and counts as exact numbers
    #[arg(long)]
    pub(crate) bytes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon
    Serve(ServeArguments),
    /// Make, show, change and delete cache pools
    #[command(subcommand)]
    Pool(PoolVerb),
    /// Make, show, change and delete volumes
    #[command(subcommand)]
    Volume(VolumeVerb),
    /// Show the memory cache, or change its size
    #[command(subcommand)]
    MemoryCache(MemoryCacheVerb),
    /// Show the health of the daemon, its pools and its volumes
    Status(StatusArguments),
    /// Show counters and rates of volumes
    Stats(StatsArguments),
    /// Show volumes by what they do now, every second
    Top(TopArguments),
    /// Show what changed, when, and why
    Events(EventsArguments),
    /// Notices of events by a web hook and e-mail
    #[command(subcommand)]
    Notify(NotifyVerb),
    /// Show what takes long and is being done, or was
    Operations(OperationsArguments),
    /// Show what pools of other sizes and settings would have done with the requests of a volume or a trace
    #[command(name = "whatif", after_help = WHAT_A_TRACE_IS)]
    WhatIf(WhatIfArguments),
    /// Say how large a cache had better be for volumes, or for the requests of a trace, and what it buys
    #[command(after_help = WHAT_A_TRACE_IS)]
    Advise(AdviseArguments),
    /// Record what hosts ask of a volume
    #[command(subcommand)]
    Trace(TraceVerb),
    /// Make, show and delete tokens for the API over the network
    #[command(subcommand)]
    Token(TokenVerb),
    /// Print udev rules that keep the system off block devices whose newest data may be on SSDs
    UdevRules,
    /// Make image files that can serve as SSDs
    #[command(subcommand)]
    Image(ImageVerb),
    /// Read a pool's SSDs without a daemon: check what is dirty, and write it to the backing devices. When all else failed
    Recover(RecoverArguments),
    /// Show what a cache does: an emulated 16-disk array over NBD, before and after
    Demo(DemoArguments),
    /// Write pools, volumes and their settings as text, for `apply`
    Export,
    /// Make pools, volumes and their settings what a site file says
    #[command(
        after_help = "Everything is checked before anything changes; what cannot be changed while it serves is refused, with \
        the verb that does it. What the file does not name stays as it is. Applied again, it changes nothing."
    )]
    Apply(ApplyArguments),
    /// Check the configuration of the daemon
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Print what makes a shell complete the verbs, their options, and the names that the daemon knows
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the man page, or write all of them into a directory
    Man {
        /// Where to write one page for each verb
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Print the OpenAPI document of the control API
    #[command(hide = true)]
    Openapi,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NotifyVerb {
    /// Send each target of [notices] a test now, and show what it answered; the exit code is 1 if one did not take it
    Test,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RecoverArguments {
    /// An SSD of the pool; all that are there, one after the other
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub(crate) ssd: Vec<PathBuf>,
    /// The device that holds a volume's data now, if it is not where the pool remembers it
    #[arg(long, value_name = "VOLUME=PATH", value_parser = BackingOf::from_str)]
    pub(crate) backing: Vec<BackingOf>,
    /// The state directory of the daemon that ran the pool, which is read only; by default that of a daemon on this machine, if it
    /// has a copy of the pool
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Write the dirty data to the backing devices
    #[arg(long)]
    pub(crate) write: bool,
    /// Write also to a device that is not the one that the data belongs to or was written to since, what was discarded, and although
    /// what is missing may be newer than what is found
    #[arg(long, requires = "write")]
    pub(crate) force: bool,
}

/// Where a volume's data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackingOf {
    pub(crate) volume: VolumeName,
    pub(crate) path: String,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServeArguments {
    /// Configuration file; by default /etc/hotset/hotset.toml, if there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// State directory; by default /var/lib/hotset for root, else $XDG_STATE_HOME/hotset
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Where hosts connect: unix:PATH or tcp:ADDRESS:PORT, several times; by default nbd.sock in the state directory
    #[arg(long, value_name = "ENDPOINT", value_parser = Endpoint::from_str)]
    pub(crate) nbd: Vec<Endpoint>,
    /// Certificate chain (PEM) for NBD over TLS
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key (PEM) for NBD over TLS
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authority (PEM) whose client certificates are demanded
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Seconds to wait for missing SSDs at the start
    #[arg(long, value_name = "SECONDS")]
    pub(crate) missing_wait: Option<u64>,
    /// Threads that serve hosts, 1 to 64: each pool has one of its own while they suffice; by default the cores but one
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// Memory that the tables of all pools may take; by default a quarter of what the daemon may use
    #[arg(long, value_name = "SIZE", value_parser = Size::from_str)]
    pub(crate) memory_limit: Option<Size>,
    /// Memory for pages that are read again (the memory cache), unless `memory-cache set` has set another size; 0 for none; by
    /// default a sixteenth of the machine's, at most 4G
    #[arg(long, value_name = "SIZE", value_parser = Size::from_str)]
    pub(crate) memory_cache: Option<Size>,
    /// Log filter, as info or hotset=debug
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolVerb {
    /// Make a pool from SSDs
    Create(Box<PoolCreateArguments>),
    /// List all pools
    List(TableArguments),
    /// Show a pool with its SSDs and volumes
    Show {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
    },
    /// Change settings: io-type (with the thresholds of its preset), policy, populate-on-read, populate-on-write, fetch-rate,
    /// flush-rate (low, medium, high), dirty-watermark (percent), dirty-age (as 10m), ssd-writes-per-day (a size for all
    /// SSDs together, or off)
    Set {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = PoolSetting::from_str)]
        settings: Vec<PoolSetting>,
    },
    /// Flush a pool's dirty data, then delete it; its volumes are served uncached from then on
    #[command(after_help = INTERRUPTING)]
    Delete {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        #[command(flatten)]
        removal: RemovalArguments,
    },
    /// Change the cache block, the type or the checksums of a pool in place: flush its dirty data, drop what is cached, make it anew
    #[command(after_help = CONVERTING)]
    Convert(ConvertArguments),
    /// Read and check everything that the SSDs hold, at the fetch rate, and mend what is bad
    #[command(after_help = "Ctrl-C cancels the scrub. What it found stays in `hotset pool show`.")]
    Scrub {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        /// Begin it and return; `hotset operations` shows how far it is
        #[arg(long)]
        background: bool,
    },
    /// Write what is dirty of a pool's volumes to the backing devices now and make it durable there, while hosts go on
    #[command(after_help = FLUSHING)]
    Flush {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        #[command(flatten)]
        flush: FlushArguments,
    },
    /// End what `pool flush --hold` began: what hosts write may stay dirty again
    Release {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
    },
    /// End the flush of a `pool delete` or `pool convert`: the pool stays as it is, and caches writes again
    CancelFlush {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
    },
    /// Take SSDs into a pool while it serves
    AddSsd(SsdsArguments),
    /// Take SSDs out of a pool while it serves: what is dirty on them is copied to the others first
    #[command(after_help = "Ctrl-C cancels the removal, the SSDs stay.")]
    RemoveSsd {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        /// SSDs of the pool, also failed and missing ones
        #[arg(long, required = true, num_args = 1.., value_name = "PATH|UUID")]
        ssd: Vec<String>,
        /// Begin it and return; `hotset operations` shows how far it is
        #[arg(long)]
        background: bool,
    },
    /// End a `pool remove-ssd`: the SSDs stay
    CancelRemove {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
    },
    /// Show what is unavailable because the SSDs that have it are away: reads of it fail until they are back, it is written again
    /// or its loss accepted
    Recover {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        /// Give it up, for good: from now on it is what the backing devices hold
        #[arg(long)]
        accept_loss: bool,
    },
    /// Give a pool spares: the first one that fits takes over by itself when an SSD is lost
    AddSpare(SsdsArguments),
    /// Take spares away from a pool
    RemoveSpare {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
        /// Spares of the pool
        #[arg(long, required = true, num_args = 1.., value_name = "PATH|UUID")]
        ssd: Vec<String>,
    },
    /// Try again to open a pool that is offline, also one that was fenced because the daemon ended over it
    Open {
        #[arg(value_parser = PoolName::from_str)]
        name: PoolName,
    },
    /// Open a pool whose SSDs have moved here
    Import {
        /// Block devices or image files of one pool
        #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
        ssd: Vec<PathBuf>,
        /// Go on without the pool's other SSDs; they leave the pool for good
        #[arg(long)]
        accept_missing: bool,
        /// Accept the loss of dirty data of which no copy is left: pages go back to what older copies or the backing device hold.
        /// `hotset recover` shows what can be read
        #[arg(long, requires = "accept_missing")]
        accept_loss: bool,
        /// Take the pool although another machine used it last and was not stopped cleanly: only if that machine is off or
        /// cannot reach the SSDs any more. Refused while it uses the pool
        #[arg(long)]
        force: bool,
    },
}

const FLUSHING: &str = "What is dirty when it begins is what it writes. Ctrl-C cancels it. For a snapshot or a backup of the backing device: \
    flush with --hold, take the snapshot, then `release`.";

#[derive(Args, Debug)]
pub(crate) struct FlushArguments {
    /// Nothing new stays dirty from now on, also after a restart, until it is released
    #[arg(long)]
    pub(crate) hold: bool,
    /// Begin it and return; `hotset operations` shows how far it is
    #[arg(long)]
    pub(crate) background: bool,
}

const CONVERTING: &str = "Hosts go on meanwhile. Ctrl-C cancels while dirty data is flushed. If this command or the daemon is killed, the \
    conversion goes on, after the next start too; `hotset operations` shows how far it is.";

#[derive(Args, Debug)]
pub(crate) struct ConvertArguments {
    #[arg(value_parser = PoolName::from_str)]
    pub(crate) name: PoolName,
    /// Cache block, a power of two from 64K to 4M
    #[arg(long, value_name = "SIZE", value_parser = block_size, required_unless_present_any = ["kind", "checksums"])]
    pub(crate) block_size: Option<u64>,
    /// What the pool holds: clean data only, or dirty data too
    #[arg(long = "type", value_name = "TYPE", value_parser = words(PoolKind::ALL))]
    pub(crate) kind: Option<PoolKind>,
    /// Checksums of cached pages, see `pool create`
    #[arg(long, value_name = "on|off", value_parser = settings::on_or_off, action = clap::ArgAction::Set)]
    pub(crate) checksums: Option<bool>,
    /// Show what the pool would be like, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Begin it and return; `hotset operations` shows how far it is
    #[arg(long)]
    pub(crate) background: bool,
    /// Make a read-write pool of block devices that share a physical disk; both copies may be lost with it
    #[arg(long)]
    pub(crate) allow_same_disk: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SsdsArguments {
    #[arg(value_parser = PoolName::from_str)]
    pub(crate) name: PoolName,
    /// Block devices or image files
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub(crate) ssd: Vec<PathBuf>,
    /// Use them although they carry a foreign signature; what they hold is lost
    #[arg(long)]
    pub(crate) force: bool,
    /// Use block devices that share a physical disk with others of the pool
    #[arg(long)]
    pub(crate) allow_same_disk: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PoolCreateArguments {
    #[arg(value_parser = PoolName::from_str)]
    pub(crate) name: PoolName,
    /// What the pool holds: clean data only, or dirty data too
    #[arg(long = "type", value_name = "TYPE", value_parser = words(PoolKind::ALL))]
    pub(crate) kind: PoolKind,
    /// Preset of block size and thresholds
    #[arg(long, value_name = "TYPE", value_parser = words(IoType::ALL))]
    pub(crate) io_type: IoType,
    /// Cache block, a power of two from 64K to 4M; by default the preset's
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub(crate) block_size: Option<u64>,
    /// Reads of a block until it is populated, 1 to 4
    #[arg(long, value_name = "N", value_parser = settings::populate_on_read)]
    pub(crate) populate_on_read: Option<u8>,
    /// Writes of a block until it is populated, 1 to 4, or 0 for never
    #[arg(long, value_name = "N", value_parser = settings::populate_on_write)]
    pub(crate) populate_on_write: Option<u8>,
    /// What is evicted first; by default s3-fifo. auto follows whichever suits best
    #[arg(long, value_parser = words(PolicyKind::ALL))]
    pub(crate) policy: Option<PolicyKind>,
    /// Checksums of cached pages: on (the default), or off, which needs less memory and does not notice a clean page that
    /// rots on an SSD; dirty data always has them
    #[arg(long, value_name = "on|off", value_parser = settings::on_or_off, action = clap::ArgAction::Set)]
    pub(crate) checksums: Option<bool>,
    /// Block devices or image files
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub(crate) ssd: Vec<PathBuf>,
    /// Show what the pool would be like, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Use SSDs that carry a foreign signature; what they hold is lost
    #[arg(long)]
    pub(crate) force: bool,
    /// Make a read-write pool of block devices that share a physical disk; both copies may be lost with it
    #[arg(long)]
    pub(crate) allow_same_disk: bool,
}

const INTERRUPTING: &str = "Ctrl-C cancels the flush. If this command is killed, or its connection breaks, the flush goes \
    on: the same command joins it, and cancel-flush ends it.";

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct RemovalArguments {
    /// Also while hosts use the volume, and without a flush; says how much would be lost, and refuses without --yes-lose-data
    #[arg(long)]
    pub(crate) force: bool,
    /// The dirty data that --force named may be lost
    #[arg(long, requires = "force")]
    pub(crate) yes_lose_data: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeVerb {
    /// Serve a backing device, as it is and in place
    Create {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        /// A block device or file, or emulated:disks=16,level=raid5,size=8G,file=PATH
        #[arg(long, value_name = "DEVICE")]
        backing: String,
        /// The pool that caches it
        #[arg(long, value_parser = PoolName::from_str)]
        pool: Option<PoolName>,
        /// The block that hosts see; by default the backing device's
        #[arg(long, value_name = "BYTES", value_parser = PossibleValuesParser::new(["512", "4096"]).map(|text| if text == "512" { 512_u32 } else { 4096 }))]
        block: Option<u32>,
        /// Refuse writes
        #[arg(long)]
        read_only: bool,
        /// Where writes go in a read-write pool; by default write-back
        #[arg(long, value_parser = words(WriteMode::ALL))]
        mode: Option<WriteMode>,
        /// Whether reads use the cache: on (the default) or off
        #[arg(long, value_name = "on|off", value_parser = settings::on_or_off, action = clap::ArgAction::Set)]
        read_cache: Option<bool>,
    },
    /// List all volumes
    List(TableArguments),
    /// Show a volume with its counters
    Show {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
    },
    /// Change settings: mode (write-back, instant-write-back, write-through, write-around), read-cache, memory-cache (on, off),
    /// read-ahead (auto, off), read-cutoff, write-cutoff (a size, or off), dirty-cap (a size, percent, or auto), cache-min,
    /// cache-max (a size, percent, or off), local (on: it is a block device of the daemon's machine, /dev/hotset/NAME)
    Set {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = VolumeSetting::from_str)]
        settings: Vec<VolumeSetting>,
        /// With local=off: although programs use the device, and get errors
        #[arg(long)]
        force: bool,
    },
    /// Serve what was added to a volume's backing device
    #[command(
        after_help = "The daemon notices by itself within seconds; this says so at once. Its cache and its dirty data stay. \
        Hosts that are connected see the old size until they reconnect; what was added is served to them at once."
    )]
    Grow {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
    },
    /// Check a volume's backing device after a failed flush, or after it was away, and open it again, while hosts use it
    #[command(
        after_help = "The device is closed and opened, its identity and fingerprints are compared, and what is dirty is written to it \
        again. What hosts wrote past the cache and had not flushed may be lost there: the next flush of each of them is an \
        error, so that they know. A device that is not as it was stays closed, and is tried again every 5 s."
    )]
    Clear {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
    },
    /// Show where a page of a volume is now, why reads of it missed, and what would get it into the cache
    Explain {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        /// A byte of the volume, as 4096 or 10G: its page is meant
        #[arg(value_name = "OFFSET", value_parser = Size::from_str)]
        offset: Size,
    },
    /// Take a fenced volume's backing device for the right one, and serve it again
    #[command(
        after_help = "For a volume that serves nothing because its backing device is taken for another one. Prints what speaks for \
        and against the device. What is dirty is written there; what else was cached is dropped. Where more than the device's name \
        speaks against it, this needs --force: what it holds may be newer, or somebody else's."
    )]
    AcceptBacking {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        /// Accept it although what is on it speaks against it
        #[arg(long)]
        force: bool,
        /// Only show what speaks for and against it
        #[arg(long, conflicts_with = "force")]
        dry_run: bool,
    },
    /// Rename a volume, while it serves
    #[command(after_help = "Hosts that are connected go on; from their next connection on they ask for the new name.")]
    Rename {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        #[arg(value_name = "NEW_NAME", value_parser = VolumeName::from_str)]
        to: VolumeName,
    },
    /// Put a pool's cache in front of a volume, while it serves
    EnableCache {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        #[arg(long, value_parser = PoolName::from_str)]
        pool: PoolName,
    },
    /// Flush a volume's dirty data, then take the cache away from it, while it serves
    #[command(after_help = INTERRUPTING)]
    DisableCache {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        #[command(flatten)]
        removal: RemovalArguments,
    },
    /// Flush a volume's dirty data, then stop serving it; its backing device keeps all data
    #[command(after_help = INTERRUPTING)]
    Delete {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        #[command(flatten)]
        removal: RemovalArguments,
    },
    /// Write what is dirty of a volume to the backing device now and make it durable there, while hosts go on
    #[command(after_help = FLUSHING)]
    Flush {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        #[command(flatten)]
        flush: FlushArguments,
    },
    /// End what `volume flush --hold` began: what hosts write may stay dirty again
    Release {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
    },
    /// End the flush of a `volume delete` or `volume disable-cache`: the volume caches writes again
    CancelFlush {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
    },
}

#[derive(Args, Debug)]
pub(crate) struct AdviseArguments {
    /// A volume, or a file with requests; by default all volumes
    #[arg(value_name = "VOLUME|TRACE")]
    pub(crate) source: Option<String>,
    /// Of volumes: the time that counts, by default a week
    #[arg(long, value_parser = words(&WINDOWS))]
    pub(crate) window: Option<AdviceWindow>,
    /// Of volumes: show what was read and written on which day, and what is hot, warm, cold and archived
    #[arg(long)]
    pub(crate) days: bool,
    /// Of a trace: cache block, a power of two from 64K to 4M; by default 1M
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub(crate) block_size: Option<u64>,
    /// Of a trace: what the pool holds, clean data only, or what is written too; by default read-write
    #[arg(long = "type", value_name = "TYPE", value_parser = words(PoolKind::ALL))]
    pub(crate) kind: Option<PoolKind>,
    /// Of a trace: reads of a block until it is populated, 1 to 4; by default 2
    #[arg(long, value_name = "N", value_parser = settings::populate_on_read)]
    pub(crate) populate_on_read: Option<u8>,
    /// Of a trace: streams longer than this go past the cache, a size, or off; by default 4M
    #[arg(long, value_name = "SIZE|off", value_parser = settings::cutoff)]
    pub(crate) cutoff: Option<u64>,
    /// What all SSDs together may be written, as their data sheets say (TBW), in 1000s: for the years that they last if this volume alone writes to them
    #[arg(long, value_name = "TB", value_parser = Endurance::from_str)]
    pub(crate) endurance: Option<Endurance>,
}

const WINDOWS: [(AdviceWindow, &str); 3] =
    [(AdviceWindow::Day, "day"), (AdviceWindow::Week, "week"), (AdviceWindow::All, "all")];

#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    /// Record a volume's reads and writes into a file, for `hotset whatif`
    Record {
        #[arg(value_parser = VolumeName::from_str)]
        name: VolumeName,
        /// How long
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=604_800))]
        seconds: u64,
        /// The file, which must not be there yet: CSV packed by zstd
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// End it when the file is so large
        #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = Size::from_str)]
        limit: Size,
    },
}

const WHAT_A_TRACE_IS: &str = "A trace is text of blkparse, an iolog of fio (version 2 or 3), CSV of the MSR Cambridge traces, or CSV with the header \
    time_us,op,offset_bytes,length_bytes; packed by zstd or not. Where a list is given, every combination is tried. Hits are told in parts of \
    blocks that requests touched.";

#[derive(Args, Clone, Debug)]
pub(crate) struct WhatIfArguments {
    /// A file with requests; or a volume, of which other sizes are known, and with --seconds everything else, too
    #[arg(value_name = "VOLUME|TRACE")]
    pub(crate) source: String,
    /// Sizes of the cache; by default eight, up to all that is accessed
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = Size::from_str)]
    pub(crate) size: Vec<Size>,
    /// Of a volume: record what hosts ask of it for so long, and try that, whatever settings are asked for
    #[arg(long, value_name = "N", conflicts_with = "window", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) seconds: Option<u64>,
    /// Cache blocks, powers of two from 64K to 4M; by default that of the volume's pool, or 1M
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = block_size)]
    pub(crate) block_size: Vec<u64>,
    /// What is evicted first; by default as in the volume's pool, or s3-fifo
    #[arg(long, value_delimiter = ',', value_parser = words(PolicyKind::ALL))]
    pub(crate) policy: Vec<PolicyKind>,
    /// Reads of a block until it is populated, 1 to 4; by default as in the volume's pool, or 2
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = settings::populate_on_read)]
    pub(crate) populate_on_read: Vec<u8>,
    /// Writes of a block until it is populated, 1 to 4, or 0 for never; by default as in the volume's pool, or 1 in a read-write pool, else 0
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = settings::populate_on_write)]
    pub(crate) populate_on_write: Vec<u8>,
    /// What the pool holds: clean data only, or what is written too; by default as the volume's pool, or read-write
    #[arg(long = "type", value_name = "TYPE", value_parser = words(PoolKind::ALL))]
    pub(crate) kind: Option<PoolKind>,
    /// Of a trace, or with --seconds: streams longer than this go past the cache, a size, or off; by default as the volume has it for reads, or 4M
    #[arg(long, value_name = "SIZE|off", value_parser = settings::cutoff)]
    pub(crate) cutoff: Option<u64>,
    /// Of a volume that is watched: the time that counts, by default a week
    #[arg(long, value_parser = words(&WINDOWS))]
    pub(crate) window: Option<AdviceWindow>,
    /// Of a trace, or with --seconds: watch all blocks, however long it takes: nothing is estimated
    #[arg(long)]
    pub(crate) exact: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    /// These pools only, with their volumes; by default the daemon and everything
    #[arg(value_name = "POOL", value_parser = PoolName::from_str)]
    pub(crate) pools: Vec<PoolName>,
    /// Exit with 0 if all is healthy, 1 if something is degraded, 2 if something failed
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct StatsArguments {
    /// A volume: that one only. A number: rates, every so many seconds. Another number: so many times, and then the end
    #[arg(value_name = "VOLUME|INTERVAL|COUNT", num_args = 0..=3, value_parser = StatsWord::from_str)]
    pub(crate) words: Vec<StatsWord>,
    /// Rates, once a second, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) table: TableArguments,
}

/// What stands behind `stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatsWord {
    Volume(VolumeName),
    Number(u64),
}

impl FromStr for StatsWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.chars().all(|c| c.is_ascii_digit()) && !text.is_empty() {
            let number = text.parse().ok().filter(|number| (1..=86_400).contains(number));
            return number.map(Self::Number).ok_or_else(|| format!("{text:?}: it is 1 to 86400"));
        }
        text.parse().map(Self::Volume).map_err(|error: hotset_cache::Error| error.to_string())
    }
}

#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    /// What comes first
    #[arg(long, value_enum, default_value_t = TopOrder::Iops)]
    pub(crate) sort: TopOrder,
    /// End after so many seconds
    #[arg(long)]
    pub(crate) count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopOrder {
    /// Most requests first
    Iops,
    /// Most bytes first
    Bandwidth,
    /// Worst hit ratio first
    HitRatio,
    /// Most data at risk first
    Dirty,
    Name,
}

#[derive(Args, Debug)]
pub(crate) struct EventsArguments {
    /// Go on with what happens, until interrupted
    #[arg(long)]
    pub(crate) follow: bool,
    /// Only events after the one with this number
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<u64>,
    /// Only events since then: so long ago, as 90s, 10m, 2h or 7d, or a time of this machine's zone, as 2026-11-26, "2026-11-26 12:00",
    /// 12:00, today or yesterday. Z behind a time, as events show it, means UTC, +01:00 that zone
    #[arg(long, value_name = "TIME", value_parser = Since::from_str, allow_hyphen_values = true)]
    pub(crate) since: Option<Since>,
    /// Only events that are at least so severe
    #[arg(long, value_enum)]
    pub(crate) severity: Option<LeastSeverity>,
    /// Only the newest so many of them
    #[arg(long, value_name = "COUNT", conflicts_with = "follow")]
    pub(crate) last: Option<usize>,
    /// Only events of this pool, volume or SSD, or of one of these kinds: daemon, pool, volume, ssd
    #[arg(long, value_name = "NAME")]
    pub(crate) subject: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeastSeverity {
    Info,
    Warning,
    Error,
}

impl From<LeastSeverity> for hotset_api::Severity {
    fn from(severity: LeastSeverity) -> Self {
        match severity {
            LeastSeverity::Info => Self::Info,
            LeastSeverity::Warning => Self::Warning,
            LeastSeverity::Error => Self::Error,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct OperationsArguments {
    #[command(flatten)]
    pub(crate) table: TableArguments,
    #[command(subcommand)]
    pub(crate) verb: Option<OperationsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OperationsVerb {
    /// End an operation before it is done
    Cancel { id: u64 },
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCacheVerb {
    /// Show its size and what is used of it
    Show,
    /// Change its size while hosts read, for later runs too
    Set {
        /// As 512M or 4G; 0 for none; `default` for what the configuration says
        size: MemoryCacheSize,
    },
}

/// The size that the memory cache is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryCacheSize {
    Configured,
    Bytes(u64),
}

impl MemoryCacheSize {
    /// `None`: as configured.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Configured => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

impl FromStr for MemoryCacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Configured),
            "off" => Ok(Self::Bytes(0)),
            _ => text.parse().map(|Size(bytes)| Self::Bytes(bytes)),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token, and show it this once
    Create {
        /// 1 to 64 characters of A-Z a-z 0-9 - _ .
        name: String,
        /// What it allows
        #[arg(long, value_enum)]
        role: TokenRole,
    },
    /// List the tokens by name
    List(TableArguments),
    /// Take a token back: nobody gets in with it any more
    Delete { name: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// Look, and change nothing
    View,
    /// Everything
    Admin,
}

impl From<TokenRole> for hotset_api::Role {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::View => Self::View,
            TokenRole::Admin => Self::Admin,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ApplyArguments {
    /// The site file, as `hotset export` writes it; - is standard input
    pub(crate) file: PathBuf,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Say whether the configuration file is right, and if not, where
    Check {
        /// The file; by default /etc/hotset/hotset.toml
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl Shell {
    #[cfg(test)]
    pub(crate) const ALL: &[Self] = &[Self::Bash, Self::Zsh, Self::Fish, Self::Elvish, Self::Powershell];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Elvish => "elvish",
            Self::Powershell => "powershell",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Make a fully written image file
    Create {
        path: PathBuf,
        #[arg(value_parser = Size::from_str)]
        size: Size,
    },
}

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// About how long the measurements take in all
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=3600))]
    pub(crate) seconds: u64,
    /// Scratch directory; by default a fresh one where temporary files go
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Keep it up afterwards, and print how to reach it
    #[arg(long)]
    pub(crate) serve: bool,
}

/// Parses a word of the engine's, and lets clap list and complete all of them.
fn words<T>(all: &'static [(T, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|(_, word)| *word)).map(|text: String| {
        let found = all.iter().find(|(_, word)| *word == text);
        found.map(|(value, _)| *value).expect("clap lets only possible values through")
    })
}

fn block_size(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    BlockBytes::new(bytes).map(BlockBytes::get).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_documented_verb_is_understood() {
        for line in [
            "hotset serve --config /c --state /s --api unix:/a --api tcp:127.0.0.1:1 --nbd unix:/n --nbd tcp:0.0.0.0:10809",
            "hotset pool create p --type read --io-type custom --block-size 1M --populate-on-read 1 --populate-on-write 0 --policy lru --ssd a b --ssd c --dry-run --force",
            "hotset pool list",
            "hotset pool show p",
            "hotset pool set p policy=lru fetch-rate=high io-type=database",
            "hotset pool convert p --checksums off",
            "hotset pool delete p",
            "hotset pool create p --type read-write --io-type database --checksums off --ssd a b --allow-same-disk",
            "hotset pool set p flush-rate=high dirty-watermark=40 dirty-age=10m",
            "hotset pool delete p --force --yes-lose-data",
            "hotset notify test",
            "hotset pool cancel-flush p",
            "hotset pool flush p --hold --background",
            "hotset pool release p",
            "hotset volume create v --backing a --pool p --mode write-through --read-cache off",
            "hotset volume set v mode=write-around read-cache=on",
            "hotset volume delete v --force",
            "hotset volume disable-cache v --force --yes-lose-data",
            "hotset volume cancel-flush v",
            "hotset volume flush v --hold --background",
            "hotset volume release v",
            "hotset volume accept-backing v --force",
            "hotset volume accept-backing v --dry-run",
            "hotset pool import --ssd a b --accept-missing",
            "hotset pool import --ssd a b --force",
            "hotset pool open p",
            "hotset volume create v --backing emulated:disks=16,level=raid5,size=8G,file=x --pool p --block 4096 --read-only",
            "hotset volume list -o json",
            "hotset volume show v",
            "hotset volume set v read-cutoff=4M write-cutoff=off",
            "hotset volume enable-cache v --pool p",
            "hotset volume disable-cache v",
            "hotset volume delete v",
            "hotset status --check --api unix:/a",
            "hotset stats v --watch",
            "hotset udev-rules",
            "hotset top --sort hit-ratio --count 3",
            "hotset whatif t.csv.zst --size 1G,8G --size 64G --block-size 64K,1M --policy lru --populate-on-read 1,2 --cutoff off --exact",
            "hotset advise t.csv.zst --block-size 256K --type read --populate-on-read 1 --cutoff off --endurance 600T",
            "hotset volume explain v 10G",
            "hotset advise",
            "hotset advise v --window day --days --endurance 600T",
            "hotset whatif v --size 1G,8G --window all",
            "hotset whatif v --seconds 60 --block-size 64K,1M --policy lru --cutoff off",
            "hotset trace record v --seconds 60 --out t.csv.zst --limit 100M",
            "hotset whatif t --type read --populate-on-write 0 -o json",
            "hotset events --follow --after 7",
            "hotset events --since 2h --severity warning --last 20 --subject fast",
            "hotset events --since 2026-11-26T12:00",
            "hotset events --since -2h",
            "hotset events --since yesterday --follow",
            "hotset pool list -o pool,used --sort=-used --no-headings --bytes",
            "hotset stats v 5 3",
            "hotset stats 5",
            "hotset status p q",
            "hotset operations",
            "hotset operations cancel 3",
            "hotset token create grafana --role view",
            "hotset token list",
            "hotset token delete grafana",
            "hotset image create f 1G",
            "hotset demo --seconds 30 --dir /d --serve",
            "hotset config check --config /c",
            "hotset export",
            "hotset apply site.toml --dry-run",
            "hotset completions bash",
            "hotset man --dir /m",
        ] {
            parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn every_bad_argument_is_refused_with_its_rule() {
        for (line, part) in [
            ("hotset pool create seventeen-letters --type read --io-type custom --ssd a", "1 to 16 characters"),
            ("hotset pool create p/q --type read --io-type custom --ssd a", "A-Z a-z 0-9 - _ < >"),
            ("hotset pool create p --type raid --io-type custom --ssd a", "read, read-write"),
            ("hotset pool create p --type read --io-type mail --ssd a", "web-service"),
            ("hotset pool create p --type read --io-type custom --ssd", "--ssd"),
            ("hotset pool create p --type read --io-type custom", "--ssd"),
            ("hotset pool create p --io-type custom --ssd a", "--type"),
            ("hotset pool create p --type read --io-type custom --block-size 3M --ssd a", "power of two"),
            ("hotset pool create p --type read --io-type custom --block-size 32K --ssd a", "64 KiB to 4 MiB"),
            ("hotset pool create p --type read --io-type custom --block-size big --ssd a", "not a size"),
            ("hotset pool create p --type read --io-type custom --populate-on-read 0 --ssd a", "1 to 4"),
            ("hotset pool create p --type read --io-type custom --populate-on-write 5 --ssd a", "0 (off) to 4"),
            ("hotset pool create p --type read --io-type custom --policy mru --ssd a", "s3-fifo"),
            ("hotset pool set p", "KEY=VALUE"),
            ("hotset pool set p block-size=1M", "pool convert"),
            ("hotset pool set p name=q", "cannot change"),
            ("hotset pool convert p", "--block-size"),
            ("hotset pool create p --type read --io-type custom --checksums no --ssd a", "on or off"),
            ("hotset pool import", "--ssd"),
            ("hotset volume create .v --backing a", "does not start with a dot"),
            ("hotset volume create v", "--backing"),
            ("hotset volume create v --backing a --block 1024", "512, 4096"),
            ("hotset volume create v --backing a --mode fast", "instant-write-back"),
            ("hotset volume create v --backing a --read-cache yes", "on or off"),
            ("hotset volume delete v --yes-lose-data", "--force"),
            ("hotset volume set v read-cutoff=lots", "not a size"),
            ("hotset volume enable-cache v", "--pool"),
            ("hotset status --api somewhere", "unix:PATH or tcp:ADDRESS:PORT"),
            ("hotset demo --seconds 1", "10..=3600"),
            ("hotset image create f huge", "not a size"),
            ("hotset whatif v --seconds 0", "1..=604800"),
            ("hotset whatif v --seconds 9 --window all", "cannot be used with"),
            ("hotset whatif t --size 1G,big", "not a size"),
            ("hotset whatif t --block-size 3M", "power of two"),
            ("hotset whatif t --populate-on-read 0", "1 to 4"),
            ("hotset advise v --endurance 546TiB", "as data sheets do"),
            ("hotset whatif t --cutoff never", "or off"),
            ("hotset frobnicate", "frobnicate"),
            ("hotset pool list -o name,", "names of columns"),
            ("hotset events --since soon", "90s, 10m, 2h or 7d"),
            ("hotset events --severity loud", "warning"),
            ("hotset stats 0", "1 to 86400"),
        ] {
            let error = parse(line).err().unwrap_or_else(|| panic!("{line} was accepted"));
            assert_eq!(error.exit_code(), 2, "{line}");
            let message = error.to_string();
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
