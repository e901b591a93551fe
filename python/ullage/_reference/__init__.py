"""The core in plain Python: oracle of the Rust engine, documentation of the algorithms, fallback.

File for file the twin of `rust/core/src`; the same names, arguments and order of statements.
"""

from __future__ import annotations

from ullage._engine.digests import Anchor, AnchoredCount, KeepWindow, LineDigest, Violation
from ullage._reference.bpe import count_text, count_text_up_to, encode_text, encodings
from ullage._reference.digest import (
    BlockDigest,
    BlockFlag,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
)
from ullage._reference.image import image_size, image_tokens
from ullage._reference.json_tally import json_features, json_length
from ullage._reference.jsonl import TranscriptIndex
from ullage._reference.ledger import Ledger
from ullage._reference.media import media_indices
from ullage._reference.name_tally import NameTally
from ullage._reference.names import find_names
from ullage._reference.outcome import is_framing, read_result
from ullage._reference.patterns import PatternSet
from ullage._reference.rules import Verifier, check
from ullage._reference.sentences import contained, split_sentences
from ullage._reference.survey import Survey
from ullage._reference.telling import telling_lines
from ullage._reference.text import (
    FEATURE_NAMES,
    Weights,
    estimate_text,
    features,
    padded,
    rough_text,
    rough_tokens,
)

__all__ = [
    "FEATURE_NAMES",
    "Anchor",
    "AnchoredCount",
    "BlockDigest",
    "BlockFlag",
    "BlockKind",
    "KeepWindow",
    "Ledger",
    "LineDigest",
    "MessageDigest",
    "MessageFlag",
    "NameTally",
    "PatternSet",
    "Role",
    "Survey",
    "TranscriptIndex",
    "Verifier",
    "Violation",
    "Weights",
    "check",
    "contained",
    "count_text",
    "count_text_up_to",
    "encode_text",
    "encodings",
    "estimate_text",
    "features",
    "find_names",
    "image_size",
    "image_tokens",
    "is_framing",
    "json_features",
    "json_length",
    "media_indices",
    "padded",
    "read_result",
    "rough_text",
    "rough_tokens",
    "split_sentences",
    "telling_lines",
]
