//! Exact replay: decides every decision of a journal again and compares, bit for bit.
//!
//! The journal is folded from zero, as a start without a checkpoint would. Whenever the state is the one that a decision
//! names (`state_at`), that decision is made again from its recorded context and seed, by the code that makes all
//! decisions. So a replay proves that the recorded probabilities are what the recorded state and policy give; that what
//! was learnt is a function of the journal alone; and that the checkpoint beside it holds the same.
//!
//! What can go wrong is counted with its reason, never passed over: a decision whose state, card or text is not there any
//! more cannot be made again.

use std::{collections::BTreeMap, iter::Peekable, path::PathBuf, sync::Arc, time::Instant, vec::IntoIter};

use serde::Serialize;

use super::{
    RouterError,
    cards::{Acting, Card, CardSource},
    checkpoint::Checkpoint,
    draw::{Deciding, Drawn, draw},
    lesson::{Lessons, read_ahead},
    logged::with_text,
    policies::Policies,
    roles::acting,
    state::{State, catch_up},
};
use crate::{
    action::policy::{PolicySettings, observe},
    journal::{Decided, Event, JournalReader, PolicyChange, PolicyRole},
    round::{Decision, DecisionId, Probability, Reason, VoterView},
};

/// Differences that are told in full; the rest are only counted.
const TOLD_MAX: usize = 10;

/// Where things are that a journal does not hold.
#[derive(Debug, Clone)]
pub struct ExactSettings {
    /// The folder from which cards take the files that they name.
    pub cards: Option<PathBuf>,
    /// The checkpoint's file, if it is to be compared.
    pub checkpoint: Option<PathBuf>,
}

/// What an exact replay found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExactReport {
    /// The place of the last event.
    pub at: i64,
    /// Decisions in the journal.
    pub decisions: u64,
    /// Those that were made again.
    pub again: u64,
    /// Those that came out equal in everything.
    pub equal: u64,
    /// How many came out equal in each thing.
    pub compared: Compared,
    /// The first that did not, and how.
    pub first: Vec<Difference>,
    /// Those that could not be made again, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Rounds learnt.
    pub learnt_rounds: u64,
    /// The BLAKE3 hash of all that was learnt, at the end.
    pub state_hash: String,
    /// What the checkpoint holds.
    pub checkpoint: Option<CheckpointFound>,
    /// Why the checkpoint could not be compared.
    pub checkpoint_problem: Option<String>,
    /// Wall seconds.
    pub seconds: f64,
}

/// How many decisions were equal in what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Compared {
    /// Probabilities and what was expected of each candidate.
    pub pmf: u64,
    /// The arm, and how it was run.
    pub arm: u64,
    /// The propensity.
    pub propensity: u64,
    /// The voters' views.
    pub voters: u64,
    /// The view of the policy on trial.
    pub shadow: u64,
    /// What was known of the candidates.
    pub features: u64,
    /// The domain, where it was found and not given.
    pub domain: u64,
    /// Decisions whose domain was found.
    pub domains_found: u64,
    /// The policy, what it had learnt, and the reason.
    pub policy: u64,
}

/// A decision that came out otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its place in the journal.
    pub seq: i64,
    /// The decision.
    pub decision: DecisionId,
    /// What differs, and how.
    pub what: Vec<String>,
}

/// A checkpoint's hash, and that of the journal folded up to the same place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckpointFound {
    /// The place.
    pub at: i64,
    /// What the file holds.
    pub state_hash: String,
    /// What the journal gives.
    pub replayed_hash: String,
}

impl ExactReport {
    /// Whether nothing differs that could be compared.
    pub fn is_exact(&self) -> bool {
        let same = |found: &CheckpointFound| found.state_hash == found.replayed_hash;
        self.equal == self.again && self.checkpoint.as_ref().is_none_or(same)
    }

    fn leave_out(&mut self, why: impl Into<String>, decisions: u64) {
        if decisions > 0 {
            *self.left_out.entry(why.into()).or_default() += decisions;
        }
    }
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

/// What is to be done, from a first reading.
struct Plan {
    until: i64,
    /// (the state's place, the decision's), in that order.
    decisions: Vec<(i64, i64)>,
    dimension: usize,
    report: ExactReport,
    base: Option<Checkpoint>,
    /// The changes of policies before the base.
    changes: Vec<PolicyChange>,
}

impl Plan {
    async fn of(journal: &JournalReader, settings: &ExactSettings) -> Result<Self, RouterError> {
        let until = journal.last_seq().await?;
        let damaged = |error| RouterError::Internal(format!("the compacted state: {error}"));
        let base = journal.base().await?.map(|base| Checkpoint::parse(&base.state)).transpose().map_err(damaged)?;
        let after = base.as_ref().map_or(0, |base| base.at);
        let (mut decisions, mut changes, mut dimension) = (vec![], vec![], 0);
        let (mut unsaid, mut compacted) = (0, 0);
        let mut report = ExactReport::default();
        let mut pages = read_ahead(journal.clone(), 0, until);
        while let Some(page) = pages.recv().await {
            for stored in page? {
                match stored.event {
                    Event::Decided { decision, .. } => {
                        dimension = stored.embedding.as_ref().map_or(dimension, |it| it.as_slice().len());
                        report.decisions += 1;
                        match decision.state_at {
                            0 => unsaid += 1,
                            at if at < after => compacted += 1,
                            at => decisions.push((at, stored.seq)),
                        }
                    }
                    Event::PolicyChanged { change } if stored.seq <= after => changes.push(change),
                    _ => {}
                }
            }
        }
        decisions.sort_unstable();
        report.leave_out("it is of a version that did not record the state that decided", unsaid);
        report.leave_out("the state that decided was compacted since", compacted);
        if let Some(path) = &settings.checkpoint
            && !path.exists()
        {
            report.checkpoint_problem = Some("there is none".into());
        }
        Ok(Self { until, decisions, dimension, report, base, changes })
    }
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
        let stored = self.journal.at(seq).await?.and_then(crate::journal::Stored::into_decided);
        let Some(mut recorded) = stored else {
            self.report.leave_out("it was taken out meanwhile", 1);
            return Ok(());
        };
        with_text(&mut recorded);
        if let Some(why) = self.why_not(&recorded) {
            self.report.leave_out(why, 1);
            return Ok(());
        }
        let what = self.differences(&recorded, at)?;
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

