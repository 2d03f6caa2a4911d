//! The map from the volume to the disks, against a table of where every chunk lies that is built without arithmetic.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use crate::ByteRange;
use crate::emulated::Level;
use crate::emulated::layout::{Layout, Piece};

const CHUNK: u64 = 4096;

/// What a disk holds in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Data(u64),
    Parity,
    Mirror(u64),
}

/// The rows of an array as one would draw them: the parity moves one disk to the left in every row, data follow it.
fn drawn(level: Level, disks: usize, rows: usize) -> Vec<Vec<Cell>> {
    let mut chunk = 0;
    let mut next = || {
        chunk += 1;
        Cell::Data(chunk - 1)
    };
    let parities = match level {
        Level::Raid5 => 1,
        Level::Raid6 => 2,
        Level::Raid0 | Level::Raid10 => 0,
    };
    let mut table = Vec::new();
    for row in 0..rows {
        let mut cells: Vec<Cell> = vec![Cell::Parity; parities];
        while cells.len() < disks {
            let cell = next();
            cells.push(cell);
            if let (Level::Raid10, Cell::Data(data)) = (level, cell) {
                cells.push(Cell::Mirror(data));
            }
        }
        if parities > 0 {
            cells.rotate_right((disks - 1) - row % disks);
        }
        table.push(cells);
    }
    table
}

fn level_and_disks() -> impl Strategy<Value = (Level, u32)> {
    prop_oneof![
        (1_u32..20).prop_map(|disks| (Level::Raid0, disks)),
        (3_u32..20).prop_map(|disks| (Level::Raid5, disks)),
        (4_u32..20).prop_map(|disks| (Level::Raid6, disks)),
        (1_u32..10).prop_map(|pairs| (Level::Raid10, 2 * pairs)),
    ]
}

fn chunk_of(piece: Piece) -> (usize, usize) {
    (usize::try_from(piece.range.start / CHUNK).unwrap(), piece.disk)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_chunk_lies_where_the_drawn_table_has_it((level, disks) in level_and_disks(), rows in 1_usize..50) {
        let layout = Layout::new(level, disks, CHUNK);
        let table = drawn(level, usize::try_from(disks).unwrap(), rows);
        let mut seen = HashSet::new();
        let chunks = u64::try_from(rows).unwrap() * layout.stripe_bytes() / CHUNK;
        for chunk in 0..chunks {
            let pieces = layout.pieces(ByteRange::at(chunk * CHUNK, CHUNK));
            prop_assert_eq!(pieces.len(), 1);
            let (row, disk) = chunk_of(pieces[0]);
            prop_assert_eq!(table[row][disk], Cell::Data(chunk));
            prop_assert!(seen.insert((row, disk)));
            if let Some(mirror) = layout.mirror(pieces[0]) {
                let (row, disk) = chunk_of(mirror);
                prop_assert_eq!(table[row][disk], Cell::Mirror(chunk));
            }
        }
    }

    #[test]
    fn a_write_touches_every_byte_of_its_data_and_the_parity_over_it(
        (level, disks) in level_and_disks(),
        stripe in 0_u64..50,
        first in 0_u64..64,
        length in 1_u64..64,
    ) {
        let layout = Layout::new(level, disks, CHUNK);
        let whole = ByteRange::at(stripe * layout.stripe_bytes(), layout.stripe_bytes());
        let asked = ByteRange::at(whole.start + first * 512, length * 512);
        let Some(range) = whole.intersection(asked) else { return Ok(()) };
        let plan = layout.write(stripe, &[range]);
        let table = drawn(level, usize::try_from(disks).unwrap(), 50);
        let mut data_bytes = 0;
        let mut covered: HashMap<(usize, usize), ByteRange> = HashMap::new();
        for piece in &plan.writes {
            let (row, disk) = chunk_of(*piece);
            match table[row][disk] {
                Cell::Data(_) => data_bytes += piece.range.length(),
                Cell::Parity | Cell::Mirror(_) => {}
            }
            prop_assert!(covered.insert((row, disk), piece.range).is_none(), "no disk is written twice");
        }
        prop_assert_eq!(data_bytes, range.length());
        let partial_with_parity = range != whole && matches!(level, Level::Raid5 | Level::Raid6);
        prop_assert_eq!(plan.reads.clone(), if partial_with_parity { plan.writes.clone() } else { Vec::new() });
    }
}
