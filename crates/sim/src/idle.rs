//! What happens between two daemons: SSDs go and come, the state directory is lost, SSDs are damaged where they lie, and
//! backing devices are used by others.

use std::rc::Rc;

use hotset_block::{ByteRange, PAGE_BYTES};

use crate::chaos::{rot, ssd_errors, ssd_hangs, ssd_is_late};
use crate::image::{Image, index};
use crate::recognise::{SLOT_MAGIC, is_journal_sector};
use crate::second_loss;
use crate::shape::Profile;
use crate::world::{Attachment, HostVolume, Ssd, World};

/// The size up to which backing devices grow.
const BACKING_BYTES_MAX: u64 = 16 << 20;

/// `clean`: the last daemon stopped cleanly, and the machine has run since.
pub fn between_lives(world: &Rc<World>, clean: bool) {
    if world.shape.profile == Profile::OneCopy {
        lose_first_ssd(world);
    } else if world.shape.profile == Profile::AlternateMissing {
        miss_one_ssd(world);
    } else if world.shape.profile == Profile::SecondLoss {
        second_loss::find_some(world);
    }
    let mut turned_back = false;
    let others = |ssd: &&Ssd| world.may_damage(ssd) && world.shape.profile != Profile::SecondLoss;
    for ssd in world.ssds.iter().filter(others) {
        turned_back |= move_ssd(world, ssd);
        damage(world, ssd);
    }
    // Whoever puts back old copies of SSDs may well have lost the rest of the machine.
    let with_it = turned_back && world.shape.profile == Profile::LostState;
    if with_it || world.simulation.draw(|random| random.one_in(if turned_back { 3 } else { 8 })) {
        lose_state(world);
    }
    for volume in &world.volumes {
        if world.shape.troubles.changes_behind_our_back {
            use_backing_elsewhere(world, volume, clean);
        }
        if world.shape.troubles.administrators && world.simulation.draw(|random| random.one_in(6)) {
            grow_backing(world, volume);
        }
    }
}

/// Some SSDs fail from the first moment of a daemon's life.
pub fn before_life(world: &World) {
    let troubles = world.shape.troubles;
    let late = world.shape.profile == Profile::LateLog;
    if [Profile::AlternateMissing, Profile::FailingSsd].contains(&world.shape.profile) {
        // Which SSD is the only one of the pool shows when it is open; what is cold has nothing to lose.
        return;
    }
    for ssd in world.present_ssds().filter(|ssd| late || world.may_damage(ssd)) {
        if [Profile::LateSsds, Profile::LateLog].contains(&world.shape.profile) {
            ssd_is_late(world, ssd);
        } else if troubles.ssd_errors && world.simulation.draw(|random| random.one_in(6)) {
            ssd_errors(world, ssd);
        } else if troubles.ssd_hangs && world.simulation.draw(|random| random.one_in(6)) {
            ssd_hangs(world, ssd);
        }
    }
}

fn lose_first_ssd(world: &World) {
    let ssd = &world.ssds[0];
    let pool_of = |ssd: &Ssd| ssd.label().ok().flatten().filter(|label| !label.spare).map(|label| label.pool_uuid);
    // Where the making of the pool was cut short, it may be the only one; or the one that proves what the other one says.
    let is_copied =
        !world.state_is_blank.get() && world.present_ssds().filter(|other| pool_of(other) == pool_of(ssd)).count() > 1;
    if is_copied && ssd.present.get() && world.simulation.draw(|random| random.one_in(2)) {
        world.simulation.note(|| format!("{}: is lost", ssd.disk.name));
        world.trouble_ssds();
        ssd.present.set(false);
    }
}

/// All SSDs are there, or all but one, with everything that they held.
fn miss_one_ssd(world: &World) {
    let errors = world.shape.troubles.ssd_errors;
    if errors && world.ssds[0].disk.failed_operations() == 0 {
        return;
    }
    // The one that has failed is there, and the other one is not.
    let other = errors && world.simulation.draw(|random| random.percent(85));
    let missing = if other { 1 } else { world.simulation.draw(|random| random.index(world.ssds.len() + 1)) };
    for (number, ssd) in world.ssds.iter().enumerate() {
        ssd.present.set(number != missing);
    }
    if missing < world.ssds.len() {
        world.simulation.note(|| format!("{}: is missing", world.ssds[missing].disk.name));
        world.trouble_ssds();
    }
}

