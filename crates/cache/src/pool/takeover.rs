//! The marks on a pool's SSDs are moved while it is open (rule `one-machine`), and somebody else takes the pool over.

use std::rc::{Rc, Weak};

use hotset_block::Env;

use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::owner::Owner;
use crate::members::owner::refresh;
use crate::members::ownership::Ownership;
use crate::pool::inner::PoolInner;
use crate::reasons::VolumeFence;
use crate::time_limit::within;
use crate::volume::life::VolumeChange;

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
        let fence = VolumeFence::OtherMachine {
            pool: self.name.clone(),
            by: mark.name.clone(),
            since_unix_seconds: mark.since_unix_seconds,
            ssd: path.to_owned(),
        };
        for (_, volume) in self.volumes.all() {
            volume.life.change(VolumeChange::TakenOver(fence.clone()));
        }
        self.life.fence_anew(Error::new(ErrorKind::OtherMachine, fence.to_string()));
        self.members.lose_all(&fence);
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
