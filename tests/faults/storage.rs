//! The storage says no: a full disk, a read-only one, another program's lock.

use std::{fs, io::Write};

use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use super::{JOURNAL, Site, assert_there, get, mounts::Mounts, post, row, said, start, stream};
use crate::served::{pointsman, sum};

/// Asserts that nothing but one problem was answered; returns how many lines that was.
fn only_problem(answers: &[Value], name: &str) -> usize {
    let refused: Vec<_> = answers.iter().filter(|answer| answer.get("problem").is_some()).collect();
    for answer in &refused {
        assert_eq!(answer["problem"]["type"], format!("urn:pointsman:problem:{name}"), "{answer}");
    }
    refused.len()
}

#[tokio::test]
async fn a_disk_that_fills_up_loses_nothing_and_work_goes_on_once_there_is_space() {
    const FAULT: &str = "disk full while serving";
    let mut site = Site::new();
    let data = site.path().join("data");
    fs::create_dir(&data).unwrap();
    let Some(mounts) = Mounts::new(FAULT, &format!("mount -t tmpfs -o size=200m,mode=0700 tmpfs {}", data.display()))
    else {
        return;
    };
    let daemon = start(site.path(), mounts.pointsman()).unwrap();
    site.work(&daemon, 0..40).await;
    let fill = mounts.inside(&data.join("fill"));
    let mut file = fs::File::create(&fill).unwrap();
    let chunk = vec![0; 64 << 10];
    while file.write_all(&chunk).is_ok() {}
    let full = stream(&daemon, 100..200).await;
    let refused = only_problem(&full, "storage-full");
    assert!(refused > 0, "the disk did not fill up");
    let done = full.into_iter().filter(|answer| answer.get("problem").is_none()).collect::<Vec<_>>();
    site.answers.extend(done.clone());
    assert_eq!(get(&daemon, "/readyz").await.0, 200);
    site.assert_all_there(&daemon).await;
    drop(file);
    fs::remove_file(&fill).unwrap();
    site.work(&daemon, 200..240).await;
    daemon.kill();
    let daemon = start(site.path(), mounts.pointsman()).unwrap();
    site.assert_all_there(&daemon).await;
    let rounds = get(&daemon, "/v1/regret").await.1["rounds"].as_u64().unwrap();
    assert_eq!(rounds, site.answers.len() as u64);
    row(
        FAULT,
        &format!(
            "{refused} of 100 answered storage-full, {} done; all {rounds} acknowledged are there after it was freed and a kill",
            done.len()
        ),
    );
}

#[tokio::test]
async fn a_data_folder_on_a_read_only_mount_is_refused_by_name() {
    const FAULT: &str = "data folder on a read-only mount";
    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..5).await;
    assert!(daemon.stop().success());
    let data = site.path().join("data");
    let script = format!("mount --bind {0} {0} && mount -o remount,bind,ro {0}", data.display());
    let Some(mounts) = Mounts::new(FAULT, &script) else { return };
    let refusal = start(site.path(), mounts.pointsman()).err().expect("it must not start");
    assert!(refusal.contains(data.to_str().unwrap()) && refusal.contains("writable"), "{refusal}");
    row(FAULT, &format!("refuses to start: {}", said(&refusal)));
    drop(mounts);
    site.assert_all_there(&site.start().unwrap()).await;
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_is_named_and_read() {
    const FAULT: &str = "journal file read-only";
    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..5).await;
    assert!(daemon.stop().success());
    let journal = site.data(JOURNAL);
    // Permissions do not hold root back, a mount does.
    let script = format!("mount --bind {0} {0} && mount -o remount,bind,ro {0}", journal.display());
    let mounts = Mounts::new("(the file's permissions are used)", &script);
    let command = mounts.as_ref().map_or_else(pointsman, Mounts::pointsman);
    let mut permissions = fs::metadata(&journal).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&journal, permissions.clone()).unwrap();
    match start(site.path(), command) {
        Err(refusal) => {
            assert!(refusal.contains("writable") && refusal.contains("journal"), "{refusal}");
            row(FAULT, &format!("refuses to start: {}", said(&refusal)));
        }
        Ok(daemon) => {
            let (status, problem) = post(&daemon, "/v1/tasks", &sum(6, 5)).await;
            assert_eq!(
                (status, &problem["type"]),
                (503, &json!("urn:pointsman:problem:journal-read-only")),
                "{problem}"
            );
            site.assert_all_there(&daemon).await;
            row(FAULT, "starts and reads; every task answers 503 journal-read-only");
        }
    }
    drop(mounts);
    #[expect(clippy::permissions_set_readonly_false, reason = "it is a file of this test's own folder")]
    permissions.set_readonly(false);
    fs::set_permissions(&journal, permissions).unwrap();
    site.assert_all_there(&site.start().unwrap()).await;
}

