//! Price lists: whether costs follow one, and which one costs imply where none is given.
//!
//! Where a row has its tokens, cost_usd = (tokens read * input price + tokens written * output price) / 1e6. The files that
//! are published keep to that to the last digit, agentic runs included, or round it to a millionth of a dollar, so half of
//! that is allowed for and no more: a row that departs was made at other prices, and a reward that mixes two price lists
//! compares nothing.
//!
//! Without a list the prices are fitted by least squares over (tokens read, tokens written, cost). If all rows follow the
//! fit it is their list. If the first rows follow one list and all others a second one, the rows are mixed. Else (discounts
//! for cached tokens, several providers) the fit is an average, and is said to be one.

use super::Model;

/// Half a millionth of a dollar, to which costs are rounded, and what numbers of that size lose on the way.
const ROUNDED_USD: f64 = 0.5e-6 + 1e-9;

/// The relative error of costs that are not rounded.
const RELATIVE: f64 = 1e-6;

/// Fewer rows than this are no evidence of a price list.
const ROWS_MIN: usize = 5;

/// Tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) read: u64,
    pub(super) written: u64,
}

/// Dollars per million tokens read, and written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prices(pub(super) f64, pub(super) f64);

impl Prices {
    pub(super) fn of(model: &Model) -> Self {
        Self(model.input_per_1m, model.output_per_1m)
    }

    /// What the tokens cost.
    pub(super) fn cost_usd(self, tokens: Tokens) -> f64 {
        (tokens.read as f64 * self.0 + tokens.written as f64 * self.1) / 1e6
    }

    /// Whether a cost is what the tokens cost; `slack` multiplies what rounding may do.
    pub(super) fn are_followed(self, tokens: Tokens, cost_usd: f64, slack: f64) -> bool {
        let expected = self.cost_usd(tokens);
        (cost_usd - expected).abs() <= slack * (ROUNDED_USD + RELATIVE * expected)
    }
}

/// A row with its tokens and cost.
pub(super) type Row = (Tokens, f64);

/// The prices that rows imply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Implied {
    /// There is no row with tokens.
    Nothing,
    /// All rows follow them.
    Followed(Prices),
    /// No list is followed; these are averages.
    Average(Prices),
    /// The first rows follow these, those that do not follow another list; the place of the first of them.
    Mixed(Prices, usize),
}

/// The prices that one model's rows imply, in the order that they were read.
pub(super) fn implied(rows: &[Row]) -> Implied {
    let Some(all) = fit(rows) else { return Implied::Nothing };
    if departing(rows, all).is_empty() {
        return Implied::Followed(all);
    }
    // The longest start that one list explains.
    let follows = |rows: &[Row]| fit(rows).filter(|prices| departing(rows, *prices).is_empty());
    let (mut good, mut bad) = (0, rows.len());
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if follows(&rows[..middle]).is_some() { good = middle } else { bad = middle }
    }
    if let Some(prices) = follows(&rows[..good]).filter(|_| good >= ROWS_MIN) {
        let places = departing(rows, prices);
        let others: Vec<Row> = places.iter().map(|place| rows[*place]).collect();
        if others.len() >= ROWS_MIN && follows(&others).is_some() {
            return Implied::Mixed(prices, places[0]);
        }
    }
    Implied::Average(all)
}

/// The places of the rows that do not follow fitted prices, which carry the rounding of all rows.
fn departing(rows: &[Row], prices: Prices) -> Vec<usize> {
    let departs = |(_, (tokens, cost)): &(usize, &Row)| !prices.are_followed(*tokens, *cost, 2.0);
    rows.iter().enumerate().filter(departs).map(|(place, _)| place).collect()
}

/// Least squares without an intercept; one price for both kinds of tokens where the rows cannot tell them apart.
fn fit(rows: &[Row]) -> Option<Prices> {
    let [mut rr, mut rw, mut ww, mut rc, mut wc] = [0.0_f64; 5];
    for (Tokens { read, written }, cost) in rows {
        let (read, written) = (*read as f64 / 1e6, *written as f64 / 1e6);
        rr += read * read;
        rw += read * written;
        ww += written * written;
        rc += read * cost;
        wc += written * cost;
    }
    if rr + ww == 0.0 {
        return None;
    }
    let determinant = rr * ww - rw * rw;
    if determinant > 1e-9 * rr * ww {
        let (input, output) = ((rc * ww - wc * rw) / determinant, (wc * rr - rc * rw) / determinant);
        // Noise around a price of 0.
        let (input, output) = (zero(input), zero(output));
        if input >= 0.0 && output >= 0.0 {
            return Some(Prices(input, output));
        }
    }
    let both = (rc + wc) / (rr + 2.0 * rw + ww);
    both.is_finite().then_some(Prices(both, both))
}

fn zero(price: f64) -> f64 {
    if price.abs() < 1e-9 { 0.0 } else { price }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of many sizes at two prices, rounded to a millionth.
    fn rows(prices: Prices, range: std::ops::Range<u64>) -> Vec<Row> {
        let row = |n: u64| {
            let tokens = Tokens { read: 50 + 37 * n % 911, written: 10 + 101 * n % 577 };
            (tokens, (prices.cost_usd(tokens) * 1e6).round() / 1e6)
        };
        range.map(row).collect()
    }

    #[test]
    fn rounded_costs_give_their_list_back() {
        let Implied::Followed(Prices(input, output)) = implied(&rows(Prices(3.0, 15.0), 0..200)) else { panic!() };
        assert!((input - 3.0).abs() < 0.01 && (output - 15.0).abs() < 0.01, "{input} {output}");
        assert_eq!(implied(&[]), Implied::Nothing);
        let Implied::Followed(Prices(input, output)) = implied(&rows(Prices(0.0, 2.0), 0..200)) else { panic!() };
        assert!(input.abs() < 0.01 && (output - 2.0).abs() < 0.01, "{input} {output}");
    }

    #[test]
    fn two_lists_are_told_wherever_the_second_begins() {
        for start in [5, 20, 100, 195] {
            let mut mixed = rows(Prices(3.0, 15.0), 0..start);
            mixed.extend(rows(Prices(1.5, 30.0), start..200));
            let Implied::Mixed(Prices(input, output), first) = implied(&mixed) else { panic!("{start}") };
            assert_eq!(first, start as usize);
            assert!((input - 3.0).abs() < 0.1 && (output - 15.0).abs() < 0.1, "{input} {output}");
        }
    }

    #[test]
    fn costs_of_no_list_are_averaged() {
        let mut noisy = rows(Prices(3.0, 15.0), 0..200);
        noisy.iter_mut().enumerate().for_each(|(n, (_, cost))| *cost *= 1.0 + 0.1 * (n % 7) as f64);
        assert!(matches!(implied(&noisy), Implied::Average(Prices(input, output)) if input > 3.0 && output > 15.0));
        // One row cannot tell the two prices apart.
        let Implied::Followed(Prices(input, output)) = implied(&noisy[..1]) else { panic!() };
        assert_eq!(input, output);
    }
}
