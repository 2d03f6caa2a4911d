//! What an administrator does to a volume whose backing device answers nothing: it ends in time, loses nothing that he did not
//! stop waiting, and holds up nobody else.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::device::SimDevice;
use crate::disk::{Disk, Faults, Speed};
use crate::executor::SimEnv;
use hotset_block::{ByteRange, Env};
use hotset_cache::config::{PoolKind, VolumeName, limits};
use hotset_cache::{DirtyData, Durability, ErrorKind, Health, Missing, Pool, PoolReason, Reattached, Volume};

use crate::tests::stage::{BLOCK, PAGE, VOLUME_BYTES, World, hang, named, open, run_one};

impl World {
    /// The device hangs over a read, a write, a fill and, if there is dirty data, over its cleaning.
    async fn let_it_hang(&self) {
        self.write(&self.volume, 5, 1).await.unwrap();
        hang(&self.backing);
        let volume = self.volume.clone();
        self.env.spawn(async move { drop(volume.read(ByteRange::at(32 * PAGE, PAGE)).await) });
        let volume = self.volume.clone();
        self.env.spawn(async move { drop(volume.populate(ByteRange::at(64 * PAGE, BLOCK)).await) });
        let (volume, half_page) = (self.volume.clone(), self.env.buffers().take(2048));
        self.env.spawn(async move { drop(volume.write(100 * PAGE, half_page, Durability::Volatile).await) });
        self.env.sleep(Duration::from_secs(20)).await;
    }

    /// The cache is taken from the other volume and given back, and it is read and written all the while.
    async fn change_the_other(&self) {
        self.write(&self.sound, 7, 7).await.unwrap();
        self.pool.detach(&self.sound.name(), DirtyData::Clean).await.unwrap();
        assert_eq!(self.read(&self.sound, 7).await, 7);
        self.pool.attach(&self.sound).await.unwrap();
        self.sound.populate(ByteRange::at(0, BLOCK)).await.unwrap();
        assert_eq!(self.read(&self.sound, 7).await, 7);
    }
}

/// Runs `flow` to its end, in worlds of its own with pools of either kind.
fn run(flow: impl AsyncFn(World) + Copy + 'static) {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        for seed in 0..20 {
            run_one(seed, kind, &["one", "two"], flow);
        }
    }
}

async fn change_what_hangs(world: World) {
    let World { env, pool, volume, backing, .. } = &world;
    world.let_it_hang().await;
    let began = env.now();

    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    hang(&newcomer);
    let error = pool.attach(&joining).await.unwrap_err();
    assert!(error.to_string().contains("backing device newcomer did not answer within 10 s"), "{error}");
    assert_eq!(joining.status().pool, None);

    backing.grow(2 * VOLUME_BYTES);
    let error = volume.grow().await.unwrap_err();
    assert!(error.to_string().contains("backing device backing did not answer"), "{error}");
    assert_eq!(volume.size_bytes(), VOLUME_BYTES, "what is not recorded is not served");
    let beyond = world.write(volume, VOLUME_BYTES / PAGE, 1).await.unwrap_err();
    assert_eq!(beyond.kind, ErrorKind::OutOfRange);

    let error = pool.detach(&volume.name(), DirtyData::Clean).await.unwrap_err();
    assert!([ErrorKind::Refused, ErrorKind::Media].contains(&error.kind), "{error}");
    assert!(volume.status().pool.is_some() && !volume.status().draining);
    assert!(env.now().since(began) <= 4 * limits::BACKING_TIMEOUT + Duration::from_secs(1), "four waits at most");
    world.change_the_other().await;

    backing.answer_all();
    newcomer.answer_all();
    env.sleep(Duration::from_secs(30)).await;
    assert_eq!(volume.grow().await.unwrap(), 2 * VOLUME_BYTES);
    pool.attach(&joining).await.unwrap();
    pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    assert_eq!(world.read(volume, 5).await, 1);
}

