//! Who has the SSDs (rule `one-machine`): a pool is used by one machine at a time.
//!
//! While a pool is open it moves a mark on each of its SSDs every few seconds (`format/owner.rs`). Whoever wants to open it looks at
//! the marks first: those of another owner are watched, and if one moves the pool is not touched. An open pool looks at its marks
//! before it moves them: if somebody else's is there, it stops at once and writes nothing more. A clean stop says so in the
//! marks.
//!
//! A mark is written past everything that watches SSDs: one that hangs or fails holds nobody up, and no SSD leaves for it.
//! What it says of a daemon that does not run (stopped, frozen, moved with its machine) is what it said last: after a pause
//! nothing is written before the marks were looked at, of which one is enough. An SSD whose mark hangs while somebody waits for that
//! is as silent as with any other operation. What was on its way to the devices when the pause began cannot be called back.

use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::{Device, Env, Machine};

use crate::config::limits;
use crate::date::date_and_time;
use crate::error::{Error, ErrorKind};
use crate::format::layout::OWNER_OFFSET;
use crate::format::owner::{OWNER_BYTES, Owner};
use crate::members::Members;
use crate::members::label::{LABEL_BYTES, Named, newest_superblock};
use crate::members::life::LifeChange;
use crate::members::ownership::{
    FirstLook, MarkFound, MarkWriter, Ownership, SecondLook, first_look, is_of_this_run, second_look,
};
use crate::members::spare::Spare;
use crate::members::ssd::Ssd;
use crate::reasons::{OutOfUse, VolumeFence};
use crate::time_limit::within;

/// Time after which what was read of a mark may be old when it is written over.
const READ_IS_OLD: Duration = Duration::from_secs(2);

/// Whose mark may be passed over if it does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// That of an earlier run of this daemon, or of another one on this machine.
    Own,
    /// That of another machine, too, because somebody says that it does not come back.
    Forced,
}

/// An SSD whose mark is looked at.
struct Marked<'a, D> {
    path: &'a str,
    device: &'a D,
}

/// Looks who has these SSDs, whatever pool they are of. Marks that do not move, and that `takeover` allows to pass over, say from
/// then on that their owner is gone: who opens the pool next need not wait. SSDs without a mark, or that do not answer, say nothing.
///
/// # Errors
/// `OtherMachine`: somebody else uses one of the SSDs, or another machine did, has not ended cleanly and `takeover` is
/// [`Takeover::Own`].
pub async fn dismiss_owner<E: Env>(env: &E, ssds: &[Named<E::Device>], takeover: Takeover) -> Result<(), Error> {
    let marked = marked(ssds);
    let Some(marks) = allowed::<E>(env, &marked, takeover).await? else { return Ok(()) };
    let gone = marks.after.iter().zip(&marked).filter_map(|(mark, marked)| Some((mark.as_ref()?, marked)));
    let gone = gone.filter(|(mark, _)| mark.in_use && MarkWriter::of(&env.machine(), Some(mark)) != MarkWriter::Us);
    let dismissals = gone.map(async |(mark, marked)| {
        let mark = Owner { in_use: false, counter: mark.counter + 1, ..mark.clone() };
        within(env, limits::SSD_TIMEOUT, write_mark::<E>(env, marked.device, &mark)).await
    });
    join_all(dismissals).await;
    Ok(())
}

/// The same for somebody who only reads the SSDs: their marks stay.
///
/// # Errors
/// As of [`dismiss_owner`].
pub async fn check_owner<E: Env>(env: &E, ssds: &[Named<E::Device>], takeover: Takeover) -> Result<(), Error> {
    allowed::<E>(env, &marked(ssds), takeover).await.map(drop)
}

fn marked<D>(ssds: &[Named<D>]) -> Vec<Marked<'_, D>> {
    ssds.iter().map(|ssd| Marked { path: &ssd.path, device: &ssd.device }).collect()
}

