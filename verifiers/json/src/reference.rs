//! How much of a reference value an answer repeats, leaf by leaf.
//!
//! A leaf is a scalar, or an empty object or array. Items that an answer adds to an array count as misses, else
//! listing everything would score full marks; extra keys do not, because a reference may be a part.

use serde_json::Value;

/// Leaves found of those there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matched {
    pub hits: usize,
    pub leaves: usize,
}

impl Matched {
    pub const NONE: Self = Self { hits: 0, leaves: 1 };

    /// In [0, 1].
    #[must_use]
    pub fn share(self) -> f64 {
        if self.leaves == 0 { 0.0 } else { self.hits as f64 / self.leaves as f64 }
    }

    fn add(self, other: Self) -> Self {
        Self { hits: self.hits + other.hits, leaves: self.leaves + other.leaves }
    }
}

/// A string that holds JSON is that JSON; any other value is itself.
#[must_use]
pub fn parse(reference: &Value) -> Value {
    match reference {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| reference.clone()),
        other => other.clone(),
    }
}

#[must_use]
pub fn compare(wanted: &Value, got: &Value) -> Matched {
    at(wanted, Some(got))
}

/// `got` is `None` where the answer has no such place, which is not the same as null.
fn at(wanted: &Value, got: Option<&Value>) -> Matched {
    const ZERO: Matched = Matched { hits: 0, leaves: 0 };
    match wanted {
        Value::Object(map) if !map.is_empty() => {
            map.iter().map(|(key, value)| at(value, got.and_then(|got| got.get(key)))).fold(ZERO, Matched::add)
        }
        Value::Array(items) if !items.is_empty() => {
            let extra = got.and_then(Value::as_array).map_or(0, |got| got.len().saturating_sub(items.len()));
            let matched = items.iter().enumerate().map(|(i, value)| at(value, got.and_then(|got| got.get(i))));
            matched.fold(Matched { hits: 0, leaves: extra }, Matched::add)
        }
        leaf => Matched { hits: usize::from(got.is_some_and(|got| same(leaf, got))), leaves: 1 },
    }
}

/// Equal as JSON: 1 and 1.0 are one number.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.as_f64() == y.as_f64() && (x.is_f64() || y.is_f64())),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn share(wanted: Value, got: Value) -> f64 {
        compare(&wanted, &got).share()
    }

    #[test]
    fn counts_leaves_at_their_place() {
        assert_eq!(share(json!({"a":1,"b":{"c":"x","d":true}}), json!({"a":1,"b":{"c":"y","d":true}})), 2.0 / 3.0);
        assert_eq!(share(json!([1, 2]), json!([2, 1])), 0.0);
        assert_eq!(share(json!({"a":[]}), json!({"a":[]})), 1.0);
        assert_eq!(share(json!({"a":1}), json!([1])), 0.0);
        assert_eq!(share(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)), 0.0);
    }

    #[test]
    fn an_absent_place_is_not_null_and_extra_items_are_misses() {
        assert_eq!(share(json!({"a":null}), json!({})), 0.0);
        assert_eq!(share(json!({"a":null}), json!({"a":null})), 1.0);
        assert_eq!(share(json!([1]), json!([1, 2, 3, 4])), 0.25);
        assert_eq!(share(json!({"a":1}), json!({"a":1,"b":2})), 1.0);
    }
}
