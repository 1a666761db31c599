//! Every problem by its name: with which statuses it comes, and when. Routes name the problems that they can answer with, and
//! their statuses follow from here. Tests hold the table against the code that makes problems.

use std::collections::BTreeMap;

use utoipa::openapi::{
    Content, Header, Ref, RefOr, Response, ResponseBuilder,
    schema::{ObjectBuilder, Schema, Type},
};

/// Problems that several routes share.
pub(in crate::api) mod shared {
    /// Of every route that a client's key opens.
    pub const CLIENT: &[&str] =
        &["key-needed", "invalid-key", "key-expired", "key-revoked", "cross-origin", "internal"];
    /// Of a route that only an admin key opens, besides.
    pub const ADMIN: &[&str] = &["admin-only"];
    /// Of a route that changes the router, besides.
    pub const CHANGE: &[&str] = &["admin-key-needed", "stopping", "journal-busy", "journal-read-only", "storage-full"];
    /// Of a body that holds JSON.
    pub const BODY: &[&str] =
        &["invalid-json", "invalid-utf8", "body-timeout", "too-large", "unsupported-media-type", "invalid-request"];
    /// Of a path or a query.
    pub const PLACE: &[&str] = &["invalid-path", "invalid-query", "invalid-request"];
    /// Of an acknowledgement that must be durable.
    pub const DURABLE: &[&str] = &["stopping", "journal-busy", "journal-read-only", "storage-full"];
    /// Of a task that is decided.
    pub const TASK: &[&str] = &[
        "unknown-arm",
        "unknown-domain",
        "unknown-tenant",
        "no-eligible-arm",
        "modes-off",
        "budget-spent",
        "other-tenant",
        "arm-not-allowed",
        "domain-not-allowed",
        "idempotency-key-reused",
        "still-running",
        "text-not-kept",
        "rate-limited",
        "too-many-at-once",
        "budget-reserved",
        "overloaded",
    ];
    /// Of memory and its snapshots.
    pub const MEMORY: &[&str] = &["memory-unavailable", "storage-full"];
}

/// In what form a route tells its problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Form {
    /// RFC 9457.
    Document,
    /// A chat protocol's own, under the name of its schema. What is refused before the route is found is a document.
    Chat(&'static str),
}

/// A type for `responses(...)` that stands for the named problems.
macro_rules! problems {
    ($name:ident = $form:expr, $($part:expr),+ $(,)?) => {
        pub(in crate::api) struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                $crate::api::openapi::problems::responses($form, &{ let parts: &[&[&str]] = &[$($part),+]; parts.concat() })
            }
        }
    };
    ($name:ident: $($part:expr),+ $(,)?) => {
        $crate::api::openapi::problems::problems!($name = $crate::api::openapi::problems::Form::Document, $($part),+);
    };
}
pub(in crate::api) use problems;

