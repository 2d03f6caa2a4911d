//! The register of operations: whatever takes long, who asked for it, how far it is, what it waits for, and what became of it.
//!
//! Whatever takes long begins one, tells how far it is, heeds that it is cancelled, and ends it. The last ones that ended are kept, so
//! that who was away can see what happened.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotset_api::{ApiError, ApiErrorKind, Operation, OperationKind, OperationState, Severity, Subject, Work};
use tokio::sync::{self, watch};

use super::flushed::{FlushedNow, Flushing};
use crate::clock::unix_ms;
use crate::daemon::changes::{Change, Changes};
use crate::daemon::who::Who;

/// Operations that ended and are still shown.
const ENDED_MAX: usize = 100;

/// Of one that has nothing to do.
const ENDS_AT_ONCE: &str = "it ends at once";

/// How far an operation is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Waiting(WaitsFor),
    /// Somebody wants it to end; it may still come to its end before it hears of that.
    Cancelling,
    Done,
    Failed,
    Cancelled,
}

/// What keeps an operation from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Other changes are under way, and come one after the other.
    OtherChanges,
    /// Devices that it needs are not there, or cannot be used; they are tried again and again.
    Devices,
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Waits(WaitsFor),
    GoesOn,
    Cancel,
    Succeeds,
    Fails,
    /// It heeds that it was cancelled.
    GivesWay,
}

impl Phase {
    /// What it is then; `None` if that cannot happen to it: it stays as it is.
    fn after(self, turn: Turn) -> Option<Self> {
        match (self, turn) {
            (Self::Running | Self::Waiting(_), Turn::Waits(on)) => Some(Self::Waiting(on)),
            (Self::Waiting(_), Turn::GoesOn) => Some(Self::Running),
            (Self::Running | Self::Waiting(_), Turn::Cancel) => Some(Self::Cancelling),
            (Self::Running | Self::Waiting(_) | Self::Cancelling, Turn::Succeeds) => Some(Self::Done),
            (Self::Running | Self::Waiting(_) | Self::Cancelling, Turn::Fails) => Some(Self::Failed),
            // The engine may cancel it by itself, because what it was for goes away.
            (Self::Running | Self::Waiting(_) | Self::Cancelling, Turn::GivesWay) => Some(Self::Cancelled),
            // Who is cancelled waits and goes on as before, and has been told.
            (Self::Running, Turn::GoesOn)
            | (Self::Cancelling, Turn::Waits(_) | Turn::GoesOn | Turn::Cancel)
            | (Self::Done | Self::Failed | Self::Cancelled, _) => None,
        }
    }

    fn waits_for(self) -> Option<&'static str> {
        match self {
            Self::Waiting(on) => Some(on.words()),
            Self::Cancelling => Some("its end: it was cancelled"),
            Self::Running | Self::Done | Self::Failed | Self::Cancelled => None,
        }
    }

    fn state(self) -> OperationState {
        match self {
            Self::Running | Self::Waiting(_) | Self::Cancelling => OperationState::Running,
            Self::Done => OperationState::Done,
            Self::Failed => OperationState::Failed,
            Self::Cancelled => OperationState::Cancelled,
        }
    }
}

impl WaitsFor {
    fn words(self) -> &'static str {
        match self {
            Self::OtherChanges => "for other changes to end",
            Self::Devices => "for its devices, which are tried every few seconds",
        }
    }
}

/// Whether an operation can be ended before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It cannot: why, and what to do instead.
    Never(&'static str),
    Anytime,
}

/// What an operation is, at its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Begin {
    pub(crate) kind: OperationKind,
    pub(crate) subject: Subject,
    pub(crate) asked_by: Who,
    /// 0: not known yet.
    pub(crate) total_bytes: u64,
    pub(crate) cancel: Cancel,
}

/// An operation that has begun, for whoever carries it out.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) id: u64,
    pub(crate) cancelled: Cancelled,
}

/// Tells that an operation is cancelled.
#[derive(Clone, Debug)]
pub(crate) struct Cancelled(watch::Receiver<bool>);

