//! The newest member records that a start finds, and what they say together.

use crate::format::catalogue::Catalogue;
use crate::format::losses::Losses;
use crate::format::members::MembersRecord;
use crate::format::rows::Rows;
use crate::format::witness::Witness;

/// More records than a pool writes while one of its members is away: of a thousand in a second, those of 49 days.
const SUPERSEDING: u64 = 1 << 32;

/// What the newest record of a kind says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbered<T> {
    /// The next record of the kind gets a higher one. It may be higher than that of the record itself: an SSD that is no member
    /// any more has a say in nothing, but may come back to be written over.
    pub(crate) number: u64,
    pub(crate) value: T,
}

/// What the members that are there know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundWitnesses {
    pub(crate) seen: Witness,
    /// Of the newest record.
    pub(crate) number: u64,
    /// Of the record on each SSD, and in the state directory; 0: it has none.
    pub(crate) ssds: Vec<(u128, u64)>,
    pub(crate) state: u64,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) members: Numbered<MembersRecord>,
    pub(crate) catalogue: Numbered<Catalogue>,
    pub(crate) rows: Numbered<Rows>,
    /// The number of the record that `rows` is.
    pub(crate) rows_newest: u64,
    /// What was lost while the pool ran; number 0: there is no such record.
    pub(crate) losses: Numbered<Losses>,
    pub(crate) witnesses: FoundWitnesses,
}

impl Records {
    /// Those of a pool that is made.
    pub(crate) fn first(members: MembersRecord) -> Self {
        let catalogue = Catalogue { next_attachment: 1, volumes: Vec::new() };
        Self {
            members: Numbered { number: 0, value: members },
            catalogue: Numbered { number: 0, value: catalogue },
            rows: Numbered::default(),
            rows_newest: 0,
            losses: Numbered::default(),
            witnesses: FoundWitnesses::default(),
        }
    }

    /// From now on what is there is the pool, and members that are not there may have later records: whatever they count,
    /// the next records count more, so that those members are old ones when they come back.
    pub(crate) fn supersede_missing_members(&mut self) {
        for number in [&mut self.members.number, &mut self.catalogue.number, &mut self.rows.number] {
            *number += SUPERSEDING;
        }
    }

    /// The rows ask for a losses record that is not there.
    pub(crate) fn lack_losses(&self) -> bool {
        (self.rows.value.losses > 0 || self.rows.value.lack_segments()) && !self.know_losses()
    }

    /// The losses record that the rows ask for is there, or a later one.
    pub(crate) fn know_losses(&self) -> bool {
        self.rows.value.losses > 0 && self.losses.number >= self.rows.value.losses
    }

    /// The losses, if they are known.
    pub(crate) fn known_losses(&self) -> Option<&Losses> {
        self.know_losses().then_some(&self.losses.value)
    }

    /// Attachments that lost nobody knows what: the row record says which they are, or else it may be any.
    pub(crate) fn unknown_losses(&self) -> Vec<u64> {
        let volumes = &self.catalogue.value.volumes;
        let mut unknown = self.rows.value.with_unknown_loss.clone();
        if self.lack_losses() {
            match &self.rows.value.with_loss {
                Some(with_loss) => unknown.extend(with_loss),
                None => unknown.extend(volumes.iter().map(|volume| volume.attachment)),
            }
        }
        unknown.retain(|attachment| volumes.iter().any(|volume| volume.attachment == *attachment));
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::catalogue::tests::volume;
    use crate::format::members::tests::sample;

    fn records(rows: Rows, losses_number: u64) -> Records {
        let mut records = Records::first(sample());
        records.catalogue.value.volumes = vec![volume(4, "a"), volume(7, "b")];
        records.rows.value = rows;
        records.losses.number = losses_number;
        records
    }

    #[test]
    fn losses_are_known_from_the_record_that_the_rows_ask_for_and_later_ones() {
        for (asked, number, known, lack) in
            [(0, 0, false, false), (0, 9, false, false), (9, 8, false, true), (9, 9, true, false), (9, 10, true, false)]
        {
            let records = records(Rows { losses: asked, ..Rows::default() }, number);
            assert_eq!((records.known_losses().is_some(), records.lack_losses()), (known, lack), "{asked}, {number}");
        }
    }

    #[test]
    fn without_the_record_whom_the_rows_name_lost_nobody_knows_what_or_else_everybody() {
        let rows = |with_loss| Rows { losses: 9, with_loss, with_unknown_loss: vec![2, 7], ..Rows::default() };
        assert_eq!(records(rows(Some(vec![4, 4])), 9).unknown_losses(), [7], "2 is gone");
        assert_eq!(records(rows(Some(vec![4, 4])), 8).unknown_losses(), [4, 7]);
        assert_eq!(records(rows(None), 8).unknown_losses(), [4, 7]);
    }

    #[test]
    fn members_that_are_missing_are_superseded_in_each_record_that_has_a_majority() {
        let mut records = records(Rows::default(), 3);
        records.members.number = 5;
        records.supersede_missing_members();
        let numbers = [records.members.number, records.catalogue.number, records.rows.number, records.losses.number];
        assert_eq!(numbers, [SUPERSEDING + 5, SUPERSEDING, SUPERSEDING, 3]);
    }
}