fn lose_state(world: &World) {
    // With the SSDs that left it may be the only member that knows what is left of them.
    if world.writes_back() && (world.ssds_suffered.get() || world.thinned.get()) {
        return;
    }
    world.cache_trouble.set(true);
    world.lose_state();
    if world.ssds_suffered.get() {
        world.forget_what_is_known();
    }
}

/// Whether the SSD is now an old copy of what it was.
fn move_ssd(world: &World, ssd: &Ssd) -> bool {
    let troubles = world.shape.troubles;
    if ssd.disk.is_gone() {
        // It fell out: perhaps it is plugged in again before the next start.
        ssd.present.set(world.simulation.draw(|random| random.one_in(2)));
        world.simulation.note(|| format!("{}: plugged in: {}", ssd.disk.name, ssd.present.get()));
    } else if !ssd.present.get() {
        if world.simulation.draw(|random| random.one_in(2)) {
            come_back(world, ssd);
        }
    } else if troubles.ssds_vanish && world.simulation.draw(|random| random.one_in(8)) {
        world.simulation.note(|| format!("{}: pulled out", ssd.disk.name));
        ssd.present.set(false);
    } else if troubles.ssds_vanish && !ssd.missed.get() && world.simulation.draw(|random| random.one_in(3)) {
        *ssd.snapshot.borrow_mut() = Some(ssd.disk.content());
    }
    let turned_back = swap_old_copy(world, ssd);
    if !ssd.present.get() {
        world.trouble_ssds();
    }
    turned_back
}

/// An SSD that was always there is replaced by a copy of what it was some lives ago.
fn swap_old_copy(world: &World, ssd: &Ssd) -> bool {
    let troubles = world.shape.troubles;
    let turns_back = [Profile::OldContent, Profile::LostState].contains(&world.shape.profile);
    let may = (troubles.ssds_vanish || turns_back) && ssd.present.get() && !ssd.missed.get();
    let one_in = if turns_back { 2 } else { 6 };
    if !may || !world.simulation.draw(|random| random.one_in(one_in)) {
        return false;
    }
    let Some(snapshot) = ssd.snapshot.take() else { return false };
    world.trouble_ssds();
    world.simulation.note(|| format!("{}: replaced by an old copy of it", ssd.disk.name));
    ssd.disk.replace_content(snapshot);
    true
}

/// An SSD is damaged where it lies.
fn damage(world: &World, ssd: &Ssd) {
    let troubles = world.shape.troubles;
    if troubles.rot && world.simulation.draw(|random| random.one_in(8)) {
        rot(world, ssd);
    }
    if troubles.rot && world.simulation.draw(|random| random.one_in(8)) {
        scribble(world, ssd);
    }
    if troubles.misplaced_slots && world.simulation.draw(|random| random.one_in(2)) {
        misplace_slots(world, ssd);
    }
    if troubles.misplaced_slots && world.simulation.draw(|random| random.one_in(4)) {
        lose_journal_sector(world, ssd);
    }
    // One that is alone, because the making of its pool was cut off, may lose what was flushed within 100 ms (docs/FORMAT.md).
    let loses_end = world.shape.profile == Profile::LostTails && world.simulation.draw(|random| random.one_in(2));
    if loses_end && world.has_another(ssd) {
        lose_end_of_journal(world, ssd);
    }
    let turns_back = troubles.misplaced_slots || world.shape.profile == Profile::LostState;
    if turns_back && ssd.snapshot.borrow().is_none() {
        *ssd.snapshot.borrow_mut() = Some(ssd.disk.content());
    }
}

/// A region anywhere on the SSD is overwritten.
fn scribble(world: &World, ssd: &Ssd) {
    world.trouble_ssds();
    let size = ssd.disk.info().size_bytes;
    let (start, length) = world.simulation.draw(|random| {
        let longest = random.pick(&[4096, 64 << 10, 1 << 20]);
        let start = if random.one_in(3) { random.below(512 << 10) } else { random.below(size - 512) };
        (start / 512 * 512, random.between(1, longest / 512) * 512)
    });
    let range = ByteRange { start, end: (start + length).min(size) };
    let mut bytes = ssd.disk.content().bytes(range);
    bytes.fill_with(|| u8::try_from(world.simulation.draw(|random| random.below(256))).expect("it is below 256"));
    ssd.disk.overwrite(range.start, &bytes);
    world.simulation.note(|| format!("{}: {range:?} is overwritten", ssd.disk.name));
}

