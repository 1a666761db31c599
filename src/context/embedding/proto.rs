//! The part of `onnx.proto` (ONNX 1.16, IR version 9) that a BERT encoder needs.
//!
//! Field numbers are the format; names are for us. Anything unknown is skipped when read, so a round trip through
//! these types may lose what they do not list: they are for writing our own files and reading those back in tests.

/// A whole model file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
}

/// Which operators, in which version; the empty domain is ONNX's own.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// One of the constants below.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
}

impl Attribute {
    const FLOAT: i32 = 1;
    const INT: i32 = 2;
    const INTS: i32 = 7;

    pub fn float(name: &str, value: f32) -> Self {
        Self { name: name.into(), f: Some(value), r#type: Self::FLOAT, ..Self::default() }
    }

    pub fn int(name: &str, value: i64) -> Self {
        Self { name: name.into(), i: Some(value), r#type: Self::INT, ..Self::default() }
    }

    pub fn ints(name: &str, value: &[i64]) -> Self {
        Self { name: name.into(), ints: value.into(), r#type: Self::INTS, ..Self::default() }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// [`FLOAT`] or [`INT64`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    /// Little-endian, row-major.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    /// Where the data is instead, if [`Tensor::EXTERNAL`]: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<Entry>,
    /// 0 for here.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

impl Tensor {
    /// The data is in another file.
    #[cfg(test)]
    pub const EXTERNAL: i32 = 1;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A tensor's element type.
pub(super) const FLOAT: i32 = 1;
/// A tensor's element type.
pub(super) const INT64: i32 = 7;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Dimension {
    #[prost(oneof = "Size", tags = "1, 2")]
    pub size: Option<Size>,
}

/// A dimension: a number, or a name for what varies.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Size {
    #[prost(int64, tag = "1")]
    Fixed(i64),
    #[prost(string, tag = "2")]
    Named(String),
}