impl Cancelled {
    pub(super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// An error as soon as it is, of `what` would have changed something from here on.
    pub(super) fn check(&self, what: &str) -> Result<(), ApiError> {
        if self.is_asked() { Err(cancelled_error(what)) } else { Ok(()) }
    }

    /// Waits until it is; for ever, if it ends before.
    pub(crate) async fn asked(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// See the file's summary. Beginnings and ends are events.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    register: Mutex<OperationRegister>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct OperationRegister {
    last_id: u64,
    running: BTreeMap<u64, Running>,
    /// Newest first.
    ended: VecDeque<Operation>,
}

/// Whether its beginning is an event already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announced {
    /// It is not known yet whether it is possible: if it is refused, only who asked for it needs to know.
    NotYet,
    Begun,
}

#[derive(Debug)]
struct Running {
    operation: Operation,
    told: Announced,
    flushing: Flushing,
    phase: Phase,
    began: Instant,
    asked_by: Who,
    /// Of one that cannot be cancelled: what to do instead.
    instead: Option<&'static str>,
    cancel: watch::Sender<bool>,
}

impl Running {
    fn now(&self) -> Operation {
        let elapsed = self.began.elapsed();
        let Operation { done_bytes, total_bytes, .. } = self.operation;
        Operation {
            state: self.phase.state(),
            waits_for: self.phase.waits_for().map(str::to_owned),
            elapsed_seconds: elapsed.as_secs(),
            rate_bytes_per_second: u64::try_from(u128::from(done_bytes) * 1000 / elapsed.as_millis().max(1))
                .unwrap_or(u64::MAX),
            eta_seconds: eta_seconds(total_bytes.saturating_sub(done_bytes), done_bytes, elapsed),
            ..self.operation.clone()
        }
    }

    /// Whether that could happen to it.
    fn turn(&mut self, turn: Turn) -> bool {
        let after = self.phase.after(turn);
        self.phase = after.unwrap_or(self.phase);
        after.is_some()
    }
}

impl Operations {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn register(&self) -> MutexGuard<'_, OperationRegister> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of them in `changes`.
    pub(crate) fn telling(changes: Changes) -> Self {
        Self { register: Mutex::default(), changes }
    }

    pub(crate) fn begin(&self, begin: Begin) -> Begun {
        self.begin_flushing(begin, Flushing::Nothing)
    }

    /// One that nobody asks for now, and why it begins.
    pub(super) fn begin_because(&self, begin: Begin, why: String) -> Begun {
        let begun = self.begin_checking(begin);
        if let Some(running) = self.register().running.get_mut(&begun.id) {
            running.operation.began_because = Some(why);
        }
        self.is_possible(begun.id);
        begun
    }

    /// One that flushes something.
    pub(super) fn begin_flushing(&self, begin: Begin, flushing: Flushing) -> Begun {
        let begun = self.add(begin, flushing);
        self.is_possible(begun.id);
        begun
    }

    /// One of which it is not known yet whether it is possible: [`Self::is_possible`] says so.
    pub(super) fn begin_checking(&self, begin: Begin) -> Begun {
        self.add(begin, Flushing::Nothing)
    }

    /// Its checks have found nothing against it.
    pub(super) fn is_possible(&self, id: u64) {
        let mut register = self.register();
        let Some(running) = register.running.get_mut(&id).filter(|running| running.told == Announced::NotYet) else {
            return;
        };
        running.told = Announced::Begun;
        let Operation { kind, subject, began_because, .. } = &running.operation;
        let change = Change {
            severity: Severity::Info,
            subject: subject.clone(),
            change: format!("{} begins", kind.word()),
            cause: began_because.clone().unwrap_or_default(),
            by: running.asked_by.clone(),
            shown: None,
        };
        drop(register);
        self.changes.add(change);
    }

    fn add(&self, begin: Begin, flushing: Flushing) -> Begun {
        let Begin { kind, subject, asked_by, total_bytes, cancel } = begin;
        let instead = match cancel {
            Cancel::Never(instead) => Some(instead),
            Cancel::Anytime => None,
        };
        let mut register = self.register();
        register.last_id += 1;
        let id = register.last_id;
        let operation = Operation {
            id,
            kind,
            subject,
            state: OperationState::Running,
            cancellable: instead.is_none(),
            done_bytes: 0,
            total_bytes,
            rate_bytes_per_second: 0,
            elapsed_seconds: 0,
            eta_seconds: None,
            began_unix_ms: unix_ms(),
            ended_unix_ms: None,
            error: None,
            asked_by: asked_by.words(),
            began_because: None,
            waits_for: None,
        };
        let (cancel, cancelled) = watch::channel(false);
        let (phase, began) = (Phase::Running, Instant::now());
        let told = Announced::NotYet;
        register.running.insert(id, Running { operation, told, flushing, phase, began, asked_by, instead, cancel });
        Begun { id, cancelled: Cancelled(cancelled) }
    }

