"""Token ids back to text, for the encodings that `ullage.counting.exact` counts with."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ullage._engine.vocabulary import ENCODINGS, R50K_TOKENS, Packed, damaged, read
from ullage.counting.exact import special_tokens
from ullage.exceptions import InvalidPolicy

__all__ = ["bytes_of_tokens", "decode_exact"]


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
        return b"".join([table[each] for each in ids]).decode("utf-8", errors)
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
    whole = {at + (at >= gap): each for at, each in enumerate(held)}
    # The first tokens of p50k_base are those of r50k_base.
    return {at: whole[at] for at in range(R50K_TOKENS)} if vocabulary == "r50k_base" else whole
