//! From verdicts to one score: u = sum_k w_k s_k / sum_k w_k over the verifiers that scored.

use crate::round::{OnError, Score, Verdict, VerdictStatus};

/// The combined score in [0, 1]; nothing when no verifier had an opinion, or one failed whose errors reject. A gate with a
/// score of 0 makes the whole 0. An answer that overran a limit scores 0; an error never counts for the answer.
///
/// ```
/// use pointsman::feedback::verifier::combine;
/// assert!(combine(&[]).is_none());
/// ```
pub fn combine(verdicts: &[Verdict]) -> Option<Score> {
    let rejects = |verdict: &Verdict| verdict.status == VerdictStatus::Error && verdict.on_error == OnError::Reject;
    if verdicts.iter().any(rejects) {
        return None;
    }
    let mut weighted = 0.0;
    let mut weights = 0.0;
    for verdict in verdicts {
        let score = match verdict.status {
            VerdictStatus::Scored => verdict.score?,
            VerdictStatus::LimitExceeded => 0.0,
            VerdictStatus::Error if verdict.on_error == OnError::Zero => 0.0,
            VerdictStatus::NotApplicable | VerdictStatus::InvalidTask | VerdictStatus::Error => continue,
        };
        if verdict.gate && score <= 0.0 {
            return Score::new(0.0).ok();
        }
        weighted += verdict.weight * score;
        weights += verdict.weight;
    }
    (weights > 0.0).then(|| Score::new((weighted / weights).clamp(0.0, 1.0)).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict(status: VerdictStatus, score: Option<f64>, weight: f64, gate: bool) -> Verdict {
        Verdict {
            verifier: "v".into(),
            version: "1".into(),
            sha256: String::new(),
            status,
            score,
            weight,
            gate,
            on_error: OnError::Skip,
            signals: vec![],
            trace: vec![],
            fuel: 0,
            duration_us: 0,
        }
    }

    #[test]
    fn only_verifiers_with_an_opinion_count() {
        let scored = |score, weight| verdict(VerdictStatus::Scored, Some(score), weight, false);
        let silent = verdict(VerdictStatus::NotApplicable, None, 5.0, true);
        assert_eq!(combine(&[scored(1.0, 1.0), scored(0.0, 3.0), silent.clone()]).unwrap().get(), 0.25);
        assert!(combine(&[silent]).is_none());
        let overran = verdict(VerdictStatus::LimitExceeded, None, 1.0, false);
        assert_eq!(combine(&[scored(1.0, 1.0), overran]).unwrap().get(), 0.5);
    }

    #[test]
    fn a_closed_gate_makes_the_whole_zero() {
        let gate = verdict(VerdictStatus::Scored, Some(0.0), 0.1, true);
        assert_eq!(combine(&[verdict(VerdictStatus::Scored, Some(1.0), 9.0, false), gate]).unwrap().get(), 0.0);
    }

    #[test]
    fn an_error_skips_counts_as_zero_or_rejects_but_never_helps() {
        let failed = |on_error, gate| Verdict { on_error, ..verdict(VerdictStatus::Error, None, 1.0, gate) };
        let good = || verdict(VerdictStatus::Scored, Some(1.0), 1.0, false);
        let whole = |failed| combine(&[good(), failed]).map(Score::get);
        assert_eq!(whole(failed(OnError::Skip, true)), Some(1.0));
        assert_eq!(whole(failed(OnError::Zero, false)), Some(0.5));
        assert_eq!(whole(failed(OnError::Zero, true)), Some(0.0));
        assert_eq!(whole(failed(OnError::Reject, false)), None);
    }

    proptest! {
        #[test]
        fn the_whole_lies_between_the_parts(parts in prop::collection::vec((0.0..=1.0f64, 0.01..10.0f64), 1..8)) {
            let verdicts: Vec<_> =
                parts.iter().map(|(s, w)| verdict(VerdictStatus::Scored, Some(*s), *w, false)).collect();
            let whole = combine(&verdicts).unwrap().get();
            let low = parts.iter().map(|p| p.0).fold(f64::MAX, f64::min);
            let high = parts.iter().map(|p| p.0).fold(f64::MIN, f64::max);
            prop_assert!(whole >= low - 1e-12 && whole <= high + 1e-12);
        }
    }
}
