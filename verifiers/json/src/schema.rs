//! A subset of JSON Schema (2020-12), checked before use: an unknown keyword refuses the schema.
//!
//! In house because the well-kept validator, `jsonschema` without default features, makes a 2.7 MB guest (measured),
//! mostly regex and Unicode tables, against a fraction of a megabyte for this; and on wasm32-unknown-unknown it takes
//! its random numbers through wasm-bindgen, an import of JavaScript that a verifier must not have.
//! Supported: type, enum, const, properties, required, additionalProperties, minProperties, maxProperties, items
//! (one schema), minItems, maxItems, minLength, maxLength, pattern, minimum, maximum, exclusiveMinimum,
//! exclusiveMaximum, anyOf, oneOf, allOf, not, and $ref into the schema itself. Annotations, `format` among them, are
//! read over. No conditionals and no remote $ref: nothing is ever fetched.
//! References may loop, so work has a limit in steps and in depth; a value that exceeds it does not validate.

use std::cell::Cell;

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::reference::same;
use crate::supported::{check, local, whole};

/// Errors kept; the rest would only repeat.
const ERRORS_MAX: usize = 3;
/// Schemas applied to values, over a whole validation.
const STEPS_MAX: u32 = 200_000;
/// Schemas applied within each other.
const DEPTH_MAX: u32 = 256;

/// A schema of which every keyword is known and well formed.
pub struct Schema<'a>(&'a Value);

impl<'a> Schema<'a> {
    /// # Errors
    /// The first keyword that is unsupported or malformed, with its path.
    pub fn new(schema: &'a Value) -> Result<Self, String> {
        check(schema).map(|()| Self(schema))
    }

    /// The first few errors of `value`, each with its JSON pointer; empty when it validates.
    #[must_use]
    pub fn errors(&self, value: &Value) -> Vec<String> {
        let steps = Cell::new(0);
        let mut check = Check { root: self.0, steps: &steps, depth: 0, pointer: String::new(), errors: vec![] };
        check.value(self.0, value);
        check.errors
    }
}

struct Check<'a> {
    /// What references point into.
    root: &'a Value,
    steps: &'a Cell<u32>,
    depth: u32,
    pointer: String,
    errors: Vec<String>,
}