/// A problem's name, the statuses that it comes with, and when it comes.
type Row = (&'static str, &'static [u16], &'static str);

/// One response for each status that the problems come with.
pub(in crate::api) fn responses(form: Form, names: &[&str]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<&Row>> = BTreeMap::new();
    for problem in TABLE.iter().filter(|(name, ..)| names.contains(name)) {
        // Chats are refused in the words of their protocols, which know no 422.
        for status in problem
            .1
            .iter()
            .filter(|status| **status != 400 || problem.0 != "invalid-request" || form != Form::Document)
        {
            by_status.entry(*status).or_default().push(problem);
        }
    }
    by_status.into_iter().map(|(status, problems)| (status.to_string(), response(form, status, &problems))).collect()
}

fn response(form: Form, status: u16, problems: &[&(&str, &[u16], &str)]) -> RefOr<Response> {
    let when = problems.iter().map(|(name, _, when)| format!("`{name}`: {when}")).collect::<Vec<_>>().join("; ");
    let mut response = ResponseBuilder::new().description(when);
    let early = problems.iter().any(|(name, ..)| ["cross-origin", "internal"].contains(name));
    if form == Form::Document || early {
        response = response.content("application/problem+json", content("Problem"));
    }
    if let Form::Chat(schema) = form {
        response = response.content("application/json", content(schema));
    }
    if matches!(status, 402 | 429) {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let header = header(seconds.into(), "Seconds after which the same may go well.");
        response = response.header("Retry-After", header);
    }
    if status == 401 {
        let scheme = ObjectBuilder::new().schema_type(Type::String);
        response = response.header("WWW-Authenticate", header(scheme.into(), "How a key is to be shown."));
    }
    response.build().into()
}

pub(super) fn content(schema: &str) -> Content {
    Content::new(Some(RefOr::<Schema>::Ref(Ref::from_schema_name(schema))))
}

fn header(schema: Schema, description: &str) -> Header {
    let mut header = Header::new(schema);
    header.description = Some(description.into());
    header
}

/// Name, statuses, and when.
pub(in crate::api) const TABLE: &[Row] = &[
    ("invalid-json", &[400], "the body is not the JSON expected"),
    ("invalid-utf8", &[400], "the text is not UTF-8"),
    ("invalid-query", &[400], "a query parameter is missing, unknown or not of its kind"),
    ("invalid-path", &[400], "a part of the path is not UTF-8 once it is decoded"),
    ("key-needed", &[401], "the request shows no key"),
    ("invalid-key", &[401], "the key is none of this daemon's"),
    ("key-expired", &[401], "the key's time is over"),
    ("key-revoked", &[401], "the key was revoked"),
    ("admin-key-needed", &[401], "the route changes the router, and no admin key is shown"),
    ("budget-spent", &[402], "the tenant's dollars of the day or the month are spent"),
    ("admin-only", &[403], "the key is a client's"),
    ("cross-origin", &[403], "a web page of another site sent the request"),
    ("other-tenant", &[403], "the task names another tenant than its key's"),
    ("arm-not-allowed", &[403], "the arm is not one of the tenant's"),
    ("domain-not-allowed", &[403], "the domain is not one of the tenant's"),
    ("unknown-decision", &[404], "there is no such decision, or it is another tenant's"),
    ("unknown-entry", &[404], "memory holds no such entry"),
    ("unknown-snapshot", &[404], "there is no such snapshot"),
    ("unknown-card", &[404], "there is no such policy card"),
    ("unknown-verifier", &[404], "there is no such verifier"),
    ("unknown-key", &[404], "there is no such key"),
    ("unknown-webhook", &[404], "there is no such webhook"),
    ("unknown-model", &[404], "the model is neither `auto`, `auto:DOMAIN` nor an arm"),
    ("no-such-route", &[404], "there is no such route"),
    ("no-metrics", &[404], "this process records no metrics"),
    ("method-not-allowed", &[405], "the route takes another method"),
    ("body-timeout", &[408], "the body stopped for longer than `server.body_timeout_ms`"),
    ("idempotency-key-reused", &[409], "the key belongs to another task"),
    ("still-running", &[409], "the same task is running"),
    ("snapshot-exists", &[409], "the snapshot's name is taken"),
    ("snapshot-in-use", &[409], "memory rests on the snapshot"),
    ("arm-exists", &[409], "the arm's name is taken"),
    ("last-arm", &[409], "one arm must be left"),
    ("nothing-to-roll-back", &[409], "no other policy decided before"),
    ("last-verifier", &[409], "one verifier must be left"),
    ("no-such-version", &[409], "the verifier has no such version any more"),
    ("verifier-not-built", &[409], "the first-party verifier is not compiled on this machine yet"),
    ("admin-key-first", &[409], "the first key must be one that can make others"),
    ("text-not-kept", &[410], "the journal does not keep the text that is needed"),
    ("too-large", &[413], "the request is over a limit"),
    ("unsupported-media-type", &[415], "the body says that it is not JSON"),
    ("invalid-request", &[400, 422], "a field is out of its range; `field` names it"),
    ("unknown-arm", &[422], "there is no such arm"),
    ("unknown-report", &[404], "there is no such report of a replay"),
    ("damaged-report", &[422], "the report of a replay cannot be read"),
    ("unknown-domain", &[422], "there is no such domain"),
    ("unknown-tenant", &[422], "there is no such tenant"),
    ("invalid-arm", &[422], "the arm cannot be made"),
    ("invalid-card", &[422], "the policy card cannot be used"),
    ("invalid-verifier", &[422], "the component cannot be a verifier; `reason` says at which step it was refused"),
    ("damaged-snapshot", &[422], "the snapshot cannot be read"),
    ("foreign-snapshot", &[422], "the snapshot is another embedding model's"),
    ("modes-off", &[422], "none of the modes that the task asks for is on"),
    ("no-eligible-arm", &[422, 503], "no arm may be chosen for the task"),
    ("rate-limited", &[429], "more tasks a minute than the tenant may send"),
    ("too-many-at-once", &[429], "more tasks at once than the tenant may send"),
    ("budget-reserved", &[429], "the tenant's dollars are put aside for tasks that run"),
    ("internal", &[500], "something failed here; the log says what"),
    ("worker-failed", &[502], "no worker gave an answer"),
    ("overloaded", &[503], "too many tasks are waiting"),
    ("stopping", &[503], "the daemon is stopping"),
    ("journal-busy", &[503], "the journal takes no more at the moment"),
    ("journal-read-only", &[503], "the journal cannot be written"),
    ("memory-unavailable", &[503], "memory does not answer"),
    ("storage-full", &[507], "the disk is full, so nothing was acknowledged"),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// The names that the code makes problems of: each stands alone on its line's string, after `Problem::new(` and the like.
    fn made() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let text = fs::read_to_string(entry).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            for (start, opening) in ["Problem::new(", "Self::new("].iter().flat_map(|open| text.match_indices(open)) {
                let rest = text[start + opening.len()..].trim_start();
                let Some((_, rest)) = rest.split_once(',') else { continue };
                if let Some(name) = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next()) {
                    found.insert(name.to_owned());
                }
            }
            // A storage problem has one maker, and keys' refusals share one call.
            let named = ["invalid-key", "key-revoked", "key-expired"].iter();
            found.extend(named.filter(|name| text.contains(&format!("(\"{name}\""))).map(|name| (*name).to_owned()));
        }
        found
    }

    #[test]
    fn the_table_holds_every_problem_that_the_code_makes_and_no_other() {
        let table: BTreeSet<_> = TABLE.iter().map(|(name, ..)| (*name).to_owned()).collect();
        assert_eq!(table, made());
        assert_eq!(table.len(), TABLE.len(), "a name comes twice");
    }

    #[test]
    fn the_manual_names_every_problem() {
        let manual = include_str!("../../../docs/http.md");
        let chats = include_str!("../../../docs/chat.md");
        let missing: Vec<_> = TABLE
            .iter()
            .map(|(name, ..)| *name)
            .filter(|name| !manual.contains(&format!("`{name}`")) && !chats.contains(&format!("`{name}`")))
            .collect();
        assert!(missing.is_empty(), "docs/http.md does not name {missing:?}");
    }

    #[test]
    fn shared_names_are_in_the_table() {
        for name in [shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::BODY, shared::PLACE, shared::TASK].concat()
        {
            assert!(TABLE.iter().any(|(known, ..)| *known == name), "{name}");
        }
    }

    #[test]
    fn one_status_tells_all_its_problems() {
        let responses = responses(Form::Document, &["budget-spent", "invalid-request", "unknown-arm"]);
        let statuses: Vec<_> = responses.keys().map(String::as_str).collect();
        assert_eq!(statuses, ["402", "422"]);
        let json = serde_json::to_value(&responses).unwrap();
        assert!(json["422"]["description"].as_str().unwrap().contains("`unknown-arm`"));
        assert!(json["402"]["headers"]["Retry-After"].is_object());
    }
}