/// Some slots hold, header and all, what another slot holds, or what they held at an earlier time.
fn misplace_slots(world: &World, ssd: &Ssd) {
    let now = ssd.disk.content();
    let then = ssd.snapshot.borrow().clone().filter(|_| world.simulation.draw(|random| random.percent(70)));
    let source = then.as_ref().unwrap_or(&now);
    let mut slots = slots_of(source);
    // Those of another pool, whose slots were of another size, would be written across the slots of this one.
    let own = slots_of(&now);
    slots.retain(|slot| own.contains(slot));
    if slots.is_empty() {
        return;
    }
    world.trouble_ssds();
    for _ in 0..slots.len() {
        let from = world.simulation.draw(|random| random.pick(&slots));
        // A slot that moved in time stays at its place.
        let to = if then.is_some() { from } else { world.simulation.draw(|random| random.pick(&slots)) };
        if from.length() == to.length() {
            ssd.disk.overwrite(to.start, &source.bytes(from));
        }
    }
    let kind = if then.is_some() { "old ones" } else { "other ones" };
    world.simulation.note(|| format!("{}: {kind} lie where slots were", ssd.disk.name));
}

/// Number, "flushed below" and place of every sector of the journal.
fn journal_sectors(ssd: &Ssd) -> Vec<(u64, u64, u64)> {
    let content = ssd.disk.content();
    let sector = u64::from(ssd.disk.info().logical_block_bytes);
    let mut sectors = Vec::new();
    for page in content.data_pages() {
        for start in (page * 4096..(page + 1) * 4096).step_by(index(sector)) {
            let head = content.bytes(ByteRange::at(start, 36));
            if is_journal_sector(&head) {
                let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
                sectors.push((number(20), number(28), start));
            }
        }
    }
    sectors
}

/// The page with the newest sectors of the journal reads as zeroes, or as it was when the last daemon started.
fn lose_end_of_journal(world: &World, ssd: &Ssd) {
    let newest = journal_sectors(ssd).into_iter().max();
    let (Some((number, _, place)), Some(then)) = (newest, ssd.at_start.borrow().clone()) else { return };
    world.trouble_ssds();
    let page = ByteRange::at(place / 4096 * 4096, 4096);
    let erased = world.simulation.draw(|random| random.one_in(2));
    let bytes = if erased { vec![0; PAGE_BYTES] } else { then.bytes(page) };
    ssd.disk.overwrite(page.start, &bytes);
    world.simulation.note(|| format!("{}: loses its journal up to sector {number}, erased: {erased}", ssd.disk.name));
}

/// A sector of the journal, and not the last one, is as if it had never been written.
fn lose_journal_sector(world: &World, ssd: &Ssd) {
    let mut sectors = journal_sectors(ssd);
    let sector = u64::from(ssd.disk.info().logical_block_bytes);
    let Some(flushed) = sectors.iter().map(|(_, flushed_below, _)| *flushed_below).max() else { return };
    sectors.retain(|(number, _, _)| *number < flushed);
    sectors.sort_unstable();
    if let Some((number, _, start)) = sectors.last() {
        world.trouble_ssds();
        world.journal_damaged.set(true);
        ssd.disk.overwrite(*start, &vec![0; index(sector)]);
        world.simulation.note(|| format!("{}: sector {number} of its journal is lost", ssd.disk.name));
    }
}

/// From each slot header to the next.
fn slots_of(image: &Image) -> Vec<ByteRange> {
    let page = u64::try_from(PAGE_BYTES).expect("an address has 64 bits at most");
    let starts = image.data_pages().into_iter().map(|number| number * page);
    let starts: Vec<_> = starts.filter(|start| image.bytes(ByteRange::at(*start, 8)) == SLOT_MAGIC).collect();
    starts.windows(2).map(|pair| ByteRange { start: pair[0], end: pair[1] }).collect()
}

