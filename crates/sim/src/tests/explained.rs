//! What a fault of a backing device explains, and what it does not.

use std::cell::Cell;
use std::rc::Rc;

use hotset_block::{Buf, ByteRange, Device, DeviceError, DeviceErrorKind};

use crate::device::SimDevice;
use crate::disk::{Faults, Refuses};
use crate::world::{Asked, HostVolume, World};

const PAGE: u64 = 4096;

/// The volume of a world in which nothing else happens.
fn volume() -> (Rc<World>, Rc<HostVolume>) {
    let world = World::new(0, false);
    let host = Rc::clone(&world.volumes[0]);
    (world, host)
}

/// Runs it to its end.
fn finish<T: 'static>(world: &World, operation: impl Future<Output = T> + 'static) -> T {
    let outcome = Rc::new(Cell::new(None));
    let at_end = Rc::clone(&outcome);
    world.simulation.spawn(async move { at_end.set(Some(operation.await)) });
    loop {
        world.simulation.step();
        if let Some(outcome) = outcome.take() {
            return outcome;
        }
    }
}

fn read(world: &World, device: SimDevice, page: u64) -> Result<(), DeviceError> {
    finish(world, async move { device.read(page * PAGE, Buf::zeroed(4096)).await.1 })
}

fn flush(world: &World, device: SimDevice) -> Result<(), DeviceError> {
    finish(world, async move { device.flush().await })
}

fn pages(first: u64, count: u64) -> ByteRange {
    ByteRange::at(first * PAGE, count * PAGE)
}

#[test]
fn a_read_error_explains_what_needed_those_pages_meanwhile() {
    let (world, host) = volume();
    let before = host.faults(0);
    host.disk.set_faults(Faults { read_errors: 1000, ..Faults::default() });
    read(&world, SimDevice::open(&host.disk), 3).unwrap_err();
    let (first_bytes, beside) = (ByteRange::at(3 * PAGE, 512), pages(4, 9));
    assert!(host.explains(Asked::Read(first_bytes), before));
    assert!(host.explains(Asked::Change(first_bytes), before), "a part of a page is read, modified and written");
    assert!(!host.explains(Asked::Read(beside), before) && !host.explains(Asked::Change(beside), before));
    assert!(!host.explains(Asked::Flush, before));
    assert!(!host.explains(Asked::Read(first_bytes), host.faults(0)), "it came before");
}

#[test]
fn a_failed_flush_explains_until_the_device_is_opened_again_and_then_each_host_is_told_once() {
    let (world, host) = volume();
    let before = host.faults(0);
    host.disk.set_faults(Faults { flush_errors: 1000, ..Faults::default() });
    flush(&world, SimDevice::open(&host.disk)).unwrap_err();
    for faults in [before, host.faults(0)] {
        assert!(host.explains(Asked::Flush, faults) && host.explains(Asked::Change(pages(0, 1)), faults));
        assert!(!host.explains(Asked::Read(pages(0, 1)), faults), "reads go on");
    }
    host.trusted_after.set(host.disk.failed_operations());
    let told_of = host.disk.failed_operations();
    assert!(host.explains(Asked::Flush, host.faults(0)) && !host.explains(Asked::Flush, host.faults(told_of)));
    assert!(!host.explains(Asked::Change(pages(0, 1)), host.faults(0)));
}

#[test]
fn a_device_that_was_away_is_there_for_who_opens_it_again() {
    let (world, host) = volume();
    let (old, before) = (SimDevice::open(&host.disk), host.faults(0));
    host.disk.vanish();
    assert!(host.explains(Asked::Read(pages(0, 1)), before));
    let away = host.faults(0);
    host.disk.come_back();
    assert!(host.explains(Asked::Read(pages(0, 1)), away) && !host.explains(Asked::Read(pages(0, 1)), host.faults(0)));
    assert_eq!(read(&world, old, 0).unwrap_err().kind, DeviceErrorKind::Gone);
    read(&world, SimDevice::open(&host.disk), 0).unwrap();
}

#[test]
fn a_refused_write_explains_nothing_of_other_pages() {
    let (world, host) = volume();
    let before = host.faults(0);
    host.disk.refuse(Some(Refuses { error: DeviceErrorKind::Full, flushes: false, lands: false }));
    let device = SimDevice::open(&host.disk);
    let zeroes = Buf::zeroed(4096);
    finish(&world, async move { device.write(PAGE, zeroes).await.1 }).unwrap_err();
    assert!(host.explains(Asked::Change(pages(0, 2)), before) && !host.explains(Asked::Change(pages(2, 1)), before));
    assert!(!host.explains(Asked::Read(pages(0, 2)), before));
}
