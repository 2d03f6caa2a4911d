//! The marks on a pool's SSDs are moved while it is open (rule `one-machine`), and somebody else takes the pool over.

use std::rc::{Rc, Weak};

use hotset_block::Env;

use crate::config::limits;
use crate::date::date_and_time;
use crate::error::{Error, ErrorKind};
use crate::format::owner::Owner;
use crate::members::owner::refresh;
use crate::members::ownership::Ownership;
use crate::pool::inner::PoolInner;
use crate::time_limit::within;

impl<E: Env> PoolInner<E> {
    /// Moves the marks. Waits for none: one that hangs is left alone until it ends.
    fn refresh_marks(self: &Rc<Self>) {
        for ssd in self.members.marks_due() {
            let (env, owner) = (self.env.clone(), Rc::clone(self.members.owner()));
            let (marks, pool) = (Rc::downgrade(self.members.marks()), Rc::downgrade(self));
            self.env.spawn(async move {
                let other = refresh(&env, &owner, &marks, &ssd).await;
                if let (Some(mark), Some(pool)) = (other, pool.upgrade()) {
                    pool.lose_ownership(&ssd.path, &mark);
                }
            });
        }
    }

    /// Somebody else has the pool: nothing is written any more, and hosts get errors instead of what may be old.
    fn lose_ownership(self: &Rc<Self>, path: &str, mark: &Owner) {
        if self.life.has_stopped() {
            return;
        }
        let reason = format!(
            "pool {}: another machine, or another daemon, took it over: {}, at {} by the clock there, as SSD {path} says; nothing is \
             written here any more; see to it that one machine uses the pool, then restart Hotset here if it is to be this one",
            self.name,
            mark.name,
            date_and_time(mark.since_unix_seconds),
        );
        for (_, volume) in self.volumes.all() {
            volume.life.fence_first(&reason);
        }
        self.life.fence_anew(Error::new(ErrorKind::OtherMachine, reason.clone()));
        self.members.lose_all(&reason);
        self.life.end_fills();
        self.clean.wake();
        self.members.spares().wanted().wake_all();
        self.end();
    }
}

/// The task that moves the marks of a pool, from the first write of a start to the end of the stop. While it sleeps it keeps neither
/// the pool nor its devices.
pub(crate) async fn run_owner<E: Env>(env: E, owner: Rc<Ownership>, pool: Weak<PoolInner<E>>) {
    loop {
        within(&env, limits::OWNER_REFRESH, owner.look_wanted.wait()).await;
        match pool.upgrade() {
            Some(pool) if !pool.life.has_stopped() && !owner.has_ended() => pool.refresh_marks(),
            Some(_) | None => return,
        }
    }
}
