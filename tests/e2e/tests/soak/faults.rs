//! What befalls an SSD: one at a time, and the next when the pool is good again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotset_e2e::clock::Moment;
use hotset_e2e::faulty::Fault;
use hotset_e2e::files::{MIB, overwrite};
use hotset_e2e::pattern::Random;

use super::world::{Kind, SSD_MIB, World};

/// How long hosts may take to meet what is wrong with an SSD. One that nobody needs may never be found out.
const FOUND_OUT: Duration = Duration::from_secs(20);
/// What a file does that fails on command.
const COMMANDED: [Fault; 6] =
    [Fault::Error, Fault::Hang, Fault::HangWrites, Fault::FailFlushes, Fault::NoSpace, Fault::ReadOnly];
/// What can be done to any file.
const PLAIN: u64 = 3;

impl World<'_> {
    /// Something befalls an SSD of a pool, life goes on, and in the end the SSD is replaced.
    pub(super) fn fault(&mut self, pool: &'static str, random: &mut Random) {
        let number = random.below(PLAIN + 6);
        let victim = match usize::try_from(number - number.min(PLAIN)).expect("an address has 64 bits at most") {
            _ if number < PLAIN => self.damage(pool, number, random),
            commanded => self.command(pool, COMMANDED[commanded], random),
        };
        let Some(victim) = victim else { return };
        let fresh = self.new_image();
        self.ask("add SSD", &format!("pool add-ssd {pool} --ssd {}", fresh.display()));
        if self.ssds(pool).1.contains(&victim) {
            self.ask("remove failed SSD", &format!("pool remove-ssd {pool} --ssd {}", victim.display()));
        }
        self.heal(pool);
    }

    /// An SSD joins the pool, and then fails in a way of its own.
    fn command(&mut self, pool: &'static str, fault: Fault, random: &mut Random) -> Option<PathBuf> {
        let index = self.new_faulty()?;
        let path = self.faulty[index].path().to_owned();
        if !self.ask("add SSD", &format!("pool add-ssd {pool} --ssd {}", path.display())) {
            self.forget_what_nobody_uses();
            return None;
        }
        self.work_for(random.below(2000));
        self.befalls(&format!("{fault:?}"), &path);
        self.faulty[index].set(fault);
        // A process that is killed ends only when its I/O has.
        let hangs = matches!(fault, Fault::Hang | Fault::HangWrites);
        self.go_on(random, hangs);
        let begun = Moment::now();
        while self.ssds(pool).0.contains(&path) && begun.elapsed() < FOUND_OUT {
            self.work_for(300);
        }
        self.go_on(random, hangs);
        self.faulty[index].set(Fault::None);
        self.note("it works again");
        Some(path)
    }

    /// A file is cut short, removed, or filled with zeroes.
    fn damage(&mut self, pool: &'static str, how: u64, random: &mut Random) -> Option<PathBuf> {
        let (online, _) = self.ssds(pool);
        let plain: Vec<&PathBuf> = online.iter().filter(|ssd| ssd.is_file() && !ssd.ends_with("disk")).collect();
        let victim = (*plain
            .get(usize::try_from(random.below(8)).expect("an address has 64 bits at most") % plain.len().max(1))?)
        .clone();
        match how {
            0 => {
                self.befalls("cut short", &victim);
                let file = File::options().write(true).open(&victim).expect("the SSD is a file");
                file.set_len(MIB).expect("a file can shrink");
            }
            1 => {
                self.befalls("removed", &victim);
                fs::remove_file(&victim).expect("a file can be removed");
            }
            _ => {
                self.befalls("filled with zeroes", &victim);
                let zeroes = vec![0; 1 << 20];
                (1..SSD_MIB).for_each(|mebibyte| overwrite(&victim, mebibyte * MIB, &zeroes));
            }
        }
        self.go_on(random, false);
        self.ask("scrub pool", &format!("pool scrub {pool}"));
        Some(victim)
    }

    fn befalls(&mut self, what: &str, ssd: &Path) {
        self.note(&format!("{what}: {}", ssd.display()));
        *self.record.faults.entry(what.to_owned()).or_default() += 1;
    }

    /// What may happen while an SSD is not as it should be.
    fn go_on(&mut self, random: &mut Random, hangs: bool) {
        let volume = self.volumes[usize::try_from(random.below(3)).expect("an address has 64 bits at most")].name;
        match random.below(8) {
            0 | 1 if self.kind == Kind::Replaced && !hangs => self.replace_daemon("kill -9", true),
            2 if self.kind == Kind::Replaced && !hangs => self.replace_daemon("restart", false),
            3 => self.pause(random),
            4 => drop(self.ask("flush volume", &format!("volume flush {volume}"))),
            5 => self.set_volume(volume, random),
            6 => self.look(),
            _ => self.work_for(random.below(2000)),
        }
    }
}
