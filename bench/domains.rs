//! How well tasks without a domain find theirs: nearest centroid on LLMRouter's prompts.
//!
//! `POINTSMAN_DATA=DIR cargo bench --bench domains` learns the centroids from a random half and asks for the other half:
//! how many are answered at each threshold, how many of the answers are right, and, with one domain left out in turn, how
//! many tasks of that unseen kind are found to be unknown. Embeddings come from the replay's cache; what is missing is
//! computed.

use std::{path::PathBuf, process::ExitCode};

use pointsman::{
    context::{
        domain::Centroids,
        embedding::{EmbeddingPool, EmbeddingSettings, ModelFiles},
    },
    replay::{
        Dataset, ReadOptions,
        embedding_cache::{CacheKey, Cached, load, store},
    },
    round::{Domain, Embedding},
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

const SEEDS: u64 = 5;
const THRESHOLDS: [f32; 9] = [-1.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5];

/// A prompt's domain and embedding.
type Example<'a> = (&'a Domain, &'a Embedding);

#[tokio::main]
async fn main() -> ExitCode {
    let Some(data) =
        std::env::var_os("POINTSMAN_DATA").map(PathBuf::from).filter(|data| data.join("llmrouter").exists())
    else {
        println!("domains: skipped, POINTSMAN_DATA does not name a folder with llmrouter/");
        return ExitCode::SUCCESS;
    };
    if std::env::args().any(|argument| argument == "--test") {
        println!("domains: nothing is measured with --test");
        return ExitCode::SUCCESS;
    }
    let dataset = Dataset::read(&data.join("llmrouter"), &ReadOptions::default()).expect("the dataset is readable");
    let embeddings = embeddings(&dataset).await;
    let examples: Vec<Example> = dataset.tasks.iter().map(|task| &task.domain).zip(&embeddings).collect();
    println!("{} prompts, mean of {SEEDS} random halves", examples.len());
    println!("{:>9} {:>9} {:>17} {:>22}", "threshold", "answered", "right of these", "unseen kind: unknown");
    for threshold in THRESHOLDS {
        let rows = (0..SEEDS).map(|seed| measure(&examples, threshold, seed));
        let sums = rows.fold([0.0; 3], |sums, row| [sums[0] + row[0], sums[1] + row[1], sums[2] + row[2]]);
        let [answered, right, unknown] = sums.map(|sum| 100.0 * sum / SEEDS as f64);
        let threshold = if threshold < 0.0 { "none".into() } else { format!("{threshold}") };
        println!("{threshold:>9} {answered:>7.1} % {right:>15.1} % {unknown:>20.1} %");
    }
    ExitCode::SUCCESS
}

/// Shares: answered, right of these, and unknown among tasks of a domain that was not learnt.
fn measure(examples: &[Example], threshold: f32, seed: u64) -> [f64; 3] {
    let mut shuffled = examples.to_vec();
    shuffled.shuffle(&mut StdRng::seed_from_u64(seed));
    let (learnt, asked) = shuffled.split_at(shuffled.len() / 2);
    let learn = |left_out: Option<&Domain>| {
        let mut centroids = Centroids::default();
        for (domain, embedding) in learnt.iter().filter(|(domain, _)| Some(*domain) != left_out) {
            centroids.learn(domain, embedding);
        }
        centroids
    };
    let all = learn(None);
    let found: Vec<_> = asked.iter().filter_map(|(domain, x)| Some((*domain, all.nearest(x, threshold)?.0))).collect();
    let right = found.iter().filter(|(domain, found)| *domain == found).count();
    let mut domains: Vec<&Domain> = examples.iter().map(|(domain, _)| *domain).collect();
    domains.sort();
    domains.dedup();
    let mut unknown = 0;
    for left_out in domains {
        let others = learn(Some(left_out));
        let of_it = asked.iter().filter(|(domain, _)| *domain == left_out);
        unknown += of_it.filter(|(_, x)| others.nearest(x, threshold).is_none()).count();
    }
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    [share(found.len(), asked.len()), share(right, found.len()), share(unknown, asked.len())]
}

async fn embeddings(dataset: &Dataset) -> Vec<Embedding> {
    let home = std::env::home_dir().expect("there is a home folder");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or(home.join(".cache"), PathBuf::from).join("pointsman");
    let settings = EmbeddingSettings::new(&cache);
    let files = ModelFiles::resolve(&settings).expect("the model is installed: pointsman models fetch");
    let prompts: Vec<&str> = dataset.tasks.iter().map(|task| task.text()).collect();
    let key = CacheKey::new(files.model_id(), prompts.iter().copied());
    let folder = cache.join("embeddings");
    if let Ok(Cached::Hit(embeddings)) = load(&folder, &key) {
        return embeddings;
    }
    println!("embedding {} prompts once", prompts.len());
    let pool = EmbeddingPool::start(files, &settings).expect("the model loads");
    let embeddings = pool.embed_many(&prompts, &|_, _| {}).await.expect("prompts can be embedded");
    store(&folder, &key, &embeddings).expect("the cache is writable");
    embeddings
}
