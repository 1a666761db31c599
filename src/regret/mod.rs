//! Regret: what was lost by not always taking the best arm.
//!
//! Where the true expected reward of every arm is known (scripted and replayed workers), regret is exact. On live
//! traffic there is no counterfactual, so it is estimated: per domain, the value of the best fixed arm in hindsight
//! (doubly robust, from the logged propensities) less the reward got. Where the operator pays for it, it is also measured:
//! a random share of tasks is run on every arm (audit probes). Each figure says which of these it is, against whom it
//! counts, and how sure it is.

mod audited;
mod confidence;
mod estimated;
mod exact;
mod gains;
mod measure;
mod report;
mod series;
mod tracker;

pub use audited::{AuditCounts, AuditedArm};
pub(crate) use confidence::furthest;
pub use confidence::{ConfidenceSequence, EmpiricalBernstein, Interval};
pub use measure::{ALPHA, Bounds, DomainMeasure, Kind, Measure, Target};
pub use report::{ArmReport, DomainArmReport, DomainReport, RegretReport, SharePoint, VoterWeight};
pub use series::RegretPoint;
pub(crate) use series::Series;
pub use tracker::{Lost, Observed, Tracker};

#[cfg(test)]
mod tests;