/// The marks, if whoever wrote them had to be watched, and may be passed over.
async fn allowed<E: Env>(
    env: &E,
    marked: &[Marked<'_, E::Device>],
    takeover: Takeover,
) -> Result<Option<WatchedMarks>, Error> {
    let watched = watch::<E>(env, marked).await?;
    match &watched {
        Some(WatchedMarks { looked: SecondLook::Left(index), .. }) if takeover == Takeover::Own => {
            Err(left(marked[*index].path, watched.as_ref().and_then(|watched| watched.after[*index].as_ref())))
        }
        Some(_) | None => Ok(watched),
    }
}

/// Whether the marks on these SSDs have to be watched before somebody uses them, because their owner may live.
pub async fn may_have_owner<E: Env>(env: &E, ssds: &[Named<E::Device>]) -> bool {
    first_look(&env.machine(), &look_at_all::<E>(env, &marked(ssds)).await) == FirstLook::Watch
}

/// Looks whether somebody else uses one of these SSDs now, whose content is to be discarded.
///
/// # Errors
/// `OtherMachine`: somebody does.
pub async fn refuse_living<E: Env>(env: &E, ssds: &[Named<E::Device>]) -> Result<(), Error> {
    watch::<E>(env, &marked(ssds)).await.map(drop)
}

/// Marks that were watched, and did not move.
struct WatchedMarks {
    after: Vec<Option<Owner>>,
    looked: SecondLook,
}

/// Another machine is the last that used it.
fn left(path: &str, mark: Option<&Owner>) -> Error {
    let (name, seen) = mark.map_or_else(Default::default, |mark| (mark.name.clone(), mark.unix_seconds));
    let message = format!(
        "SSD {path}: its pool was in use by another machine, {name}, until {} by the clock there, and was not stopped cleanly; its \
         mark does not move now, but that machine may come back and write",
        date_and_time(seen)
    );
    Error::new(ErrorKind::OtherMachine, message)
}

/// The marks, if whoever wrote them had to be watched. `Err`: they moved.
async fn watch<E: Env>(env: &E, marked: &[Marked<'_, E::Device>]) -> Result<Option<WatchedMarks>, Error> {
    let us = env.machine();
    let before = look_at_all::<E>(env, marked).await;
    match first_look(&us, &before) {
        FirstLook::Open | FirstLook::OpenAndLook => return Ok(None),
        FirstLook::Watch => env.sleep(limits::OWNER_WATCH).await,
    }
    let after = look_at_all::<E>(env, marked).await;
    let looked = second_look(&us, &before, &after);
    if let SecondLook::Alive(index) = looked {
        return Err(alive(marked[index].path, after[index].as_ref()));
    }
    Ok(Some(WatchedMarks { after, looked }))
}

fn alive(path: &str, mark: Option<&Owner>) -> Error {
    let (name, since) = mark.map_or_else(Default::default, |mark| (mark.name.clone(), mark.since_unix_seconds));
    let message = format!(
        "SSD {path}: its pool is in use by another machine, or by another daemon: {name}, since {} by the clock there; its mark \
         moved while it was looked at. Stop Hotset there first: nothing else helps while it runs",
        date_and_time(since)
    );
    Error::new(ErrorKind::OtherMachine, message)
}

async fn look_at_all<E: Env>(env: &E, marked: &[Marked<'_, E::Device>]) -> Vec<Option<Owner>> {
    let looks = marked.iter().map(|marked| within(env, limits::SSD_TIMEOUT, look_at::<E>(env, marked.device)));
    join_all(looks).await.into_iter().map(Option::flatten).collect()
}

/// The mark on an SSD of any pool.
async fn look_at<E: Env>(env: &E, device: &E::Device) -> Option<Owner> {
    let (bytes, read) = device.read(0, env.buffers().take(LABEL_BYTES)).await;
    read.ok()?;
    mark_in(&bytes, newest_superblock(&bytes).ok()??.ssd_uuid)
}

/// The mark in the first [`LABEL_BYTES`] of an SSD. One that was left there by another pool says nothing.
pub(crate) fn mark_in(label: &[u8], ssd_uuid: u128) -> Option<Owner> {
    let start = usize::try_from(OWNER_OFFSET).expect("what lies in memory has an address");
    let mark = Owner::decode(label.get(start..start + OWNER_BYTES)?).ok()??;
    (mark.ssd_uuid == ssd_uuid).then_some(mark)
}

/// Whatever mark is there, also one of another pool that was made on the SSD.
async fn read_mark<E: Env>(env: &E, device: &E::Device) -> Option<Owner> {
    let (bytes, read) = device.read(OWNER_OFFSET, env.buffers().take(OWNER_BYTES)).await;
    read.ok()?;
    Owner::decode(&bytes).ok()?
}

/// Durably, where it says for good who has an SSD, or has it no more.
async fn write_mark<E: Env>(env: &E, device: &E::Device, mark: &Owner) {
    // Whether it was taken shows at the next look.
    let _ = device.write_durable(OWNER_OFFSET, env.buffers().copy_of(&mark.encode())).await;
}

/// How an opening came to have the SSDs.
pub(crate) struct Admitted {
    /// The marks as they were judged.
    marks: Vec<(u128, Option<Owner>)>,
    looks_again: bool,
}

/// What the marks on the SSDs of one pool say to somebody who wants to open it.
pub(crate) enum OpenAdmission {
    Open(Admitted),
    /// Somebody else may be using them: they are to be looked at again.
    Watch,
}

pub(crate) fn admission(us: &Machine, marks: Vec<(u128, Option<Owner>)>) -> OpenAdmission {
    let looked: Vec<_> = marks.iter().map(|(_, mark)| mark.clone()).collect();
    match first_look(us, &looked) {
        FirstLook::Open => OpenAdmission::Open(Admitted { marks, looks_again: false }),
        FirstLook::OpenAndLook => OpenAdmission::Open(Admitted { marks, looks_again: true }),
        FirstLook::Watch => OpenAdmission::Watch,
    }
}

impl Admitted {
    /// Of a pool that is made.
    pub(crate) fn none() -> Self {
        Self { marks: Vec::new(), looks_again: false }
    }

    fn counter(&self) -> u64 {
        self.marks.iter().filter_map(|(_, mark)| mark.as_ref()).map(|mark| mark.counter).max().unwrap_or(0)
    }

    /// Nobody has used the SSD since. A mark of this daemon's own was still on its way.
    fn still_holds(&self, us: &Machine, ssd_uuid: u128, now: Option<&Owner>) -> bool {
        let judged = self.marks.iter().find(|(uuid, _)| *uuid == ssd_uuid).map(|(_, mark)| mark.as_ref());
        now.is_none_or(|mark| is_of_this_run(us, mark)) || judged.is_none_or(|judged| judged == now)
    }
}

/// An SSD or spare that has a mark.
pub(crate) struct Owned<D> {
    uuid: u128,
    pub(crate) path: String,
    device: Rc<D>,
}

/// The marks of a pool, on SSDs that it is told.
pub(crate) struct Marks<E: Env> {
    env: E,
    pool_uuid: u128,
    owner: Rc<Ownership>,
}

impl<E: Env> Marks<E> {
    pub(super) fn new(env: E, pool_uuid: u128) -> Self {
        Self { env, pool_uuid, owner: Rc::default() }
    }

    pub(crate) fn owner(&self) -> &Rc<Ownership> {
        &self.owner
    }

    fn next_mark(&self, ssd_uuid: u128, in_use: bool) -> Owner {
        let mark = self.owner.next(&self.env.machine(), self.pool_uuid, self.env.unix_seconds(), in_use);
        Owner { ssd_uuid, ..mark }
    }

    /// Marks the SSDs as this pool's, before anything else is written to them.
    async fn claim(&self, entry: &Admitted, owned: Vec<Owned<E::Device>>) -> Result<(), Error> {
        self.owner.begin(self.env.random(), entry.counter(), self.env.unix_seconds());
        self.has_looked();
        let claims = owned.iter().map(async |ssd| {
            let claim = async {
                let found = self.read_fresh(ssd, |found| {
                    let found = found.filter(|mark| mark.ssd_uuid == ssd.uuid);
                    entry.still_holds(&self.env.machine(), ssd.uuid, found)
                });
                if let Err(other) = found.await {
                    return other.filter(|mark| mark.ssd_uuid == ssd.uuid);
                }
                write_mark::<E>(&self.env, &ssd.device, &self.next_mark(ssd.uuid, true)).await;
                None
            };
            within(&self.env, limits::SSD_TIMEOUT, claim).await.flatten()
        });
        let before_us = join_all(claims).await;
        let beside_us = if entry.looks_again { self.look_for_others(&owned).await } else { Vec::new() };
        let other = before_us.into_iter().zip(&owned).chain(beside_us.into_iter().zip(&owned));
        if let Some((mark, ssd)) = other.into_iter().find_map(|(mark, ssd)| Some((mark?, ssd))) {
            let other = alive(&ssd.path, Some(&mark));
            self.release(owned).await;
            return Err(other);
        }
        Ok(())
    }

    /// Whether somebody else claims the SSDs at the same moment: whoever wrote last is seen by all.
    async fn look_for_others(&self, owned: &[Owned<E::Device>]) -> Vec<Option<Owner>> {
        self.env.sleep(limits::OWNER_SETTLE).await;
        let looks = owned.iter().map(async |ssd| {
            let look = read_mark::<E>(&self.env, &ssd.device);
            let found = within(&self.env, limits::SSD_TIMEOUT, look).await.flatten();
            found.filter(|mark| self.owner.judge(&self.env.machine(), Some(mark)) == MarkFound::Taken)
        });
        join_all(looks).await
    }

    /// An SSD that is about to join is this pool's.
    pub(crate) async fn claim_newcomer(&self, device: &E::Device, ssd_uuid: u128) {
        let mark = self.next_mark(ssd_uuid, true);
        within(&self.env, limits::SSD_TIMEOUT, write_mark::<E>(&self.env, device, &mark)).await;
    }

    /// The pool stopped cleanly, or was not opened after all: whoever wants may have it. Where somebody else's mark is, it stays.
    async fn release(&self, owned: Vec<Owned<E::Device>>) {
        self.owner.end();
        let released = owned.into_iter().map(async |ssd| {
            self.until_refreshed(ssd.uuid).await;
            let is_ours = |found: Option<&Owner>| self.owner.judge(&self.env.machine(), found) == MarkFound::Ours;
            if self.read_fresh(&ssd, is_ours).await.is_ok() {
                write_mark::<E>(&self.env, &ssd.device, &self.next_mark(ssd.uuid, false)).await;
            }
        });
        // An SSD that does not answer now keeps its mark, which does not move any more.
        within(&self.env, limits::OWNER_RELEASE, join_all(released)).await;
    }

    /// Reads a mark that is to be written over, if it may be: not one that somebody may have written since, because the daemon did
    /// not run meanwhile.
    ///
    /// # Errors
    /// What is there, and may not be written over.
    async fn read_fresh(
        &self,
        ssd: &Owned<E::Device>,
        may: impl Fn(Option<&Owner>) -> bool,
    ) -> Result<(), Option<Owner>> {
        loop {
            let asked = self.env.real_now();
            let found = read_mark::<E>(&self.env, &ssd.device).await;
            if !may(found.as_ref()) {
                return Err(found);
            }
            if self.env.real_now().since(asked) <= READ_IS_OLD {
                return Ok(());
            }
        }
    }

    /// A mark that is on its way would come after the last one.
    async fn until_refreshed(&self, ssd_uuid: u128) {
        while self.owner.is_refreshing(ssd_uuid) {
            self.owner.looked.wait().await;
        }
    }

    /// The marks that are to be moved now ([`refresh`]): not those that are on their way already.
    fn due(&self, owned: Vec<Owned<E::Device>>) -> Vec<Owned<E::Device>> {
        let now = self.env.now();
        owned.into_iter().filter(|ssd| self.owner.begin_refresh(ssd.uuid, now)).collect()
    }

    /// Nothing is to be learned from these spares any more, if there are any.
    fn are_silent(&self, spares: &[Owned<E::Device>]) -> bool {
        let now = self.env.now();
        spares.iter().all(|spare| self.owner.holds_up_for(spare.uuid, now) > limits::SSD_TIMEOUT)
    }

    fn has_looked(&self) {
        self.owner.has_looked(self.env.now(), self.env.real_now());
    }
}

impl<E: Env> Members<E> {
    fn owned(&self) -> Vec<Owned<E::Device>> {
        let ssd = |ssd: &Rc<Ssd<E>>| {
            let device = ssd.device().ok()?;
            Some(Owned { uuid: ssd.uuid, path: ssd.path.clone(), device })
        };
        let spares = self.spares.all();
        let spare = |spare: &Rc<Spare<E::Device>>| {
            let device = spare.device.clone()?;
            Some(Owned { uuid: spare.uuid, path: spare.path.clone(), device })
        };
        self.online_ssds().filter_map(ssd).chain(spares.iter().filter_map(spare)).collect()
    }

    pub(crate) fn marks(&self) -> &Rc<Marks<E>> {
        &self.marks
    }

    /// Whose the SSDs are.
    pub(crate) fn owner(&self) -> &Rc<Ownership> {
        self.marks.owner()
    }

    /// Marks the SSDs as this pool's, before anything else is written to them.
    pub(crate) async fn claim(&self, entry: &Admitted) -> Result<(), Error> {
        self.marks.claim(entry, self.owned()).await
    }

    /// The pool stopped cleanly, or was not opened after all: whoever wants may have it. Where somebody else's mark is, it stays.
    pub(crate) async fn release(&self) {
        self.marks.release(self.owned()).await;
    }

    /// The marks that are to be moved now ([`refresh`]): not those that are on their way already.
    pub(crate) fn marks_due(&self) -> Vec<Owned<E::Device>> {
        let owned = self.owned();
        if self.online_ssds().next().is_none() && self.marks.are_silent(&owned) {
            // There is nothing to look at, and nothing that somebody else could have.
            self.marks.has_looked();
        }
        self.marks.due(owned)
    }

    /// Somebody else has the SSDs: nothing is written to them any more.
    pub(crate) fn lose_all(&self, fence: &VolumeFence) {
        self.owner().set_taken();
        for ssd in self.ssds.iter() {
            ssd.go_offline(LifeChange::Failed, OutOfUse::TakenOver(fence.clone()));
        }
    }

    /// The pool has stopped: whatever still waits for an SSD that does not answer is let go.
    pub(crate) fn end(&self) {
        self.owner().end();
        for ssd in self.ssds.iter() {
            ssd.go_offline(LifeChange::Failed, OutOfUse::PoolStopped);
            ssd.left_event.wake_all();
            // A record that hangs on its way to the state directory keeps the members, but not their devices.
            ssd.let_go();
        }
        if !self.owner().is_taken() {
            self.spares.take(|_| true);
        }
    }
}

/// Looks at a mark, and moves it if it is still ours; else answers whose it is. Keeps nothing but the device while it waits.
pub(crate) async fn refresh<E: Env>(
    env: &E,
    owner: &Ownership,
    marks: &Weak<Marks<E>>,
    ssd: &Owned<E::Device>,
) -> Option<Owner> {
    let other = look_and_move(env, owner, marks, ssd).await;
    owner.end_refresh(ssd.uuid);
    owner.looked.wake_all();
    other
}

async fn look_and_move<E: Env>(
    env: &E,
    owner: &Ownership,
    marks: &Weak<Marks<E>>,
    ssd: &Owned<E::Device>,
) -> Option<Owner> {
    loop {
        let asked = env.real_now();
        owner.asks(ssd.uuid, env.now());
        let found = read_mark::<E>(env, &ssd.device).await;
        let marks = marks.upgrade().filter(|marks| !marks.owner.has_ended())?;
        if marks.owner.judge(&env.machine(), found.as_ref()) == MarkFound::Taken && found.is_some() {
            return found;
        }
        if env.real_now().since(asked) > READ_IS_OLD {
            // Somebody may have come since it was read.
            continue;
        }
        marks.has_looked();
        owner.asks(ssd.uuid, env.now());
        let bytes = env.buffers().copy_of(&marks.next_mark(ssd.uuid, true).encode());
        drop(marks);
        // What fails shows in what hosts do, too.
        let _ = ssd.device.write(OWNER_OFFSET, bytes).await;
        return None;
    }
}
