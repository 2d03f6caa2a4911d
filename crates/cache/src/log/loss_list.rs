//! What is on record of what was lost: which record that is, whom it concerns, and the SSDs that may bring something back.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::address::VolumeIndex;
use crate::format::losses::Losses;
use crate::format::rows::Rows;
use crate::log::overlay::LivePage;
use crate::members::newest::Records;

/// Pages of a volume.
pub(crate) type Pages = (VolumeIndex, Range<u64>);

/// See the file's summary.
#[derive(Default)]
pub(crate) struct LossList {
    /// Of the newest losses record.
    number: Cell<u64>,
    /// Where the SSDs were last on which something lies that is set aside.
    paths: RefCell<BTreeMap<u128, String>>,
    /// SSDs on which something was set aside, and that are not back yet.
    awaited: RefCell<BTreeSet<u128>>,
    /// Pages that hosts wrote to the backing device and that the next losses record does not name any more.
    replaced: RefCell<Vec<Pages>>,
    /// Attachments that lost something which the losses record names.
    with_loss: RefCell<Vec<u64>>,
    /// The same, as the newest row record says that is durable; `None`: it asks for no losses record, or nobody knows.
    with_loss_recorded: RefCell<Option<Vec<u64>>>,
    /// Attachments that lost nobody knows what: they are fenced until that is accepted.
    with_unknown_loss: RefCell<Vec<u64>>,
}

impl LossList {
    /// What a start knows.
    pub(crate) fn take_from(&self, records: &Records) {
        let rows = &records.rows.value;
        self.number.set(records.losses.number.max(rows.losses));
        let listed = || records.known_losses().map(Losses::attachments).unwrap_or_default();
        *self.with_loss.borrow_mut() = rows.with_loss.clone().unwrap_or_else(listed);
        self.are_recorded(rows);
        *self.with_unknown_loss.borrow_mut() = records.unknown_losses();
    }

    /// Of the losses record that rows ask for.
    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }

    /// Rows ask for this record from here on.
    pub(crate) fn ask_for(&self, number: u64) {
        let before = self.number.get();
        assert!(number >= before, "rows ask for losses record {before}, and for an older one, {number}, after it");
        self.number.set(number);
    }

    // ---- what row records say of it

    /// A row record is about to be written.
    pub(crate) fn record_begins(&self) {
        self.with_loss_recorded.take();
    }

    /// This row record is durable.
    pub(crate) fn are_recorded(&self, rows: &Rows) {
        let named = (rows.losses > 0).then(|| rows.with_loss.clone().unwrap_or_default());
        *self.with_loss_recorded.borrow_mut() = named;
    }

    /// A durable row record asks for the losses record, and names all attachments that lost something.
    pub(crate) fn are_on_record(&self) -> bool {
        let with_loss = self.with_loss.borrow();
        let recorded = self.with_loss_recorded.borrow();
        recorded.as_ref().is_some_and(|named| with_loss.iter().all(|attachment| named.contains(attachment)))
    }

    // ---- whom it concerns

    pub(crate) fn with_loss(&self) -> Vec<u64> {
        self.with_loss.borrow().clone()
    }

    /// These attachments lost something, too; those that do not `live` any more are forgotten.
    pub(crate) fn add_with_loss(&self, attachments: Vec<u64>, lives: impl Fn(u64) -> bool) {
        let mut with_loss = self.with_loss.borrow_mut();
        with_loss.extend(attachments);
        with_loss.sort_unstable();
        with_loss.dedup();
        with_loss.retain(|attachment| lives(*attachment));
    }

    pub(crate) fn with_unknown_loss(&self) -> Vec<u64> {
        self.with_unknown_loss.borrow().clone()
    }

    /// What these lost and nobody knows is accepted, or is not after all.
    pub(crate) fn set_with_unknown_loss(&self, attachments: Vec<u64>) {
        *self.with_unknown_loss.borrow_mut() = attachments;
    }

    // ---- SSDs

    /// They may be away next time.
    pub(crate) fn note_paths(&self, paths: impl IntoIterator<Item = (u128, String)>) {
        self.paths.borrow_mut().extend(paths);
    }

    pub(crate) fn paths(&self) -> Vec<(u128, String)> {
        self.paths.borrow().iter().map(|(uuid, path)| (*uuid, path.clone())).collect()
    }

    /// Where an SSD was last; empty if nobody knows.
    pub(crate) fn path_of(&self, ssd_uuid: u128) -> String {
        self.paths.borrow().get(&ssd_uuid).cloned().unwrap_or_default()
    }

    /// It has what nobody else has.
    pub(crate) fn wait_for(&self, ssd_uuid: u128) {
        self.awaited.borrow_mut().insert(ssd_uuid);
    }

    /// It is back.
    pub(crate) fn is_back(&self, ssd_uuid: u128) {
        self.awaited.borrow_mut().remove(&ssd_uuid);
    }

    /// Nobody waits for any others any more.
    pub(crate) fn wait_only_for(&self, ssds: &[u128]) {
        self.awaited.borrow_mut().retain(|awaited| ssds.contains(awaited));
    }

    pub(crate) fn awaited(&self) -> Vec<u128> {
        self.awaited.borrow().iter().copied().collect()
    }

    // ---- pages that are to leave the list

    /// The next record does not name these pages, for the backing device has something newer.
    pub(crate) fn add_replaced(&self, pages: Pages) {
        self.replaced.borrow_mut().push(pages);
    }

    /// No record has left them out yet.
    pub(crate) fn is_named(&self, pages: &Pages) -> bool {
        self.replaced.borrow().contains(pages)
    }

    /// All pages that the record names no more that is about to be written.
    pub(crate) fn take_replaced(&self) -> Vec<Pages> {
        self.replaced.take()
    }

    /// That record could not be written: others than these pages have to be left out by the next one.
    pub(crate) fn put_back_replaced(&self, all: Vec<Pages>, but: &Pages) {
        assert!(all.contains(but), "{but:?} left no record that could not be written, and who waits is told so");
        self.replaced.borrow_mut().extend(all.into_iter().filter(|other| other != but));
    }
}

