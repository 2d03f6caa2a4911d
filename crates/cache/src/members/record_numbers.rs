//! The numbers of the newest records of which every member keeps a copy.

use std::cell::Cell;

use crate::format::record::RecordKind;

/// See the file's summary.
pub(crate) struct RecordNumbers {
    members: Cell<u64>,
    catalogue: Cell<u64>,
    rows: Cell<u64>,
}

impl RecordNumbers {
    pub(crate) fn new(members: u64, catalogue: u64, rows: u64) -> Self {
        Self { members: Cell::new(members), catalogue: Cell::new(catalogue), rows: Cell::new(rows) }
    }

    pub(super) fn of(&self, kind: RecordKind) -> &Cell<u64> {
        match kind {
            RecordKind::Members => &self.members,
            RecordKind::Rows => &self.rows,
            RecordKind::Catalogue => &self.catalogue,
            RecordKind::Losses | RecordKind::Witness => unreachable!("whoever writes these numbers them"),
        }
    }
}
