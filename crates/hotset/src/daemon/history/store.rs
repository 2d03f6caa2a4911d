//! The history file: SQLite in the state directory, bounded by keeping old times in longer steps.
//!
//! Each level has its own rows, made by adding those of the level below when an interval is complete, so that every level
//! reaches from its limit to now. What the file holds is a convenience: it is never waited for by anything but itself.

use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use hotset_api::{Subject, SubjectKind};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::bucket::Bucket;
use crate::state_file;

pub(super) const FILE_NAME: &str = "history.sqlite";

/// Of the tables; a file of another version is set aside.
const VERSION: i64 = 1;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// How long sums of the advisor are kept: a week, and some more, so that there is one before it.
const SUMS_KEPT: u64 = 8 * DAY;

/// A clock that is so much later than the last sample may have run ahead: nothing is forgotten until it has gone on for a day.
const CLOCK_JUMP: u64 = 30 * DAY;

/// Pools, volumes and SSDs that are kept at most: the file is bounded.
const SUBJECTS_MAX: usize = 512;

/// How long something is kept in steps of which length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    number: i64,
    pub(super) step_seconds: u64,
    pub(super) kept_seconds: u64,
}

/// The finest first. A day has a step more than its length, so that its average has all of it.
pub(super) const LEVELS: [Level; 3] = [
    Level { number: 0, step_seconds: 30, kept_seconds: DAY + HOUR },
    Level { number: 1, step_seconds: 300, kept_seconds: 31 * DAY },
    Level { number: 2, step_seconds: HOUR, kept_seconds: 366 * DAY },
];

/// What the advisor keeps, by volume.
const ADVICE_TABLES: [&str; 2] = ["advice", "advice_sums"];

/// One row: the end of its interval, and what was in it.
pub(super) type Row = (u64, Bucket);

pub(super) struct Store {
    connection: Connection,
}

impl Store {
    /// Opens the file, or makes it. One whose bytes make no sense is set aside, and told of; whatever else keeps it from being
    /// used (a full disk, a lock, a missing right) may pass.
    pub(super) fn open(directory: &Path) -> Result<(Self, Option<String>), String> {
        let path = directory.join(FILE_NAME);
        match Self::try_open(&path) {
            Ok(store) => Ok((store, None)),
            Err(Unusable::ForNow(error)) => Err(format!("{}: {error}", path.display())),
            Err(Unusable::Bad(error)) => {
                let aside = set_aside(&path)
                    .map_err(|failed| format!("{}: {error}; it cannot be set aside: {failed}", path.display()))?;
                let store = Self::try_open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let message = format!("{} cannot be used ({error}); it is now {}", path.display(), aside.display());
                Ok((store, Some(message)))
            }
        }
    }

