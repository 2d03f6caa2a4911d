//! How a volume is, and the pool that caches it: in one word and a reason.

use hotset_block::Env;

use crate::config::{PAGE, PoolKind};
use crate::status::Health;
use crate::volume::inner::VolumeInner;
use crate::volume::place::{Attached, PoolRooms};

impl<E: Env> VolumeInner<E> {
    /// What is wrong with the volume itself, whatever its pool is like.
    pub(super) fn own_health(&self, attached: Option<&Attached<E>>) -> Option<(Health, String)> {
        if let Some(reason) = self.backing.latched() {
            return Some((Health::Failed, reason));
        }
        if let Some(reason) = &*self.fenced.borrow() {
            return Some((Health::Failed, reason.clone()));
        }
        let lost = attached.map_or(0, |attached| attached.pool.log_counts(attached.index).lost * PAGE);
        if let Some(attached) = attached.filter(|_| lost > 0) {
            let why = attached.pool.log.as_ref().map(|log| log.data_loss().why_lost(Some(attached.index)));
            let reason = format!(
                "{lost} bytes that hosts wrote are unavailable, and reads of them fail: {}; everything else is served",
                why.unwrap_or_default()
            );
            return Some((Health::Degraded, reason));
        }
        if let Some(reason) = &*self.clean_error.borrow() {
            let reason = format!("its dirty data cannot be written to the backing device, and is kept: {reason}");
            return Some((Health::Degraded, reason));
        }
        if let Some((what, silence)) = self.backing.hangs_for() {
            let reason =
                format!("backing device {} has answered no {what} for {} s", self.backing.name, silence.as_secs());
            return Some((Health::Degraded, reason));
        }
        None
    }
}

impl<E: Env> PoolRooms<E> {
    pub(crate) fn health(&self) -> (Health, String) {
        if let Some(error) = self.life.fence() {
            return (Health::Failed, error.to_string());
        }
        let state_is_behind = self.members.state().is_behind();
        match self.health_of_ssds() {
            (Health::Good, _) if state_is_behind => {
                let reason = "the state directory did not take the pool's newest records, the SSDs have them: after a restart \
                              the read cache may be cold; see to the disk that holds the state directory";
                (Health::Degraded, reason.to_owned())
            }
            of_ssds => of_ssds,
        }
    }

    fn health_of_ssds(&self) -> (Health, String) {
        if let Some(reason) = self.silence() {
            return (Health::Failed, reason);
        }
        match self.health_of_redundancy() {
            (Health::Good, _) => {
                let doubts =
                    self.members.online_ssds().map(|ssd| (ssd, ssd.doubt())).filter(|(_, doubt)| !doubt.is_empty());
                let doubts: Vec<String> = doubts.map(|(ssd, doubt)| format!("SSD {}: {doubt}", ssd.path)).collect();
                let health = if doubts.is_empty() { Health::Good } else { Health::Degraded };
                (health, doubts.join("; "))
            }
            other => other,
        }
    }

    fn health_of_redundancy(&self) -> (Health, String) {
        let gone = self.members.ssds().filter(|ssd| !ssd.is_online() && !ssd.life().is_replaced()).count();
        let gone = gone + self.members.absent().len();
        if self.members.online_ssds().next().is_none() {
            let read_only = self.members.ssds().any(|ssd| ssd.life().is_read_only());
            let reason = if read_only {
                "no SSD takes writes: what is dirty is read from them and being flushed, volumes run at their backing devices' \
                 speed; see to the SSDs: their space, their write protection, their wear"
            } else {
                "no SSD is left: volumes run at their backing devices' speed"
            };
            return (Health::Failed, reason.to_owned());
        }
        let reason = match self.kind {
            PoolKind::Read if gone == 0 => return (Health::Good, String::new()),
            PoolKind::Read => {
                format!("{gone} SSD(s) out of use, the others serve; see the SSDs' reasons and replace them")
            }
            PoolKind::ReadWrite if self.members.online_ssds().nth(1).is_none() => {
                "one SSD is left, which is not enough for two copies: dirty data is being flushed, new writes go to the \
                 backing devices, cached reads are served; replace the other SSDs"
                    .to_owned()
            }
            PoolKind::ReadWrite => match self.log.as_ref().and_then(|log| log.mirrorer().rebuild_status()) {
                None => return self.health_of_missed(),
                Some(rebuild) if !rebuild.copies_lost && !rebuild.space_insufficient => return self.health_of_missed(),
                Some(rebuild) if rebuild.space_insufficient => {
                    "the SSDs that are left have no room for a second copy of all dirty data: it is being flushed, new \
                     writes go to the backing devices, cached reads are served; add an SSD"
                        .to_owned()
                }
                Some(rebuild) => format!(
                    "second copies of dirty data are being made: {} of {} bytes; writes are cached meanwhile",
                    rebuild.done_bytes, rebuild.total_bytes
                ),
            },
        };
        (Health::Degraded, reason)
    }

    /// Of a read-write pool that has two copies of everything, on fewer SSDs than it is meant to have, perhaps.
    fn health_of_missed(&self) -> (Health, String) {
        let absent = self.members.absent();
        let failed = self.members.ssds().filter(|ssd| ssd.life().is_out_of_use()).map(|ssd| ssd.path.as_str());
        let missed: Vec<&str> =
            failed.chain(absent.iter().filter(|ssd| ssd.is_missed()).map(|ssd| ssd.path.as_str())).collect();
        if missed.is_empty() {
            return (Health::Good, String::new());
        }
        let reason = format!(
            "{} SSD(s) out of use ({}), the others have two copies of all dirty data; replace them, or remove them from the \
             pool",
            missed.len(),
            missed.join(", ")
        );
        (Health::Degraded, reason)
    }

    /// What to say of SSDs that do not answer and are waited for; `None`: there are none.
    fn silence(&self) -> Option<String> {
        let silent: Vec<&str> =
            self.members.online_ssds().filter(|ssd| ssd.life().is_suspect()).map(|ssd| ssd.path.as_str()).collect();
        (!silent.is_empty()).then(|| {
            format!(
                "{} SSD(s) do not answer, and have what no other SSD has: {}. What hosts ask of that waits, the rest goes to \
                 the backing devices, and nothing is lost; see to what they share: their controller, their path, the file \
                 system of their images. When they answer again, all goes on by itself",
                silent.len(),
                silent.join(", ")
            )
        })
    }
}