    /// Makes a decision again and says in what it differs.
    fn differences(&mut self, recorded: &Decided, at: i64) -> Result<Vec<String>, RouterError> {
        let Decided { context, observed, decision, .. } = recorded;
        let State { champion, shadow, learnt_rounds, standings, centroids, .. } = &self.state;
        let mut what = Differences::default();
        let compared = &mut self.report.compared;
        let mut seen = context.clone();
        observe(&mut seen, standings);
        compared.features += what.note("features", seen.candidates == context.candidates, || {
            let features = |candidates: &[crate::round::Candidate]| {
                candidates.iter().map(|candidate| candidate.features).collect::<Vec<_>>()
            };
            format!("{:?} instead of {:?}", features(&seen.candidates), features(&context.candidates))
        });
        if let Some(similarity) = observed.domain_similarity {
            compared.domains_found += 1;
            let found = centroids.nearest(&context.embedding, -1.0);
            let same = found
                .as_ref()
                .is_some_and(|(domain, cosine)| *domain == context.domain && cosine.to_bits() == similarity.to_bits());
            compared.domain +=
                what.note("domain", same, || format!("{found:?} instead of {} at {similarity}", context.domain));
        }
        let state = Deciding { champion, shadow: shadow.as_ref(), learnt_rounds: *learnt_rounds, at };
        let Drawn { decision: again, .. } = draw(&state, decision.id, &decision.task_id, context)?;
        compare(&again, decision, compared, &mut what);
        Ok(what.0)
    }
}

const CHAMPION: &str = "policy that decided";
const SHADOW: &str = "policy on trial";

/// What differs.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    /// Notes a difference; returns 1 where there is none.
    fn note(&mut self, what: &str, same: bool, how: impl FnOnce() -> String) -> u64 {
        if !same {
            self.0.push(format!("{what}: {}", how()));
        }
        u64::from(same)
    }
}

fn compare(again: &Decision, recorded: &Decision, compared: &mut Compared, what: &mut Differences) {
    let bits = |pmf: &[f64]| pmf.iter().map(|p| p.to_bits()).collect::<Vec<_>>();
    let entry =
        |entry: &Probability| (entry.mode, entry.arm.clone(), entry.p.to_bits(), entry.expected.map(f32::to_bits));
    let entries = |decision: &Decision| decision.pmf.iter().map(entry).collect::<Vec<_>>();
    let view = |view: &VoterView| (view.policy.clone(), view.weight.to_bits(), bits(&view.pmf));
    let views = |decision: &Decision| decision.voters.iter().map(view).collect::<Vec<_>>();
    let shadow = |decision: &Decision| decision.shadow.as_ref().map(|view| (view.policy.clone(), bits(&view.pmf)));
    let instead =
        |again: &dyn std::fmt::Debug, recorded: &dyn std::fmt::Debug| format!("{again:?} instead of {recorded:?}");
    let ps = |decision: &Decision| decision.pmf.iter().map(|entry| entry.p).collect::<Vec<_>>();
    let (arm, old_arm) = ((again.mode, &again.arm), (recorded.mode, &recorded.arm));
    let (p, old_p) = (again.propensity.get(), recorded.propensity.get());
    // That all arms rested is not a part of the state.
    let reason = again.reason == recorded.reason || recorded.reason == Reason::Fallback;
    let policy = again.policy == recorded.policy
        && again.learnt_rounds == recorded.learnt_rounds
        && again.seed == recorded.seed
        && reason;
    compared.pmf += what.note("pmf", entries(again) == entries(recorded), || instead(&ps(again), &ps(recorded)));
    compared.arm += what.note("arm", arm == old_arm, || instead(&arm, &old_arm));
    compared.propensity += what.note("propensity", p.to_bits() == old_p.to_bits(), || instead(&p, &old_p));
    compared.voters +=
        what.note("voters", views(again) == views(recorded), || instead(&again.voters, &recorded.voters));
    compared.shadow +=
        what.note("shadow", shadow(again) == shadow(recorded), || instead(&again.shadow, &recorded.shadow));
    compared.policy += what.note("policy", policy, || {
        let told = |d: &Decision| {
            format!("{} of {} after {} rounds, {:?}", d.policy.name, d.policy.card, d.learnt_rounds, d.reason)
        };
        format!("{} instead of {}", told(again), told(recorded))
    });
}

/// Whether a policy looks at more of a task than its embedding.
fn reads_text(policy: &str, settings: &PolicySettings) -> bool {
    let reader = |name: &str| name.ends_with("tfidf_classifier");
    reader(policy) || (policy.ends_with("ensemble") && settings.voters.iter().any(|voter| reader(&voter.policy)))
}

/// The hash of all that was learnt.
fn hash(state: &State) -> String {
    state.snapshot(0).known(&state.tracker()).hash()
}