#[tokio::test]
async fn another_programs_lock_is_named_and_work_goes_on_afterwards() {
    let site = Site::new();
    let daemon = site.start().unwrap();
    let before = stream(&daemon, 0..5).await;
    let mut other = SqliteConnectOptions::new().filename(site.data(JOURNAL)).connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let began = std::time::Instant::now();
    let (status, problem) = post(&daemon, "/v1/tasks", &sum(6, 5)).await;
    let waited = began.elapsed();
    assert_eq!((status, &problem["type"]), (503, &json!("urn:pointsman:problem:journal-busy")), "{problem}");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    assert_eq!(post(&daemon, "/v1/tasks", &sum(7, 5)).await.0, 200);
    assert_there(&daemon, &before).await;
    let found = format!("503 journal-busy after {:.0} s, goes on afterwards", waited.as_secs_f64());
    row("another process holds SQLite's write lock", &found);
}

#[tokio::test]
async fn a_clock_that_steps_back_leaves_the_journals_times_in_order() {
    const FAULT: &str = "the clock steps back by a day";
    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..20).await;
    assert!(daemon.stop().success());
    let library = ["x86_64-linux-gnu", "aarch64-linux-gnu"]
        .map(|arch| format!("/usr/lib/{arch}/faketime/libfaketimeMT.so.1"))
        .into_iter()
        .find(|path| fs::exists(path).unwrap_or(false));
    let Some(library) = library else { return row(FAULT, "skipped: libfaketime is not installed") };
    let mut command = pointsman();
    command.env("LD_PRELOAD", library).env("FAKETIME", "-1d").env("DONT_FAKE_MONOTONIC", "1");
    let daemon = start(site.path(), command).unwrap();
    site.work(&daemon, 20..40).await;
    let log = daemon.log();
    assert!(log.contains("the clock was put back"), "{log}");
    daemon.kill();
    let daemon = site.start().unwrap();
    site.assert_all_there(&daemon).await;
    let hash = state_hash_after_zero(&site, daemon).await;
    let mut journal = SqliteConnectOptions::new().filename(site.data(JOURNAL)).read_only(true).connect().await.unwrap();
    let back = "SELECT count(*) FROM events a JOIN events b ON b.seq = a.seq + 1 WHERE b.at_ms < a.at_ms";
    let back: i64 = sqlx::query_scalar(back).fetch_one(&mut journal).await.unwrap();
    assert_eq!(back, 0, "the journal's time goes back");
    row(FAULT, &format!("a warning; the journal's times stay in order; all 40 rounds are there, state {}", &hash[..8]));
}

/// Asserts that the recovered state is the one folded from zero.
async fn state_hash_after_zero(site: &Site, daemon: crate::daemon::Daemon) -> String {
    let recovered = super::state_hash(&daemon).await;
    daemon.kill();
    fs::remove_file(site.data(super::CHECKPOINT)).unwrap();
    let daemon = site.start().unwrap();
    assert_eq!(super::state_hash(&daemon).await, recovered);
    recovered
}
