//! The rooms of the daemon, put together: what opens, what changes and what reports. The one place that knows all of them, and that has
//! the order of what takes several.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use hotset_api::{Subject, SubjectKind};
use tokio::sync::Notify;

use super::changes::Shown;
use super::changing::accept::Acceptance;
use super::changing::convert::Conversions;
use super::changing::create::Creation;
use super::changing::flush::{Draining, Flushes};
use super::changing::flush_now::FlushesNow;
use super::changing::losses::Losses;
use super::changing::members::Members;
use super::changing::memory_cache::MemoryCaching;
use super::changing::operating::Operating;
use super::changing::operations::Operations;
use super::changing::pools::Pools;
use super::changing::recordings::Recordings;
use super::changing::removal::Removals;
use super::changing::rewrite::Rewriting;
use super::changing::scrub::Scrubs;
use super::changing::volumes::Volumes;
use super::config::Config;
use super::counters::Counters;
use super::history;
use super::opening::awaited::AwaitedSsds;
use super::opening::converting::Converting;
use super::opening::devices::Devices;
use super::opening::guard::Guard;
use super::opening::local_devices::LocalDevices;
use super::opening::moved_devices::MovedDevices;
use super::opening::offline_ssds::OfflineSsds;
use super::opening::prober::Prober;
use super::opening::recognise::Backings;
use super::opening::records::Records;
use super::opening::scan::Scanner;
use super::opening::second_writers::SecondWriters;
use super::opening::serve::Serving;
use super::opening::spares::Spares;
use super::opening::start::Opening;
use super::opening::unread::UnreadRecords;
use super::opening::upkeep::Upkeep;
use super::register::ConditionRegister;
use super::reporting::found::Disks;
use super::reporting::ssds::Drives;
use super::reporting::status::Reporting;
use super::smart::KnownDrives;
use super::state::StateDirectory;
use super::tokens::Tokens;
use crate::plane::Handle;

/// What answers administrators.
pub(crate) struct Rooms {
    pub(crate) records: Arc<Records>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) opening: Arc<Opening>,
    pub(crate) local: Arc<LocalDevices>,
    awaited: Arc<AwaitedSsds>,
    moved: Arc<MovedDevices>,
    second_writers: Arc<SecondWriters>,
    spares: Arc<Spares>,
    offline_ssds: Arc<OfflineSsds>,
    unread: Arc<UnreadRecords>,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) creation: Arc<Creation>,
    pub(crate) members: Arc<Members>,
    pub(crate) memory: Arc<MemoryCaching>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) losses: Arc<Losses>,
    pub(crate) acceptance: Arc<Acceptance>,
    pub(crate) draining: Arc<Draining>,
    pub(crate) flushes_now: Arc<FlushesNow>,
    pub(crate) removals: Arc<Removals>,
    pub(crate) conversions: Arc<Conversions>,
    pub(crate) operating: Arc<Operating>,
    scrubs: Arc<Scrubs>,
    pub(crate) recordings: Arc<Recordings>,
    pub(crate) reporting: Arc<Reporting>,
    pub(crate) drives: Arc<Drives>,
    pub(crate) disks: Arc<Disks>,
}

