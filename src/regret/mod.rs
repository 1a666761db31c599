//! Regret: what was lost by not always taking the best arm.
//!
//! Where the true expected reward of every arm is known (scripted and replayed workers), regret is exact. On live
//! traffic there is no counterfactual, so it is estimated: per domain, the value of the best fixed arm in hindsight
//! (doubly robust, from the logged propensities) less the reward got.

mod confidence;
mod estimated;
mod exact;
mod series;
mod tracker;

pub use confidence::{ConfidenceSequence, EmpiricalBernstein, Interval};
pub use series::RegretPoint;
pub use tracker::{
    ArmReport, DomainArmReport, DomainReport, Kind, Observed, RegretReport, SharePoint, Tracker, VoterWeight,
};