/// An SSD is plugged in again. If the pool was opened without it, it may even be an older copy of it.
fn come_back(world: &World, ssd: &Ssd) {
    ssd.present.set(true);
    world.trouble_ssds();
    let snapshot = ssd.snapshot.take().filter(|_| ssd.missed.get());
    let is_old = snapshot.is_some();
    if let Some(snapshot) = snapshot.filter(|_| world.simulation.draw(|random| random.one_in(2))) {
        ssd.disk.replace_content(snapshot);
    }
    world.simulation.note(|| format!("{}: plugged in again, there is an old copy: {is_old}", ssd.disk.name));
}

fn use_backing_elsewhere(world: &World, volume: &HostVolume, clean: bool) {
    let detached = volume.attachment.get() == Attachment::Detached;
    // After a crash, or of a device that failed, there is no mark of a clean stop that would show the change.
    let noticeable = clean && volume.shape.reports_changes && !volume.shaken.get();
    if volume.right_one.borrow().is_some() {
        if world.simulation.draw(|random| random.one_in(2)) {
            world.simulation.note(|| format!("{}: the right device is back", volume.disk.name));
            volume.put_right();
        }
        return;
    }
    let choice = world.simulation.draw(|random| random.below(12));
    if choice == 0 {
        world.simulation.note(|| format!("{}: replaced by another device", volume.disk.name));
        let name = format!("other-{}", world.simulation.unique());
        set_aside(world, volume);
        volume.disk.set_id(&name);
        write_elsewhere(volume, ByteRange { start: 0, end: volume.size_bytes() });
    } else if choice < 5 && (detached || noticeable) {
        let unit = u64::from(volume.disk.info().logical_block_bytes);
        set_aside(world, volume);
        for _ in 0..world.simulation.draw(|random| random.between(1, 20)) {
            let start = world.simulation.draw(|random| random.below(volume.size_bytes() / unit)) * unit;
            let length = world.simulation.draw(|random| random.between(1, 32)) * 4096;
            write_elsewhere(volume, ByteRange { start, end: (start + length).min(volume.size_bytes()) });
        }
        world.simulation.note(|| format!("{}: written to by somebody else", volume.disk.name));
    }
}

/// The backing device gets more room: as a logical volume does, where nothing else tells that somebody was there, or as a
/// file does, whose mark changes with it. Who finds that may take it for a changed one.
fn grow_backing(world: &World, volume: &HostVolume) {
    let grown = make_room(world, volume);
    if grown && !world.may_hold_dirty_data(volume) && world.simulation.draw(|random| random.one_in(2)) {
        volume.disk.overwrite(0, &[]);
        volume.shaken.set(true);
    }
}

/// The backing device gets more room, if it still is the volume's; nobody else is told.
pub fn make_room(world: &World, volume: &HostVolume) -> bool {
    let size = volume.size_bytes();
    let whole = size.is_multiple_of(4096);
    if !whole || size > BACKING_BYTES_MAX || volume.right_one.borrow().is_some() || volume.changed.get() {
        return false;
    }
    let size = size + world.simulation.draw(|random| random.between(1, 512)) * 4096;
    world.simulation.note(|| format!("{}: grows to {size} bytes", volume.disk.name));
    volume.disk.grow(size);
    volume.model.borrow_mut().grow(size);
    true
}

/// Where the pool may hold newer data, nobody can take the changed device for the volume: the right one is kept.
fn set_aside(world: &World, volume: &HostVolume) {
    if world.may_hold_dirty_data(volume) {
        *volume.right_one.borrow_mut() = Some(volume.disk.save());
    }
}

fn write_elsewhere(volume: &HostVolume, range: ByteRange) {
    let mut model = volume.model.borrow_mut();
    let aside = volume.right_one.borrow().is_some();
    let number = if aside { model.number_elsewhere() } else { model.overwritten(range) };
    let mut bytes = volume.disk.content().bytes(range);
    model.fill(number, range, &mut bytes);
    volume.disk.overwrite(range.start, &bytes);
    if volume.attachment.get() != Attachment::Detached {
        volume.changed.set(true);
    }
}
