//! A model that writes turns, token by token, each drawn from the likeliest.

use candle_core::{DType, Result, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    Adapters, Backbone, Cache, Sampling, TextRollout,
    rollout::{Goes, Transcript},
};
use crate::{
    grammar::Turn,
    round::Mode,
    train::mode_router::{environment::World, loss::Kind},
};

/// What was read before the first turn, which all trajectories of a query share.
pub(super) struct Begun {
    cache: Cache,
    scores: Tensor,
}

/// A model that writes.
pub(super) struct Speaker<'a> {
    pub backbone: &'a Backbone,
    pub adapters: &'a Adapters,
    pub sampling: &'a Sampling,
}

impl Speaker<'_> {
    /// Reads a beginning.
    pub fn begin(&self, beginning: &[u32]) -> Result<Begun> {
        let mut cache = self.backbone.decoder.begin();
        let scores = self.backbone.decoder.read_on(&mut cache, beginning, self.adapters)?;
        Ok(Begun { cache, scores })
    }

    /// Has one trajectory written; `forced` is a mode that the model did not choose.
    pub fn roll(
        &self,
        begun: &Begun,
        order: &[usize],
        world: &dyn World,
        forced: Option<Mode>,
        rng: &mut ChaCha8Rng,
    ) -> std::result::Result<TextRollout, RollError> {
        let mut transcript = Transcript::new(self.backbone, order, world);
        let mut reader = Reader { speaker: self, cache: begun.cache.clone(), scores: begun.scores.clone(), read: 0 };
        if let Some(mode) = forced {
            transcript.put(&Turn::Mode(mode))?;
        }
        let room = self.sampling.tokens_max.min(self.backbone.decoder.config().context);
        loop {
            reader.read(transcript.tokens())?;
            let left = room.saturating_sub(reader.cache.len);
            let most = match transcript.kind() {
                Kind::Mode => self.sampling.mode_tokens_max,
                Kind::Inner | Kind::Masked => self.sampling.turn_tokens_max,
            };
            if left == 0 {
                break;
            }
            let (tokens, text) = reader.turn(transcript.episode.mode(), most.min(left), rng)?;
            let kind = transcript.kind();
            // The last one is read with what follows it.
            reader.read += tokens.len().saturating_sub(1);
            if transcript.take(&tokens, &text, kind)? == Goes::Ended {
                break;
            }
        }
        Ok(transcript.finish())
    }
}

/// Why no trajectory could be written.
#[derive(Debug, thiserror::Error)]
pub enum RollError {
    /// The arithmetic failed.
    #[error("the network: {0}")]
    Network(#[from] candle_core::Error),
    /// Text could not be made tokens, or tokens text.
    #[error("the tokenizer: {0}")]
    Words(String),
}

impl From<String> for RollError {
    fn from(reason: String) -> Self {
        Self::Words(reason)
    }
}

/// Where a trajectory was read to.
struct Reader<'a> {
    speaker: &'a Speaker<'a>,
    cache: Cache,
    /// Of what may follow.
    scores: Tensor,
    /// Tokens of the trajectory that were read.
    read: usize,
}

impl Reader<'_> {
    /// Reads what was not read yet.
    fn read(&mut self, tokens: &[u32]) -> Result<()> {
        if let Some(rest) = tokens.get(self.read..).filter(|rest| !rest.is_empty()) {
            self.on(rest)?;
            self.read = tokens.len();
        }
        Ok(())
    }

    fn on(&mut self, tokens: &[u32]) -> Result<()> {
        let Speaker { backbone, adapters, .. } = self.speaker;
        self.scores = backbone.decoder.read_on(&mut self.cache, tokens, adapters)?;
        Ok(())
    }

    /// Writes one turn: its tokens, of which all but the last were read, and its text.
    fn turn(
        &mut self,
        mode: Option<Mode>,
        most: usize,
        rng: &mut ChaCha8Rng,
    ) -> std::result::Result<(Vec<u32>, String), RollError> {
        let words = &self.speaker.backbone.words;
        let (mut tokens, mut text) = (Vec::new(), String::new());
        while tokens.len() < most {
            if let Some(last) = tokens.last() {
                self.on(&[*last])?;
            }
            let token = self.draw(rng)?;
            tokens.push(token);
            if words.ends(token) {
                break;
            }
            text = words.text(&tokens)?;
            if is_whole(&text, mode) {
                break;
            }
        }
        Ok((tokens, text))
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Result<u32> {
        let Sampling { temperature, top_p, .. } = self.speaker.sampling;
        let scores: Vec<f64> = (self.scores.to_dtype(DType::F64)? / *temperature)?.to_vec1()?;
        Ok(nucleus(&scores, *top_p, rng.random()))
    }
}

