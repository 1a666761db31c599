//! Exact replay: decides every decision of a journal again and compares, bit for bit.
//!
//! The journal is folded from zero, as a start without a checkpoint would. Whenever the state is the one that a decision
//! names (`state_at`), that decision is made again from its recorded context and seed, by the code that makes all
//! decisions. So a replay proves that the recorded probabilities are what the recorded state and policy give; that what
//! was learnt is a function of the journal alone; and that the checkpoint beside it holds the same.
//!
//! What can go wrong is counted with its reason, never passed over: a decision whose state, card or text is not there any
//! more cannot be made again.

mod compare;
mod plan;
mod report;

use std::{collections::BTreeMap, iter::Peekable, path::PathBuf, sync::Arc, time::Instant, vec::IntoIter};

use super::{
    RouterError,
    cards::{Acting, Card, CardSource},
    checkpoint::Checkpoint,
    lesson::Lessons,
    logged::with_text,
    policies::Policies,
    roles::acting,
    state::{State, catch_up},
};
use crate::{
    action::policy::PolicySettings,
    journal::{Decided, Event, JournalReader, PolicyChange, PolicyRole, Stored},
};

use compare::differences;
use plan::Plan;

pub use report::{CheckpointFound, Compared, Difference, ExactReport};

/// Differences that are told in full; the rest are only counted.
const TOLD_MAX: usize = 10;

/// How the two roles are called where their policies cannot be used.
const CHAMPION: &str = "policy that decided";
const SHADOW: &str = "policy on trial";

/// Where things are that a journal does not hold.
#[derive(Debug, Clone)]
pub struct ExactSettings {
    /// The folder from which cards take the files that they name.
    pub cards: Option<PathBuf>,
    /// The checkpoint's file, if it is to be compared.
    pub checkpoint: Option<PathBuf>,
}

/// Makes every decision of a journal again. A daemon may write to it meanwhile; what it adds is not looked at. `progress` is
/// told (done, total) decisions.
pub async fn replay_exactly(
    journal: &JournalReader,
    settings: &ExactSettings,
    progress: impl Fn(u64, u64),
) -> Result<ExactReport, RouterError> {
    let started = Instant::now();
    let plan = Plan::of(journal, settings).await?;
    let mut replay = Replay::begin(journal, settings, &plan).await?;
    let total = plan.decisions.len() as u64;
    let mut due = plan.decisions.into_iter().peekable();
    let mut lessons = Lessons::new(journal, replay.state.at, plan.until);
    while let Some(next) = lessons.next().await? {
        let changes = matches!(next.event, Some(Event::PolicyChanged { .. }));
        if let Some(folded) = next.folded() {
            replay.up_to(next.at - 1, &mut due, &progress, total).await?;
            replay.state.fold(&folded);
        }
        if changes {
            replay.up_to(next.at - 1, &mut due, &progress, total).await?;
        }
        if let Some(Event::PolicyChanged { change }) = &next.event {
            replay.change(change, next.at).await?;
        }
    }
    replay.up_to(plan.until, &mut due, &progress, total).await?;
    let Replay { mut report, state, unusable, .. } = replay;
    report.at = plan.until;
    report.learnt_rounds = state.learnt_rounds;
    report.state_hash = if unusable.is_empty() { hash(&state) } else { String::new() };
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// The journal, being folded again.
struct Replay<'a> {
    journal: &'a JournalReader,
    source: CardSource,
    state: State,
    /// Why the policy of a role cannot be used.
    unusable: BTreeMap<&'static str, String>,
    /// The checkpoint, until its place is passed.
    checkpoint: Option<Checkpoint>,
    report: ExactReport,
}

impl<'a> Replay<'a> {
    async fn begin(journal: &'a JournalReader, settings: &ExactSettings, plan: &Plan) -> Result<Self, RouterError> {
        let model = journal.embedding_model().to_owned();
        let source = CardSource { folder: settings.cards.clone(), model, dimension: plan.dimension };
        // Stands in until the journal names a policy, which is its first event.
        let nobody = Acting::new(Arc::new(Card::compiled_in()), "uniform")?;
        let mut replay = Self {
            journal,
            source,
            state: State::new(nobody, None),
            unusable: BTreeMap::from([(CHAMPION, "the journal does not name it".to_owned())]),
            checkpoint: None,
            report: plan.report.clone(),
        };
        if let Some(base) = &plan.base {
            replay.role(PolicyRole::Champion, Policies::last(&plan.changes, PolicyRole::Champion));
            replay.role(PolicyRole::Shadow, Policies::on_trial(&plan.changes));
            let resumed = replay.state.resume(base, journal).await;
            resumed.map_err(|error| RouterError::Internal(format!("the compacted state: {error}")))?;
        }
        if let Some(path) = &settings.checkpoint {
            match Checkpoint::read(path) {
                Ok(None) => {}
                Ok(Some(found)) => match journal.at(found.at).await? {
                    Some(event) if event.at_ms == found.at_ms && found.at <= plan.until => {
                        replay.checkpoint = Some(found);
                    }
                    Some(_) | None => replay.report.checkpoint_problem = Some("it is of another journal".into()),
                },
                Err(problem) => replay.report.checkpoint_problem = Some(problem),
            }
        }
        Ok(replay)
    }

