//! Progressive exploration: at first every query's mode is forced, then fewer and fewer, then none.
//!
//! rho_b = clip(1 - (b - cold) / anneal, 0, 1) at step b. A query is forced where the hash of its id and the seed is below rho, so that the same queries are forced
//! whoever asks, and those that are free at one step stay free at later ones. While rho is above 0 and the cold start is over, a term of weight lambda_b = lambda rho_b keeps every mode alive.
//!
//! Reference: RouteWeaver.

use serde::{Deserialize, Serialize};

use crate::round::Mode;

/// How exploration goes on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Steps in which all are forced, and only the task's reward counts.
    pub cold: u64,
    /// Steps in which fewer and fewer are.
    pub anneal: u64,
    /// Weight of the term that keeps modes alive, at its most.
    pub support: f64,
    /// Whether any query is ever forced.
    pub progressive: bool,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { cold: 25, anneal: 50, support: 0.002, progressive: true }
    }
}

impl Schedule {
    /// The part of the queries that are forced.
    pub fn rho(&self, step: u64) -> f64 {
        if !self.progressive {
            return 0.0;
        }
        (1.0 - (step as f64 - self.cold as f64) / self.anneal.max(1) as f64).clamp(0.0, 1.0)
    }

    /// Whether it is the cold start: only the task's reward counts.
    pub fn is_cold(&self, step: u64) -> bool {
        step < self.cold
    }

    /// Weight of the term that keeps modes alive.
    pub fn lambda(&self, step: u64) -> f64 {
        if self.is_cold(step) { 0.0 } else { self.support * self.rho(step) }
    }

    /// The mode that is forced on a query, if one is.
    pub fn forced(&self, step: u64, seed: u64, query: &str) -> Option<Mode> {
        let unit = |salt: &[u8]| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(salt).update(&seed.to_le_bytes()).update(query.as_bytes());
            hasher
        };
        if place(&unit(b"forced")) >= self.rho(step) {
            return None;
        }
        // Another one the next time that the query comes.
        let mode = 3.0 * place(unit(b"mode").update(&step.to_le_bytes()));
        Some(Mode::ALL[(mode as usize).min(2)])
    }
}

fn place(hasher: &blake3::Hasher) -> f64 {
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rho_falls_from_all_to_none() {
        let schedule = Schedule::default();
        assert_eq!([24, 25, 50, 75, 90].map(|step| schedule.rho(step)), [1.0, 1.0, 0.5, 0.0, 0.0]);
        assert_eq!([24, 25, 50, 75].map(|step| schedule.lambda(step)), [0.0, 0.002, 0.001, 0.0]);
        assert_eq!(Schedule { progressive: false, ..schedule }.rho(0), 0.0);
    }

    #[test]
    fn the_same_queries_are_forced_whoever_asks_and_the_free_stay_free() {
        let schedule = Schedule::default();
        let names: Vec<String> = (0..2_000).map(|n| format!("q{n}")).collect();
        let forced = |step: u64| names.iter().map(|name| schedule.forced(step, 7, name)).collect::<Vec<_>>();
        assert_eq!(forced(50), forced(50));
        let share = forced(50).iter().flatten().count() as f64 / 2_000.0;
        assert!((share - 0.5).abs() < 0.04, "{share}");
        let (earlier, later) = (forced(40), forced(60));
        assert!(earlier.iter().zip(&later).all(|(earlier, later)| earlier.is_some() || later.is_none()));
        for mode in Mode::ALL {
            let of = forced(0).iter().filter(|forced| **forced == Some(mode)).count();
            assert!((600..740).contains(&of), "{mode} {of}");
        }
    }
}
