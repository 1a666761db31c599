//! The journal's bytes are not what was written: a torn tail, garbage, a flipped bit.
//!
//! What counts is that no commit before the damage is missing in silence: what is read is either a whole number of
//! commits from the start on, up to the damage, or an error that says what to do.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pointsman::journal::{JournalError, JournalReader, Stored};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{CHECKPOINT, JOURNAL, Site, get, row, said, settle};

const MODEL: &str = "all-MiniLM-L6-v2";
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// A journal as kill -9 left it.
struct Files {
    main: Vec<u8>,
    wal: Vec<u8>,
    scratch: tempfile::TempDir,
}

impl Files {
    /// Rounds done by a daemon that was killed: some of them moved into the main file after an earlier stop, the last
    /// ones in the log of what is not moved yet.
    async fn of_killed_daemon() -> (Site, Self) {
        let mut site = Site::new();
        let daemon = site.start().unwrap();
        site.work(&daemon, 0..60).await;
        assert!(daemon.stop().success());
        settle(&site.data(JOURNAL)).await;
        let daemon = site.start().unwrap();
        site.work(&daemon, 60..90).await;
        daemon.kill();
        let read = |suffix: &str| fs::read(site.data(&format!("{JOURNAL}{suffix}"))).unwrap();
        let files = Self { main: read(""), wal: read("-wal"), scratch: tempfile::tempdir().unwrap() };
        (site, files)
    }

    fn journal(&self) -> PathBuf {
        self.scratch.path().join(JOURNAL)
    }

    /// Puts files in place and reads all events.
    async fn read(&self, main: &[u8], wal: &[u8]) -> Result<Vec<Stored>, JournalError> {
        put(self.scratch.path(), main, wal);
        let journal = JournalReader::open(&self.journal(), MODEL).await?;
        let events = journal.after(0, i64::MAX).await;
        journal.close_reader().await;
        events
    }

    /// Where the log's commits end, oldest first.
    fn commits(&self) -> Vec<usize> {
        let number = |at: usize| u32::from_be_bytes(self.wal[at..at + 4].try_into().unwrap());
        let page = number(8) as usize;
        let salts = &self.wal[16..24];
        (WAL_HEADER..)
            .step_by(FRAME_HEADER + page)
            .take_while(|at| at + FRAME_HEADER + page <= self.wal.len() && self.wal[at + 8..at + 16] == *salts)
            // A frame that ends a commit says how many pages the file has then.
            .filter(|at| number(at + 4) > 0)
            .map(|at| at + FRAME_HEADER + page)
            .collect()
    }
}

fn put(folder: &Path, main: &[u8], wal: &[u8]) {
    let _ = fs::remove_file(folder.join(format!("{JOURNAL}-shm")));
    fs::write(folder.join(JOURNAL), main).unwrap();
    fs::write(folder.join(format!("{JOURNAL}-wal")), wal).unwrap();
}

/// Whether an error names the journal and what to do about it.
fn is_named(error: &JournalError) -> bool {
    let said = error.to_string();
    said.contains("journal verify") || said.contains("journal export")
}

