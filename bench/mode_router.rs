//! How long the mode-router takes: a decision among three modes and nine workers, the same among single calls, and the tokens of a call.

use criterion::{Criterion, criterion_group, criterion_main};
use pointsman::{
    action::policy::{
        Policy,
        mode_router::{Card, Checkpoint, EMBEDDING, ModeRouter, Piece, Shape, Weights},
    },
    grammar::{Rules, Token, Writing},
    round::{ArmId, Candidate, Context, Domain, Embedding, Mode},
};

fn context(modes: &[Mode]) -> Context {
    let candidate = |mode: &Mode| {
        let mode = *mode;
        (0..9).map(move |arm| Candidate::new(mode, ArmId::new(format!("arm-{arm}")).expect("a name"), 0.001))
    };
    let embedding = Embedding::new((0..EMBEDDING).map(|n| (n % 7) as f32 - 3.0).collect()).expect("a vector");
    Context::new(embedding, Domain::unknown(), modes.iter().flat_map(candidate).collect())
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mode_router");
    let sized = |shape: Shape| {
        let card = Card::new(shape, "all-MiniLM-L6-v2".into(), [0.0, 0.5]);
        ModeRouter::new(&Checkpoint { card, weights: Weights::first(shape, 1), hash: String::new() }, 0.01)
    };
    for (name, router) in
        [("64x2x4", sized(Shape { width: 64, layers: 2, heads: 4 })), ("128x4x4", sized(Shape::default()))]
    {
        for (what, modes) in [("single", &[Mode::Single][..]), ("all_modes", &Mode::ALL[..])] {
            let context = context(modes);
            group.bench_function(format!("{name}_{what}"), |bench| bench.iter(|| router.decide(&context, 1)));
        }
        let (prefix, arms) = router.prefix(&context(&Mode::ALL)).expect("it fits");
        let reading = router.network().begin(&prefix);
        let mut writing = Writing::new(arms.len(), Rules::default());
        writing.push(Token::Mode(Mode::Multi)).expect("a mode comes first");
        group.bench_function(format!("{name}_token"), |bench| {
            bench.iter(|| {
                let mut reading = reading.clone();
                router.network().read(&mut reading, Piece::Written(Token::Mode(Mode::Multi)));
                router.choose(&reading, &writing, 0.5)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