// They waited for as long as the device took, and every other change of the pool behind them.
// proves: F6
#[test]
fn changes_of_a_volume_whose_device_hangs_are_refused_in_time_and_others_are_made() {
    run(change_what_hangs);
}

async fn discard_what_hangs(world: World) {
    let World { env, pool, volume, backing, .. } = &world;
    world.let_it_hang().await;
    pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();
    let status = volume.status();
    assert_eq!((status.pool, status.dirty_bytes, status.health), (None, 0, Health::Failed));
    let error = volume.read(ByteRange::at(5 * PAGE, PAGE)).await.unwrap_err();
    assert!(error.to_string().contains("discarded while backing device backing did not answer"), "{error}");

    // Nothing of what is still on its way is taken for another volume's.
    world.change_the_other().await;
    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    pool.attach(&joining).await.unwrap();
    joining.populate(ByteRange::at(0, VOLUME_BYTES)).await.unwrap();

    backing.answer_reads();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(volume.status().health, Health::Failed, "a write is still on its way");
    backing.answer_all();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(volume.status().health, Health::Good);
    // What was sent before is over: it does not come after this.
    for page in [5, 100] {
        world.write(volume, page, 9).await.unwrap();
    }
    env.sleep(Duration::from_secs(30)).await;
    for page in [5, 100] {
        assert_eq!(world.read(volume, page).await, 9);
    }
    pool.attach(volume).await.unwrap();
    volume.populate(ByteRange::at(0, VOLUME_BYTES)).await.unwrap();
    for page in 0..VOLUME_BYTES / PAGE {
        assert_eq!(world.read(volume, page).await, if [5, 100].contains(&page) { 9 } else { 0 });
        assert_eq!(world.read(&joining, page).await, 0);
    }
}

// Whoever discards what a dead device was to get had to wait for the device.
// proves: F6
#[test]
fn a_volume_whose_device_hangs_can_be_detached_and_serves_again_when_all_that_was_sent_has_ended() {
    run(discard_what_hangs);
}

async fn discard_and_write_on(world: World) {
    let World { env, pool, volume, backing, sound, .. } = &world;
    let outcome = Rc::new(Cell::new(None));
    // It waits for the rest of its page.
    let (writer, half_page, told) = (volume.clone(), env.buffers().take(2048), Rc::clone(&outcome));
    world.write(volume, 5, 1).await.unwrap();
    hang(backing);
    env.spawn(async move {
        let written = writer.write(100 * PAGE, half_page, Durability::Volatile).await;
        told.set(Some(written.map_err(|error| error.kind)));
    });
    env.sleep(Duration::from_secs(20)).await;
    pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();

    // Several times what the log holds.
    let capacity = pool.status().write_log.unwrap().dirty_capacity_bytes;
    let rounds = 4 * capacity / VOLUME_BYTES + 1;
    for round in 0..rounds {
        for page in 0..VOLUME_BYTES / PAGE {
            world.write(sound, page, u8::try_from(round % 256).unwrap()).await.unwrap();
        }
    }
    let stats = sound.status().stats;
    assert!(stats.write_hits * 10 > stats.writes * 9, "writes go on through the cache: {stats:?}");
    backing.answer_all();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(outcome.get(), Some(Err(ErrorKind::Gone)), "nobody is told that what was discarded is there");
    assert_eq!(volume.status().health, Health::Good);
}

// The rows that its dirty pages were in could not be freed, and writes of all other volumes waited for room.
// proves: F6, D12
#[test]
fn what_a_device_that_hangs_was_to_get_takes_no_room_when_it_was_discarded() {
    for seed in 0..10 {
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], discard_and_write_on);
    }
}

