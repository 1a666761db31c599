//! What a policy that keeps all it learnt in one field need not write again.

/// The methods of [`Policy`](super::Policy) that hand over to one field of `self`: `learn`, `forget`, `state`,
/// `restore` and `snapshot` (a clone).
macro_rules! learns_with {
    ($field:ident) => {
        fn learn(&mut self, round: &$crate::action::policy::LearntRound<'_>) {
            self.$field.learn(round);
        }

        fn forget(&mut self, keep: f64) {
            self.$field.forget(keep);
        }

        fn state(&self) -> ::serde_json::Value {
            self.$field.state()
        }

        fn restore(
            &mut self,
            state: &::serde_json::Value,
        ) -> Result<Vec<$crate::action::policy::Action>, $crate::action::policy::StateError> {
            self.$field.restore(state)
        }

        fn snapshot(&self) -> Box<dyn $crate::action::policy::Policy> {
            Box::new(self.clone())
        }
    };
}

pub(super) use learns_with;
