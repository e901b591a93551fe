"""`tiktoken.model`: which encoding a model has."""

from __future__ import annotations

from ullage._start import table
from ullage.dropin import stands_in_for
from ullage.dropin.tiktoken.core import Encoding
from ullage.dropin.tiktoken.registry import get_encoding

_TABLES = table(__file__, "encodings.toml")

MODEL_TO_ENCODING: dict[str, str] = {
    name: encoding for encoding, names in _TABLES["models"].items() for name in names
}
MODEL_PREFIX_TO_ENCODING: dict[str, str] = _TABLES["prefixes"]
"""The first that fits decides."""


def encoding_name_for_model(model_name: str) -> str:
    """The name of a model's encoding.

    Raises:
        KeyError: The model is not known.
    """
    if name := MODEL_TO_ENCODING.get(model_name):
        return name
    for prefix, encoding in MODEL_PREFIX_TO_ENCODING.items():
        if model_name.startswith(prefix):
            return encoding
    raise KeyError(
        f"Could not automatically map {model_name} to a tokeniser. "
        "Please use `get_encoding` to explicitly get the tokeniser you expect."
    )


def encoding_for_model(model_name: str) -> Encoding:
    """The encoding of a model.

    Raises:
        KeyError: The model is not known.

    Example:
        >>> encoding_for_model("gpt-4o").encode("Room in the cask.")
        [12723, 306, 290, 274, 1447, 13]
    """
    return get_encoding(encoding_name_for_model(model_name))


stands_in_for(__name__, "tiktoken.model")
