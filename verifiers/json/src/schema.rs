//! A subset of JSON Schema (2020-12), checked before use: an unknown keyword refuses the schema.
//!
//! In house because the well-kept validator, `jsonschema` without default features, makes a 2.7 MB guest (measured),
//! mostly regex and Unicode tables, against a fraction of a megabyte for this; and it wants a random source.
//! Supported: type, enum, const, properties, required, additionalProperties, minProperties, maxProperties, items
//! (one schema), minItems, maxItems, minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum,
//! anyOf, oneOf, allOf, not. Annotations, `format` among them, are read over. No $ref, pattern or conditionals.

use serde_json::{Map, Value};

use crate::reference::same;

/// Errors kept; the rest would only repeat.
const ERRORS_MAX: usize = 3;

const ANNOTATIONS: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
];
const COUNTS: &[&str] = &["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
const LIMITS: &[&str] = &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "string", "integer"];

/// A schema of which every keyword is known and well formed.
pub struct Schema<'a>(&'a Value);

impl<'a> Schema<'a> {
    /// # Errors
    /// The first keyword that is unsupported or malformed, with its path.
    pub fn new(schema: &'a Value) -> Result<Self, String> {
        supported(schema, "#").map(|()| Self(schema))
    }

    /// The first few errors of `value`, each with its JSON pointer; empty when it validates.
    #[must_use]
    pub fn errors(&self, value: &Value) -> Vec<String> {
        let mut check = Check { pointer: String::new(), errors: vec![] };
        check.value(self.0, value);
        check.errors
    }
}

fn supported(schema: &Value, path: &str) -> Result<(), String> {
    let map = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(map) => map,
        _ => return Err(format!("{path} is neither an object nor a boolean")),
    };
    for (key, value) in map {
        let at = format!("{path}/{key}");
        let malformed = |wanted: &str| Err(format!("{at} is not {wanted}"));
        match key.as_str() {
            "type" => {
                let known = |v: &Value| v.as_str().is_some_and(|name| TYPES.contains(&name));
                let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                if names.is_empty() || !names.iter().all(known) {
                    return malformed("a type or a list of types");
                }
            }
            "enum" if !value.is_array() => return malformed("an array"),
            "enum" | "const" => {}
            "required" if !value.as_array().is_some_and(|names| names.iter().all(Value::is_string)) => {
                return malformed("an array of strings");
            }
            "required" => {}
            "properties" => match value {
                Value::Object(inner) => inner.iter().try_for_each(|(name, s)| supported(s, &format!("{at}/{name}")))?,
                _ => return malformed("an object"),
            },
            "additionalProperties" | "items" | "not" => supported(value, &at)?,
            "anyOf" | "oneOf" | "allOf" => match value.as_array().filter(|schemas| !schemas.is_empty()) {
                Some(schemas) => {
                    schemas.iter().enumerate().try_for_each(|(i, s)| supported(s, &format!("{at}/{i}")))?
                }
                None => return malformed("a non-empty array"),
            },
            count if COUNTS.contains(&count) => {
                if whole(value).is_none() {
                    return malformed("a whole number >= 0");
                }
            }
            limit if LIMITS.contains(&limit) => {
                if !value.is_number() {
                    return malformed("a number");
                }
            }
            note if ANNOTATIONS.contains(&note) => {}
            _ => return Err(format!("{at} is not supported")),
        }
    }
    Ok(())
}

/// A count may be written 2 or 2.0.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..1e15).contains(x)).map(|x| x as u64))
}

struct Check {
    pointer: String,
    errors: Vec<String>,
}

impl Check {
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
        match schema {
            Value::Bool(false) => self.fail("is not allowed".to_owned()),
            Value::Object(rules) => {
                self.any_type(rules, value);
                self.combined(rules, value);
                match value {
                    Value::Object(map) => self.object(rules, map),
                    Value::Array(items) => self.array(rules, items),
                    Value::String(text) => {
                        self.count(rules, "minLength", "maxLength", text.chars().count(), "characters")
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
        let holds = |schema: &Value| Schema(schema).errors(value).is_empty();
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
    fn refuses_what_it_does_not_know() {
        for schema in [
            json!({"pattern":"a"}),
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
