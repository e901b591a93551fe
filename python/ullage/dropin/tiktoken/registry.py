"""`tiktoken.registry`: encodings by name."""

from __future__ import annotations

import functools
from importlib import import_module

from ullage.dropin import stands_in_for
from ullage.dropin.tiktoken.core import Encoding

_NAMES = tuple("gpt2 r50k_base p50k_base p50k_edit cl100k_base o200k_base o200k_harmony".split())


_encoding_named = functools.cache(Encoding)


def get_encoding(encoding_name: str) -> Encoding:
    """The encoding of that name, always the same object. Plug-in encodings are tiktoken's own, if it is installed.

    Raises:
        ValueError: There is none.
    """
    if not isinstance(encoding_name, str):
        raise ValueError(f"Expected a string in get_encoding, got {type(encoding_name)}")
    if encoding_name in _NAMES:
        return _encoding_named(encoding_name)
    try:
        encoding: Encoding = import_module("tiktoken").get_encoding(encoding_name)
    except ModuleNotFoundError:
        names = ", ".join(_NAMES)
        raise ValueError(f"Unknown encoding {encoding_name}.\nKnown: {names}") from None
    return encoding


def list_encoding_names() -> list[str]:
    """The names that `get_encoding` takes."""
    return list(_NAMES)


stands_in_for(__name__, "tiktoken.registry")
