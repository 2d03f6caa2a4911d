//! The world and the model without the engine: a volume that passes everything through must please the model whatever
//! happens, and volumes with one fault each must not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::device::SimDevice;
use crate::disk::{Disk, Speed};
use crate::executor::{SimEnv, Simulation};
use crate::model::{Answered, Ending, VolumeModel};
use hotset_block::{ByteRange, Device, Env};

const SIZE: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// How the volume under test treats its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Honest,
    /// Pages once read are answered from memory for ever.
    KeepsStalePages,
    /// Flushes are answered without a device flush.
    FlushesNothing,
    /// A flush that comes while another one runs is answered with it.
    JoinsRunningFlush,
    /// Writes are answered when they are submitted.
    AnswersEarly,
    /// Writes go to the neighbouring page.
    Misplaces,
}

#[derive(Clone)]
struct Volume {
    env: SimEnv,
    device: Rc<SimDevice>,
    manner: Manner,
    pages: Rc<RefCell<BTreeMap<u64, Vec<u8>>>>,
    flushing: Rc<Cell<u64>>,
}

impl Volume {
    async fn read(&self, page: u64) -> Vec<u8> {
        let kept = self.pages.borrow().get(&page).cloned();
        if let Some(kept) = kept.filter(|_| self.manner == Manner::KeepsStalePages) {
            return kept;
        }
        let (buf, outcome) = self.device.read(page * PAGE, self.env.buffers().take(4096)).await;
        outcome.expect("this disk has no faults");
        self.pages.borrow_mut().insert(page, buf.to_vec());
        buf.to_vec()
    }

    async fn write(&self, page: u64, bytes: &[u8]) {
        let page = if self.manner == Manner::Misplaces { page ^ 1 } else { page };
        let mut buf = self.env.buffers().take(4096);
        buf.copy_from_slice(bytes);
        let device = Rc::clone(&self.device);
        let write = async move { device.write(page * PAGE, buf).await.1.expect("this disk has no faults") };
        if self.manner == Manner::AnswersEarly {
            self.env.spawn(write);
        } else {
            write.await;
        }
    }

    async fn flush(&self) {
        match self.manner {
            Manner::FlushesNothing => return,
            Manner::JoinsRunningFlush if self.flushing.get() > 0 => {
                while self.flushing.get() > 0 {
                    self.env.sleep(Duration::from_micros(50)).await;
                }
                return;
            }
            Manner::JoinsRunningFlush
            | Manner::Honest
            | Manner::KeepsStalePages
            | Manner::AnswersEarly
            | Manner::Misplaces => {}
        }
        self.flushing.set(self.flushing.get() + 1);
        self.device.flush().await.expect("this disk has no faults");
        self.flushing.set(self.flushing.get() - 1);
    }
}

/// One host: random requests for ever, each told to the model.
async fn host(volume: Volume, model: Rc<RefCell<VolumeModel>>) {
    let simulation = Rc::clone(&volume.env.simulation);
    loop {
        let (page, kind, pause) =
            simulation.draw(|random| (random.below(SIZE / PAGE), random.below(10), random.below(2000)));
        let range = ByteRange::at(page * PAGE, PAGE);
        match kind {
            0..5 => {
                let begun = model.borrow_mut().begin_read();
                let bytes = volume.read(page).await;
                report(&simulation, model.borrow_mut().end_read(begun, range, Some(&bytes)));
            }
            5..9 => {
                let number = model.borrow_mut().begin_write(range, false);
                let mut bytes = vec![0; 4096];
                model.borrow().fill(number, range, &mut bytes);
                volume.write(page, &bytes).await;
                model.borrow_mut().end_write(number, Answered::Done);
            }
            _ => {
                let begun = model.borrow_mut().begin_flush();
                volume.flush().await;
                model.borrow_mut().end_flush(begun);
            }
        }
        volume.env.sleep(Duration::from_micros(pause)).await;
    }
}

fn report(simulation: &Simulation, outcome: Result<(), String>) {
    if let Err(complaint) = outcome {
        simulation.trace.violate(simulation.now().0, complaint);
    }
}

/// Several daemons one after the other, each ended by a kill or a power cut. The history, and what was wrong with it.
fn run(seed: u64, manner: Manner) -> (u64, Option<String>) {
    let simulation = Simulation::new(seed, false);
    let speed = Speed { least_us: 50, most_us: 2000, flush_slowness: 10 };
    let disk = Disk::plain_of(&simulation, "backing", SIZE, speed);
    let model = Rc::new(RefCell::new(VolumeModel::new(0, SIZE, 512, disk.content())));
    for _ in 0..6 {
        let volume = Volume {
            env: SimEnv { simulation: Rc::clone(&simulation) },
            device: Rc::new(SimDevice::open(&disk)),
            manner,
            pages: Rc::default(),
            flushing: Rc::default(),
        };
        for _ in 0..4 {
            simulation.spawn(host(volume.clone(), Rc::clone(&model)));
        }
        for _ in 0..simulation.draw(|random| random.between(50, 1500)) {
            simulation.step();
        }
        simulation.drop_tasks();
        if simulation.draw(|random| random.one_in(2)) {
            disk.cut_power();
            model.borrow_mut().end_run(Ending::PowerCut);
        } else {
            disk.kill();
            model.borrow_mut().end_run(Ending::Kill);
        }
        let whole = ByteRange::at(0, SIZE);
        report(&simulation, model.borrow_mut().may_hold(whole, &disk.content().bytes(whole)));
    }
    (simulation.trace.hash(), simulation.trace.violation())
}

#[test]
fn an_honest_volume_pleases_the_model_whatever_happens() {
    for seed in 0..300 {
        assert_eq!(run(seed, Manner::Honest).1, None, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        assert_eq!(run(seed, Manner::Honest), run(seed, Manner::Honest));
    }
    assert_ne!(run(1, Manner::Honest).0, run(2, Manner::Honest).0);
}

#[test]
fn each_dishonest_volume_is_caught() {
    for manner in [
        Manner::KeepsStalePages,
        Manner::FlushesNothing,
        Manner::JoinsRunningFlush,
        Manner::AnswersEarly,
        Manner::Misplaces,
    ] {
        let caught = (0..100).find_map(|seed| run(seed, manner).1.map(|complaint| (seed, complaint)));
        let (seed, complaint) = caught.unwrap_or_else(|| panic!("{manner:?} was not caught"));
        println!("{manner:?}: seed {seed}: {complaint}");
    }
}