    fn try_open(path: &Path) -> Result<Self, Unusable> {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        // A pipe would be waited for.
        state_file::open(path, &options).map_err(|error| Unusable::ForNow(error.to_string()))?;
        let open = || -> rusqlite::Result<(Connection, i64)> {
            let connection = Connection::open(path)?;
            // Exclusive, so that SQLite maps no file into memory (<https://www.sqlite.org/wal.html#use_of_wal_without_shared_memory>):
            // a write to one whose disk hangs holds up every thread that changes what is mapped, which is all of them sooner or later.
            connection.execute_batch(
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
            )?;
            // A page whose bytes make no sense is found now, not when somebody looks.
            let whole: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if whole != "ok" {
                return Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(11), Some(whole)));
            }
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS subjects (
                    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, seen INTEGER NOT NULL,
                    cache_enabled INTEGER, UNIQUE (kind, name));
                CREATE TABLE IF NOT EXISTS rows (
                    level INTEGER NOT NULL, subject INTEGER NOT NULL, at INTEGER NOT NULL, bucket BLOB NOT NULL,
                    PRIMARY KEY (level, subject, at)) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS advice (volume TEXT PRIMARY KEY, at INTEGER NOT NULL, state BLOB NOT NULL);
                CREATE TABLE IF NOT EXISTS advice_sums (
                    volume TEXT NOT NULL, at INTEGER NOT NULL, sums BLOB NOT NULL, PRIMARY KEY (volume, at));",
            )?;
            let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            Ok((connection, version))
        };
        let (connection, version) = open().map_err(|error| Unusable::of(&error))?;
        match version {
            0 => connection.pragma_update(None, "user_version", VERSION).map_err(|error| Unusable::of(&error))?,
            VERSION => {}
            other => return Err(Unusable::Bad(format!("it has version {other}, not {VERSION}"))),
        }
        Ok(Self { connection })
    }

    /// Stores the buckets of one sample, and what follows from it in the longer steps.
    pub(super) fn append(&mut self, at: u64, samples: &[(Subject, Bucket)]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for (subject, bucket) in samples {
            let Some(id) = id_of(&transaction, subject, at)? else { continue };
            let end = at.div_ceil(LEVELS[0].step_seconds) * LEVELS[0].step_seconds;
            put(&transaction, LEVELS[0], id, end, bucket)?;
            for level in &LEVELS[1..] {
                let end = at.div_ceil(level.step_seconds) * level.step_seconds;
                put(&transaction, *level, id, end, bucket)?;
            }
        }
        transaction.commit()
    }

    /// Forgets what is older than its level keeps, and subjects of which nothing is left.
    pub(super) fn forget(&mut self, now: u64) -> rusqlite::Result<()> {
        if self.seems_ahead(now)? {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        for level in LEVELS {
            let before = signed(now.saturating_sub(level.kept_seconds));
            // By subject, so that the primary key serves.
            transaction.execute(
                "DELETE FROM rows WHERE level = ?1 AND subject IN (SELECT id FROM subjects) AND at < ?2",
                params![level.number, before],
            )?;
        }
        let oldest = signed(now.saturating_sub(LEVELS[2].kept_seconds));
        transaction.execute("DELETE FROM subjects WHERE seen < ?1", [oldest])?;
        transaction.execute("DELETE FROM advice WHERE at < ?1", [oldest])?;
        let week = signed(now.saturating_sub(SUMS_KEPT));
        transaction.execute("DELETE FROM advice_sums WHERE at < ?1", [week])?;
        transaction.commit()
    }

    /// There are samples, and all of them but those of the last day are from long ago.
    fn seems_ahead(&self, now: u64) -> rusqlite::Result<bool> {
        let last: Option<i64> = self.connection.query_row(
            "SELECT max(at) FROM rows WHERE level = ?1 AND subject IN (SELECT id FROM subjects) AND at <= ?2",
            params![LEVELS[2].number, signed(now.saturating_sub(DAY))],
            |row| row.get(0),
        )?;
        Ok(last.is_some_and(|last| last < signed(now.saturating_sub(CLOCK_JUMP))))
    }

    /// The rows of a subject whose intervals end after `from` and not after `to`.
    pub(super) fn rows(&self, level: Level, subject: &Subject, from: u64, to: u64) -> rusqlite::Result<Vec<Row>> {
        let mut query = self.connection.prepare_cached(
            "SELECT at, bucket FROM rows WHERE level = ?1 AND at > ?4 AND at <= ?5
             AND subject = (SELECT id FROM subjects WHERE kind = ?2 AND name = ?3) ORDER BY at",
        )?;
        let arguments = params![level.number, subject.kind.word(), subject.name, signed(from), signed(to)];
        let rows = query.query_map(arguments, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let mut found = Vec::new();
        for row in rows {
            let (at, bytes) = row?;
            // A bucket that makes no sense is as if it were not there.
            if let (Ok(at), Some(bucket)) = (u64::try_from(at), Bucket::decode(&bytes)) {
                found.push((at, bucket));
            }
        }
        Ok(found)
    }

    /// Notes that a volume got a cache.
    pub(super) fn note_cache_enabled(&self, volume: &str, at: u64) -> rusqlite::Result<()> {
        self.connection.execute(
            "INSERT INTO subjects (kind, name, seen, cache_enabled) VALUES (?1, ?2, ?3, ?3)
             ON CONFLICT (kind, name) DO UPDATE SET cache_enabled = ?3",
            params![SubjectKind::Volume.word(), volume, signed(at)],
        )?;
        Ok(())
    }

    /// Forgets another one that had this name before.
    pub(super) fn begin(&mut self, subject: &Subject) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        forget_subjects(&transaction, "kind = ?1 AND name = ?2", params![subject.kind.word(), subject.name])?;
        match subject.kind {
            SubjectKind::Volume => forget_advice(&transaction, &subject.name)?,
            SubjectKind::Pool | SubjectKind::Ssd | SubjectKind::Daemon => {}
        }
        transaction.commit()
    }

    /// The rows of a volume are under its new name from now on; those of another one that had it before are forgotten.
    pub(super) fn rename_volume(&mut self, from: &str, to: &str) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let kind = SubjectKind::Volume.word();
        forget_subjects(&transaction, "kind = ?1 AND name = ?2", params![kind, to])?;
        transaction.execute("UPDATE subjects SET name = ?3 WHERE kind = ?1 AND name = ?2", params![kind, from, to])?;
        forget_advice(&transaction, to)?;
        for table in ADVICE_TABLES {
            transaction.execute(&format!("UPDATE {table} SET volume = ?2 WHERE volume = ?1"), [from, to])?;
        }
        transaction.commit()
    }

    // ---- what the advisor keeps: bytes that mean nothing here

    pub(super) fn keep_advice(&self, volume: &str, at: u64, state: &[u8]) -> rusqlite::Result<()> {
        let mut insert =
            self.connection.prepare_cached("INSERT OR REPLACE INTO advice (volume, at, state) VALUES (?1, ?2, ?3)")?;
        insert.execute(params![volume, signed(at), state]).map(|_| ())
    }

    pub(super) fn keep_sums(&self, volume: &str, at: u64, sums: &[u8]) -> rusqlite::Result<()> {
        let mut insert = self
            .connection
            .prepare_cached("INSERT OR REPLACE INTO advice_sums (volume, at, sums) VALUES (?1, ?2, ?3)")?;
        insert.execute(params![volume, signed(at), sums]).map(|_| ())
    }

    pub(super) fn forget_advice(&mut self, volume: &str) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        forget_advice(&transaction, volume)?;
        transaction.commit()
    }

    pub(super) fn advice_of(&self, volume: &str) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut query = self.connection.prepare_cached("SELECT state FROM advice WHERE volume = ?1")?;
        query.query_row([volume], |row| row.get(0)).optional()
    }

    /// The last ones of this time or before, and of when they are.
    pub(super) fn sums_before(&self, volume: &str, at: u64) -> rusqlite::Result<Option<(u64, Vec<u8>)>> {
        let mut query = self.connection.prepare_cached(
            "SELECT at, sums FROM advice_sums WHERE volume = ?1 AND at <= ?2 ORDER BY at DESC LIMIT 1",
        )?;
        let found = query.query_row(params![volume, signed(at)], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
        Ok(found.optional()?.and_then(|(at, sums)| Some((u64::try_from(at).ok()?, sums))))
    }

    pub(super) fn cache_enabled(&self, subject: &Subject) -> rusqlite::Result<Option<u64>> {
        let found: Option<Option<i64>> = self
            .connection
            .query_row(
                "SELECT cache_enabled FROM subjects WHERE kind = ?1 AND name = ?2",
                params![subject.kind.word(), subject.name],
                |row| row.get(0),
            )
            .optional()?;
        Ok(found.flatten().and_then(|at| u64::try_from(at).ok()))
    }
}

