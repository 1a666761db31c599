//! Who may do what, and for how much: API keys, and what each tenant may use.
//!
//! Pure rules over state that the router owns: time and randomness come in as arguments, and nothing here reads or writes.
//! Keys and dollars spent are events of the journal, folded here; what is only of the moment (the rate, tasks under way,
//! dollars put aside for them) is in RAM and starts afresh with the daemon.
//!
//! What can go wrong: dollars are put aside by what a task is expected to cost at most. A task that costs more is counted in
//! full, so a budget can be passed by that difference, and by nothing else.

mod budget;
mod error;
mod keys;
mod purse;
mod rate;
mod spending;
mod tenant;

pub use budget::{Budget, BudgetWindow, Exhausted};
pub use error::AccessError;
pub use keys::{IssuedKey, KEY_PREFIX, KeyProblem, Keys, NewKey, RANDOM_BYTES, Secret, issue};
pub use purse::{Purse, Used};
pub use rate::{Rate, RateLimit};
pub use spending::{Spending, Totals, nano_usd};
pub use tenant::{Admission, Hold, Scope, TenantReport, TenantSettings, Tenants};