impl Rooms {
    pub(crate) fn new(
        plane: Handle,
        state: StateDirectory,
        config: Config,
        register: ConditionRegister,
        counters: Counters,
    ) -> Self {
        let records = Arc::new(Records::new(plane, state, config, register));
        let converting = Arc::new(Converting { records: Arc::clone(&records), known: Mutex::default() });
        let devices =
            Arc::new(Devices { records: Arc::clone(&records), scanner: Scanner::default(), prober: Prober::default() });
        let moved = Arc::new(MovedDevices { records: Arc::clone(&records), devices: Arc::clone(&devices) });
        let offline_ssds = Arc::new(OfflineSsds { records: Arc::clone(&records), devices: Arc::clone(&devices) });
        let second_writers = Arc::new(SecondWriters { records: Arc::clone(&records), devices: Arc::clone(&devices) });
        let spares = Arc::new(Spares { records: Arc::clone(&records), devices: Arc::clone(&devices) });
        let guard = Arc::new(Guard::new(Arc::clone(&records)));
        let backings = Arc::new(Backings {
            records: Arc::clone(&records),
            devices: Arc::clone(&devices),
            known: Mutex::new(records.state.backings()),
        });
        let serving = Arc::new(Serving {
            records: Arc::clone(&records),
            devices: Arc::clone(&devices),
            backings: Arc::clone(&backings),
        });
        let local = Arc::new(LocalDevices::new(Arc::clone(&records)));
        let awaited = Arc::new(AwaitedSsds { records: Arc::clone(&records), devices: Arc::clone(&devices) });
        let opening = Arc::new(Opening {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            devices: Arc::clone(&devices),
            guard: Arc::clone(&guard),
            serving: Arc::clone(&serving),
            awaited: Arc::clone(&awaited),
        });
        let unread = Arc::new(UnreadRecords {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            serving: Arc::clone(&serving),
            opening: Arc::clone(&opening),
        });
        let upkeep = Arc::new(Upkeep {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            backings: Arc::clone(&backings),
            guard: Arc::clone(&guard),
        });
        let operations = Arc::new(Operations::telling(records.changes.clone()));
        let flushes = Arc::new(Flushes::among(Arc::clone(&operations)));
        let creation = Arc::new(Creation {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            devices: Arc::clone(&devices),
            operations: Arc::clone(&operations),
        });
        let draining = Arc::new(Draining {
            records: Arc::clone(&records),
            flushes: Arc::clone(&flushes),
            operations: Arc::clone(&operations),
        });
        let members = Arc::new(Members {
            records: Arc::clone(&records),
            devices: Arc::clone(&devices),
            opening: Arc::clone(&opening),
            creation: Arc::clone(&creation),
            operations: Arc::clone(&operations),
        });
        let pools = Arc::new(Pools {
            records: Arc::clone(&records),
            devices: Arc::clone(&devices),
            converting: Arc::clone(&converting),
            opening: Arc::clone(&opening),
        });
        let volumes = Arc::new(Volumes {
            records: Arc::clone(&records),
            devices: Arc::clone(&devices),
            guard: Arc::clone(&guard),
            backings: Arc::clone(&backings),
            flushes: Arc::clone(&flushes),
            local: Arc::clone(&local),
            history: OnceLock::new(),
            renamed: Mutex::default(),
        });
        let scrubs = Arc::new(Scrubs {
            records: Arc::clone(&records),
            operations: Arc::clone(&operations),
            saving: tokio::sync::Mutex::default(),
        });
        let flushes_now = Arc::new(FlushesNow { records: Arc::clone(&records), operations: Arc::clone(&operations) });
        let losses = Arc::new(Losses { records: Arc::clone(&records), serving: Arc::clone(&serving) });
        let acceptance = Arc::new(Acceptance {
            records: Arc::clone(&records),
            backings: Arc::clone(&backings),
            serving: Arc::clone(&serving),
            guard: Arc::clone(&guard),
        });
        let removals = Arc::new(Removals {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            serving: Arc::clone(&serving),
            guard: Arc::clone(&guard),
            backings: Arc::clone(&backings),
            volumes: Arc::clone(&volumes),
            local: Arc::clone(&local),
            draining: Arc::clone(&draining),
            flushes: Arc::clone(&flushes),
            operations: Arc::clone(&operations),
        });
        let rewriting = Arc::new(Rewriting {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            opening: Arc::clone(&opening),
            guard: Arc::clone(&guard),
            volumes: Arc::clone(&volumes),
        });
        let conversions = Arc::new(Conversions {
            records: Arc::clone(&records),
            converting: Arc::clone(&converting),
            creation: Arc::clone(&creation),
            draining: Arc::clone(&draining),
            flushes: Arc::clone(&flushes),
            operations: Arc::clone(&operations),
            rewriting: Arc::clone(&rewriting),
            resumed: Mutex::default(),
            undone: Notify::new(),
        });
        let operating = Arc::new(Operating {
            records: Arc::clone(&records),
            operations: Arc::clone(&operations),
            flushes: Arc::clone(&flushes),
            draining: Arc::clone(&draining),
            removals: Arc::clone(&removals),
            scrubs: Arc::clone(&scrubs),
            flushes_now: Arc::clone(&flushes_now),
            members: Arc::clone(&members),
        });
        let recordings = Arc::new(Recordings { records: Arc::clone(&records) });
        let drives =
            Arc::new(Drives { records: Arc::clone(&records), known: KnownDrives::new(records.state.ssd_ledger()) });
        let memory = Arc::new(MemoryCaching::new(Arc::clone(&records)));
        let reporting = Arc::new(Reporting {
            records: Arc::clone(&records),
            memory: Arc::clone(&memory),
            converting: Arc::clone(&converting),
            backings: Arc::clone(&backings),
            flushes: Arc::clone(&flushes),
            operations: Arc::clone(&operations),
            drives: Arc::clone(&drives),
            counters,
            recent: Mutex::default(),
            nbd: OnceLock::new(),
            started: Instant::now(),
        });
        let disks = Arc::new(Disks {
            records: Arc::clone(&records),
            devices: Arc::clone(&devices),
            drives: Arc::clone(&drives),
        });
        Self {
            records,
            guard,
            serving,
            opening,
            local,
            awaited,
            moved,
            second_writers,
            spares,
            offline_ssds,
            unread,
            upkeep,
            creation,
            members,
            memory,
            pools,
            volumes,
            losses,
            acceptance,
            draining,
            flushes_now,
            removals,
            conversions,
            operating,
            scrubs,
            recordings,
            reporting,
            drives,
            disks,
        }
    }

