"""Contract of both engines: `ullage._core` (Rust) and `ullage._reference` (Python) have these names.

Errors are the classes of `ullage.exceptions`. Token counts are ints. Indices are positions in the ledger.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, final

from ullage.digests import (
    BlockDigest,
    MessageDigest,
)
from ullage.digests import Violation as Violation

__version__: str
FEATURE_NAMES: tuple[str, ...]  # in the order of `Weights.features`

# ---- text: estimates -------------------------------------------------------------------------

@final
class Weights:
    """Numbers of a calibrated estimate for one model family, in 1/4096 token (data: `ullage/data`)."""

    def __init__(
        self,
        features: Sequence[int],
        *,
        blocks: Sequence[int],  # overhead by BlockKind
        messages: Sequence[int],  # overhead by Role
        image: Sequence[int] | None = None,  # patch_px, max_edge_px, max_tokens, default_tokens
        hidden: Sequence[int] | None = None,  # free_chars, per_char: thinking behind a signature
    ) -> None: ...

def rough_tokens(chars: int, chars_per_token: int = 4) -> int: ...
def padded(tokens: int) -> int: ...
def rough_text(text: str, chars_per_token: int = 4) -> int: ...
def features(text: str) -> tuple[int, ...]: ...
def json_features(value: Any) -> tuple[int, ...]: ...
def json_length(value: Any) -> int: ...
def estimate_text(text: str, weights: Weights) -> int: ...
def image_size(data: str) -> tuple[int, int]: ...
def image_tokens(width: int, height: int, weights: Weights) -> int: ...

# ---- bpe: exact counts -----------------------------------------------------------------------

def encodings() -> list[str]: ...
def count_text(text: str, encoding: str = "o200k_base") -> int: ...
def count_text_up_to(text: str, limit: int, encoding: str = "o200k_base") -> int | None: ...
def encode_text(text: str, encoding: str = "o200k_base") -> list[int]: ...

# ---- ledger ----------------------------------------------------------------------------------

class Anchor(NamedTuple):
    """The newest usage figure. It stands for all messages before `covers` (exclusive)."""

    first: int  # first piece of that response
    last: int  # the message that carries the usage
    covers: int  # messages [0, covers) are inside the figure, `first` and its output included
    usage: int

class AnchoredCount(NamedTuple):
    """TOK-4: `total = usage + estimated of what follows - freed`; `anchor` None: all estimated."""

    total: int
    estimated: int
    anchor: Anchor | None

class KeepWindow(NamedTuple):
    """KEEP-1 to KEEP-3: keep messages [start, end); blocks in `orphans` must be dropped."""

    start: int
    tokens: int
    text_messages: int
    orphans: list[tuple[int, int]]  # (message, block) of results whose call lies before the floor

@final
class Ledger:
    """Digests of a conversation, kept up to date as it grows (TOK-5).

    Args:
        weights: For the calibrated estimate; `None`: calibrated counts equal the rough ones.
    """

    def __init__(
        self, weights: Weights | None = None, items: Iterable[Mapping[str, Any]] = ()
    ) -> None: ...
    @property
    def version(self) -> int: ...  # grows with every change that is not an append
    def append(self, item: Mapping[str, Any]) -> int: ...
    def extend(self, items: Iterable[Mapping[str, Any]]) -> int: ...  # all or nothing; new length
    def replace(self, index: int, item: Mapping[str, Any]) -> None: ...
    def truncate(self, length: int) -> None: ...
    def sync(self, items: list[Mapping[str, Any]]) -> int: ...  # by identity; number of items read
    def changed_since(self, version: int) -> int: ...  # lowest index edited since, else the length
    def invalidate(self, index: int) -> None: ...  # the next sync reads this item again
    def __len__(self) -> int: ...
    def tokens(self, start: int = 0, stop: int | None = None) -> int: ...  # O(1), prefix sums
    def rough(self, start: int = 0, stop: int | None = None) -> int: ...
    def message(self, index: int) -> MessageDigest: ...
    def blocks(self, index: int) -> list[BlockDigest]: ...
    def string(self, ref: int) -> str: ...
    def anchor(self) -> Anchor | None: ...
    def anchored(self, freed: int = 0) -> AnchoredCount: ...
    def rounds(
        self, start: int = 0, stop: int | None = None
    ) -> list[int]: ...  # first index of each round
    def last_boundary(self) -> int | None: ...
    def find_uuid(self, uuid: str) -> int | None: ...
    def find_call(self, tool_use_id: str) -> tuple[int, int] | None: ...  # newest; (message, block)
    def find_result(self, tool_use_id: str) -> tuple[int, int] | None: ...
    def open_calls(self) -> list[tuple[int, int]]: ...  # tool uses with no result anywhere later
    def keep_window(
        self,
        start: int,
        *,
        floor: int = 0,
        min_tokens: int = 10_000,
        max_tokens: int = 40_000,
        min_text_messages: int = 5,
    ) -> KeepWindow: ...
    def truncate_head(
        self, gap_tokens: int | None, *, start: int = 0, share_percent: int = 20
    ) -> int: ...

# ---- media -----------------------------------------------------------------------------------

def media_indices(items: Sequence[Mapping[str, Any]]) -> list[int]: ...

# ---- transcript index ------------------------------------------------------------------------

class LineDigest(NamedTuple):
    """One line of a transcript."""

    offset: int
    length: int  # bytes without the line end and white space around
    number: int  # from 1; blank lines count
    type: int  # string index of `type`
    subtype: int
    uuid: int
    parent: int
    message: MessageDigest | None

@final
class TranscriptIndex:
    """Offsets and digests of a JSONL file; objects are built for the lines that are asked for."""

    @staticmethod
    def open(path: str, weights: Weights | None = None) -> TranscriptIndex: ...
    @staticmethod
    def from_bytes(data: bytes, weights: Weights | None = None) -> TranscriptIndex: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int: ...  # bytes
    @property
    def torn(self) -> tuple[int, int] | None: ...  # (offset, length) of an unfinished last line
    @property
    def bad(self) -> list[tuple[int, str]]: ...  # (line number from 1, reason) of unreadable lines
    def heads(
        self,
    ) -> list[tuple[str, str, str, str, int]]: ...  # type, subtype, uuid, parent, MessageFlag
    def line(self, index: int) -> LineDigest: ...
    def raw(self, index: int) -> bytes: ...
    def load(self, index: int) -> dict[str, Any]: ...
    def string(self, ref: int) -> str: ...
    def ledger(self, indices: Sequence[int]) -> Ledger: ...  # without parsing again

# ---- rules -----------------------------------------------------------------------------------

def check(ledger: Ledger, provider: str, facts: Mapping[str, Any]) -> list[Violation]: ...

@final
class Verifier:
    """Checks one ledger again and again, reading only what changed since the last time."""

    def __init__(self, ledger: Ledger, provider: str, facts: Mapping[str, Any]) -> None: ...
    @property
    def read(self) -> int: ...  # messages that the last check read
    def check(self) -> list[Violation]: ...
