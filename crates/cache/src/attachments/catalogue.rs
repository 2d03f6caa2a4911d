//! The catalogue is changed: a member record, durable on the majority before the change takes effect.

use std::ops::Range;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::attachments::Attachments;
use crate::config::{VolumeName, VolumeSettings, VolumeSpec};
use crate::error::Error;
use crate::format::catalogue::{BackingIdentity, Catalogue, CataloguedVolume};
use crate::format::record::RecordKind;

impl<E: Env> Attachments<E> {
    /// Changes the catalogue; everything that was decided is in `change`. Returns when it is durable.
    async fn change(&self, change: impl Fn(&mut Catalogue)) -> Result<(), Error> {
        let _one_at_a_time = self.members.one_change().await;
        let mut catalogue = self.catalogue.borrow().clone();
        change(&mut catalogue);
        assert_follows(&self.catalogue.borrow(), &catalogue);
        if let Err(error) = self.members.write_record(RecordKind::Catalogue, catalogue.encode()).await {
            // A start would believe the member that has it.
            let before = self.catalogue.borrow().encode();
            let _ = self.members.write_record(RecordKind::Catalogue, before).await;
            return Err(error);
        }
        *self.catalogue.borrow_mut() = catalogue;
        Ok(())
    }

    /// Of the volume under this id, if there is one.
    async fn change_volume(
        &self,
        attachment: Option<u64>,
        change: impl Fn(&mut CataloguedVolume),
    ) -> Result<(), Error> {
        self.change(|catalogue| {
            catalogue.volumes.iter_mut().filter(|volume| Some(volume.attachment) == attachment).for_each(&change);
        })
        .await
    }

    /// Every member gets the catalogue as it is.
    pub(crate) async fn record_again(&self) -> Result<(), Error> {
        self.change(|_| {}).await
    }

    /// A volume joins.
    pub(crate) async fn record_newcomer(&self, volume: &CataloguedVolume) -> Result<(), Error> {
        self.change(|catalogue| {
            catalogue.next_attachment = catalogue.next_attachment.max(volume.attachment + 1);
            catalogue.volumes.push(volume.clone());
        })
        .await
    }

    /// A volume goes on under a new id, in place of the one under this id, which is dead then.
    pub(crate) async fn record_anew(&self, attachment: u64, anew: &CataloguedVolume) -> Result<(), Error> {
        self.change(|catalogue| {
            catalogue.next_attachment = catalogue.next_attachment.max(anew.attachment + 1);
            for entry in catalogue.volumes.iter_mut().filter(|entry| entry.attachment == attachment) {
                *entry = anew.clone();
            }
        })
        .await
    }

    /// A volume leaves: its id is dead.
    pub(crate) async fn record_departure(&self, attachment: u64) -> Result<(), Error> {
        self.change(|catalogue| catalogue.volumes.retain(|volume| volume.attachment != attachment)).await
    }

    /// Records a volume's settings and its name as they are by now: while it joins, nobody else knows where.
    pub(crate) async fn record_spec(&self, attachment: u64, spec: impl Fn() -> VolumeSpec) -> Result<(), Error> {
        loop {
            let spec = spec();
            let is_it = |entry: &CataloguedVolume| entry.attachment == attachment && entry.spec == spec;
            if self.catalogue.borrow().volumes.iter().any(is_it) {
                return Ok(());
            }
            self.change_volume(Some(attachment), |entry| entry.spec = spec.clone()).await?;
        }
    }

    /// Records a volume's settings. By its attachment: it may be given another name at the same time.
    pub(crate) async fn record_settings(&self, index: VolumeIndex, settings: VolumeSettings) -> Result<(), Error> {
        self.change_volume(self.ids.of(index), |volume| volume.spec.settings = settings).await
    }

    /// Records a volume's new name.
    pub(crate) async fn record_name(&self, index: VolumeIndex, to: &VolumeName) -> Result<(), Error> {
        self.check_new_name(to)?;
        self.change_volume(self.ids.of(index), |volume| volume.spec.name = to.clone()).await
    }

