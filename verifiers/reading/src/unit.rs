//! Units behind a number, as far as they convert into each other by a factor.
//!
//! Short list on purpose: "5 in total" is no inches, so only spellings that are hardly ever words are here. Units that
//! are raised or divided ("m²", "km/h") are of another dimension and read as none.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    Length,
    Mass,
    Time,
    Volume,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    pub dimension: Dimension,
    /// In metres, grams, seconds or litres.
    pub factor: f64,
}

const UNITS: &[(Dimension, f64, &[&str])] = &[
    (Dimension::Length, 1e-3, &["mm", "millimeter", "millimeters", "millimetre", "millimetres"]),
    (Dimension::Length, 1e-2, &["cm", "centimeter", "centimeters", "centimetre", "centimetres"]),
    (Dimension::Length, 1.0, &["m", "meter", "meters", "metre", "metres"]),
    (Dimension::Length, 1e3, &["km", "kilometer", "kilometers", "kilometre", "kilometres"]),
    (Dimension::Length, 0.0254, &["inch", "inches"]),
    (Dimension::Length, 0.3048, &["ft", "foot", "feet"]),
    (Dimension::Length, 0.9144, &["yd", "yard", "yards"]),
    (Dimension::Length, 1_609.344, &["mi", "mile", "miles"]),
    (Dimension::Mass, 1e-3, &["mg", "milligram", "milligrams"]),
    (Dimension::Mass, 1.0, &["g", "gram", "grams"]),
    (Dimension::Mass, 1e3, &["kg", "kilogram", "kilograms"]),
    (Dimension::Mass, 453.592_37, &["lb", "lbs"]),
    (Dimension::Mass, 28.349_523_125, &["oz"]),
    (Dimension::Time, 1e-3, &["ms", "millisecond", "milliseconds"]),
    (Dimension::Time, 1.0, &["s", "sec", "secs", "second", "seconds"]),
    (Dimension::Time, 60.0, &["min", "mins", "minute", "minutes"]),
    (Dimension::Time, 3_600.0, &["h", "hr", "hrs", "hour", "hours"]),
    (Dimension::Time, 86_400.0, &["day", "days"]),
    (Dimension::Time, 604_800.0, &["week", "weeks"]),
    (Dimension::Volume, 1e-3, &["ml", "mL", "milliliter", "milliliters", "millilitre", "millilitres"]),
    (Dimension::Volume, 1.0, &["l", "L", "liter", "liters", "litre", "litres"]),
];
/// Money behind an amount: read over, never converted.
const MONEY: &[&str] = &["usd", "eur", "gbp", "jpy", "dollar", "dollars", "euro", "euros", "cent", "cents"];
const WORD_MAX: usize = 16;

/// The unit at `at`, and where it ends.
#[must_use]
pub fn at(text: &[char], at: usize) -> Option<(Unit, usize)> {
    let (word, end) = word(text, at)?;
    if matches!(text.get(end), Some('/' | '^' | '²' | '³' | '*' | '·' | '-' | '_')) {
        return None;
    }
    let lower = word.to_lowercase();
    // Symbols of one or two letters tell milli from mega by case; names do not.
    let known = |name: &&str| **name == word || (name.len() > 2 && **name == lower);
    let (dimension, factor, _) = UNITS.iter().find(|(_, _, names)| names.iter().any(known))?;
    Some((Unit { dimension: *dimension, factor: *factor }, end))
}

/// Where a word for money at `at` ends.
#[must_use]
pub fn money(text: &[char], at: usize) -> Option<usize> {
    word(text, at).filter(|(word, _)| MONEY.contains(&word.to_lowercase().as_str())).map(|(_, end)| end)
}

/// The word at `at`, behind an opening brace that LaTeX's `\text{ km}` leaves.
fn word(text: &[char], at: usize) -> Option<(String, usize)> {
    let rest = text.get(at..)?;
    let lead = rest.iter().take_while(|c| matches!(c, ' ' | '{')).take(4).count();
    let word: String = rest[lead..].iter().take_while(|c| c.is_alphabetic()).take(WORD_MAX).collect();
    let end = at + lead + word.chars().count();
    (!word.is_empty()).then_some((word, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(text: &str) -> Option<(Dimension, f64)> {
        at(&text.chars().collect::<Vec<_>>(), 0).map(|(unit, _)| (unit.dimension, unit.factor))
    }

    #[test]
    fn reads_symbols_and_names() {
        assert_eq!(unit(" km."), Some((Dimension::Length, 1e3)));
        assert_eq!(unit(" Hours"), Some((Dimension::Time, 3_600.0)));
        assert_eq!(unit("{ kg}"), Some((Dimension::Mass, 1e3)));
        assert_eq!(unit("mL"), Some((Dimension::Volume, 1e-3)));
    }

    #[test]
    fn words_and_other_dimensions_are_none() {
        for text in ["", " in total", " km/h", " m²", " m^2", " apples", " M", " KG"] {
            assert_eq!(unit(text), None, "{text}");
        }
    }
}