impl Check<'_> {
    fn fail(&mut self, why: String) {
        if self.errors.len() < ERRORS_MAX {
            let place = if self.pointer.is_empty() { "/" } else { &self.pointer };
            self.errors.push(format!("{place} {why}"));
        }
    }

    fn value(&mut self, schema: &Value, value: &Value) {
        if self.errors.len() >= ERRORS_MAX {
            return;
        }
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX || self.depth >= DEPTH_MAX {
            return self.fail("takes too much work to check".to_owned());
        }
        self.depth += 1;
        self.apply(schema, value);
        self.depth -= 1;
    }

    fn apply(&mut self, schema: &Value, value: &Value) {
        match schema {
            Value::Bool(false) => self.fail("is not allowed".to_owned()),
            Value::Object(rules) => {
                if let Some(target) = rules.get("$ref").and_then(Value::as_str).and_then(|r| local(self.root, r)) {
                    self.value(target, value);
                }
                self.any_type(rules, value);
                self.combined(rules, value);
                match value {
                    Value::Object(map) => self.object(rules, map),
                    Value::Array(items) => self.array(rules, items),
                    Value::String(text) => {
                        self.count(rules, "minLength", "maxLength", text.chars().count(), "characters");
                        self.pattern(rules, text);
                    }
                    Value::Number(number) => self.number(rules, number.as_f64().unwrap_or(f64::NAN)),
                    Value::Null | Value::Bool(_) => {}
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, key: &str, schema: &Value, value: &Value) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&verdict::excerpt(&key.replace('~', "~0").replace('/', "~1"), 40));
        self.value(schema, value);
        self.pointer.truncate(length);
    }

    fn any_type(&mut self, rules: &Map<String, Value>, value: &Value) {
        match rules.get("type") {
            Some(Value::Array(names)) if !names.iter().any(|name| is_type(name, value)) => {
                self.fail("has none of the types".to_owned());
            }
            Some(name @ Value::String(_)) if !is_type(name, value) => self.fail(format!("is not of type {name}")),
            _ => {}
        }
        if let Some(Value::Array(values)) = rules.get("enum")
            && !values.iter().any(|allowed| same(allowed, value))
        {
            self.fail("is not in the enum".to_owned());
        }
        if rules.get("const").is_some_and(|wanted| !same(wanted, value)) {
            self.fail("is not the const".to_owned());
        }
    }

    fn combined(&mut self, rules: &Map<String, Value>, value: &Value) {
        let (root, steps, depth) = (self.root, self.steps, self.depth);
        let holds = |schema: &Value| {
            let mut check = Check { root, steps, depth, pointer: String::new(), errors: vec![] };
            check.value(schema, value);
            check.errors.is_empty()
        };
        let list = |key: &str| rules.get(key).and_then(Value::as_array).map(Vec::as_slice);
        for schema in list("allOf").unwrap_or_default() {
            self.value(schema, value);
        }
        if list("anyOf").is_some_and(|schemas| !schemas.iter().any(holds)) {
            self.fail("matches none of anyOf".to_owned());
        }
        if let Some(schemas) = list("oneOf") {
            let count = schemas.iter().filter(|schema| holds(schema)).count();
            if count != 1 {
                self.fail(format!("matches {count} of oneOf"));
            }
        }
        if rules.get("not").is_some_and(holds) {
            self.fail("matches not".to_owned());
        }
    }

    fn object(&mut self, rules: &Map<String, Value>, map: &Map<String, Value>) {
        self.count(rules, "minProperties", "maxProperties", map.len(), "properties");
        for name in rules.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !map.contains_key(name) {
                self.fail(format!("lacks {name:?}"));
            }
        }
        let properties = rules.get("properties").and_then(Value::as_object);
        let additional = rules.get("additionalProperties");
        for (key, value) in map {
            if let Some(schema) = properties.and_then(|p| p.get(key)).or(additional) {
                self.below(key, schema, value);
            }
        }
    }

    fn array(&mut self, rules: &Map<String, Value>, items: &[Value]) {
        self.count(rules, "minItems", "maxItems", items.len(), "items");
        if let Some(schema) = rules.get("items") {
            for (i, item) in items.iter().enumerate() {
                self.below(&i.to_string(), schema, item);
            }
        }
    }

    fn count(&mut self, rules: &Map<String, Value>, min: &str, max: &str, got: usize, what: &str) {
        let got = got as u64;
        let limit = |key: &str| rules.get(key).and_then(whole);
        if limit(min).is_some_and(|min| got < min) || limit(max).is_some_and(|max| got > max) {
            self.fail(format!("has {got} {what}"));
        }
    }

    fn pattern(&mut self, rules: &Map<String, Value>, text: &str) {
        let pattern = rules.get("pattern").and_then(Value::as_str);
        // A pattern that is no regex was refused with the schema.
        if pattern.and_then(|p| Regex::new(p).ok()).is_some_and(|regex| !regex.is_match(text)) {
            self.fail("does not match the pattern".to_owned());
        }
    }

    fn number(&mut self, rules: &Map<String, Value>, got: f64) {
        let limit = |key: &str| rules.get(key).and_then(Value::as_f64);
        let low =
            limit("minimum").is_some_and(|min| got < min) || limit("exclusiveMinimum").is_some_and(|min| got <= min);
        let high =
            limit("maximum").is_some_and(|max| got > max) || limit("exclusiveMaximum").is_some_and(|max| got >= max);
        if low || high {
            self.fail(format!("{got} is out of bounds"));
        }
    }
}