    /// Records what the backing devices of these attachments are now.
    pub(crate) async fn record_identities(&self, identities: &[(u64, BackingIdentity)]) -> Result<(), Error> {
        self.change(|catalogue| {
            for volume in &mut catalogue.volumes {
                if let Some((_, identity)) = identities.iter().find(|(id, _)| *id == volume.attachment) {
                    volume.backing = identity.clone();
                }
            }
        })
        .await
    }

    /// The volume goes on with all that is cached; what came to it at its end is on the backing device only.
    pub(crate) async fn record_growth(
        &self,
        known: CataloguedVolume,
        backing: BackingIdentity,
    ) -> Result<CataloguedVolume, Error> {
        let grown = CataloguedVolume { backing, ..known };
        self.record_identities(&[(grown.attachment, grown.backing.clone())]).await?;
        Ok(grown)
    }

    /// The device's mark of the last clean stop has been judged. It must never be compared again, because hosts write now;
    /// until then it stays, whatever else crashes.
    pub(crate) async fn forget_final_mark(&self, known: &CataloguedVolume) -> Result<(), Error> {
        if !known.backing.mark_is_final {
            return Ok(());
        }
        self.change_volume(Some(known.attachment), |entry| entry.backing.mark_is_final = false).await
    }

    /// Records that fingerprint pages among these are about to be written: they are not judged until they are settled again.
    pub(crate) async fn record_unsettled(&self, index: VolumeIndex, pages: &Range<u64>) -> Result<(), Error> {
        let Some(attachment) = self.ids.of(index) else { return Ok(()) };
        self.change_volume(Some(attachment), |volume| {
            for fingerprint in &mut volume.backing.fingerprints {
                fingerprint.unsettled |= pages.contains(&fingerprint.page);
            }
        })
        .await
    }

    /// Records that these fingerprint pages have these checksums, and are judged again. One that was recorded meanwhile stays as it is.
    pub(crate) async fn record_settled(&self, attachment: u64, settled: &[(u64, u64)]) -> Result<(), Error> {
        self.change_volume(Some(attachment), |volume| {
            for fingerprint in volume.backing.fingerprints.iter_mut().filter(|fingerprint| fingerprint.unsettled) {
                if let Some((_, checksum)) = settled.iter().find(|(page, _)| *page == fingerprint.page) {
                    (fingerprint.checksum, fingerprint.unsettled) = (*checksum, false);
                }
            }
        })
        .await
    }
}

/// # Panics
/// If an attachment id could be given away twice: what is dead under it would be believed of another volume.
fn assert_follows(before: &Catalogue, catalogue: &Catalogue) {
    let (next, next_before) = (catalogue.next_attachment, before.next_attachment);
    assert!(next >= next_before, "the next attachment is {next}, and was {next_before}");
    let is_known = |id: u64| before.volumes.iter().any(|volume| volume.attachment == id);
    let returned =
        catalogue.volumes.iter().find(|volume| volume.attachment < next_before && !is_known(volume.attachment));
    assert!(returned.is_none(), "attachment {:?} is dead, and comes back", returned.map(|volume| volume.attachment));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::catalogue::tests::volume;

    fn follows(change: impl FnOnce(&mut Catalogue)) {
        let before = Catalogue { next_attachment: 8, volumes: vec![volume(4, "a"), volume(7, "b")] };
        let mut catalogue = before.clone();
        change(&mut catalogue);
        assert_follows(&before, &catalogue);
    }

    #[test]
    fn volumes_join_under_new_ids_and_leave() {
        follows(|_| {});
        follows(|catalogue| drop(catalogue.volumes.pop()));
        follows(|catalogue| {
            catalogue.next_attachment = 9;
            catalogue.volumes.push(volume(8, "c"));
        });
    }

    #[test]
    #[should_panic(expected = "the next attachment is 7, and was 8")]
    fn the_next_attachment_does_not_go_back() {
        follows(|catalogue| catalogue.next_attachment = 7);
    }

    #[test]
    #[should_panic(expected = "attachment Some(5) is dead, and comes back")]
    fn an_attachment_that_is_dead_does_not_come_back() {
        follows(|catalogue| catalogue.volumes.push(volume(5, "c")));
    }
}
