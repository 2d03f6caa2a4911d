//! What the engine writes to an SSD, recognised by how it begins (docs/FORMAT.md): so the world can strike where it hurts.

/// How a slot's header begins.
pub const SLOT_MAGIC: &[u8] = b"HOTSETsl";
/// How a sector of the slot index begins, and what it says behind its checksum if it is one of the journal.
const INDEX_MAGIC: &[u8] = b"HSix";
const JOURNAL_PLACE: &[u8] = &[1, 0];
/// Where the first entry of such a sector begins; each says first what it is.
const FIRST_ENTRY: usize = 44;
const PUBLISH: u8 = 1;
const DROP: u8 = 2;
const DROP_BYTES: usize = 13;

/// How a member record begins, and where and how it says that it is about the rows of a write log.
const RECORD_MAGIC: &[u8] = b"HOTSETmr";
const RECORD_KIND: std::ops::Range<usize> = 12..16;
const ROWS: [u8; 4] = [2, 0, 0, 0];

/// Whether a record of the write log's rows begins here.
pub fn is_row_record(bytes: &[u8]) -> bool {
    bytes.starts_with(RECORD_MAGIC) && bytes.get(RECORD_KIND) == Some(&ROWS)
}

/// Whether a slot begins here.
pub fn is_slot(bytes: &[u8]) -> bool {
    bytes.starts_with(SLOT_MAGIC)
}

/// Whether a sector of a slot index's journal begins here.
pub fn is_journal_sector(bytes: &[u8]) -> bool {
    bytes.starts_with(INDEX_MAGIC) && bytes.get(8..10) == Some(JOURNAL_PLACE)
}

/// Whether a sector of a slot index's journal begins here that publishes a slot.
pub fn is_publication(bytes: &[u8]) -> bool {
    let entries = bytes.get(FIRST_ENTRY..).filter(|_| is_journal_sector(bytes));
    let other_than_drop = entries.and_then(|entries| entries.chunks(DROP_BYTES).find(|entry| entry[0] != DROP));
    other_than_drop.is_some_and(|entry| entry[0] == PUBLISH)
}
