//! Checks a schema before use: every keyword is known and well formed, every reference points into the schema.
//!
//! A keyword that is not known refuses the schema, because ignoring it would pass wrong answers.

use regex_lite::Regex;
use serde_json::Value;

/// References that lead on to references, one after another.
const CHAIN_MAX: usize = 32;

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

/// The first keyword that is unsupported or malformed, with its path.
///
/// # Errors
/// That keyword.
pub fn check(schema: &Value) -> Result<(), String> {
    Walk { root: schema, seen: vec![] }.supported(schema, "#")
}

/// What a reference into the schema itself points at: "#" or a JSON pointer (RFC 6901) behind it.
#[must_use]
pub fn local<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = |rest: &mut std::str::Bytes| {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        };
        bytes.push(if byte == b'%' { decoded(&mut rest)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

struct Walk<'a> {
    root: &'a Value,
    /// References already followed.
    seen: Vec<String>,
}

impl Walk<'_> {
    fn supported(&mut self, schema: &Value, path: &str) -> Result<(), String> {
        let map = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(map) => map,
            _ => return Err(format!("{path} is neither an object nor a boolean")),
        };
        for (key, value) in map {
            let at = format!("{path}/{key}");
            let malformed = |wanted: &str| Err(format!("{at} is not {wanted}"));
            match key.as_str() {
                "$ref" => self.reference(value, &at)?,
                "pattern" => match value.as_str().map(Regex::new) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(format!("{at}: {error}")),
                    None => return malformed("a string"),
                },
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
                    Value::Object(inner) => {
                        inner.iter().try_for_each(|(name, s)| self.supported(s, &format!("{at}/{name}")))?
                    }
                    _ => return malformed("an object"),
                },
                "additionalProperties" | "items" | "not" => self.supported(value, &at)?,
                "anyOf" | "oneOf" | "allOf" => match value.as_array().filter(|schemas| !schemas.is_empty()) {
                    Some(schemas) => {
                        schemas.iter().enumerate().try_for_each(|(i, s)| self.supported(s, &format!("{at}/{i}")))?
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

    fn reference(&mut self, value: &Value, at: &str) -> Result<(), String> {
        let Some(name) = value.as_str() else { return Err(format!("{at} is not a string")) };
        if !name.starts_with('#') {
            return Err(format!("{at} is remote: only references into the schema itself are followed"));
        }
        let Some(mut target) = local(self.root, name) else { return Err(format!("{at} points at nothing")) };
        // A chain of references and nothing else that comes back to itself says nothing of any value.
        for _ in 0..=CHAIN_MAX {
            let next = target.get("$ref").and_then(Value::as_str).and_then(|next| local(self.root, next));
            match next {
                Some(next) => target = next,
                None if self.seen.iter().any(|seen| seen == name) => return Ok(()),
                None => {
                    self.seen.push(name.to_owned());
                    let root = self.root;
                    return local(root, name).map_or(Ok(()), |target| self.supported(target, name));
                }
            }
        }
        Err(format!("{at} never ends"))
    }
}

/// A count may be written 2 or 2.0.
#[must_use]
pub fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..1e15).contains(x)).map(|x| x as u64))
}