/// Adds to the row that is there.
fn put(
    transaction: &rusqlite::Transaction<'_>,
    level: Level,
    id: i64,
    at: u64,
    bucket: &Bucket,
) -> rusqlite::Result<()> {
    let key = params![level.number, id, signed(at)];
    let there: Option<Vec<u8>> = transaction
        .prepare_cached("SELECT bucket FROM rows WHERE level = ?1 AND subject = ?2 AND at = ?3")?
        .query_row(key, |row| row.get(0))
        .optional()?;
    let mut sum = there.and_then(|bytes| Bucket::decode(&bytes)).unwrap_or_default();
    sum.add(bucket);
    transaction
        .prepare_cached("INSERT OR REPLACE INTO rows (level, subject, at, bucket) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![level.number, id, signed(at), sum.encode()])?;
    Ok(())
}

/// The subject's number; `None` if there are too many.
fn id_of(transaction: &rusqlite::Transaction<'_>, subject: &Subject, at: u64) -> rusqlite::Result<Option<i64>> {
    let key = params![subject.kind.word(), subject.name];
    let known: Option<i64> = transaction
        .prepare_cached("SELECT id FROM subjects WHERE kind = ?1 AND name = ?2")?
        .query_row(key, |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        transaction.prepare_cached("UPDATE subjects SET seen = ?2 WHERE id = ?1")?.execute(params![id, signed(at)])?;
        return Ok(Some(id));
    }
    let count: i64 = transaction.query_row("SELECT count(*) FROM subjects", [], |row| row.get(0))?;
    if usize::try_from(count).is_ok_and(|count| count >= SUBJECTS_MAX) {
        // What was not there for a day is gone, and gives way; the first that went goes first.
        let gone = "id = (SELECT id FROM subjects WHERE seen < ?1 ORDER BY seen LIMIT 1)";
        if forget_subjects(transaction, gone, params![signed(at.saturating_sub(DAY))])? == 0 {
            return Ok(None);
        }
    }
    transaction.prepare_cached("INSERT INTO subjects (kind, name, seen) VALUES (?1, ?2, ?3)")?.execute(params![
        subject.kind.word(),
        subject.name,
        signed(at)
    ])?;
    Ok(Some(transaction.last_insert_rowid()))
}

/// Forgets the subjects of this condition, with all that is known of them; answers how many there were.
fn forget_subjects(
    transaction: &rusqlite::Transaction<'_>,
    condition: &str,
    arguments: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<usize> {
    let rows = format!("DELETE FROM rows WHERE subject IN (SELECT id FROM subjects WHERE {condition})");
    transaction.execute(&rows, arguments)?;
    transaction.execute(&format!("DELETE FROM subjects WHERE {condition}"), arguments)
}

fn forget_advice(transaction: &rusqlite::Transaction<'_>, volume: &str) -> rusqlite::Result<()> {
    for table in ADVICE_TABLES {
        transaction.execute(&format!("DELETE FROM {table} WHERE volume = ?1"), [volume])?;
    }
    Ok(())
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Files that were moved out of the way.
pub(super) fn set_aside_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_aside = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("history.sqlite.broken");
    entries.filter(is_aside).map(|entry| entry.path()).collect()
}

/// Moves the file out of the way; its log files go.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = state_file::set_aside(path)?;
    for log in ["sqlite-wal", "sqlite-shm"] {
        // Without their file they mean nothing; they may not be there.
        let _ = std::fs::remove_file(path.with_extension(log));
    }
    Ok(aside)
}

/// Why a file is not used.
#[derive(Debug)]
enum Unusable {
    /// That may pass.
    ForNow(String),
    /// What it holds is of no use to this version.
    Bad(String),
}

impl Unusable {
    fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Bad(error.to_string()),
            Some(_) | None => Self::ForNow(error.to_string()),
        }
    }
}