    /// Opens every recorded pool and volume, and pools whose SSDs turn up in the scan, and goes on with conversions. Missing SSDs are
    /// waited for; `first_pass` is told when everything that need not wait has been opened.
    pub(crate) async fn start(&self, first_pass: Arc<Notify>) {
        let conversions = Arc::clone(&self.conversions);
        let then = async move {
            conversions.resume_conversions().await;
            tokio::spawn(conversions.follow_conversions());
            first_pass.notify_one();
        };
        self.opening.start(then).await;
    }

    /// Whoever asks now changed something.
    pub(crate) fn note(&self, kind: SubjectKind, name: &str, change: impl Into<String>) {
        self.records.changes.note(Subject::new(kind, name), change);
    }

    /// The same of what the status shows, too.
    pub(crate) fn note_shown(&self, kind: SubjectKind, name: &str, shown: Shown) {
        self.records.changes.note_shown(Subject::new(kind, name), shown);
    }

    /// Keeps what administrators ask for up to date, in the background, until the runtime ends.
    pub(crate) fn keep_up(&self, tokens: Arc<Tokens>, history: history::HistoryHandle) {
        tokio::spawn(Arc::clone(&self.reporting).sample(history));
        tokio::spawn(Arc::clone(&self.members).follow_members());
        tokio::spawn(Arc::clone(&self.volumes).follow_growth());
        tokio::spawn(Arc::clone(&self.volumes).reopen_closed());
        tokio::spawn(Arc::clone(&self.local).keep_connected());
        tokio::spawn(Arc::clone(&self.moved).watch_paths());
        tokio::spawn(Arc::clone(&self.second_writers).watch());
        tokio::spawn(Arc::clone(&self.spares).watch());
        tokio::spawn(Arc::clone(&self.offline_ssds).watch());
        tokio::spawn(Arc::clone(&self.upkeep).keep_records());
        tokio::spawn(Arc::clone(&self.unread).read_records_again(tokens));
        tokio::spawn(Arc::clone(&self.awaited).watch_awaited());
        tokio::spawn(Arc::clone(&self.scrubs).keep_records());
    }
}