/// The page is among these.
pub(crate) fn is_among(pages: &[Pages], live: &LivePage) -> bool {
    pages.iter().any(|(volume, pages)| *volume == live.volume && pages.contains(&live.page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn attachments_that_lost_something_are_named_once_and_as_long_as_they_live() {
        let list = LossList::default();
        list.add_with_loss(vec![5, 3], |_| true);
        list.add_with_loss(vec![3, 4], |attachment| attachment != 5);
        assert_eq!(list.with_loss(), [3, 4]);
    }

    #[test]
    fn of_pages_that_a_failed_record_left_out_all_are_left_out_by_the_next_but_those_of_whoever_was_told() {
        let list = LossList::default();
        let pages = |start| (VolumeIndex(1), start..start + 2);
        [0, 2, 4].map(pages).into_iter().for_each(|pages| list.add_replaced(pages));
        let taken = list.take_replaced();
        assert!(!list.is_named(&pages(2)), "a record is about to leave it out");
        list.put_back_replaced(taken, &pages(2));
        assert_eq!([0, 2, 4].map(|start| list.is_named(&pages(start))), [true, false, true]);
    }

    #[test]
    fn an_ssd_is_awaited_until_it_is_back_and_its_path_is_known_then() {
        let list = LossList::default();
        list.note_paths([(7, "/dev/a".to_owned())]);
        list.note_paths([(7, "/dev/b".to_owned())]);
        list.wait_for(7);
        list.wait_for(8);
        assert_eq!(
            (list.awaited(), list.path_of(7), list.path_of(8)),
            (vec![7, 8], "/dev/b".to_owned(), String::new())
        );
        list.is_back(7);
        assert_eq!(list.awaited(), [8]);
        list.wait_for(9);
        list.wait_only_for(&[9, 10]);
        assert_eq!(list.awaited(), [9], "nobody waits for one that was not awaited");
        list.wait_only_for(&[]);
        assert_eq!(list.awaited(), []);
    }

    #[test]
    fn losses_are_on_record_when_a_durable_row_record_asks_for_them_and_names_all_whom_they_concern() {
        let list = LossList::default();
        let rows = |losses, named: &[u64]| Rows { losses, with_loss: Some(named.to_vec()), ..Rows::default() };
        list.add_with_loss(vec![3], |_| true);
        assert!(!list.are_on_record());
        list.are_recorded(&rows(0, &[3]));
        assert!(!list.are_on_record(), "it asks for none");
        list.are_recorded(&rows(1, &[3]));
        assert!(list.are_on_record());
        list.add_with_loss(vec![4], |_| true);
        assert!(!list.are_on_record(), "it does not name all");
        list.are_recorded(&rows(1, &[3, 4]));
        assert!(list.are_on_record());
        list.record_begins();
        assert!(!list.are_on_record(), "another record may take effect");
    }

    #[test]
    #[should_panic(expected = "rows ask for losses record 2, and for an older one, 1, after it")]
    fn rows_do_not_ask_for_an_older_record_of_losses() {
        let list = LossList::default();
        list.ask_for(2);
        list.ask_for(1);
    }

    #[test]
    fn whoever_hears_of_a_failed_record_had_its_pages_left_out_by_it() {
        assert_refused("left no record that could not be written", || {
            LossList::default().put_back_replaced(Vec::new(), &(VolumeIndex(1), 0..2));
        });
    }
}