/// Hosts write the same pages again and again; nothing is lost when the cache is taken away below them.
async fn detach_below_hosts(world: World) {
    let World { env, pool, .. } = &world;
    let speed = Speed { least_us: 200, most_us: 6000, flush_slowness: 10 };
    let backing = Disk::plain_of(&env.simulation, "busy", VOLUME_BYTES, speed);
    let volume = &open(env, &backing);
    pool.attach(volume).await.unwrap();
    let stop = Rc::new(Cell::new(false));
    let hosts: Vec<_> = (0..64).map(|page| (page, Rc::new(Cell::new(0_u8)))).collect();
    for (page, newest) in &hosts {
        let (volume, buffers, stop) = (volume.clone(), env.clone(), Rc::clone(&stop));
        let (page, newest) = (*page, Rc::clone(newest));
        env.spawn(async move {
            while !stop.get() {
                let mut buf = buffers.buffers().take(4096);
                let byte = newest.get().wrapping_add(1);
                buf.fill(byte);
                volume.write(page * PAGE, buf, Durability::Volatile).await.unwrap();
                newest.set(byte);
            }
        });
    }
    env.sleep(Duration::from_millis(100)).await;
    let began = env.now();
    pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    assert!(env.now().since(began) < Duration::from_secs(60), "it came to an end");
    stop.set(true);
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(volume.status().pool, None);
    for (page, newest) in &hosts {
        assert_eq!(world.read(volume, *page).await, newest.get());
        let mut on_backing = [0];
        backing.peek(*page * PAGE, &mut on_backing);
        assert_eq!(on_backing[0], newest.get());
    }
}

// A moment at which nothing was dirty did not come.
// proves: D6, F7
#[test]
fn the_cache_can_be_taken_away_while_hosts_overwrite_what_is_dirty() {
    for seed in 0..10 {
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], detach_below_hosts);
    }
}

async fn detach_beside_a_fill_that_hangs(world: World) {
    let World { env, pool, volume, backing, .. } = &world;
    hang(backing);
    let filled = volume.clone();
    env.spawn(async move { drop(filled.populate(ByteRange::at(0, BLOCK)).await) });
    env.sleep(Duration::from_secs(1)).await;
    pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    assert_eq!((volume.status().pool, volume.status().health), (None, Health::Degraded), "it serves, and hangs");
    world.change_the_other().await;
    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    pool.attach(&joining).await.unwrap();
    joining.populate(ByteRange::at(0, VOLUME_BYTES)).await.unwrap();
    assert_eq!(joining.status().cache_used_bytes, VOLUME_BYTES, "the fill that hangs is not taken for one of its own");
}

// It waited for the fill, and every other change of the pool behind it.
// proves: F6
#[test]
fn a_fill_that_hangs_holds_up_no_change() {
    run(detach_beside_a_fill_that_hangs);
}

/// A page is on its way from the log when the last SSD leaves, and a host writes it past the cache.
async fn write_past_a_late_cleaner(world: World) {
    let World { env, ssds, volume, backing, .. } = &world;
    let write = async |page: u64, byte: u8| {
        let (volume, ended) = (volume.clone(), Rc::new(Cell::new(false)));
        let mut buf = env.buffers().take(4096);
        buf.fill(byte);
        let told = Rc::clone(&ended);
        env.spawn(async move {
            volume.write(page * PAGE, buf, Durability::Volatile).await.unwrap();
            told.set(true);
        });
        ended
    };
    let first = write(5, 1).await;
    hang(backing);
    // Nothing else to do: it is cleaned.
    env.sleep(Duration::from_secs(20)).await;
    assert!(first.get() && backing.in_flight().contains("write"), "{}", backing.in_flight());
    backing.set_faults(Faults::default());
    ssds.iter().for_each(|ssd| ssd.vanish());
    drop(write(40, 1).await);
    env.sleep(Duration::from_secs(1)).await;
    assert!(volume.status().lost_bytes > 0, "{:?}", volume.status());

    let second = write(5, 2).await;
    env.sleep(Duration::from_secs(1)).await;
    assert!(!second.get(), "the older one is still on its way");
    backing.answer_all();
    while !second.get() {
        env.sleep(Duration::from_millis(1)).await;
    }
    let mut on_backing = [0];
    backing.peek(5 * PAGE, &mut on_backing);
    assert_eq!((world.read(volume, 5).await, on_backing[0]), (2, 2));
}