    /// One that took no time at all; answers its id.
    pub(super) fn done_at_once(&self, kind: OperationKind, subject: Subject) -> u64 {
        let asked_by = Who::asks();
        let Begun { id, .. } =
            self.begin(Begin { kind, subject, asked_by, total_bytes: 0, cancel: Cancel::Never(ENDS_AT_ONCE) });
        self.end(id, None);
        id
    }

    /// How far it is; of one that has ended nothing changes.
    pub(crate) fn progress(&self, id: u64, done_bytes: u64, total_bytes: u64) {
        if let Some(running) = self.register().running.get_mut(&id) {
            running.operation.done_bytes = done_bytes;
            running.operation.total_bytes = total_bytes;
        }
    }

    /// So much more of it is done.
    pub(super) fn advance(&self, id: u64, more_bytes: u64) {
        if let Some(running) = self.register().running.get_mut(&id) {
            running.operation.done_bytes += more_bytes;
        }
    }

    /// As `progress`, for the one of this kind that runs there.
    pub(super) fn progress_of(&self, kind: OperationKind, name: &str, done_bytes: u64, total_bytes: u64) {
        if let Some(id) = self.running(kind, name) {
            self.progress(id, done_bytes, total_bytes);
        }
    }

    /// It cannot go on now, and says why.
    pub(crate) fn waits(&self, id: u64, on: WaitsFor) {
        if let Some(running) = self.register().running.get_mut(&id)
            && running.turn(Turn::Waits(on))
        {
            let Operation { kind, subject, .. } = &running.operation;
            tracing::debug!("operation {id}, {} of {subject}: waits {}", kind.word(), on.words());
        }
    }

