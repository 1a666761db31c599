//! Where every format's tasks and results come together and are checked, each with its file, line and column.
//!
//! A format only says which field is what. Here task ids are unique, prompts are not blank, models are known, scores are in
//! [0, 1], costs are not negative and follow the price list, and in the end every model has exactly one result on every task.
//! Tasks outside the splits that are asked for are known by their ids, so that their rows are passed over, and nothing
//! else of them is kept.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    rc::Rc,
};

use super::{
    Dataset, DatasetTask, ReadOptions, TaskResult,
    costs::{self, Cost},
    error::{Column, DatasetError, shown},
    models::Models,
    prices::{Prices, Tokens},
    spot::{Part, Spot, field, file_name},
};
use crate::round::{Domain, Metadata, TaskId};

/// The highest price and cost that are taken for one, in dollars.
pub(super) const USD_MAX: f64 = 1e9;

/// A task as a format reads it.
pub(super) struct NewTask<'a> {
    pub(super) id: &'a str,
    pub(super) split: &'a str,
    pub(super) domain: &'a str,
    pub(super) source: &'a str,
    pub(super) prompt: Option<String>,
    pub(super) metadata: Metadata,
}

/// A result as a format reads it.
pub(super) struct NewResult {
    pub(super) score: f64,
    pub(super) cost: Cost,
    pub(super) tokens: Option<Tokens>,
    pub(super) measured: bool,
    /// Whether the source says that its cost is an estimate.
    pub(super) estimated: bool,
    /// Whether its patch applied, where that was recorded.
    pub(super) applied: Option<bool>,
    /// Milliseconds that it took; 0 where they were not measured.
    pub(super) latency_ms: f64,
}

/// A task with what was found of it.
pub(super) struct Draft {
    pub(super) task: DatasetTask,
    pub(super) path: Rc<Path>,
    pub(super) line: u64,
    id: Column,
    /// By model.
    pub(super) cells: Vec<Option<Cell>>,
}

/// A result and where it stands.
pub(super) struct Cell {
    pub(super) result: NewResult,
    pub(super) path: Rc<Path>,
    pub(super) line: u64,
    pub(super) column: Option<Column>,
    /// How many results were read before it.
    pub(super) order: u64,
}

/// Which of the listed models must have results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    /// All of them.
    All,
    /// Those that have any: the list is of more models than were measured.
    Measured,
}

/// A dataset while it is read.
pub(super) struct Builder {
    name: String,
    options: ReadOptions,
    pub(super) models: Models,
    drafts: Vec<Draft>,
    /// None for a task outside the splits.
    by_id: HashMap<String, Option<usize>>,
    splits: BTreeSet<String>,
    /// The file read now, shared by what was found in it.
    path: Rc<Path>,
    results: u64,
    pub(super) warnings: Vec<String>,
}

impl Builder {
    pub(super) fn new(name: String, options: &ReadOptions) -> Self {
        Self {
            name,
            models: Models::new(options.models.clone()),
            options: options.clone(),
            drafts: Vec::new(),
            by_id: HashMap::new(),
            splits: BTreeSet::new(),
            path: Path::new("").into(),
            results: 0,
            warnings: Vec::new(),
        }
    }

    /// Whether tasks of this split are asked for.
    pub(super) fn wants(&self, split: &str) -> bool {
        self.options.splits.is_empty() || self.options.splits.iter().any(|wanted| wanted == split)
    }