// Hosts' writes past the cache did not wait for the cleaner, for what it writes has a live copy, and is appended; unless the last
// SSD leaves meanwhile.
// proves: F5, F6
#[test]
fn what_the_cleaner_is_late_with_lands_on_nothing_newer() {
    for seed in 0..10 {
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], write_past_a_late_cleaner);
    }
}

async fn start_while_it_hangs(world: World) {
    let World { env, ssds, state, pool, volume, backing, sound, sound_backing } = world;
    let dirty = pool.status().kind == PoolKind::ReadWrite;
    let write = |byte| {
        let mut buf = env.buffers().take(4096);
        buf.fill(byte);
        volume.write(5 * PAGE, buf, Durability::Durable)
    };
    write(3).await.unwrap();
    pool.abandon();
    drop((volume, sound));
    hang(&backing);
    let state = SimDevice::open(&state);
    let pool = Pool::open(env.clone(), named(&ssds), Some(state), Missing::Refuse).await.unwrap();
    let (volume, sound) = (open(&env, &backing), open(&env, &sound_backing));
    let error = pool.reattach(&volume).await.unwrap_err();
    assert!(error.to_string().contains("did not answer within 10 s"), "{error}");
    assert!(matches!(pool.reattach(&sound).await.unwrap(), Reattached::Warm { .. }));
    backing.answer_all();
    assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }));
    assert_eq!(volume.status().dirty_bytes, if dirty { PAGE } else { 0 });
    assert_eq!(volume.read(ByteRange::at(5 * PAGE, PAGE)).await.unwrap()[0], 3);
}

// It waited, and with it every volume behind it.
// proves: F6
#[test]
fn a_volume_whose_device_hangs_at_the_start_is_left_out_in_time_and_comes_back_with_its_data() {
    run(start_while_it_hangs);
}

async fn serve_while_the_state_directory_hangs(world: World) {
    let World { env, ssds, state, pool, sound, .. } = &world;
    hang(state);
    let began = env.now();
    // Several times what the log holds: rows are opened, sealed and freed all the while. One SSD fails, and leaves.
    let capacity = pool.status().write_log.unwrap().dirty_capacity_bytes;
    let rounds = 4 * capacity / VOLUME_BYTES + 1;
    for round in 0..rounds {
        if round == rounds / 2 {
            ssds[0].vanish();
        }
        for page in 0..VOLUME_BYTES / PAGE {
            world.write(sound, page, u8::try_from(round % 256).unwrap()).await.unwrap();
        }
        sound.flush().await.unwrap();
        if round == 0 {
            let status = pool.status();
            assert_eq!((status.health, status.reason), (Health::Degraded, Some(PoolReason::StateIsBehind)));
        }
    }
    assert!(env.now().since(began) < Duration::from_secs(60), "it was waited for once");
    assert_eq!(pool.status().ssds.iter().filter(|ssd| ssd.online).count(), 3, "the SSD has left");
    state.answer_all();
    env.sleep(Duration::from_secs(1)).await;
    pool.set(pool.status().settings).await.unwrap();
    assert_ne!(pool.status().reason, Some(PoolReason::StateIsBehind));
}

// Whatever is recorded waited for it: no row was opened any more, no SSD could leave, and hosts' writes waited with them.
// proves: F6
#[test]
fn a_state_directory_that_hangs_stops_no_pool_whose_ssds_are_a_majority() {
    for seed in 0..10 {
        run_one(seed, PoolKind::ReadWrite, &["one", "two", "three", "four"], serve_while_the_state_directory_hangs);
    }
}

