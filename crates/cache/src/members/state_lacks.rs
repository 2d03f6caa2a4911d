//! Records of a pool that its state directory lacks.

use std::cell::RefCell;

use crate::format::record::RecordKind;

/// A record that the state directory did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissedRecord {
    pub(crate) number: u64,
    /// `None`: it did not take effect, and only a later one is to be believed.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The newest records that it lacks, of those that a start compares with the SSDs' to believe in the read cache.
#[derive(Debug, Default)]
pub(crate) struct StateLacks {
    members: RefCell<Option<MissedRecord>>,
    catalogue: RefCell<Option<MissedRecord>>,
}

impl StateLacks {
    fn of(&self, kind: RecordKind) -> Option<&RefCell<Option<MissedRecord>>> {
        match kind {
            RecordKind::Members => Some(&self.members),
            RecordKind::Catalogue => Some(&self.catalogue),
            RecordKind::Rows | RecordKind::Losses | RecordKind::Witness => None,
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        self.members.borrow().is_some() || self.catalogue.borrow().is_some()
    }

    pub(crate) fn get(&self, kind: RecordKind) -> Option<MissedRecord> {
        self.of(kind)?.borrow().clone()
    }

    /// What the newest record of a kind came to: `None`, it is there.
    pub(crate) fn note(&self, kind: RecordKind, missed: Option<MissedRecord>) {
        if let Some(lacks) = self.of(kind) {
            let (before, after) = (number_of(lacks.borrow().as_ref()), number_of(missed.as_ref()));
            let goes_on = before.zip(after).is_none_or(|(before, after)| after >= before);
            assert!(goes_on, "{kind:?} record {after:?} is missed after {before:?}");
            *lacks.borrow_mut() = missed;
        }
    }
}

fn number_of(missed: Option<&MissedRecord>) -> Option<u64> {
    missed.map(|missed| missed.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_start_compares_is_missed_until_a_newer_one_is_there() {
        let lacks = StateLacks::default();
        let missed = |number| Some(MissedRecord { number, bytes: None });
        for kind in [RecordKind::Rows, RecordKind::Losses, RecordKind::Witness] {
            lacks.note(kind, missed(1));
        }
        assert!(!lacks.is_any());
        lacks.note(RecordKind::Members, missed(2));
        lacks.note(RecordKind::Catalogue, missed(3));
        assert_eq!((lacks.get(RecordKind::Members), lacks.get(RecordKind::Catalogue)), (missed(2), missed(3)));
        lacks.note(RecordKind::Members, None);
        assert!(lacks.is_any());
        lacks.note(RecordKind::Catalogue, None);
        assert!(!lacks.is_any());
    }

    #[test]
    #[should_panic(expected = "Members record Some(1) is missed after Some(2)")]
    fn an_older_record_is_not_missed_in_place_of_a_newer_one() {
        let lacks = StateLacks::default();
        lacks.note(RecordKind::Members, Some(MissedRecord { number: 2, bytes: None }));
        lacks.note(RecordKind::Members, Some(MissedRecord { number: 1, bytes: None }));
    }
}
