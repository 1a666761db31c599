//! Costs that a dataset does not give, made of what it does.
//!
//! In this order: of the tokens read and written at the listed prices; of all tokens at what the same model's other tokens
//! cost on average, or else taking a quarter of the prompt's characters as read and the rest as written; as a router
//! would guess before the answer ([`Model::expected_cost_usd`]). The last two are estimates, and are counted. Where no
//! prices are listed, those are stated that the costs imply (`prices`).
//!
//! [`Model::expected_cost_usd`]: super::Model::expected_cost_usd

use super::{
    builder::{Cell, Draft},
    error::{DatasetError, shown},
    models::Models,
    prices::{Implied, Prices, Row, Tokens, implied},
};

/// What is known of a result's cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cost {
    /// Dollars.
    Known(f64),
    /// The tokens and the price list make it.
    OfTokens,
    /// So many tokens, read or written.
    OfTotal(u64),
    /// Nothing.
    Unknown,
}

/// A cost beside what it should be.
pub(super) fn ratio(cost: f64, expected: f64) -> String {
    if expected > 0.0 { format!("{:.3} times", cost / expected) } else { "at a price of 0".into() }
}

/// What is said of a cost that is not of the list.
pub(super) fn mixed(cost: f64, tokens: Tokens, ratio: &str, list: &str, following: u64) -> String {
    let Tokens { read, written } = tokens;
    let before = match following {
        0 => "none before it follows them".into(),
        rows => format!("{rows} before it follow them (1.000 times)"),
    };
    format!(
        "the cost {cost} of {read} tokens read and {written} written is {ratio} what {list} make of them, and {before}: \
         costs of two price lists cannot be compared; correct the costs or the list, or take them as they are with \
         --allow-mixed-prices"
    )
}

/// States prices that are not listed, and makes every cost that is not known.
pub(super) fn complete(
    drafts: &mut [Draft],
    models: &mut Models,
    allow_mixed_prices: bool,
    warnings: &mut Vec<String>,
) -> Result<(), DatasetError> {
    if !models.are_listed() {
        state_prices(drafts, models, allow_mixed_prices, warnings)?;
    }
    let list = models.list_name();
    let mut estimated = 0;
    let mut by_source = 0;
    let mut dearest = 0.0_f64;
    for place in 0..models.known.len() {
        let per_token = dollars_per_token(drafts, place);
        let model = &models.known[place].model;
        let prices = Prices::of(model);
        for Draft { task, cells, .. } in drafts.iter_mut() {
            let Some(Cell { result, .. }) = &mut cells[place] else { continue };
            by_source += usize::from(result.estimated);
            let cost = match (result.cost, result.tokens) {
                (Cost::Known(cost), _) => cost,
                (Cost::OfTokens, Some(tokens)) => prices.cost_usd(tokens),
                (Cost::OfTotal(total), _) => {
                    estimated += 1;
                    per_token
                        .map_or_else(|| prices.cost_usd(divided(total, task.text())), |dollars| dollars * total as f64)
                }
                (Cost::OfTokens | Cost::Unknown, _) => {
                    estimated += 1;
                    model.expected_cost_usd(task.text())
                }
            };
            dearest = dearest.max(cost);
            result.cost = Cost::Known(cost);
        }
        if let Some((count, first)) = &models.known[place].departing {
            let arm = &models.known[place].model.arm;
            warnings.push(format!("{arm}: {count} costs are not of {list}'s prices, the first in {first}"));
        }
    }
    if by_source > 0 {
        warnings.push(format!("{by_source} costs are estimates of the source"));
    }
    if estimated > 0 {
        warnings.push(format!("{estimated} costs are estimates, since tokens read and written are not given"));
    }
    if dearest == 0.0 {
        warnings.push("no cost is above 0: rewards are of scores alone".into());
    }
    Ok(())
}

/// Total tokens as read and written: a router's guess of the prompt's, and the rest.
fn divided(total: u64, prompt: &str) -> Tokens {
    let read = (prompt.chars().count() as u64 / 4).min(total);
    Tokens { read, written: total - read }
}

/// What a token of a model costs on average, read or written; None if no row tells.
fn dollars_per_token(drafts: &[Draft], model: usize) -> Option<f64> {
    let rows = drafts.iter().filter_map(|draft| row(draft.cells[model].as_ref()?));
    let (dollars, tokens) = rows.fold((0.0, 0.0), |(dollars, tokens), (Tokens { read, written }, cost)| {
        (dollars + cost, tokens + read as f64 + written as f64)
    });
    (tokens > 0.0).then(|| dollars / tokens)
}

/// A cell with its tokens and a cost that was measured.
fn row(cell: &Cell) -> Option<Row> {
    match (cell.result.cost, cell.result.tokens) {
        (Cost::Known(cost), Some(tokens)) if !cell.result.estimated => Some((tokens, cost)),
        _ => None,
    }
}

/// States the prices that costs imply, or 0 where they imply none.
fn state_prices(
    drafts: &[Draft],
    models: &mut Models,
    allow_mixed_prices: bool,
    warnings: &mut Vec<String>,
) -> Result<(), DatasetError> {
    let (mut averages, mut unknown, mut of_costs) = (vec![], vec![], 0);
    for (place, known) in models.known.iter_mut().enumerate() {
        let mut cells: Vec<&Cell> = drafts.iter().filter_map(|draft| draft.cells[place].as_ref()).collect();
        cells.retain(|cell| row(cell).is_some());
        cells.sort_by_key(|cell| cell.order);
        let rows: Vec<Row> = cells.iter().filter_map(|cell| row(cell)).collect();
        let arm = known.model.arm.as_str();
        let Prices(input, output) = match implied(&rows) {
            Implied::Nothing => {
                unknown.push(arm.to_owned());
                Prices(0.0, 0.0)
            }
            Implied::Followed(prices) => {
                of_costs += 1;
                prices
            }
            Implied::Average(prices) => {
                averages.push(arm.to_owned());
                prices
            }
            Implied::Mixed(prices, first) => {
                let (tokens, cost) = rows[first];
                let ratio = ratio(cost, prices.cost_usd(tokens));
                if !allow_mixed_prices {
                    let list = format!("the prices of {} in the rows before", shown(arm));
                    let problem = mixed(cost, tokens, &ratio, &list, first as u64);
                    let Cell { path, line, column, .. } = cells[first];
                    let (path, column) = (path.to_path_buf(), column.clone());
                    return Err(DatasetError::Line { path, line: *line, column, problem });
                }
                averages.push(arm.to_owned());
                prices
            }
        };
        (known.model.input_per_1m, known.model.output_per_1m) = (input, output);
    }
    if of_costs > 0 {
        warnings.push(format!("no prices are listed: those of {of_costs} models are what their costs imply"));
    }
    if !averages.is_empty() {
        let models = averages.join(", ");
        warnings.push(format!("costs follow no one price list, so that these models' prices are averages: {models}"));
    }
    if !unknown.is_empty() {
        let models = unknown.join(", ");
        warnings.push(format!(
            "prices are not known and stated as 0, so that policies expect no cost before an answer (a models.json beside the \
             data would give them): {models}"
        ));
    }
    Ok(())
}
