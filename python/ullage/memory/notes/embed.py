"""Sentence vectors from an ONNX model on disk; nothing is fetched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ullage.exceptions import MissingExtra, StoreError

__all__ = ["OnnxEmbedder"]

MAX_TOKENS: Final = 256
"""Of one text, as all-MiniLM-L6-v2 was trained; the rest is cut."""

BATCH: Final = 32


class OnnxEmbedder:
    """Vectors of texts: mean of the model's last layer over the text's tokens, of length 1.

    Args:
        path: A folder with `model.onnx` and `tokenizer.json`, as exporters of sentence models write it.

    Raises:
        MissingExtra: `onnxruntime` or `tokenizers` is not installed.
        StoreError: A file is missing or is no model.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = Path(path)
        try:
            runtime: Any = import_module("onnxruntime")
            words: Any = import_module("tokenizers")
        except ImportError as exc:
            raise MissingExtra(exc.name or "onnxruntime", "embed") from exc
        for name in ("model.onnx", "tokenizer.json"):
            if not (folder / name).is_file():
                raise StoreError("is missing", path=str(folder / name))
        try:
            self._model: Any = runtime.InferenceSession(
                str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
            )
            self._words: Any = words.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as exc:  # both libraries raise types of their own
            raise StoreError(f"cannot be loaded: {str(exc)[:200]}", path=str(folder)) from exc
        self._words.enable_truncation(MAX_TOKENS)
        self._words.enable_padding()
        self._inputs = {each.name for each in self._model.get_inputs()}

    def embed(self, texts: Sequence[str]) -> list[Any]:
        """One vector (a numpy array of floats) for each text."""
        return [
            vector
            for at in range(0, len(texts), BATCH)
            for vector in self._batch(texts[at : at + BATCH])
        ]

    def _batch(self, texts: Sequence[str]) -> Any:
        np: Any = import_module("numpy")

        read = self._words.encode_batch(
            [text.encode("utf-8", "replace").decode() for text in texts]
        )
        given = {
            "input_ids": np.array([each.ids for each in read], np.int64),
            "attention_mask": np.array([each.attention_mask for each in read], np.int64),
            "token_type_ids": np.array([each.type_ids for each in read], np.int64),
        }
        mask = given["attention_mask"][:, :, None].astype(np.float32)
        hidden = self._model.run(None, {name: given[name] for name in self._inputs})[0]
        mean = hidden if hidden.ndim == 2 else (hidden * mask).sum(1) / np.maximum(mask.sum(1), 1)
        return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-9)