/// One of two SSDs fails beside a state directory that is slow: the two that are left are no majority one without the other.
async fn wait_for_the_state_directory(world: World) {
    let World { env, ssds, state, sound, .. } = &world;
    world.write(sound, 5, 1).await.unwrap();
    hang(state);
    ssds[0].vanish();
    let (volume, ended) = (sound.clone(), Rc::new(Cell::new(false)));
    let (told, mut buf) = (Rc::clone(&ended), env.buffers().take(4096));
    buf.fill(2);
    env.spawn(async move {
        volume.write(5 * PAGE, buf, Durability::Durable).await.unwrap();
        told.set(true);
    });
    env.sleep(Duration::from_secs(30)).await;
    assert!(!ended.get(), "without a record the other copy may still be believed");
    state.answer_all();
    while !ended.get() {
        env.sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(world.read(sound, 5).await, 2);
    world.write(sound, 6, 3).await.unwrap();
}

// It had failed after ten seconds, and with it the pool: its writes failed until a restart.
// proves: F2
#[test]
fn a_state_directory_that_is_slow_is_waited_for_where_the_ssds_are_no_majority() {
    for seed in 0..10 {
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], wait_for_the_state_directory);
    }
}

/// The state directory cannot record for a while that less is lost than before.
async fn keep_record_of_losses(world: World) {
    let World { env, ssds, state, pool, volume, backing, .. } = world;
    let write = async |volume: &Volume<SimEnv>, page: u64| {
        let mut buf = env.buffers().take(4096);
        buf.fill(2);
        volume.write(page * PAGE, buf, Durability::Durable).await
    };
    for page in [5, 6] {
        write(&volume, page).await.unwrap();
    }
    ssds.iter().for_each(|ssd| ssd.vanish());
    let _ = write(&volume, 40).await;
    while volume.status().lost_bytes < 2 * PAGE {
        env.sleep(Duration::from_millis(1)).await;
    }
    state.set_faults(Faults { write_errors: 1000, ..Faults::default() });
    for _ in 0..2 {
        assert!(write(&volume, 5).await.is_err(), "it is not on record that this page is mended");
    }
    state.set_faults(Faults::default());
    let fresh: Vec<_> = ["three", "four"].map(|name| Disk::plain(&env.simulation, name, 16 << 20)).into();
    pool.add_ssds(named(&fresh)).await.unwrap();
    write(&volume, 7).await.unwrap();
    pool.abandon();
    fresh.iter().chain([&state, &backing]).for_each(|disk| disk.kill());
    let pool = Pool::open(env.clone(), named(&fresh), Some(SimDevice::open(&state)), Missing::Leave).await.unwrap();
    let volume = open(&env, &backing);
    match pool.reattach(&volume).await.unwrap() {
        Reattached::Warm { .. } => {}
        Reattached::Dropped { reason } => panic!("{reason}"),
        Reattached::Fenced { reason, .. } => panic!("{reason}"),
    }
    assert!(volume.read(ByteRange::at(6 * PAGE, PAGE)).await.is_err(), "what is lost is still lost");
    assert_eq!(volume.read(ByteRange::at(7 * PAGE, PAGE)).await.unwrap()[0], 2);
}

// Rows asked for the record that could not be written, and a start took it for gone: nobody knew what was lost.
// proves: F5
#[test]
fn a_record_of_losses_that_could_not_be_written_is_asked_for_by_nobody() {
    for seed in 0..10 {
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], keep_record_of_losses);
    }
}

/// Runs it in many worlds: in enough of them it answers that it met the volume while it joined.
fn of_many_seeds(flow: impl AsyncFn(World) -> bool + Copy + 'static) {
    let times = Rc::new(Cell::new(0));
    for seed in 0..100 {
        let times = Rc::clone(&times);
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], async move |world| {
            times.set(times.get() + u64::from(flow(world).await));
        });
    }
    assert!(times.get() > 20, "the volume was met while it joined {} times", times.get());
}

