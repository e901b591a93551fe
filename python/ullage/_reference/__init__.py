"""The core in plain Python: oracle of the Rust engine, documentation of the algorithms, fallback.

File for file the twin of `rust/core/src`; the same names, arguments and order of statements. It takes none of the shortcuts that
`_core.pyi` names.
"""

from __future__ import annotations

from ullage._engine.digests import (
    Anchor,
    AnchoredCount,
    BlockDigest,
    BlockFlag,
    BlockKind,
    KeepWindow,
    LineDigest,
    MessageDigest,
    MessageFlag,
    Role,
    Violation,
)
from ullage._reference.bpe import count_text, count_text_up_to, encode_text, encodings
from ullage._reference.digest import image_size, image_tokens
from ullage._reference.jsonl import TranscriptIndex, json_parts
from ullage._reference.ledger import Ledger
from ullage._reference.names import NameTally, find_names
from ullage._reference.objects import MessageObjects
from ullage._reference.outcome import is_framing, read_result, telling_lines
from ullage._reference.read import media_indices
from ullage._reference.rules import Verifier, check
from ullage._reference.survey import Survey
from ullage._reference.text import (
    FEATURE_NAMES,
    PatternSet,
    Weights,
    contained,
    estimate_text,
    features,
    rough_text,
    split_sentences,
)