    /// Waits until no other change is under way, and says so; an error if it is cancelled meanwhile.
    pub(super) async fn wait_for_others<'lock>(
        &self,
        begun: &Begun,
        what: &str,
        changes: &'lock sync::Mutex<()>,
    ) -> Result<sync::MutexGuard<'lock, ()>, ApiError> {
        let mut cancelled = begun.cancelled.clone();
        self.waits(begun.id, WaitsFor::OtherChanges);
        let lock = tokio::select! {
            biased;
            () = cancelled.asked() => None,
            lock = changes.lock() => Some(lock),
        };
        self.goes_on(begun.id);
        lock.ok_or_else(|| cancelled_error(what))
    }

    pub(super) fn goes_on(&self, id: u64) {
        if let Some(running) = self.register().running.get_mut(&id) {
            running.turn(Turn::GoesOn);
        }
    }

    /// Why it cannot be cancelled, and what to do instead; `None`: it can, or has ended.
    pub(super) fn instead_of_cancelling(&self, id: u64) -> Option<&'static str> {
        self.register().running.get(&id).and_then(|running| running.instead)
    }

    /// Tells whoever carries it out to end it. False: it cannot be cancelled, has ended, or was told before.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let mut register = self.register();
        let running = register.running.get_mut(&id).filter(|running| running.operation.cancellable);
        running.is_some_and(|running| {
            running.cancel.send_replace(true);
            running.turn(Turn::Cancel)
        })
    }

    /// The one of this kind that runs there.
    pub(crate) fn running(&self, kind: OperationKind, name: &str) -> Option<u64> {
        let register = self.register();
        let mut running = register.running.values().map(|running| &running.operation);
        running.find(|operation| operation.kind == kind && operation.subject.name == name).map(|operation| operation.id)
    }

    /// What operations that are under way flush: `pick` is told the id of each, and when it began.
    pub(super) fn flushing<T>(&self, pick: impl Fn(u64, Instant, &Flushing) -> Option<T>) -> Vec<T> {
        let register = self.register();
        register.running.iter().filter_map(|(id, running)| pick(*id, running.began, &running.flushing)).collect()
    }

    /// The flushes that leave caches in place, with the ids of their operations.
    pub(super) fn flushing_now(&self) -> Vec<(u64, FlushedNow)> {
        self.flushing(|id, _, flushing| match flushing {
            Flushing::Now(flush) => Some((id, flush.clone())),
            Flushing::Nothing | Flushing::Drain(_) => None,
        })
    }

    pub(crate) fn end(&self, id: u64, error: Option<&ApiError>) {
        self.end_having_found(id, error, None);
    }

    /// As [`Self::end`], of one that looks for something.
    pub(super) fn end_having_found(&self, id: u64, error: Option<&ApiError>, found: Option<Found>) {
        let mut register = self.register();
        let Some(mut running) = register.running.remove(&id) else { return };
        running.turn(match error {
            None => Turn::Succeeds,
            Some(error) if error.kind == ApiErrorKind::Cancelled => Turn::GivesWay,
            Some(_) => Turn::Fails,
        });
        let now = running.now();
        let done_bytes = if running.phase == Phase::Done { now.total_bytes } else { now.done_bytes };
        let ended =
            Operation { done_bytes, eta_seconds: None, ended_unix_ms: Some(unix_ms()), error: error.cloned(), ..now };
        let change = ended_as(&ended, running.asked_by, found);
        register.ended.push_front(ended);
        register.ended.truncate(ENDED_MAX);
        drop(register);
        match running.told {
            Announced::Begun => self.changes.add(change),
            Announced::NotYet => {}
        }
    }

    pub(crate) fn list(&self) -> Vec<Operation> {
        let register = self.register();
        register.running.values().map(Running::now).chain(register.ended.iter().cloned()).collect()
    }

    /// How far what is written for pools and SSDs to come is.
    pub(crate) fn works(&self) -> Vec<Work> {
        let register = self.register();
        let running = register.running.values().map(|running| &running.operation);
        let works = running.filter_map(|operation| match operation.kind {
            OperationKind::CreatePool | OperationKind::AddSsds | OperationKind::AddSpares => {
                // Without such images there is nothing to be written first.
                (operation.total_bytes > 0).then(|| Work {
                    what: "writing sparse SSD images in full".to_owned(),
                    done_bytes: operation.done_bytes,
                    total_bytes: operation.total_bytes,
                })
            }
            OperationKind::DisableCache
            | OperationKind::DeleteVolume
            | OperationKind::DeletePool
            | OperationKind::ConvertPool
            | OperationKind::Scrub
            | OperationKind::RemoveSsds
            | OperationKind::Rebuild
            | OperationKind::FlushVolume
            | OperationKind::FlushPool => None,
        });
        works.collect()
    }
}

fn cancelled_error(what: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Cancelled, format!("{what} was cancelled; nothing was changed"))
}

/// What an operation found that looks for something, and how bad that is.
pub(super) struct Found {
    pub(super) severity: Severity,
    pub(super) words: String,
}

/// The event that an operation has ended.
fn ended_as(ended: &Operation, by: Who, found: Option<Found>) -> Change {
    let how = match &ended.error {
        None => "done",
        Some(error) if error.kind == ApiErrorKind::Cancelled => "cancelled",
        Some(_) => "failed",
    };
    let (severity, cause) = match (&ended.error, found) {
        (Some(error), _) if ended.state == OperationState::Failed => (Severity::Error, error.to_string()),
        (_, Some(found)) => (found.severity, found.words),
        (error, None) => (Severity::Info, error.as_ref().map_or_else(String::new, ToString::to_string)),
    };
    let change = format!("{} {how}", ended.kind.word());
    Change { severity, subject: ended.subject.clone(), change, cause, by, shown: None }
}

/// Carries `work` on to its end. When it is cancelled, `cancel` sees to it that this comes soon.
pub(super) async fn carry_on<T>(
    mut cancelled: Cancelled,
    work: impl Future<Output = T>,
    cancel: impl Future<Output = ()>,
) -> T {
    let mut work = pin!(work);
    let told = async {
        cancelled.asked().await;
        cancel.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        ended = &mut work => ended,
        never = told => match never {},
    }
}

