"""Exact token counts, offline, for the models whose vocabulary is public: those of OpenAI.

Equal to tiktoken on every text. Text that looks like a special token (`<|endoftext|>`) is ordinary
text unless it is named in `special`: a document that quotes it must not change the count.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from ullage._engine import core
from ullage._engine.vocabulary import ENCODINGS, R50K_TOKENS, Packed, damaged, read
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy, UnknownModel

DEFAULT_ENCODING = "o200k_base"
"""The encoding of OpenAI's models of 2024 and later."""

Special = Collection[str] | Literal["all"]


def count_tokens_exact(
    text: str, *, model: str | None = None, encoding: str | None = None, special: Special = ()
) -> int:
    """Counts the tokens of a text.

    Args:
        text: Any string; lone surrogates count as U+FFFD, as in tiktoken.
        model: Whose vocabulary to use, by name.
        encoding: The vocabulary itself. `None` with `model=None`: `o200k_base`.
        special: Special tokens that count as one token where they occur in the text; `"all"`: all
            of the encoding.

    Returns:
        The number of tokens of the text alone, without what a request adds around it.

    Raises:
        UnknownModel: The model table has no row for `model`.
        InvalidPolicy: The model's vocabulary is not public, the encoding or a special token is
            not known, or both `model` and `encoding` are given.

    Example:
        >>> count_tokens_exact("Room in the cask.", model="gpt-4o")
        6
    """
    name = _encoding(model, encoding)
    return sum(
        1 if token is not None else core.count_text(part, name)
        for part, token in _parts(text, name, special)
    )


def count_tokens_exact_up_to(
    text: str,
    limit: int,
    *,
    model: str | None = None,
    encoding: str | None = None,
    special: Special = (),
) -> int | None:
    """Count the tokens of a text, but stop as soon as there are more than `limit`.

    Returns:
        The count, or `None` if it is above `limit`. A text far too long costs no more than one
        that just fits.

    Raises:
        InvalidPolicy: `limit` is negative; see also `count_tokens_exact`.
        UnknownModel: See `count_tokens_exact`.

    Example:
        >>> count_tokens_exact_up_to("word " * 1_000_000, 100) is None
        True
    """
    name = _encoding(model, encoding)
    if limit < 0:
        raise InvalidPolicy("limit", limit, "must be 0 or more")
    total = 0
    for part, token in _parts(text, name, special):
        count = 1 if token is not None else core.count_text_up_to(part, limit - total, name)
        if count is None or count > limit - total:
            return None
        total += count
    return total


def encode_exact(
    text: str, *, model: str | None = None, encoding: str | None = None, special: Special = ()
) -> list[int]:
    """The token ids of a text.

    Arguments and errors are those of `count_tokens_exact`.

    Example:
        >>> encode_exact("cask<|endoftext|>", special="all")
        [66, 1447, 199999]
    """
    name = _encoding(model, encoding)
    ids: list[int] = []
    for part, token in _parts(text, name, special):
        ids += core.encode_text(part, name) if token is None else [token]
    return ids


def encoding_for(model: str) -> str:
    """The encoding of a model.

    Raises:
        UnknownModel: The model table has no row for the name.
        InvalidPolicy: The model's vocabulary is not public.

    Example:
        >>> encoding_for("gpt-4o")
        'o200k_base'
    """
    row = ModelTable.builtin().find(model)
    if row is None:
        raise UnknownModel(f"model {model!r} is not in the table", hint="name an encoding instead")
    if not row.encoding:
        limit = "must be a model whose vocabulary is public"
        raise InvalidPolicy("model", model, limit, hint="use the calibrated estimate")
    return row.encoding


def _encoding(model: str | None, encoding: str | None) -> str:
    if model is None:
        return DEFAULT_ENCODING if encoding is None else encoding
    if encoding is not None:
        raise InvalidPolicy("encoding", encoding, "must be absent where a model is given")
    return encoding_for(model)


# ---- special tokens ----------------------------------------------------------------------------

_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")