#[tokio::test]
async fn a_torn_log_keeps_every_commit_before_the_tear() {
    let (_site, files) = Files::of_killed_daemon().await;
    let whole = files.read(&files.main, &files.wal).await.unwrap();
    let commits = files.commits();
    assert!(commits.len() > 5, "{} commits are too few to tear apart", commits.len());
    let mut held = vec![(0, files.read(&files.main, b"").await.unwrap().len())];
    for end in commits {
        held.push((end, files.read(&files.main, &files.wal[..end]).await.unwrap().len()));
    }
    assert!(held.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{held:?}");
    assert_eq!(held.last().unwrap().1, whole.len());
    let last_commit = held.last().unwrap().0;
    let mut random = StdRng::seed_from_u64(1);
    let (mut cut, mut garbled) = (0, 0);
    for trial in 0..60 {
        let at = random.random_range(0..last_commit);
        let mut wal = files.wal.clone();
        if trial % 2 == 0 {
            wal.truncate(at);
            cut += 1;
        } else {
            let end = (at + 512).min(wal.len());
            wal[at..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
            garbled += 1;
        }
        let expected = held.iter().take_while(|(end, _)| *end <= at).last().unwrap().1;
        let found = files.read(&files.main, &wal).await.unwrap();
        assert_eq!(found.len(), expected, "damage at {at} of {last_commit}");
        assert!(found == whole[..expected], "damage at {at} changed earlier events");
    }
    let found =
        format!("{cut} cuts, {garbled} times 512 bytes of garbage: every commit before the damage is read, none after");
    row("torn tail of the write-ahead log", &found);
}

#[tokio::test]
async fn a_torn_journal_is_read_whole_or_refused_by_name() {
    let (_site, files) = Files::of_killed_daemon().await;
    let whole = files.read(&files.main, &files.wal).await.unwrap();
    let mut random = StdRng::seed_from_u64(2);
    let (mut refused, mut harmless, mut silent, mut poor) = (0, 0, vec![], vec![]);
    for trial in 0..80 {
        let mut main = files.main.clone();
        let at = random.random_range(0..main.len());
        if trial % 2 == 0 {
            main.truncate(at);
        } else {
            let end = (at + 512).min(main.len());
            main[at..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
        }
        match files.read(&main, &files.wal).await {
            Ok(found) if found == whole => harmless += 1,
            Ok(found) => silent.push((trial, at, found.len())),
            Err(error) if is_named(&error) => refused += 1,
            Err(error) => poor.push(format!("{at}: {error}")),
        }
    }
    let found = format!(
        "40 cuts, 40 times 512 bytes of garbage: {refused} refused with advice, {} without, {harmless} hit nothing that events \
         are read from, {} of {} events read in silence",
        poor.len(),
        silent.len(),
        whole.len()
    );
    row("cut and garbled main file", &found);
    assert!(silent.is_empty(), "(trial, offset, events): {silent:?}");
    assert!(poor.is_empty(), "{poor:#?}");
}

#[tokio::test]
async fn a_daemon_on_a_cut_journal_says_what_to_do() {
    let (site, files) = Files::of_killed_daemon().await;
    fs::remove_file(site.data(CHECKPOINT)).unwrap();
    put(&site.path().join("data"), &files.main[..files.main.len() / 2], b"");
    let refusal = site.start().err().expect("it must not start");
    row("main file cut in half, daemon", &format!("refuses to start: {}", said(&refusal)));
    assert!(refusal.contains("pointsman journal"), "{refusal}");
    put(&site.path().join("data"), &files.main, &files.wal);
    site.assert_all_there(&site.start().unwrap()).await;
}

#[tokio::test]
async fn a_flipped_bit_in_a_record_is_found_and_named() {
    use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};
    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..30).await;
    assert!(daemon.stop().success());
    settle(&site.data(JOURNAL)).await;
    let mut connection = SqliteConnectOptions::new().filename(site.data(JOURNAL)).connect().await.unwrap();
    let sql = "SELECT seq, packed FROM events WHERE kind = 'judged' ORDER BY seq LIMIT 1 OFFSET 10";
    let record = sqlx::query(sql).fetch_one(&mut connection).await.unwrap();
    let (seq, packed): (i64, Vec<u8>) = (record.get("seq"), record.get("packed"));
    sqlx::Connection::close(connection).await.unwrap();
    let mut bytes = fs::read(site.data(JOURNAL)).unwrap();
    let middle = &packed[packed.len() / 2 - 12..packed.len() / 2 + 12];
    let at = bytes.windows(middle.len()).position(|window| window == middle).expect("the record is in one page");
    bytes[at + 12] ^= 1;
    fs::write(site.data(JOURNAL), &bytes).unwrap();

    let daemon = site.start().unwrap();
    let id = site.answers.iter().map(|answer| answer["decision_id"].as_str().unwrap());
    let mut damaged = vec![];
    for id in id {
        let (status, problem) = get(&daemon, &format!("/v1/decisions/{id}")).await;
        if status != 200 {
            damaged.push((status, problem));
        }
    }
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert_eq!(damaged[0].0, 500, "{damaged:?}");
    assert!(daemon.log().contains(&format!("record {seq} ")), "{}", daemon.log());
    daemon.kill();
    row(
        "a bit flipped in a record, start from the checkpoint",
        "starts; only what needs the record fails: 500, the log names it",
    );
    fs::remove_file(site.data(CHECKPOINT)).unwrap();
    let refusal = site.start().err().expect("it must not start");
    assert!(refusal.contains(&format!("record {seq} ")) && refusal.contains("journal verify"), "{refusal}");
    row("a bit flipped in a record, start from zero", &format!("refuses to start: {}", said(&refusal)));
}