    /// Puts a policy that learnt nothing in a role.
    fn role(&mut self, role: PolicyRole, change: Option<&PolicyChange>) {
        let made = change.filter(|change| change.card.is_some()).map(|change| acting(&self.source, change));
        let key = if role == PolicyRole::Champion { CHAMPION } else { SHADOW };
        self.unusable.remove(key);
        if let Some(Err(error)) = &made {
            self.unusable.insert(key, error.to_string());
        }
        match (role, made.and_then(Result::ok)) {
            (PolicyRole::Champion, Some(champion)) => self.state.champion = champion,
            (PolicyRole::Champion, None) => {}
            (PolicyRole::Shadow, shadow) => self.state.shadow = shadow,
        }
    }

    /// Another policy decides from now on, or is on trial: it is folded from the start, as it was then.
    async fn change(&mut self, change: &PolicyChange, at: i64) -> Result<(), RouterError> {
        self.role(change.role, Some(change));
        let State { champion, shadow, .. } = &mut self.state;
        match change.role {
            PolicyRole::Champion => {
                if shadow.as_ref().is_some_and(|shadow| shadow.reference() == champion.reference()) {
                    *shadow = None;
                    self.unusable.remove(SHADOW);
                }
                if !self.unusable.contains_key(CHAMPION) {
                    catch_up(self.journal, champion, at).await?;
                }
            }
            PolicyRole::Shadow => {
                if let Some(shadow) = shadow {
                    catch_up(self.journal, shadow, at).await?;
                }
            }
        }
        Ok(())
    }

    /// Makes the decisions whose state is folded up to a place, which is the state's now, and takes the checkpoint's hash there.
    async fn up_to(
        &mut self,
        place: i64,
        due: &mut Peekable<IntoIter<(i64, i64)>>,
        progress: &impl Fn(u64, u64),
        total: u64,
    ) -> Result<(), RouterError> {
        if let Some(checkpoint) = self.checkpoint.take_if(|checkpoint| checkpoint.at <= place) {
            self.compare_checkpoint(&checkpoint);
        }
        while let Some((at, seq)) = due.next_if(|(at, _)| *at <= place) {
            self.again(at, seq).await?;
            if due.len().is_multiple_of(100) {
                progress(total - due.len() as u64, total);
            }
        }
        Ok(())
    }

    fn compare_checkpoint(&mut self, checkpoint: &Checkpoint) {
        if let Some((role, why)) = self.unusable.first_key_value() {
            self.report.checkpoint_problem = Some(format!("the {role} of the time cannot be used: {why}"));
            return;
        }
        self.report.checkpoint = Some(CheckpointFound {
            at: checkpoint.at,
            state_hash: checkpoint.known.hash(),
            replayed_hash: hash(&self.state),
        });
    }

    async fn again(&mut self, at: i64, seq: i64) -> Result<(), RouterError> {
        let stored = self.journal.at(seq).await?.and_then(Stored::into_decided);
        let Some(mut recorded) = stored else {
            self.report.leave_out("it was taken out meanwhile", 1);
            return Ok(());
        };
        with_text(&mut recorded);
        if let Some(why) = self.why_not(&recorded) {
            self.report.leave_out(why, 1);
            return Ok(());
        }
        let what = differences(&recorded, &self.state, at, &mut self.report.compared)?;
        self.report.again += 1;
        self.report.equal += u64::from(what.is_empty());
        if !what.is_empty() && self.report.first.len() < TOLD_MAX {
            self.report.first.push(Difference { seq, decision: recorded.decision.id, what });
        }
        Ok(())
    }

    /// Why a decision cannot be made again.
    fn why_not(&self, recorded: &Decided) -> Option<String> {
        let Decided { observed, decision, .. } = recorded;
        if observed.embedding_model != self.journal.embedding_model() {
            let model = &observed.embedding_model;
            return Some(format!("its task was embedded again since, at first by {model}"));
        }
        if let Some((role, why)) = self.unusable.first_key_value() {
            return Some(format!("the {role} of the time cannot be used: {why}"));
        }
        for (acting, policy) in [
            (Some(&self.state.champion), Some(&decision.policy)),
            (self.state.shadow.as_ref(), decision.shadow.as_ref().map(|shadow| &shadow.policy)),
        ] {
            let Some(acting) = acting else { continue };
            let settings = &acting.card.settings;
            let label = acting.card.label();
            if policy.is_some_and(|policy| policy.card != label) && settings.trained_files().next().is_some() {
                return Some(format!("the files that card {:?} names are others now", acting.card.name()));
            }
            if !observed.kept.is_whole() && reads_text(&acting.name, settings) {
                return Some(format!("{} reads texts, and this one was not kept", acting.name));
            }
        }
        None
    }
}

/// Whether a policy looks at more of a task than its embedding.
fn reads_text(policy: &str, settings: &PolicySettings) -> bool {
    let reader = |name: &str| name.ends_with("tfidf_classifier");
    reader(policy) || (policy.ends_with("ensemble") && settings.voters.iter().any(|voter| reader(&voter.policy)))
}

/// The hash of all that was learnt.
fn hash(state: &State) -> String {
    state.snapshot(0).known(&state.shown()).hash()
}
