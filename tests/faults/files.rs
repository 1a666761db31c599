//! The files beside the journal, and a journal of another version.

use std::fs;

use super::{CHECKPOINT, JOURNAL, Site, row, said, settle, state_hash};

/// Where SQLite's header holds `user_version`, big-endian.
const VERSION_AT: usize = 60;

#[tokio::test]
async fn a_checkpoint_that_is_of_no_use_is_named_and_the_journal_is_folded_from_zero() {
    let mut other = Site::new();
    let daemon = other.start().unwrap();
    other.work(&daemon, 500..540).await;
    assert!(daemon.stop().success());
    let foreign = fs::read(other.data(CHECKPOINT)).unwrap();

    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..60).await;
    assert!(daemon.stop().success());
    let checkpoint = site.data(CHECKPOINT);
    let stored = fs::read(&checkpoint).unwrap();
    let daemon = site.start().unwrap();
    let hash = state_hash(&daemon).await;
    assert!(daemon.log().contains("Resumed from the checkpoint"), "{}", daemon.log());
    daemon.kill();
    let mut garbled = stored.clone();
    garbled[stored.len() / 2..][..40].fill(b'x');
    let kinds: [(&str, Option<&[u8]>); 6] = [
        ("checkpoint lost", None),
        ("checkpoint empty", Some(b"")),
        ("checkpoint cut in half", Some(&stored[..stored.len() / 2])),
        ("checkpoint garbled", Some(&garbled)),
        ("checkpoint of another journal", Some(&foreign)),
        ("checkpoint is not text", Some(&[0xff; 100])),
    ];
    for (fault, bytes) in kinds {
        match bytes {
            Some(bytes) => fs::write(&checkpoint, bytes).unwrap(),
            None => fs::remove_file(&checkpoint).unwrap(),
        }
        let daemon = site.start().unwrap();
        assert_eq!(state_hash(&daemon).await, hash, "{fault}");
        let log = daemon.log();
        assert!(log.contains("folded the journal from zero"), "{fault}: {log}");
        assert_eq!(bytes.is_some(), log.contains("WARN"), "{fault}: {log}");
        site.assert_all_there(&daemon).await;
        daemon.kill();
        let warned = if bytes.is_some() { "a warning, " } else { "" };
        row(fault, &format!("{warned}said on stderr: folded from zero, the same state bit for bit"));
    }
}

#[tokio::test]
async fn a_journal_of_a_newer_format_is_refused_and_left_alone() {
    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..5).await;
    assert!(daemon.stop().success());
    let journal = site.data(JOURNAL);
    settle(&journal).await;
    let stored = fs::read(&journal).unwrap();
    let mut newer = stored.clone();
    newer[VERSION_AT..VERSION_AT + 4].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&journal, &newer).unwrap();
    let refusal = site.start().err().expect("it must not start");
    assert!(refusal.contains("format 99") && refusal.contains("upgrade pointsman"), "{refusal}");
    assert!(fs::read(&journal).unwrap() == newer, "it was written to");
    row("journal of a newer format", &format!("refuses to start: {}", said(&refusal)));
    fs::write(&journal, stored).unwrap();
    site.assert_all_there(&site.start().unwrap()).await;
}

#[tokio::test]
async fn after_a_clean_stop_the_journal_is_one_file() {
    let mut site = Site::new();
    let daemon = site.start().unwrap();
    site.work(&daemon, 0..20).await;
    assert!(daemon.stop().success());
    for suffix in ["-wal", "-shm"] {
        assert!(
            !site.data(&format!("{JOURNAL}{suffix}")).exists(),
            "whoever copies the journal misses what is in its {suffix}"
        );
    }
    row("clean stop", "the journal is one file, no log beside it");
}

#[tokio::test]
async fn what_earlier_versions_kept_is_removed_once_the_checkpoint_is_there() {
    let mut site = Site::new();
    let outdated = site.data("policy.state.json");
    fs::create_dir(site.path().join("data")).unwrap();
    fs::write(&outdated, "{}").unwrap();
    let daemon = site.start().unwrap();
    assert!(outdated.exists(), "nothing takes its place yet");
    site.work(&daemon, 0..5).await;
    assert!(daemon.stop().success());
    let daemon = site.start().unwrap();
    assert!(!outdated.exists());
    site.assert_all_there(&daemon).await;
    row("policy.state.json of an earlier version", "removed at the first start with a checkpoint");
}
