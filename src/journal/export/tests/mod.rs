mod golden;
mod import;
mod join;
mod round_trip;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use sqlx::Row;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::{
    journal::{Decided, Event, Journal, JournalSettings, NewEvent, Observed, Synchronous, pack::Columns, schema},
    round::{
        ArmId, Call, CallStatus, Candidate, Context, Decision, DecisionId, Domain, Embedding, Feedback, FeedbackSource,
        Kept, Message, Mode, Neighbour, Outcome, OutcomeStatus, PolicyRef, Probability, Propensity, Reason, Recall,
        RewardWeights, Score, Task, TaskId, Verdict, VerdictStatus,
    },
};

const MODEL: &str = "all-MiniLM-L6-v2";

/// A journal of its own.
struct Fixture {
    folder: TempDir,
    journal: Journal,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = JournalSettings {
            path: folder.path().join("journal.sqlite"),
            synchronous: Synchronous::Normal,
            embedding_model: MODEL.into(),
        };
        let (committed, _) = mpsc::channel(1);
        Self { journal: Journal::open(&settings, committed).await.unwrap(), folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("journal.sqlite")
    }

    async fn append(&self, events: impl IntoIterator<Item = NewEvent>) {
        self.journal.append(events.into_iter().collect()).await.unwrap();
    }

    /// Each event a second after the one before it.
    async fn at_known_times(&self) {
        sql(&self.path(), "UPDATE events SET at_ms = 1764000000000 + 1000 * seq").await;
    }

    async fn rounds(&self, selection: &Selection) -> Vec<Round> {
        let mut source = Source::open(&self.path()).await.unwrap();
        let mut rounds = Rounds::of(&mut source, selection).await.unwrap();
        let mut all = vec![];
        while let Some(page) = rounds.page().await.unwrap() {
            all.extend(page);
        }
        all
    }

    async fn jsonl(&self, selection: &Selection) -> Vec<u8> {
        jsonl(&self.path(), selection).await
    }
}

async fn jsonl(path: &Path, selection: &Selection) -> Vec<u8> {
    let (mut source, mut out) = (Source::open(path).await.unwrap(), vec![]);
    export_jsonl(&mut source, selection, JsonlOptions::default(), &mut out, &|_, _| {}).await.unwrap();
    out
}

/// Changes a file behind the journal's back, checksums included.
async fn sql(path: &Path, sql: &'static str) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    for row in schema::rows_after(&mut connection, 0).await.unwrap() {
        let sum = Columns::of(&row).unwrap().unwrap().sum();
        let update = sqlx::query("UPDATE events SET sum = ? WHERE seq = ?").bind(sum);
        update.bind(row.get::<i64, _>("seq")).execute(&mut connection).await.unwrap();
    }
    sqlx::Connection::close(connection).await.unwrap();
}

fn arm(name: &str) -> ArmId {
    ArmId::new(name).unwrap()
}

/// A task between two arms, the second of which is taken.
fn decided(number: u128, domain: &str) -> Arc<Decided> {
    let task = Task {
        messages: vec![Message { role: "user".into(), content: format!("{number} + 1?") }],
        ..Task::plain(TaskId::new(format!("t{number}")).unwrap(), Domain::new(domain).unwrap(), "", Default::default())
    };
    let (a, b) = (arm("a"), arm("b"));
    let mut candidates = [&a, &b].map(|arm| Candidate::new(Mode::Single, arm.clone(), 0.25));
    candidates[1].features.prior_mean = 0.75;
    let neighbour =
        Neighbour { seq: 3, task_id: TaskId::new("t0").unwrap(), similarity: 0.5, domain: None, outcomes: vec![] };
    let context = Context {
        text: "".into(),
        embedding: Embedding::new(vec![0.6, 0.8]).unwrap(),
        domain: task.domain.clone(),
        neighbours: vec![neighbour],
        recall: Recall::Ok,
        candidates: candidates.to_vec(),
        last: None,
        weights: RewardWeights::default(),
        alpha: 0.0,
        proposal: None,
    };
    let p = |arm: &ArmId, p| Probability { mode: Mode::Single, arm: arm.clone(), p, expected: Some(0.5) };
    let decision = Decision {
        id: DecisionId::from(number),
        task_id: task.id.clone(),
        mode: Mode::Single,
        arm: b.clone(),
        propensity: Propensity::new(0.375).unwrap(),
        pmf: vec![p(&a, 0.625), p(&b, 0.375)],
        voters: vec![],
        policy: PolicyRef { name: "ensemble".into(), version: 3, card: "default@1f0c6a7e".into() },
        shadow: None,
        learnt_rounds: 7,
        state_at: 0,
        reason: Reason::Explore,
        seed: u64::MAX - 1,
    };
    Arc::new(Decided { task, context, observed: Observed::of(MODEL), decision })
}

fn new(decided: &Arc<Decided>) -> NewEvent {
    NewEvent::of(decided, decided.to_event())
}

fn ran(decided: &Arc<Decided>, status: OutcomeStatus) -> NewEvent {
    let call = Call {
        input_tokens: 11,
        output_tokens: 2,
        cost_usd: 0.5,
        latency_ms: 1.5,
        ..Call::new(decided.decision.arm.clone(), CallStatus::Ok)
    };
    let outcome = Outcome {
        decision_id: decided.decision.id,
        status,
        output: "2".into(),
        tool_calls: vec![],
        kept: Kept::Whole,
        calls: vec![call],
        cost_usd: 0.5,
        latency_ms: 2.5,
        trajectory: None,
    };
    NewEvent::of(decided, Event::Ran { outcome })
}

fn judged(decided: &Arc<Decided>, source: FeedbackSource, score: Option<f64>) -> NewEvent {
    let verdict = Verdict {
        verifier: "answer".into(),
        version: "0.1.0".into(),
        sha256: "acea".into(),
        status: VerdictStatus::Scored,
        score,
        weight: 0.75,
        gate: true,
        on_error: Default::default(),
        signals: vec![],
        trace: vec![],
        fuel: 1,
        duration_us: 1,
    };
    let feedback = Feedback {
        decision_id: decided.decision.id,
        source,
        score: score.map(|score| Score::new(score).unwrap()),
        reward: score.map(|score| score - 0.05),
        cost_usd: 0.5,
        trust: 1.0,
        idempotency_key: None,
        verdicts: if source == FeedbackSource::Verifier { vec![verdict] } else { vec![] },
    };
    NewEvent::of(decided, Event::Judged { feedback })
}

fn abandoned(decided: &Arc<Decided>) -> NewEvent {
    NewEvent::of(decided, Event::Abandoned { decision_id: decided.decision.id })
}
