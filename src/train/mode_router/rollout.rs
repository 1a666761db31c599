//! Trajectories that the policy writes in a world, without the grammar's mask, and those that practice for the rules is made of.

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{
    environment::{Made, Outcome, Query, World},
    grading::Trajectory,
    loss::Kind,
    network::{Choice, Sequence},
};
use crate::{
    action::policy::mode_router::{Frozen, PLACES, Piece, Prefix, Reading, draw, pmf},
    grammar::{Answer, Rules, Token, Turn, Violation, Writing},
    round::Mode,
};

/// How a trajectory ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ended {
    /// With an answer.
    Answered(Outcome),
    /// It broke a rule.
    Violated(Violation),
    /// Without an answer, all places used up.
    Unterminated,
    /// A call failed for reasons of its own.
    Failed,
}

/// One trajectory.
#[derive(Debug, Clone)]
pub struct Rollout {
    /// What was read and chosen.
    pub sequence: Sequence,
    /// What each choice is.
    pub kinds: Vec<Kind>,
    /// The mode, once there is one.
    pub mode: Option<Mode>,
    /// The calls, workers in the environment's order.
    pub made: Vec<Made>,
    /// How it ended.
    pub ended: Ended,
}

impl Trajectory for Rollout {
    fn mode(&self) -> Option<Mode> {
        self.mode
    }

    fn calls(&self) -> usize {
        self.made.len()
    }

    fn ended(&self) -> &Ended {
        &self.ended
    }
}

/// Who writes a trajectory.
pub trait Writer {
    /// The next token; none where nothing may follow.
    fn write(&mut self, reading: &Reading, writing: &Writing) -> Option<Token>;
}

/// The policy without a mask.
pub struct Free<'a> {
    network: &'a Frozen,
    rng: ChaCha8Rng,
}

impl<'a> Free<'a> {
    /// Draws by the seed.
    pub fn new(network: &'a Frozen, rng: ChaCha8Rng) -> Self {
        Self { network, rng }
    }
}

impl Writer for Free<'_> {
    fn write(&mut self, reading: &Reading, writing: &Writing) -> Option<Token> {
        let logits = self.network.logits(reading, writing);
        draw(&pmf(&logits), self.rng.random()).map(|(token, _)| token)
    }
}

/// The policy under the mask, as it is served.
pub struct Masked<'a> {
    network: &'a Frozen,
    /// Draws; the likeliest token where there is none.
    rng: Option<ChaCha8Rng>,
}

impl<'a> Masked<'a> {
    /// Draws by the seed, or takes the likeliest.
    pub fn new(network: &'a Frozen, rng: Option<ChaCha8Rng>) -> Self {
        Self { network, rng }
    }
}

impl Writer for Masked<'_> {
    fn write(&mut self, reading: &Reading, writing: &Writing) -> Option<Token> {
        let logits: Vec<(Token, f32)> =
            self.network.logits(reading, writing).into_iter().filter(|(token, _)| writing.allows(*token)).collect();
        match &mut self.rng {
            Some(rng) => draw(&pmf(&logits), rng.random()).map(|(token, _)| token),
            None => logits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(token, _)| token),
        }
    }
}

/// A stream of random numbers of its own for each part of a training, so that it goes on exactly where it was left.
pub fn stream(parts: &[&[u8]]) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

/// One part's stream, of a training's seed.
pub fn seeded(seed: u64, what: &[u8], numbers: &[u64]) -> ChaCha8Rng {
    let bytes: Vec<u8> = std::iter::once(&seed).chain(numbers).flat_map(|n| n.to_le_bytes()).collect();
    stream(&[what, &bytes])
}

/// The queries of a step, so many of all: all are had before one comes again.
pub fn picked(seed: u64, all: usize, queries: usize, step: u64) -> Vec<usize> {
    let order = |epoch: u64| {
        let mut order: Vec<usize> = (0..all).collect();
        order.shuffle(&mut seeded(seed, b"order", &[epoch]));
        order
    };
    let n = queries as u64;
    let (mut known, mut picked) = ((u64::MAX, vec![]), Vec::new());
    for place in step * n..(step + 1) * n {
        let epoch = place / all as u64;
        if known.0 != epoch {
            known = (epoch, order(epoch));
        }
        picked.push(known.1[(place % all as u64) as usize]);
    }
    picked
}

/// A query's workers in another order, which its rollouts share: entry i is the environment's place of the policy's worker i.
pub fn shuffled(workers: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..workers).collect();
    order.shuffle(rng);
    order
}

/// What a query looks like in a step: its alpha, evenly from a range, and its workers' order.
pub fn look(seed: u64, [low, high]: [f64; 2], workers: usize, step: u64, query: usize) -> (f64, Vec<usize>) {
    let mut rng = seeded(seed, b"look", &[step, query as u64]);
    let alpha = low + (high - low) * rng.random::<f64>();
    (alpha, shuffled(workers, &mut rng))
}

/// What the policy knows of a query before the first token.
pub fn prefix(query: &Query, alpha: f64, order: &[usize]) -> Prefix {
    Prefix {
        embedding: query.embedding.clone(),
        alpha: alpha as f32,
        workers: order.iter().map(|place| query.workers[*place]).collect(),
    }
}

/// Has one trajectory written. `begun` is the network's reading of the prefix; `forced` is a mode that the policy did not choose.
pub fn roll(
    network: &Frozen,
    begun: &Reading,
    prefix: &Prefix,
    order: &[usize],
    world: &dyn World,
    forced: Option<Mode>,
    writer: &mut dyn Writer,
) -> Rollout {
    let mut reading = begun.clone();
    let mut writing = Writing::new(order.len(), Rules::default());
    let mut rollout = Rollout {
        sequence: Sequence { prefix: prefix.clone(), pieces: vec![Piece::Start], choices: vec![] },
        kinds: vec![],
        mode: None,
        made: vec![],
        ended: Ended::Unterminated,
    };
    let mut next = forced.map(Token::Mode);
    while rollout.sequence.pieces.len() < PLACES {
        let token = match next.take() {
            Some(token) => token,
            None => {
                let Some(token) = writer.write(&reading, &writing) else { break };
                let at = rollout.sequence.pieces.len() - 1;
                let nodes = writing.episode().nodes().len();
                let kind = if writing.episode().mode().is_none() { Kind::Mode } else { Kind::Inner };
                rollout.sequence.choices.push(Choice { at, token, nodes });
                rollout.kinds.push(kind);
                token
            }
        };
        let taken = match writing.push(token) {
            Ok(taken) => taken,
            Err(violation) => {
                rollout.ended = Ended::Violated(violation);
                break;
            }
        };
        rollout.mode = writing.episode().mode();
        if let Some(Turn::Answer(Answer::Node(node))) = taken {
            rollout.ended = world.close(&rollout.made, node).map_or(Ended::Failed, Ended::Answered);
            break;
        }
        let mut read = |piece: Piece| {
            network.read(&mut reading, piece);
            rollout.sequence.pieces.push(piece);
        };
        read(Piece::Written(token));
        if let Some(Turn::Calls(calls)) = taken {
            let first = rollout.made.len();
            let layer = writing.episode().nodes().last().map_or(0, |node| node.layer);
            rollout.made.extend(Made::all(&calls, order, layer));
            let Ok(seen) = world.run(&rollout.made, first..rollout.made.len()) else {
                rollout.ended = Ended::Failed;
                break;
            };
            for ((node, call), seen) in (first..).zip(&calls).zip(seen) {
                read(Piece::Seen { node, role: call.role, worker: call.worker, seen });
            }
        }
    }
    rollout
}
