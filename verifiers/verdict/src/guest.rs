//! Bindings to the component world, and the one conversion from plain types to generated ones.
//!
//! A guest crate names its type and exports it:
//! `type Component = verdict::guest::Guest<Rules>; verdict::guest::export!(Component with_types_in verdict::guest);`

use std::marker::PhantomData;

use crate::{RawTask, Refusal, Signal, VERSION, Verdict, Verifier, judge};

wit_bindgen::generate!({ path: "../wit", world: "verifier", pub_export_macro: true, default_bindings_module: "verdict::guest" });

use exports::pointsman::verifier::verify as wit;
use pointsman::verifier::types as wit_types;

pub struct Guest<V>(PhantomData<V>);

impl<V: Verifier> wit::Guest for Guest<V> {
    fn describe() -> wit::Manifest {
        let own = V::describe();
        let spec = |s: crate::SignalSpec| wit_types::SignalSpec {
            name: s.name.to_owned(),
            weight: s.weight,
            doc: s.doc.to_owned(),
        };
        wit::Manifest {
            name: own.name.to_owned(),
            version: VERSION.to_owned(),
            domains: vec!["*".to_owned()],
            signals: own.signals.into_iter().map(spec).collect(),
            config_schema: own.config_schema.to_owned(),
            deterministic: true,
        }
    }

    fn verify(
        task: wit::Task,
        response: wit::Response,
        config: String,
        _budget: wit::Budget,
    ) -> Result<wit::Verdict, wit::VerifyError> {
        let raw = RawTask { id: &task.id, domain: &task.domain, prompt: &task.prompt, metadata: &task.metadata };
        judge::<V>(&raw, &response.text, &config).map(verdict).map_err(refusal)
    }
}

fn verdict(own: Verdict) -> wit::Verdict {
    let signal =
        |s: Signal| wit_types::Signal { name: s.name.to_owned(), score: s.score, weight: s.weight, detail: s.detail };
    wit::Verdict {
        score: own.score,
        confidence: own.confidence,
        signals: own.signals.into_iter().map(signal).collect(),
        trace: own.trace,
    }
}

fn refusal(own: Refusal) -> wit::VerifyError {
    match own {
        Refusal::NotApplicable(why) => wit::VerifyError::NotApplicable(why),
        Refusal::InvalidTask(why) => wit::VerifyError::InvalidTask(why),
        Refusal::InvalidConfig(why) => wit::VerifyError::Internal(why),
    }
}