    /// Takes a task; its place, or None if it is not asked for.
    pub(super) fn task(&mut self, spot: &Spot<'_>, new: NewTask<'_>) -> Result<Option<usize>, DatasetError> {
        let id = TaskId::new(new.id).map_err(|error| spot.error(Part::Id, error.problem))?;
        if let Some(known) = self.by_id.get(new.id) {
            let first = known.map_or_else(String::new, |place| {
                let first = &self.drafts[place];
                format!("; the first is in {}:{}", file_name(&first.path), first.line)
            });
            return Err(spot.error(Part::Id, format!("a second task {}{first}", shown(new.id))));
        }
        if !self.splits.contains(new.split) {
            self.splits.insert(new.split.to_owned());
        }
        if !self.wants(new.split) {
            self.by_id.insert(new.id.to_owned(), None);
            return Ok(None);
        }
        if new.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
            let problem =
                format!("the prompt of {} is empty: give its text, or null where it is not known", shown(new.id));
            return Err(spot.error(Part::Prompt, problem));
        }
        let domain = Domain::new(new.domain.to_lowercase()).map_err(|error| spot.error(Part::Domain, error.problem))?;
        let (split, source, prompt, metadata) = (new.split.into(), new.source.into(), new.prompt, new.metadata);
        let task = DatasetTask { id, split, domain, source, prompt, metadata, results: Vec::new() };
        let (path, column) = (self.file(spot.path), spot.names.column(Part::Id));
        let id = column.unwrap_or_else(|| field("id"));
        self.drafts.push(Draft { task, path, line: spot.line, id, cells: Vec::new() });
        let place = Some(self.drafts.len() - 1);
        self.by_id.insert(new.id.to_owned(), place);
        Ok(place)
    }

    /// A task that may not have been met yet; its place is None if it is not asked for.
    pub(super) fn met(&self, id: &str) -> Option<Option<usize>> {
        self.by_id.get(id).copied()
    }

    /// A row's task, which must have been met; None if it is not asked for.
    pub(super) fn find(&self, spot: &Spot<'_>, id: &str, tasks: &str) -> Result<Option<usize>, DatasetError> {
        self.met(id).ok_or_else(|| spot.error(Part::Id, format!("task {} is not in {tasks}", shown(id))))
    }

    /// A task that is kept.
    pub(super) fn draft(&self, place: usize) -> &Draft {
        &self.drafts[place]
    }

    /// Takes a result of a task by a model.
    pub(super) fn result(
        &mut self,
        spot: &Spot<'_>,
        task: usize,
        model: usize,
        result: NewResult,
    ) -> Result<(), DatasetError> {
        if !(0.0..=1.0).contains(&result.score) {
            return Err(spot.error(Part::Score, format!("the score is {}, it must be from 0 to 1", result.score)));
        }
        let draft = &self.drafts[task];
        if let Some(Some(first)) = draft.cells.get(model) {
            let (model, id) = (&self.models.known[model].model.arm, draft.task.id.as_str());
            let (model, id, first) = (shown(model.as_str()), shown(id), (file_name(&first.path), first.line));
            let problem = format!("a second result of {model} on {id}; the first is in {}:{}", first.0, first.1);
            return Err(spot.error(Part::Id, problem));
        }
        if let Cost::Known(cost) = result.cost {
            if !(0.0..=USD_MAX).contains(&cost) {
                let problem = format!("the cost is {cost}, it must be a number of dollars of at least 0");
                return Err(spot.error(Part::Cost, problem));
            }
            self.priced(spot, model, &result, cost)?;
        }
        let (path, line, order) = (self.file(spot.path), spot.line, self.results);
        let draft = &mut self.drafts[task];
        if draft.cells.len() <= model {
            draft.cells.resize_with(self.models.known.len(), || None);
        }
        let column = spot.names.column(Part::Cost);
        draft.cells[model] = Some(Cell { result, path, line, column, order });
        self.results += 1;
        Ok(())
    }

    /// Whether a cost follows the model's listed prices.
    fn priced(&mut self, spot: &Spot<'_>, model: usize, row: &NewResult, cost: f64) -> Result<(), DatasetError> {
        let list = self.models.list_name();
        let known = &mut self.models.known[model];
        let Some(tokens) = row.tokens.filter(|_| known.listed && !row.estimated) else { return Ok(()) };
        let prices = Prices::of(&known.model);
        if prices.are_followed(tokens, cost, 1.0) {
            known.following += 1;
            return Ok(());
        }
        let ratio = costs::ratio(cost, prices.cost_usd(tokens));
        if !self.options.allow_mixed_prices {
            let arm = shown(known.model.arm.as_str());
            let problem =
                costs::mixed(cost, tokens, &ratio, &format!("the prices of {arm} in {list}"), known.following);
            return Err(spot.error(Part::Cost, problem));
        }
        let (count, _) = known.departing.get_or_insert_with(|| (0, format!("{}, {ratio}", spot.shown())));
        *count += 1;
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Rc<Path> {
        if *self.path != *path {
            self.path = path.into();
        }
        Rc::clone(&self.path)
    }

    /// Checks that nothing is missing, makes the costs that are not given, and is done.
    pub(super) fn finish(mut self, path: &Path, listed: Listed) -> Result<Dataset, DatasetError> {
        if let Some(wanted) = self.options.splits.iter().find(|wanted| !self.splits.contains(*wanted)) {
            let (wanted, splits) = (wanted.clone(), self.splits.into_iter().collect());
            return Err(DatasetError::Empty { wanted, splits });
        }
        self.models.all_wanted()?;
        if self.drafts.is_empty() {
            return Err(DatasetError::Layout { path: path.into(), problem: "there is no task in it".into() });
        }
        if listed == Listed::Measured {
            self.drop_unmeasured_models();
        }
        if self.models.known.is_empty() {
            return Err(DatasetError::Layout { path: path.into(), problem: "no model asked for has results".into() });
        }
        self.nothing_is_missing()?;
        costs::complete(&mut self.drafts, &mut self.models, self.options.allow_mixed_prices, &mut self.warnings)?;
        let mut dataset = Dataset {
            name: self.name,
            split: (!self.options.splits.is_empty()).then(|| self.options.splits.join(",")),
            models: self.models.known.into_iter().map(|known| known.model).collect(),
            tasks: Vec::with_capacity(self.drafts.len()),
            without_prompt: 0,
            unmeasured: 0,
            warnings: self.warnings,
        };
        for Draft { mut task, cells, .. } in self.drafts {
            task.results = cells.into_iter().flatten().map(|cell| done(&cell.result)).collect();
            dataset.tasks.push(task);
        }
        dataset.count();
        Ok(dataset)
    }

    fn drop_unmeasured_models(&mut self) {
        let mut measured = vec![false; self.models.known.len()];
        for draft in &self.drafts {
            draft.cells.iter().enumerate().for_each(|(model, cell)| measured[model] |= cell.is_some());
        }
        let dropped: Vec<&str> = self
            .models
            .known
            .iter()
            .zip(&measured)
            .filter(|(_, measured)| !**measured)
            .map(|(known, _)| known.model.arm.as_str())
            .collect();
        if !dropped.is_empty() {
            let warning = format!("{} has no results of: {}", self.models.list_name(), dropped.join(", "));
            self.warnings.push(warning);
        }
        for draft in &mut self.drafts {
            draft.cells.resize_with(measured.len(), || None);
            let mut kept = measured.iter();
            draft.cells.retain(|_| kept.next().copied().unwrap_or_default());
        }
        let mut kept = measured.iter();
        self.models.known.retain(|_| kept.next().copied().unwrap_or_default());
    }

    fn nothing_is_missing(&mut self) -> Result<(), DatasetError> {
        let models = self.models.known.len();
        let mut first = None;
        let mut missing = 0;
        for (place, draft) in self.drafts.iter_mut().enumerate() {
            draft.cells.resize_with(models, || None);
            for model in (0..models).filter(|model| draft.cells[*model].is_none()) {
                first.get_or_insert((place, model));
                missing += 1;
            }
        }
        let Some((place, model)) = first else { return Ok(()) };
        let (draft, arm) = (&self.drafts[place], &self.models.known[model].model.arm);
        let problem = format!(
            "task {} has no result of {}: regret needs every model's ({missing} of {} results are missing); take the models \
             that have all with --models",
            shown(draft.task.id.as_str()),
            shown(arm.as_str()),
            models * self.drafts.len(),
        );
        let column = Some(draft.id.clone());
        Err(DatasetError::Line { path: draft.path.to_path_buf(), line: draft.line, column, problem })
    }
}

/// A result whose cost is known by now.
fn done(result: &NewResult) -> TaskResult {
    let cost_usd = match result.cost {
        Cost::Known(cost) => cost,
        Cost::OfTokens | Cost::OfTotal(_) | Cost::Unknown => 0.0,
    };
    TaskResult {
        score: result.score,
        cost_usd,
        measured: result.measured,
        applied: result.applied,
        output_tokens: result.tokens.filter(|_| result.measured).map(|tokens| tokens.written),
        latency_ms: Some(result.latency_ms).filter(|ms| result.measured && *ms > 0.0),
    }
}

/// A name as a domain: lower case, with `-` for what a domain may not hold.
pub(super) fn slug(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    name.trim().to_lowercase().chars().map(|c| if allowed(c) { c } else { '-' }).collect()
}