/// The newcomer, when its daemon was killed and the next one has it, with what is cached of it.
async fn rejoined(
    env: &SimEnv,
    ssds: &[Rc<Disk>],
    [state, newcomer]: [&Rc<Disk>; 2],
    name: Option<VolumeName>,
) -> Volume<SimEnv> {
    ssds.iter().chain([state, newcomer]).for_each(|disk| disk.kill());
    let pool = Pool::open(env.clone(), named(ssds), Some(SimDevice::open(state)), Missing::Refuse).await.unwrap();
    let volume = open(env, newcomer);
    if let Some(name) = name {
        volume.rename(name).await.unwrap();
    }
    assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }));
    volume
}

/// A volume and its backing device that began to join the pool, which has something dirty, a moment ago.
async fn begin_to_join(world: &World) -> (Rc<Disk>, Volume<SimEnv>) {
    for page in 0..20 {
        world.write(&world.sound, page, 1).await.unwrap();
    }
    let env = &world.env;
    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    let (attached, pool) = (joining.clone(), world.pool.clone());
    env.spawn(async move { drop(pool.attach(&attached).await) });
    let pause = env.simulation.draw(|random| random.below(10_000));
    env.sleep(Duration::from_micros(pause)).await;
    (newcomer, joining)
}

/// Renames a volume while it joins, or a little later. The daemon dies as soon as a host's write was answered from the cache.
async fn rename_while_it_joins(world: World) -> bool {
    let (newcomer, joining) = begin_to_join(&world).await;
    let World { env, ssds, state, pool, .. } = world;
    let joins = joining.status().pool.is_none();
    let name: VolumeName = "renamed".parse().unwrap();
    joining.rename(name.clone()).await.unwrap();
    let (volume, buffers) = (joining.clone(), env.clone());
    env.spawn(async move {
        while volume.status().dirty_bytes == 0 {
            let is_cached = volume.status().pool.is_some();
            let mut buf = buffers.buffers().take(4096);
            buf.fill(if is_cached { 3 } else { 2 });
            volume.write(5 * PAGE, buf, Durability::Volatile).await.unwrap();
        }
    });
    while joining.status().dirty_bytes == 0 {
        env.sleep(Duration::from_micros(20)).await;
    }
    pool.abandon();
    let volume = rejoined(&env, &ssds, [&state, &newcomer], Some(name)).await;
    assert_eq!(volume.status().dirty_bytes, PAGE);
    assert!([2, 3].contains(&volume.read(ByteRange::at(5 * PAGE, PAGE)).await.unwrap()[0]));
    joins
}

// Its dirty data was found under the name that it had before, and by its new name it was served without (simulator: seed
// 914743).
// proves: F4
#[test]
fn the_name_that_a_volume_gets_while_it_joins_is_recorded_before_a_host_is_answered_from_the_cache() {
    of_many_seeds(rename_while_it_joins);
}

/// A volume grows while it joins the pool, and a host writes to what was added; whether it grew before it had joined.
async fn grow_while_it_joins(world: World) -> bool {
    let (newcomer, joining) = begin_to_join(&world).await;
    let World { env, ssds, state, pool, .. } = world;
    newcomer.grow(2 * VOLUME_BYTES);
    let joins = joining.status().pool.is_none();
    assert_eq!(joining.grow().await.unwrap(), 2 * VOLUME_BYTES);
    while joining.status().dirty_bytes == 0 {
        let mut buf = env.buffers().take(4096);
        buf.fill(3);
        joining.write(VOLUME_BYTES, buf, Durability::Volatile).await.unwrap();
    }
    pool.abandon();
    let volume = rejoined(&env, &ssds, [&state, &newcomer], None).await;
    assert_eq!(volume.read(ByteRange::at(VOLUME_BYTES, PAGE)).await.unwrap()[0], 3);
    joins
}

// The pool recorded the size that the volume had when it began to join. What hosts wrote behind that was in the log, and a
// start took it for nobody's, because no host could have written there (simulator: seeds 30008679 and 30011879).
// proves: F7
#[test]
fn what_is_added_to_a_volume_while_it_joins_is_the_pools_too() {
    of_many_seeds(grow_while_it_joins);
}
