//! SSDs that do not answer (rule `membership`): silence is not death.
//!
//! An SSD that is silent for [`limits::SSD_TIMEOUT`] leaves, if the pool can go on without it: another one answers, and has a
//! copy of everything that the silent one holds. Else it is *suspect*, and waited for: several that fall silent together
//! share a controller, a path or a file system, and nothing of what they hold is lost. Nothing is recorded then. What waits
//! for them waits; hosts' other reads and writes go to the backing devices.

use std::rc::Rc;

use hotset_block::Env;
use hotset_block::sync::Semaphore;

use crate::clean::Clean;
use crate::config::{PoolKind, PoolName, limits};
use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::members::Members;
use crate::members::label::newest_superblock;
use crate::members::life::LifeChange;
use crate::members::pool_life::PoolLife;
use crate::members::ssd::Ssd;
use crate::members::watch::{Silence, Verdict};
use crate::pool::join::Joiner;
use crate::reasons::{OutOfUse, SsdReason};
use crate::volume::place::PoolRooms;

/// Who watches over SSDs that do not answer, or take no writes.
pub(crate) struct SsdWatch<E: Env> {
    env: E,
    name: PoolName,
    kind: PoolKind,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    log: Option<Rc<Log<E>>>,
    admin_lock: Rc<Semaphore>,
    joiner: Rc<Joiner<E>>,
}

impl<E: Env> SsdWatch<E> {
    pub(super) fn new(pool: &PoolRooms<E>, joiner: &Rc<Joiner<E>>) -> Self {
        Self {
            env: pool.env.clone(),
            name: pool.name.clone(),
            kind: pool.kind,
            life: Rc::clone(&pool.life),
            members: Rc::clone(&pool.members),
            clean: Rc::clone(&pool.clean),
            log: pool.log.clone(),
            admin_lock: Rc::clone(&pool.admin_lock),
            joiner: Rc::clone(joiner),
        }
    }

    /// Finds out which SSDs do not answer, and what is to be done about them. Called every quarter of the time-out.
    pub(crate) fn watch_ssds(self: &Rc<Self>) {
        let slow = |ssd: &Rc<Ssd<E>>| ssd.life().is_suspect() || ssd.oldest_operation() > limits::SSD_TIMEOUT / 4;
        if !self.members.online_ssds().any(slow) {
            return;
        }
        let online: Vec<Rc<Ssd<E>>> = self.members.online_ssds().cloned().collect();
        for ssd in &online {
            // Whether one that has nothing to do answers shows only if it is asked.
            if !ssd.is_busy() || ssd.life().is_suspect() {
                self.probe(ssd);
            }
        }
        for ssd in online {
            match self.silence_of(&ssd).verdict() {
                Verdict::Answers => {
                    if !ssd.is_probed() {
                        self.ssd_answers(&ssd);
                    }
                }
                Verdict::Suspect if self.life.is_stopping() => self.stop_without(&ssd),
                Verdict::Suspect => self.suspect(&ssd),
                Verdict::Leaves => {
                    let seconds = ssd.oldest_operation().as_secs();
                    self.members.take_out(&ssd, LifeChange::LeftSilent, OutOfUse::DidNotAnswer { seconds });
                }
            }
        }
    }

    fn silence_of(&self, ssd: &Rc<Ssd<E>>) -> Silence {
        let others = || self.members.online_ssds().filter(|other| !Rc::ptr_eq(other, ssd));
        let answers =
            |other: &Rc<Ssd<E>>| other.life().may_be_read() && other.oldest_operation() <= limits::SSD_TIMEOUT / 4;
        let another_answers = others().any(answers);
        let holds_last_copy = self.log.as_ref().is_some_and(|log| log.mirrorer().holds_last_copy(ssd, answers));
        let dirty = self.log.as_ref().is_some_and(|log| log.has_something_dirty());
        Silence {
            lasts: ssd.oldest_operation(),
            holds_log: self.kind == PoolKind::ReadWrite,
            another_answers,
            holds_last_copy,
            dirty,
        }
    }

