"""Computes reference.rs: the vector that a freshly fetched model must reproduce.

Plain BERT in float64 with numpy, straight from model.safetensors, sharing no code with the ONNX writer.
Usage: reference.py MODEL_DIR "text" > reference.rs   (needs numpy, safetensors, tokenizers)
"""
import json, math, sys
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

folder, text = sys.argv[1], sys.argv[2]
config = json.load(open(f"{folder}/config.json"))
w = {k: v.astype(np.float64) for k, v in load_file(f"{folder}/model.safetensors").items() if v.dtype == np.float32}
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.no_padding()
tokenizer.enable_truncation(256)
ids = tokenizer.encode(text).ids
heads, hidden, eps = config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"]
erf = np.vectorize(math.erf)


def norm(x, name):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def split(x):
    return x.reshape(len(ids), heads, hidden // heads).transpose(1, 0, 2)


e = "embeddings."
x = w[e + "word_embeddings.weight"][ids] + w[e + "token_type_embeddings.weight"][0]
x = norm(x + w[e + "position_embeddings.weight"][: len(ids)], e + "LayerNorm")
for i in range(config["num_hidden_layers"]):
    p = f"encoder.layer.{i}."
    q, k, v = (split(linear(x, p + "attention.self." + n)) for n in ("query", "key", "value"))
    s = q @ k.transpose(0, 2, 1) / math.sqrt(hidden // heads)
    s = np.exp(s - s.max(-1, keepdims=True))
    a = (s / s.sum(-1, keepdims=True)) @ v
    a = a.transpose(1, 0, 2).reshape(len(ids), hidden)
    x = norm(linear(a, p + "attention.output.dense") + x, p + "attention.output.LayerNorm")
    u = linear(x, p + "intermediate.dense")
    u = u * 0.5 * (1 + erf(u / math.sqrt(2)))
    x = norm(linear(u, p + "output.dense") + x, p + "output.LayerNorm")
mean = x.mean(0)
vector = (mean / np.linalg.norm(mean)).astype(np.float32)

print("//! What all-MiniLM-L6-v2 makes of one sentence: the check that a fetched model passes before it is accepted.")
print("//!")
print("//! Written by `reference.py` beside this file: BERT in float64 with numpy from the published weights, mean")
print("//! pooling, unit length. Never edit by hand; a wrong number here would refuse a good model.")
print()
print("/// The sentence.")
print(f"pub(super) const TEXT: &str = {json.dumps(text)};")
print()
print(f"/// Its vector, of unit length; {len(ids)} tokens.")
print("#[rustfmt::skip]")
print(f"pub(super) const VECTOR: [f32; {len(vector)}] = [")
for row in vector.reshape(-1, 8):
    print("    " + " ".join(np.format_float_positional(x, trim="0") + "," for x in row))
print("];")