fn is_type(name: &Value, value: &Value) -> bool {
    match (name.as_str(), value) {
        (Some("null"), Value::Null)
        | (Some("boolean"), Value::Bool(_))
        | (Some("object"), Value::Object(_))
        | (Some("array"), Value::Array(_))
        | (Some("string"), Value::String(_))
        | (Some("number"), Value::Number(_)) => true,
        // 1.0 is an integer to JSON Schema.
        (Some("integer"), Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|x| x.fract() == 0.0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(schema: Value, value: Value) -> bool {
        Schema::new(&schema).unwrap().errors(&value).is_empty()
    }

    #[test]
    fn every_keyword_accepts_and_rejects() {
        for (schema, good, bad) in [
            (json!({"type":"integer"}), json!(1.0), json!(1.5)),
            (json!({"type":["string","null"]}), json!(null), json!(1)),
            (json!({"type":"boolean"}), json!(false), json!(0)),
            (json!({"enum":[1,"a"]}), json!(1.0), json!("b")),
            (json!({"const":{"a":[1]}}), json!({"a":[1]}), json!({"a":[2]})),
            (json!({"required":["a"]}), json!({"a":null}), json!({"b":1})),
            (json!({"properties":{"a":{"type":"string"}}}), json!({"b":1}), json!({"a":1})),
            (json!({"properties":{"a":true},"additionalProperties":false}), json!({"a":1}), json!({"b":1})),
            (json!({"additionalProperties":{"type":"number"}}), json!({"b":1}), json!({"b":"x"})),
            (json!({"minProperties":1}), json!({"b":1}), json!({})),
            (json!({"maxProperties":1}), json!({"b":1}), json!({"a":1,"b":2})),
            (json!({"items":{"type":"number"}}), json!([1, 2]), json!([1, "x"])),
            (json!({"minItems":2}), json!([1, 2]), json!([1])),
            (json!({"maxItems":1.0}), json!([1]), json!([1, 2])),
            (json!({"minLength":2}), json!("éé"), json!("é")),
            (json!({"maxLength":2}), json!("éé"), json!("ééé")),
            (json!({"minimum":1}), json!(1), json!(0.9)),
            (json!({"maximum":1}), json!(1), json!(1.1)),
            (json!({"exclusiveMinimum":1}), json!(1.1), json!(1)),
            (json!({"exclusiveMaximum":1}), json!(0.9), json!(1)),
            (json!({"anyOf":[{"type":"string"},{"minimum":5}]}), json!(6), json!(4)),
            (json!({"oneOf":[{"minimum":1},{"minimum":5}]}), json!(2), json!(6)),
            (json!({"allOf":[{"minimum":1},{"maximum":5}]}), json!(2), json!(6)),
            (json!({"not":{"type":"string"}}), json!(2), json!("x")),
            (json!({"pattern":"^[A-Z]{2}-\\d+$"}), json!("AB-12"), json!("AB-x")),
            (json!({"pattern":"é"}), json!("café"), json!("cafe")),
            (json!({"$ref":"#/$defs/n","$defs":{"n":{"type":"number"}}}), json!(1), json!("x")),
            (json!({"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"type":"number"}}}), json!(1), json!("x")),
            (json!({"$ref":"#/$defs/n","maximum":5,"$defs":{"n":{"type":"number"}}}), json!(1), json!(6)),
            (
                json!({"properties":{"next":{"$ref":"#"},"v":{"type":"number"}},"required":["v"]}),
                json!({"v":1,"next":{"v":2,"next":{"v":3}}}),
                json!({"v":1,"next":{"v":2,"next":{"v":"x"}}}),
            ),
            (
                json!({"properties":{"a":{"items":{"properties":{"b":{"const":1}}}}}}),
                json!({"a":[{"b":1}]}),
                json!({"a":[{"b":2}]}),
            ),
        ] {
            assert!(holds(schema.clone(), good.clone()), "{schema} should accept {good}");
            assert!(!holds(schema.clone(), bad.clone()), "{schema} should reject {bad}");
        }
        assert!(holds(json!(true), json!(1)) && !holds(json!(false), json!(1)));
    }

    #[test]
    fn keywords_leave_other_types_alone() {
        for schema in
            [json!({"minimum":5}), json!({"minItems":1}), json!({"required":["a"]}), json!({"minProperties":1})]
        {
            assert!(holds(schema, json!("text")));
        }
    }

    #[test]
    fn errors_point_at_the_place_and_stop_early() {
        let schema = json!({"items":{"properties":{"a/b":{"type":"string"}}}});
        let errors = Schema::new(&schema).unwrap().errors(&json!([{"a/b":1},{"a/b":2},{"a/b":3},{"a/b":4}]));
        assert_eq!(errors.len(), ERRORS_MAX);
        assert_eq!(errors[0], "/0/a~1b is not of type \"string\"");
    }

    #[test]
    fn references_without_end_stop() {
        for schema in [
            json!({"allOf":[{"$ref":"#"},{"$ref":"#"}]}),
            json!({"anyOf":[{"$ref":"#"},{"$ref":"#"}]}),
            json!({"not":{"$ref":"#"},"oneOf":[{"$ref":"#"},{"$ref":"#/not"}]}),
        ] {
            assert!(!holds(schema.clone(), json!(1)), "{schema}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for schema in [
            json!({"pattern":"("}),
            json!({"pattern":1}),
            json!({"if":true}),
            json!({"$ref":1}),
            json!({"$ref":"https://example.org/schema.json"}),
            json!({"$ref":"other.json#/a"}),
            json!({"$ref":"#anchor"}),
            json!({"$ref":"#/$defs/n","$defs":{"n":{"type":"text"}}}),
            json!({"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}),
            json!({"properties":{"a":{"$ref":"#/x"}}}),
            json!({"type":"text"}),
            json!({"type":[]}),
            json!([]),
            json!({"required":"a"}),
            json!({"minLength":-1}),
            json!({"anyOf":[]}),
            json!({"items":[{}]}),
            json!({"enum":1}),
            json!({"properties":[]}),
            json!({"minimum":"1"}),
            json!({"minItems":1.5}),
        ] {
            assert!(Schema::new(&schema).is_err(), "{schema}");
        }
    }
}