/// Whether a turn is whole, so that nothing more is the model's to write.
fn is_whole(text: &str, mode: Option<Mode>) -> bool {
    if text.contains("</answer>") || text.contains("<observation") {
        return true;
    }
    match mode {
        None => text.contains("</mode>"),
        Some(Mode::Single | Mode::Multi) => text.contains("</route>"),
        // The next call of the layer may follow, and nothing else.
        Some(Mode::Agentic) => text.rsplit_once("</route>").is_some_and(|(_, after)| {
            let after = after.trim_start();
            !"<route ".starts_with(after) && !after.starts_with("<route ")
        }),
    }
}

/// Draws from the likeliest tokens that together have a probability; `draw` is uniform in [0, 1).
fn nucleus(scores: &[f64], top_p: f64, draw: f64) -> u32 {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut parts: Vec<(f64, u32)> = scores.iter().map(|score| (score - most).exp()).zip(0..).collect();
    let whole: f64 = parts.iter().map(|(part, _)| part).sum();
    parts.sort_unstable_by(|(a, i), (b, j)| b.total_cmp(a).then(i.cmp(j)));
    let mut kept = 0.0;
    let mut n = 0;
    for (part, _) in &parts {
        kept += part;
        n += 1;
        if kept >= top_p * whole {
            break;
        }
    }
    let mut left = draw * kept;
    for (part, token) in &parts[..n] {
        left -= part;
        if left < 0.0 {
            return *token;
        }
    }
    parts[n - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_likeliest_are_drawn_from() {
        let scores = [0.5_f64.ln(), 0.3_f64.ln(), 0.15_f64.ln(), 0.05_f64.ln()];
        let drawn =
            |top_p: f64| -> Vec<u32> { (0..20).map(|n| nucleus(&scores, top_p, f64::from(n) / 20.0)).collect() };
        let share = |drawn: &[u32], token: u32| drawn.iter().filter(|other| **other == token).count();
        let all = drawn(1.0);
        assert_eq!([0, 1, 2, 3].map(|token| share(&all, token)), [10, 6, 3, 1]);
        let some = drawn(0.75);
        assert_eq!([share(&some, 2), share(&some, 3)], [0, 0]);
        assert!(share(&some, 0) == 13 && share(&some, 1) == 7, "by 5 to 3: {some:?}");
        assert_eq!(nucleus(&scores, 0.1, 0.999), 0);
    }

    #[test]
    fn a_turn_ends_with_its_tag_and_a_layer_goes_on_with_the_next_call() {
        let team = Some(Mode::Agentic);
        for (text, mode, whole) in [
            ("<mode>sin", None, false),
            ("<mode>single</mode>", None, true),
            ("<route model=\"worker_1\">x</route>", Some(Mode::Multi), true),
            ("<route model=\"worker_1\" role=\"executor\">x</route>", team, false),
            ("<route model=\"worker_1\" role=\"executor\">x</route>\n<rou", team, false),
            ("<route model=\"worker_1\" role=\"executor\">x</route>\n<route model", team, false),
            ("<route model=\"worker_1\" role=\"executor\">x</route>\nAnd now", team, true),
            ("<answer>n1</answer>", team, true),
            ("<route model=\"worker_1\">x <observation", Some(Mode::Single), true),
        ] {
            assert_eq!(is_whole(text, mode), whole, "{text}");
        }
    }
}