/// At the pace so far, rounded up; `None` until there is one.
pub(crate) fn eta_seconds(left_bytes: u64, done_bytes: u64, elapsed: std::time::Duration) -> Option<u64> {
    let spent = elapsed.as_millis() * u128::from(left_bytes);
    let left_ms = spent.checked_div(u128::from(done_bytes))?;
    u64::try_from(left_ms.div_ceil(1000)).ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hotset_api::SubjectKind;

    use super::*;

    fn begin_as(operations: &Operations, cancel: Cancel) -> Begun {
        let subject = Subject::new(SubjectKind::Pool, "p");
        let (kind, asked_by) = (OperationKind::DeletePool, Who::Daemon);
        operations.begin(Begin { kind, subject, asked_by, total_bytes: 100, cancel })
    }

    fn begin(operations: &Operations) -> u64 {
        begin_as(operations, Cancel::Anytime).id
    }

    #[test]
    fn each_turn_leads_from_each_phase_to_one_and_what_has_ended_stays_so() {
        use Phase::{Cancelled, Cancelling, Done, Failed, Running, Waiting};
        let on = WaitsFor::OtherChanges;
        let turns = [Turn::Waits(on), Turn::GoesOn, Turn::Cancel, Turn::Succeeds, Turn::Fails, Turn::GivesWay];
        for (phase, after) in [
            (Running, [Some(Waiting(on)), None, Some(Cancelling), Some(Done), Some(Failed), Some(Cancelled)]),
            (
                Waiting(on),
                [Some(Waiting(on)), Some(Running), Some(Cancelling), Some(Done), Some(Failed), Some(Cancelled)],
            ),
            (Cancelling, [None, None, None, Some(Done), Some(Failed), Some(Cancelled)]),
            (Done, [None; 6]),
            (Failed, [None; 6]),
            (Cancelled, [None; 6]),
        ] {
            assert_eq!(turns.map(|turn| phase.after(turn)), after, "{phase:?}");
            let is_over = phase.state() != OperationState::Running;
            assert_eq!(is_over, after == [None; 6], "{phase:?}: what is under way can end");
        }
    }

    #[test]
    fn an_operation_is_listed_while_it_runs_and_after_it_ended() {
        let operations = Operations::default();
        let (first, second) = (begin(&operations), begin(&operations));
        operations.progress(first, 40, 100);
        let error = ApiError::new(ApiErrorKind::Cancelled, "cut");
        operations.end(second, Some(&error));
        let list = operations.list();
        assert_eq!((list[0].id, list[0].state, list[0].done_bytes), (first, OperationState::Running, 40));
        assert_eq!((list[1].state, list[1].error.as_ref()), (OperationState::Cancelled, Some(&error)));
        operations.advance(first, 10);
        operations.waits(first, WaitsFor::OtherChanges);
        assert_eq!((operations.list()[0].state, operations.list()[0].done_bytes), (OperationState::Running, 50));
        operations.goes_on(first);
        operations.end(first, None);
        let list = operations.list();
        assert_eq!((list[0].id, list[0].state, list[0].done_bytes), (first, OperationState::Done, 100));
        operations.progress(first, 1, 2);
        operations.end(first, Some(&error));
        assert_eq!(operations.list(), list, "it has ended");
    }

    #[test]
    fn who_carries_an_operation_out_hears_once_that_it_is_cancelled_and_what_cannot_be_is_left_alone() {
        let operations = Operations::default();
        let Begun { id, mut cancelled } = begin_as(&operations, Cancel::Anytime);
        assert_eq!((cancelled.is_asked(), cancelled.asked().now_or_never()), (false, None));
        assert_eq!((operations.cancel(id), operations.cancel(id)), (true, false));
        assert_eq!((cancelled.is_asked(), cancelled.asked().now_or_never()), (true, Some(())));
        assert_eq!(operations.list()[0].state, OperationState::Running, "it has still to heed that");
        operations.end(id, Some(&ApiError::new(ApiErrorKind::Cancelled, "it stays")));
        assert_eq!((operations.cancel(id), operations.list()[0].state), (false, OperationState::Cancelled));
        let Begun { id, mut cancelled } = begin_as(&operations, Cancel::Never("do this"));
        assert!(!operations.cancel(id) && !cancelled.is_asked());
        assert_eq!(operations.instead_of_cancelling(id), Some("do this"));
        operations.end(id, None);
        assert_eq!(cancelled.asked().now_or_never(), None, "what has ended is not cancelled any more");
        assert!(!operations.cancel(77), "there is no such one");
    }

    fn told(changes: &Changes) -> Vec<String> {
        changes.take().into_iter().map(|change| change.change).collect()
    }

    #[test]
    fn what_is_refused_before_it_is_known_to_be_possible_is_listed_and_no_event() {
        let changes = Changes::default();
        let operations = Operations::telling(changes.clone());
        let begin = || Begin {
            kind: OperationKind::CreatePool,
            subject: Subject::new(SubjectKind::Pool, "p"),
            asked_by: Who::Daemon,
            total_bytes: 0,
            cancel: Cancel::Anytime,
        };
        let refused = operations.begin_checking(begin());
        assert_eq!(operations.list()[0].state, OperationState::Running, "it is shown from the beginning");
        operations.end(refused.id, Some(&ApiError::new(ApiErrorKind::Refused, "no")));
        assert_eq!((operations.list()[0].state, told(&changes)), (OperationState::Failed, vec![]));
        let possible = operations.begin_checking(begin());
        operations.is_possible(possible.id);
        operations.is_possible(possible.id);
        assert_eq!(told(&changes), ["create-pool begins"], "once");
        operations.end(possible.id, None);
        assert_eq!(told(&changes), ["create-pool done"]);
    }

    #[tokio::test]
    async fn who_waits_for_other_changes_says_so_and_heeds_that_it_is_cancelled() {
        let (operations, changes) = (Operations::default(), sync::Mutex::new(()));
        let begun = begin_as(&operations, Cancel::Anytime);
        let others = changes.lock().await;
        let mut waiting = pin!(operations.wait_for_others(&begun, "pool p: making it", &changes));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(operations.list()[0].waits_for.as_deref(), Some("for other changes to end"));
        drop(others);
        let lock = waiting.await.unwrap();
        assert_eq!((operations.list()[0].waits_for.as_deref(), changes.try_lock().is_ok()), (None, false));
        let mut again = pin!(operations.wait_for_others(&begun, "pool p: making it", &changes));
        assert!(again.as_mut().now_or_never().is_none());
        assert!(operations.cancel(begun.id));
        let error = again.await.unwrap_err();
        assert_eq!((error.kind, begun.cancelled.check("it").is_err()), (ApiErrorKind::Cancelled, true), "{error}");
        drop(lock);
    }

    #[tokio::test]
    async fn what_is_cancelled_is_carried_on_until_it_has_ended() {
        let operations = Operations::default();
        let Begun { id, cancelled } = begin_as(&operations, Cancel::Anytime);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let work = async { stopped.await.expect("it is stopped") };
        let carried = carry_on(cancelled.clone(), work, async { stop.send("stopped").expect("somebody listens") });
        let mut carried = pin!(carried);
        assert_eq!(carried.as_mut().now_or_never(), None, "nobody has cancelled it");
        assert!(operations.cancel(id));
        // It is told, and then it ends.
        let told = carried.as_mut().now_or_never();
        assert_eq!(told.or_else(|| carried.now_or_never()), Some("stopped"));
        assert_eq!(carry_on(cancelled, async { "ended" }, std::future::pending()).await, "ended");
    }

    #[test]
    fn only_the_last_ones_that_ended_are_kept() {
        let operations = Operations::default();
        for _ in 0..ENDED_MAX + 5 {
            let id = begin(&operations);
            operations.end(id, None);
        }
        assert_eq!(operations.list().len(), ENDED_MAX);
    }

    #[test]
    fn the_time_left_follows_from_the_pace_so_far() {
        let seconds = std::time::Duration::from_secs;
        assert_eq!(eta_seconds(100, 0, seconds(5)), None, "there is no pace yet");
        assert_eq!(eta_seconds(300, 100, seconds(5)), Some(15));
        assert_eq!(eta_seconds(1, 3, seconds(1)), Some(1), "less than a second is not none");
        assert_eq!(eta_seconds(0, 100, seconds(5)), Some(0));
    }
}