impl Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForNow(why) | Self::Bad(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bucket::Field;
    use super::*;

    fn subject() -> Subject {
        Subject::new(SubjectKind::Volume, "v")
    }

    fn bucket(reads: u64, used: u64) -> Bucket {
        let mut bucket = Bucket { samples: 1, covered_ms: 30_000, ..Default::default() };
        bucket.set(Field::reads(), reads);
        bucket.set(Field::CACHE_USED_BYTES, used);
        bucket.read_latency = vec![(10, reads)];
        bucket
    }

    fn store(directory: &Path) -> Store {
        Store::open(directory).unwrap().0
    }

    fn sum(rows: &[Row], field: Field) -> u64 {
        rows.iter().map(|(_, bucket)| bucket.get(field)).sum()
    }

    #[test]
    fn a_renamed_volume_keeps_its_statistics_and_forgets_those_of_the_one_that_had_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let (old, new) = (subject(), Subject::new(SubjectKind::Volume, "w"));
        store.append(30, &[(new.clone(), bucket(99, 9))]).unwrap();
        store.append(60, &[(old.clone(), bucket(5, 1))]).unwrap();
        store.note_cache_enabled("v", 40).unwrap();
        store.rename_volume("v", "w").unwrap();
        store.append(90, &[(new.clone(), bucket(6, 1))]).unwrap();
        let reads = |subject: &Subject| -> Vec<u64> {
            let rows = store.rows(LEVELS[0], subject, 0, 90).unwrap();
            rows.into_iter().map(|(_, bucket)| bucket.get(Field::reads())).collect()
        };
        assert_eq!((reads(&new), reads(&old)), (vec![5, 6], Vec::new()));
        assert_eq!(store.cache_enabled(&new).unwrap(), Some(40));
    }

    #[test]
    fn a_new_volume_has_nothing_of_another_one_that_had_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let pool = Subject::new(SubjectKind::Pool, "v");
        store.append(30, &[(subject(), bucket(99, 9)), (pool.clone(), bucket(7, 1))]).unwrap();
        store.note_cache_enabled("v", 20).unwrap();
        store.keep_advice("v", 20, &[1]).unwrap();
        store.keep_sums("v", 20, &[2]).unwrap();
        store.begin(&pool).unwrap();
        assert!(store.advice_of("v").unwrap().is_some(), "a pool of this name has nothing to do with it");
        store.append(30, &[(pool.clone(), bucket(7, 1))]).unwrap();
        store.begin(&subject()).unwrap();
        assert_eq!((store.advice_of("v").unwrap(), store.sums_before("v", 99).unwrap()), (None, None));
        assert_eq!(store.cache_enabled(&subject()).unwrap(), None);
        store.append(60, &[(subject(), bucket(5, 1))]).unwrap();
        let reads = |subject| sum(&store.rows(LEVELS[1], subject, 0, 3600).unwrap(), Field::reads());
        assert_eq!((reads(&subject()), reads(&pool)), (5, 7));
    }

    #[test]
    fn what_is_gone_for_a_day_gives_way_to_what_is_new() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let volume = |number: usize| Subject::new(SubjectKind::Volume, format!("v{number}"));
        let all: Vec<_> = (0..SUBJECTS_MAX).map(|number| (volume(number), bucket(1, 1))).collect();
        store.append(30, &all).unwrap();
        let (kept, later) = (&all[1..], 30 + DAY);
        store.append(later, kept).unwrap();
        let new = [(volume(SUBJECTS_MAX), bucket(1, 1)), (volume(SUBJECTS_MAX + 1), bucket(1, 1))];
        store.append(later + 30, &new).unwrap();
        let rows = |number: usize| store.rows(LEVELS[2], &volume(number), 0, 2 * DAY).unwrap().len();
        assert_eq!((rows(0), rows(1), rows(SUBJECTS_MAX), rows(SUBJECTS_MAX + 1)), (0, 2, 1, 0));
    }

    // proves: A1
    #[test]
    fn what_the_advisor_keeps_goes_with_its_volume_and_its_sums_for_a_week() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        store.keep_advice("v", 100, b"before").unwrap();
        store.keep_advice("v", 400, b"state").unwrap();
        for hour in 1..=3 {
            store.keep_sums("v", hour * HOUR, &[u8::try_from(hour).unwrap()]).unwrap();
        }
        assert_eq!(store.advice_of("v").unwrap().as_deref(), Some(b"state".as_slice()));
        assert_eq!(store.sums_before("v", 2 * HOUR + 9).unwrap(), Some((2 * HOUR, vec![2])));
        assert_eq!((store.sums_before("v", 9).unwrap(), store.advice_of("w").unwrap()), (None, None));
        store.rename_volume("v", "w").unwrap();
        assert_eq!((store.advice_of("v").unwrap(), store.advice_of("w").unwrap().is_some()), (None, true));
        store.forget(SUMS_KEPT + 2 * HOUR).unwrap();
        assert_eq!(store.sums_before("w", 2 * HOUR).unwrap(), Some((2 * HOUR, vec![2])));
        assert_eq!(store.sums_before("w", HOUR).unwrap(), None, "older ones are gone");
        store.forget_advice("w").unwrap();
        assert_eq!((store.advice_of("w").unwrap(), store.sums_before("w", DAY).unwrap()), (None, None));
    }

    #[test]
    fn longer_steps_are_the_sums_of_the_shorter_ones() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let start = 1_800_000_000;
        for index in 1..=240 {
            store.append(start + index * 30, &[(subject(), bucket(index, 100))]).unwrap();
        }
        let all = |level: Level| store.rows(level, &subject(), start, start + 7200).unwrap();
        assert_eq!(all(LEVELS[0]).len(), 240);
        assert_eq!(all(LEVELS[1]).len(), 24);
        assert_eq!(all(LEVELS[2]).len(), 2);
        for level in LEVELS {
            let rows = all(level);
            assert_eq!(sum(&rows, Field::reads()), 240 * 241 / 2, "{level:?}");
            let point = rows[0].1.point(0, SubjectKind::Volume);
            assert_eq!(point.cache_used_bytes, Some(100.0), "{level:?}: a gauge is averaged");
            assert_eq!(point.covered_seconds, level.step_seconds);
        }
    }

    // proves: S2
    #[test]
    fn a_year_is_kept_and_no_more_and_the_file_stays_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let start = 1_800_000_000;
        // Every hour a sample, for 400 days: the fake clock runs.
        for hour in 0..400 * 24 {
            let now = start + hour * HOUR;
            store.append(now, &[(subject(), bucket(1, 1))]).unwrap();
            if hour % 24 == 0 {
                store.forget(now).unwrap();
            }
        }
        let now = start + 400 * DAY;
        store.forget(now).unwrap();
        let count = |level: Level| store.rows(level, &subject(), 0, now).unwrap().len();
        assert_eq!((count(LEVELS[0]), count(LEVELS[1]), count(LEVELS[2])), (25, 31 * 24, 366 * 24));
    }

    #[test]
    fn a_subject_that_was_not_seen_for_a_year_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        store.append(DAY, &[(subject(), bucket(1, 1))]).unwrap();
        store.note_cache_enabled("v", DAY).unwrap();
        assert_eq!(store.cache_enabled(&subject()).unwrap(), Some(DAY));
        store.append(367 * DAY, &[(Subject::new(SubjectKind::Volume, "w"), bucket(1, 1))]).unwrap();
        store.forget(368 * DAY).unwrap();
        assert_eq!(store.cache_enabled(&subject()).unwrap(), None);
    }

    // proves: S2
    #[test]
    fn a_clock_that_runs_ahead_for_a_while_forgets_nothing_and_one_that_stays_there_does() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let (start, ahead) = (1_800_000_000, 1_800_000_000 + 4000 * DAY);
        let mut sample = |at: u64| {
            store.append(at, &[(subject(), bucket(1, 1))]).unwrap();
            store.forget(at).unwrap();
            store.rows(LEVELS[2], &subject(), 0, start + DAY).unwrap().len()
        };
        assert_eq!([start, start + HOUR].map(&mut sample), [1, 2]);
        assert_eq!([ahead, ahead + HOUR, ahead + 23 * HOUR].map(&mut sample), [2; 3]);
        assert_eq!(sample(start + 2 * HOUR), 3, "it was set right");
        assert_eq!([ahead + DAY + HOUR, ahead + DAY + 2 * HOUR].map(&mut sample), [0; 2], "time has passed");
    }

    #[test]
    fn a_file_that_makes_no_sense_is_set_aside_and_a_new_one_begun() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let good = {
            let mut store = store(directory.path());
            store.append(30, &[(subject(), bucket(1, 1))]).unwrap();
            drop(store);
            std::fs::read(&path).unwrap()
        };
        let mut torn = good.clone();
        torn[200..].fill(0xA5);
        let mut newer = good.clone();
        newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
        let broken = [b"this is no database".repeat(300), torn, newer];
        for (broken, aside) in broken.into_iter().zip(["broken", "broken.2", "broken.3"]) {
            std::fs::write(&path, &broken).unwrap();
            let (mut store, message) = Store::open(directory.path()).unwrap();
            let aside = format!("history.sqlite.{aside}");
            assert!(message.unwrap().contains(&aside));
            assert_eq!(std::fs::read(directory.path().join(aside)).unwrap(), broken);
            store.append(60, &[(subject(), bucket(2, 1))]).unwrap();
            assert_eq!(sum(&store.rows(LEVELS[0], &subject(), 0, 100).unwrap(), Field::reads()), 2);
        }
    }

    // proves: F11
    #[test]
    fn a_file_that_cannot_be_used_for_a_while_stays_where_it_is_and_is_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        store(directory.path()).append(30, &[(subject(), bucket(7, 1))]).unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Store::open(directory.path()).is_err());
        std::fs::remove_dir(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Store::open(directory.path()).is_err(), "a pipe is not waited for");
        std::fs::rename(&elsewhere, &path).unwrap();
        let locked = Connection::open(&path).unwrap();
        locked.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;").unwrap();
        let for_now = [ErrorCode::DatabaseBusy, ErrorCode::DiskFull, ErrorCode::ReadOnly, ErrorCode::CannotOpen];
        let code = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error { code, extended_code: 0 }, None);
        assert!(for_now.into_iter().all(|passing| matches!(Unusable::of(&code(passing)), Unusable::ForNow(_))));
        drop(locked);
        let (store, message) = Store::open(directory.path()).unwrap();
        assert_eq!(message, None);
        assert_eq!(sum(&store.rows(LEVELS[0], &subject(), 0, 30).unwrap(), Field::reads()), 7);
        assert!(!directory.path().join("history.sqlite.broken").exists());
    }

    // proves: F12
    #[test]
    fn no_file_is_mapped_into_memory_as_its_disk_may_hang() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        store.append(30, &[(subject(), bucket(7, 1))]).unwrap();
        let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!mapped.contains(&directory.path().display().to_string()), "{mapped}");
        assert_eq!(sum(&store.rows(LEVELS[0], &subject(), 0, 30).unwrap(), Field::reads()), 7);
    }

    #[test]
    fn what_was_stored_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        store(directory.path()).append(30, &[(subject(), bucket(7, 1))]).unwrap();
        let (store, message) = Store::open(directory.path()).unwrap();
        assert_eq!(message, None);
        assert_eq!(sum(&store.rows(LEVELS[0], &subject(), 0, 30).unwrap(), Field::reads()), 7);
    }
}
