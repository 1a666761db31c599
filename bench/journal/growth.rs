//! Bytes of a journal: in all, and by kind and column.

use std::{fs, path::Path};

use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, Row, sqlite::SqliteConnectOptions};

/// Bytes of the journal's files.
pub fn bytes(journal: &Path) -> u64 {
    let size = |suffix: &str| {
        let path = journal.with_extension(format!("sqlite{suffix}"));
        fs::metadata(path).map_or(0, |metadata| metadata.len())
    };
    size("") + size("-wal")
}

/// What a round takes of a journal that nobody writes and that keeps so much of prompts.
pub fn measure(journal: &Path, rounds: u64, prompts: &str) -> Value {
    let total = bytes(journal);
    let each = |bytes: u64| bytes as f64 / rounds as f64;
    println!(
        "\n{rounds} rounds through HTTP, prompts of 20 characters {prompts}, stopped: {:.0} bytes a round",
        each(total)
    );
    println!("{:<16}{:>12}{:>16}{:>16}{:>16}", "kind", "records", "packed", "embedding", "keys");
    let (mut kinds, mut known) = (vec![], 0);
    for (kind, count, packed, embedding, keys) in by_kind(journal) {
        println!("{kind:<16}{count:>12}{:>16.1}{:>16.1}{:>16.1}", each(packed), each(embedding), each(keys));
        kinds.push(json!({"kind": kind, "records": count, "packed_bytes": packed, "embedding_bytes": embedding, "key_bytes": keys}));
        known += packed + embedding + keys;
    }
    println!("{:<44}{:>48.1}", "indexes, numbers, page ends", each(total.saturating_sub(known)));
    json!({"rounds": rounds, "bytes": total, "bytes_per_round": each(total), "kinds": kinds})
}

fn by_kind(journal: &Path) -> Vec<(String, i64, u64, u64, u64)> {
    let sql = "SELECT kind, count(*) AS n, coalesce(sum(length(packed)), 0) AS packed, \
               coalesce(sum(length(embedding)), 0) AS embedding, \
               coalesce(sum(length(decision_id) + coalesce(length(once), 0) + coalesce(length(learns), 0)), 0) AS keys \
               FROM events GROUP BY kind ORDER BY packed DESC";
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(journal).read_only(true);
        let mut connection = options.connect().await.expect("it is a journal");
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.expect("it can be read");
        connection.close().await.expect("it can be closed");
        let number = |row: &sqlx::sqlite::SqliteRow, name: &str| row.get::<i64, _>(name).unsigned_abs();
        let line = |row: &sqlx::sqlite::SqliteRow| {
            (row.get("kind"), row.get("n"), number(row, "packed"), number(row, "embedding"), number(row, "keys"))
        };
        rows.iter().map(line).collect()
    })
}
