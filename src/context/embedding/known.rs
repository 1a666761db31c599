//! The models that fastembed knows, by the names that people use for them.
//!
//! Pooling, dimension, files, quantisation and output are fastembed's own facts, never guessed here. What it lists are
//! conversions in repositories of the Hugging Face hub (`Xenova/bge-small-en-v1.5`); their authors' names
//! (`BAAI/bge-small-en-v1.5`) and the bare name mean the same conversion. Where one repository carries a model at
//! several precisions, the full one has the bare name and the others end in `-q` or `-q4`. What can go wrong: a name
//! that is not listed, which is an error and never replaced by a default.

use fastembed::{EmbeddingModel, ModelInfo, OutputKey, QuantizationMode, TextEmbedding};

use super::Pooling;

/// Who publishes the models: fastembed lists conversions, people also name the authors.
const PUBLISHERS: [&str; 12] = [
    "Alibaba-NLP",
    "BAAI",
    "Qdrant",
    "Xenova",
    "intfloat",
    "jinaai",
    "lightonai",
    "mixedbread-ai",
    "nomic-ai",
    "onnx-community",
    "sentence-transformers",
    "snowflake",
];

/// A model that fastembed knows.
#[derive(Debug, Clone)]
pub struct KnownModel(ModelInfo<EmbeddingModel>);

impl KnownModel {
    /// All of them, by name.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<_> = TextEmbedding::list_supported_models().into_iter().map(Self).collect();
        all.sort_by_key(|known| known.name().to_lowercase());
        all
    }

    /// The one of a name: `bge-small-en-v1.5`, `BAAI/bge-small-en-v1.5`, `Xenova/bge-small-en-v1.5` or fastembed's own
    /// `BGESmallENV15`, in any case.
    pub fn find(name: &str) -> Option<Self> {
        let bare = match name.split_once('/') {
            Some((publisher, bare)) if PUBLISHERS.iter().any(|known| known.eq_ignore_ascii_case(publisher)) => bare,
            Some(_) => return None,
            None => name,
        };
        let all = Self::all();
        let variant = all.iter().position(|known| known.0.model.to_string().eq_ignore_ascii_case(name));
        let named = || all.iter().position(|known| known.name().eq_ignore_ascii_case(bare));
        // A repository's own name, where it differs: `Qdrant/bge-base-en-v1.5-onnx-Q`.
        let repository = || all.iter().position(|known| known.0.model_code.eq_ignore_ascii_case(name));
        variant.or_else(named).or_else(repository).map(|found| all[found].clone())
    }

    /// Its short name, such as `bge-small-en-v1.5`.
    pub fn name(&self) -> String {
        let code = &self.0.model_code;
        let name = code.rsplit('/').next().unwrap_or(code);
        let lower = name.to_lowercase();
        let end = ["-onnx-q", "-onnx"].iter().find(|end| lower.ends_with(*end)).map_or(0, |end| end.len());
        let variant = self.0.model.to_string();
        let precision = match () {
            () if variant.ends_with("Q4") => "-q4",
            () if variant.ends_with('Q') => "-q",
            () => "",
        };
        format!("{}{precision}", &name[..name.len() - end])
    }

    /// What it is, in fastembed's words.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// The repository of the hub that carries the files.
    pub fn repository(&self) -> &str {
        &self.0.model_code
    }

    /// The vectors' length.
    pub fn dimension(&self) -> usize {
        self.0.dim
    }

    /// How the vectors of the tokens become one.
    pub fn pooling(&self) -> Pooling {
        match TextEmbedding::get_default_pooling_method(&self.0.model) {
            Some(fastembed::Pooling::Mean) => Pooling::Mean,
            // What fastembed does where it states nothing.
            Some(fastembed::Pooling::Cls) | None => Pooling::Cls,
        }
    }

    /// The ONNX file's path in the repository.
    pub(super) fn onnx(&self) -> &str {
        &self.0.model_file
    }

    /// Paths of the files that the ONNX file refers to.
    pub(super) fn data(&self) -> &[String] {
        &self.0.additional_files
    }

    pub(super) fn quantization(&self) -> QuantizationMode {
        TextEmbedding::get_quantization_mode(&self.0.model)
    }

    pub(super) fn output(&self) -> Option<OutputKey> {
        self.0.output_key.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_model_has_a_name_of_its_own_that_finds_it() {
        let all = KnownModel::all();
        assert!(all.len() > 40);
        let names: BTreeSet<_> = all.iter().map(|known| known.name().to_lowercase()).collect();
        assert_eq!(names.len(), all.len());
        for known in &all {
            for name in [known.name(), known.name().to_uppercase(), known.0.model.to_string()] {
                assert_eq!(KnownModel::find(&name).unwrap().0.model, known.0.model, "{name}");
            }
        }
    }

    #[test]
    fn authors_converters_and_variants_name_the_same_model() {
        for (name, variant, dimension, pooling) in [
            ("all-MiniLM-L6-v2", "AllMiniLML6V2", 384, Pooling::Mean),
            ("sentence-transformers/all-MiniLM-L6-v2", "AllMiniLML6V2", 384, Pooling::Mean),
            ("Qdrant/all-MiniLM-L6-v2-onnx", "AllMiniLML6V2", 384, Pooling::Mean),
            ("all-MiniLM-L6-v2-q", "AllMiniLML6V2Q", 384, Pooling::Mean),
            ("BAAI/bge-small-en-v1.5", "BGESmallENV15", 384, Pooling::Cls),
            ("Xenova/bge-small-en-v1.5", "BGESmallENV15", 384, Pooling::Cls),
            ("Qdrant/bge-base-en-v1.5-onnx-Q", "BGEBaseENV15Q", 768, Pooling::Cls),
            ("BAAI/bge-large-en-v1.5", "BGELargeENV15", 1024, Pooling::Cls),
            ("jinaai/jina-embeddings-v2-base-code", "JinaEmbeddingsV2BaseCode", 768, Pooling::Mean),
            ("mixedbread-ai/mxbai-embed-large-v1", "MxbaiEmbedLargeV1", 1024, Pooling::Cls),
            ("embeddinggemma-300m-q4", "EmbeddingGemma300MQ4", 768, Pooling::Mean),
        ] {
            let known = KnownModel::find(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((known.0.model.to_string().as_str(), known.dimension()), (variant, dimension), "{name}");
            assert_eq!(known.pooling(), pooling, "{name}");
        }
        for unknown in ["", "bge", "someone/bge-small-en-v1.5", "BAAI/", "/all-MiniLM-L6-v2"] {
            assert!(KnownModel::find(unknown).is_none(), "{unknown}");
        }
    }
}