@functools.cache
def special_tokens(encoding: str) -> Mapping[str, int]:
    """The special tokens of an encoding and their ids, as tiktoken lists them.

    Raises:
        InvalidPolicy: The encoding is not known.
    """
    if encoding not in core.encodings():
        encodings = ", ".join(core.encodings())
        raise InvalidPolicy("encoding", encoding, f"must be one of {encodings}")
    old = {_END: 50256}
    tables = {
        "p50k_edit": old | dict(zip(_FIM, range(50281, 50284), strict=True)),
        "cl100k_base": {_END: 100257, "<|endofprompt|>": 100276}
        | dict(zip(_FIM, range(100258, 100261), strict=True)),
        "o200k_base": {_END: 199999, "<|endofprompt|>": 200018},
        "o200k_harmony": _harmony(),
    }
    return MappingProxyType(tables.get(encoding, old))


def _harmony() -> dict[str, int]:
    reserved = {f"<|reserved_{i}|>": i for i in range(200_000, 201_088)}
    named = {
        "startoftext": 199998,
        "endoftext": 199999,
        "return": 200002,
        "constrain": 200003,
        "channel": 200005,
        "start": 200006,
        "end": 200007,
        "message": 200008,
        "call": 200012,
    }
    table = {f"<|{name}|>": i for name, i in named.items()} | {"<|endofprompt|>": 200018}
    used = set(named.values())
    return table | {name: i for name, i in reserved.items() if i not in used}


def _parts(text: str, encoding: str, special: Special) -> Iterator[tuple[str, int | None]]:
    """Ordinary stretches with `None`, special tokens with their id."""
    if not special:
        yield text, None
        return
    table = special_tokens(encoding)
    wanted = _wanted(encoding, frozenset(table if special == "all" else special))
    at = 0
    for match in wanted.finditer(text):
        yield text[at : match.start()], None
        yield match[0], table[match[0]]
        at = match.end()
    yield text[at:], None


@functools.lru_cache(maxsize=16)
def _wanted(encoding: str, special: frozenset[str]) -> re.Pattern[str]:
    for token in sorted(special - special_tokens(encoding).keys()):
        raise InvalidPolicy("special", token, f"must be special tokens of {encoding}")
    return re.compile("|".join(map(re.escape, sorted(special))))


# Token ids back to text, for the encodings that `ullage.counting.exact` counts with.


def decode_exact(ids: Iterable[int], *, encoding: str, errors: str = "replace") -> str:
    """The text of token ids, special tokens included.

    Args:
        ids: As `encode_exact` gives them.
        encoding: The vocabulary.
        errors: What becomes of bytes that are no UTF-8, as in `bytes.decode`.

    Raises:
        InvalidPolicy: The encoding is not known, or has no token with one of the ids.

    Example:
        >>> decode_exact([66, 1447, 199999], encoding="o200k_base")
        'cask<|endoftext|>'
    """
    table = bytes_of_tokens(encoding)
    try:
        return b"".join([table[token] for token in ids]).decode("utf-8", errors)
    except KeyError as error:
        raise InvalidPolicy("ids", error.args[0], f"must be tokens of {encoding}") from None


@functools.cache
def bytes_of_tokens(encoding: str) -> Mapping[int, bytes]:
    """The bytes of every token of an encoding by its id, special tokens included.

    Raises:
        InvalidPolicy: The encoding is not known.
        StoreError: The vocabulary's file is missing or damaged.
    """
    special = {token: text.encode() for text, token in special_tokens(encoding).items()}
    return MappingProxyType(_ordinary(ENCODINGS[encoding]) | special)


@functools.cache
def _ordinary(vocabulary: str) -> dict[int, bytes]:
    file = "p50k_base" if vocabulary == "r50k_base" else vocabulary
    try:
        packed = Packed.parse(read(file))
    except ValueError as error:
        raise damaged(file, str(error)) from None
    held = [bytes([byte]) for byte in packed.bytes_]
    for left, right in packed.merges:
        held.append(held[left] + held[right])
    gap = len(held) if packed.gap is None else packed.gap
    whole = {at + (at >= gap): token for at, token in enumerate(held)}
    # The first tokens of p50k_base are those of r50k_base.
    return {at: whole[at] for at in range(R50K_TOKENS)} if vocabulary == "r50k_base" else whole