    /// Why an SSD is not simply in use, or what is wrong with one that is.
    pub(crate) fn reason_of(&self, ssd: &Ssd<E>) -> Option<SsdReason> {
        if ssd.life().is_suspect() {
            return Some(SsdReason::NotAnswering { seconds: ssd.oldest_operation().as_secs() });
        }
        let Some(why) = ssd.out_of_use() else { return ssd.doubt().map(SsdReason::Doubt) };
        if ssd.life().is_silent() {
            return Some(SsdReason::WithoutIt { why });
        }
        let Some(refusal) = ssd.refusal() else { return Some(SsdReason::OutOfUse { why }) };
        let only_here_bytes = self.log.as_ref().map_or(0, |log| log.data_loss().bytes_only_on(ssd));
        Some(SsdReason::TakesNoWrites { why, only_here_bytes, may_pass: refusal.may_pass() })
    }

    /// It is waited for, and gets nothing new; what can be had without it is.
    fn suspect(&self, ssd: &Ssd<E>) {
        if ssd.change(LifeChange::FellSilent) {
            ssd.fell_silent();
            self.clean.fills().wake_pump();
            if let Some(log) = &self.log {
                log.signals().room.wake_all();
            }
        }
    }

    /// It is what it was before.
    fn ssd_answers(self: &Rc<Self>, ssd: &Ssd<E>) {
        if ssd.change(LifeChange::Answered) {
            self.joiner.members_changed();
        }
    }

    /// The pool stops and cannot wait: everything stays where it is, and the next start finds it as after a crash.
    fn stop_without(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let seconds = ssd.oldest_operation().as_secs();
        let why = OutOfUse::SilentAtStop { seconds };
        self.life.fence_first(|| Error::new(ErrorKind::Gone, format!("pool {}: SSD {}: {why}", self.name, ssd.path)));
        ssd.go_offline(LifeChange::Failed, why);
        self.clean.ssds().went_out_of_use(ssd.index);
        for other in self.members.ssds() {
            other.left_event.wake_all();
        }
        if let Some(log) = &self.log {
            log.appends().refuse_appends();
        }
    }

    /// Asks the SSD for something harmless that it can do only if it answers and takes writes: the second copy of its
    /// superblock is read and written as it is.
    fn probe(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        if !ssd.begin_probe() {
            return;
        }
        let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let probed = ssd.write_superblock_again().await;
            ssd.end_probe();
            match probed {
                Ok(()) if ssd.oldest_operation() <= limits::SSD_TIMEOUT => pool.ssd_answers(&ssd),
                Ok(()) => {}
                Err(fault) => pool.members.ssd_failed(&ssd, &fault),
            }
        });
    }

    // ---- SSDs that take no writes

    /// Looks whether SSDs that take no writes are still there, and whether they take them again. Called by the watchdog. A stop waits
    /// for what is in flight on them, too: it ends when they do not answer.
    pub(crate) fn watch_read_only(self: &Rc<Self>) {
        for ssd in self.members.ssds().filter(|ssd| ssd.life().is_read_only()) {
            if ssd.oldest_operation() > limits::SSD_TIMEOUT {
                let seconds = ssd.oldest_operation().as_secs();
                self.members.expel(ssd, OutOfUse::RefusedThenSilent { seconds });
            } else if !self.life.is_stopping()
                && ssd.may_pass()
                && !ssd.is_busy()
                && self.joiner.may_return(ssd)
                && ssd.begin_probe()
            {
                let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
                self.env.spawn(async move {
                    pool.try_again(&ssd).await;
                    ssd.end_probe();
                });
            }
        }
    }

    async fn try_again(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let Ok(device) = ssd.device() else { return };
        let (Some(Ok(())), false) = (self.members.probe_device(&device).await, self.life.is_stopping()) else { return };
        let Ok(bytes) = self.members.read_label(&ssd.path, &device).await else { return };
        let Ok(Some(superblock)) = newest_superblock(&bytes) else { return };
        let fits = superblock.ssd_uuid == ssd.uuid && self.joiner.may_return(ssd);
        if fits && self.joiner.check_room_for(&[superblock.layout]).is_ok() {
            // What fails now is tried again.
            let _ = self.joiner.join_again(ssd.path.clone(), device, superblock).await;
        }
    }
}
