"""Contract of both engines: `ullage._core` (Rust) and `ullage._reference` (Python) have these names.

A shortcut in front of code that decides is Rust's alone: there Python answers that it does not know, or all that may be. These are
`PatternSet`, `telling_lines`, `Ledger.append_plain`, `TranscriptIndex.context`, and surveys of lines, which need such a context.
Errors are the classes of `ullage.exceptions`. Token counts are ints. Indices are positions in the ledger.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, final

from ullage._engine.digests import (
    Anchor as Anchor,
    AnchoredCount as AnchoredCount,
    BlockDigest,
    FoldedContext,
    KeepWindow as KeepWindow,
    LineDigest as LineDigest,
    MessageDigest,
    SurveyFacts,
    Violation as Violation,
)

__version__: str
FEATURE_NAMES: tuple[str, ...]  # in the order of `Weights.features`

# ---- text: estimates -------------------------------------------------------------------------

@final
class Weights:
    """Numbers of a calibrated estimate for one model family, in 1/4096 token (data: `ullage/data`)."""

    def __new__(
        cls,
        features: Sequence[int],
        *,
        blocks: Sequence[int],  # overhead by BlockKind
        messages: Sequence[int],  # overhead by Role
        image: Sequence[int] | None = None,  # patch_px, max_edge_px, max_tokens, default_tokens
        hidden: Sequence[int] | None = None,  # free_chars, per_char: thinking behind a signature
    ) -> Self: ...

def rough_text(text: str) -> int: ...
def features(text: str) -> tuple[int, ...]: ...
def estimate_text(text: str, weights: Weights) -> int: ...
def find_names(text: str) -> list[tuple[str, int]]: ...
def contained(texts: Sequence[str], whole: str) -> list[bool]: ...
def split_sentences(text: str, least: int, most: int) -> list[str]: ...
def telling_lines(text: str) -> list[tuple[str, int]]: ...
def read_result(text: str, is_error: bool) -> tuple[bool, int | None, str]: ...  # failed, code
def is_framing(line: str) -> bool: ...
def json_parts(raw: bytes, at: int) -> list[tuple[int, int]] | None: ...

@final
class PatternSet:
    """Which of some patterns are in a sentence, and which may be: Python's own search decides about the latter.

    Args:
        patterns: In Python's syntax; letters of any case match.
        wide: Texts with Latin letters, punctuation and symbols beyond ASCII are judged too.

    Raises:
        ValueError: More than 63, or one that cannot be read.
    """

    def __new__(cls, patterns: Sequence[str], *, wide: bool = False) -> Self: ...
    def look(
        self, text: str
    ) -> tuple[int, int]: ...  # bits of those that may be there, and that are

@final
class NameTally:
    """Names with their uses, over many texts; one thread at a time may use it.

    Args:
        weights: How much one use counts, by author; at most eight.

    Raises:
        IndexError: More than eight weights, or an author without one.
    """

    def __new__(cls, weights: Sequence[int]) -> Self: ...
    def add(
        self,
        text: str,
        author: int,
        index: int,
        *,
        home: str | None = None,  # file or command of its symbols and options
        moves: bool = False,  # also of those that have one
        most_hashes: int = 0,  # more are a listing, and none counts; 0: any number
    ) -> None: ...
    def add_name(self, name: str, author: int, index: int) -> None: ...
    def ranked(
        self, end: int, most: int
    ) -> list[tuple[str, int | None, int, int, int, int, str]]: ...
    # text, kind (`None`: added by name), uses, last, score, author, home

def image_size(data: str) -> tuple[int, int]: ...
def image_tokens(width: int, height: int, weights: Weights) -> int: ...

# ---- bpe: exact counts -----------------------------------------------------------------------

def encodings() -> list[str]: ...
def count_text(text: str, encoding: str = "o200k_base") -> int: ...
def count_text_up_to(text: str, limit: int, encoding: str = "o200k_base") -> int | None: ...
def encode_text(text: str, encoding: str = "o200k_base") -> list[int]: ...

# ---- ledger ----------------------------------------------------------------------------------

@final
class Ledger:
    """Digests of a conversation, kept up to date as it grows (TOK-5).

    Takes bare messages and entries (dicts). Holds a reference to each item, so that `sync` can tell
    them by identity. Safe to share between threads. String numbers (`id`, `name`, `uuid`,
    `response_id` of digests) stay valid while a message has them: those of messages that were cut off
    or replaced may be given to others. Equal strings have equal numbers.

    Positions count from the end if negative, `IndexError` outside; ranges are those of slices; other
    numbers out of range are `InvalidPolicy`.

    Args:
        weights: For the calibrated estimate; `None`: the rough one (characters / 4).
        items: Messages or entries to begin with.

    Raises:
        InvalidMessage: An item is no object, has no known role, or holds what JSON does not have.
            The ledger is then as it was before.
    """

    def __new__(
        cls, weights: Weights | None = None, items: Iterable[Mapping[str, Any]] | None = None
    ) -> Self: ...
    @property
    def version(self) -> int: ...  # grows with every change that is not an append
    def append(self, item: Mapping[str, Any]) -> int: ...  # new length
    # Appends a message that needs no second look: text, signed thinking, calls with ids of their own, results of text for calls
    # that are open. `calls` and `answered`: ids that the conversation has used; `own`: the provider's form, if it is not
    # Anthropic's. Whether the model said it, its ids, characters of the longest result and of all. `None`: it is not plain,
    # nothing has changed.
    def append_plain(
        self,
        item: Mapping[str, Any],
        calls: dict[str, str | None],
        answered: set[str],
        own: str = "",
    ) -> tuple[bool, list[str], int, int] | None: ...
    def extend(self, items: Iterable[Mapping[str, Any]]) -> int: ...  # all or nothing; new length
    def replace(self, index: int, item: Mapping[str, Any]) -> None: ...  # costs what follows it
    def truncate(self, length: int) -> None: ...
    # Makes the ledger that of `items`: known objects keep their digests wherever they now stand, the
    # others are read. Returns how many were read. Edits in place need `replace`.
    def sync(self, items: list[Mapping[str, Any]]) -> int: ...
    def changed_since(self, version: int) -> int: ...  # lowest index edited since, else the length
    def __len__(self) -> int: ...
    def tokens(self, start: int = 0, stop: int | None = None) -> int: ...  # O(1), prefix sums
    def message(self, index: int) -> MessageDigest: ...
    def blocks(self, index: int) -> list[BlockDigest]: ...
    def string(self, ref: int) -> str: ...
    # Results of client tools from a message on, oldest first: id, message, block, place of the newest call with that id (`None`:
    # there is none), its tool, characters, tokens and flags of the result.
    def results(
        self, start: int = 0
    ) -> list[tuple[str, int, int, tuple[int, int] | None, str, int, int, int]]: ...
    def roles(self, start: int = 0, stop: int | None = None) -> bytes: ...  # one a message
    def with_kinds(self, *kinds: int) -> list[int]: ...  # messages that hold a block of these kinds
    # Positions before which a cut tears nothing apart, rising; see `levels/level.py`. `None`: to the end.
    def whole_cuts(self, stop: int | None = None) -> list[int]: ...
    def anchor(self, cleared: int = 0) -> Anchor | None: ...
    @property
    def overhead(self) -> int | None: ...
    def anchored(self, freed: int = 0, cleared: int = 0) -> AnchoredCount: ...
    # First index of each round, as if the range were all: each response starts one, what stands
    # before the first response belongs to the first round.
    def rounds(self, start: int = 0, stop: int | None = None) -> list[int]: ...
    def find_call(self, tool_use_id: str) -> tuple[int, int] | None: ...  # newest; (message, block)
    def find_result(self, tool_use_id: str) -> tuple[int, int] | None: ...
    def open_calls(self) -> list[tuple[int, int]]: ...  # client calls with no result later
    def media_indices(self) -> list[int]: ...  # as the function, of what was read
    # Never moves `start` before `floor` nor before the newest boundary; a start that lies before
    # them already stays.
    def keep_window(
        self,
        start: int,
        *,
        floor: int = 0,
        min_tokens: int = 10_000,
        max_tokens: int = 40_000,
        min_text_messages: int = 5,
    ) -> KeepWindow: ...
    # First message to keep: at least one round goes and one stays; `start` if there is only one.
    def truncate_head(
        self, gap_tokens: int | None, *, start: int = 0, share_percent: int = 20
    ) -> int: ...

# ---- media -----------------------------------------------------------------------------------

def media_indices(items: Sequence[Mapping[str, Any]]) -> list[int]: ...

# ---- lists that are passed again ---------------------------------------------------------------

@final
class MessageObjects:
    """What the messages of a list are made of: dicts, lists, and the very strings and numbers in them, which are held.

    A message in which these same objects stand in the same places says the same. Of one that holds anything else, or very much, nothing is held.
    """

    def __new__(
        cls, *constants: type
    ) -> Self: ...  # `constants`: classes of which no instance ever changes
    def cut(self, count: int) -> None: ...  # hold no more than those of the first so many
    def note(self, items: list[Any], at: int) -> None: ...  # hold those of the message there
    # Messages from `start` up to `stop` that are made of other objects, or of which none are held; the twin holds none.
    def differing(self, items: list[Any], start: int, stop: int) -> list[int]: ...

# ---- transcript index ------------------------------------------------------------------------

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
    # `lean`: of lines of over 512 bytes, `None` in place of the copy of a result that an interface keeps (`toolUseResult`),
    # unless it holds a user's answers.
    def load(self, index: int, *, lean: bool = False) -> dict[str, Any]: ...
    def string(self, ref: int) -> str: ...
    def outline(self, subtype: str) -> tuple[list[int], int | None]: ...  # lines, newest response
    # The lines before `stop` that are in the context; `None`: more than compactions changed it, or a
    # boundary has no mark. Marks: `ullage.transcript.records.BoundaryMark`.
    def context(
        self,
        stop: int,
        marks: Sequence[tuple[int, str, list[str], bool, list[str], str, str, str]],
    ) -> FoldedContext | None: ...
    # `others`: by ascending places in `lines`, messages in place of a line (none: it is left out).
    # `unmeasured`: lines of which the usage does not count.
    def survey(
        self,
        lines: Sequence[int],
        others: Sequence[tuple[int, list[Mapping[str, Any]]]],
        unmeasured: Sequence[int],
    ) -> Survey: ...

# ---- survey ----------------------------------------------------------------------------------

@final
class Survey:
    """What fills a conversation; made once, and never changed.

    Raises:
        InvalidMessage: As `Ledger`.
    """

    def __new__(cls, weights: Weights | None, items: Iterable[Mapping[str, Any]]) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def overhead(self) -> int | None: ...  # what the newest usage holds beyond the messages
    @property
    def message_count(self) -> int | None: ...  # of a request; None: a message of another form
    def anchored(self) -> AnchoredCount: ...
    def facts(self) -> SurveyFacts: ...
    def result_tools(self) -> list[str]: ...  # each once, by first result
    # Budget, snip, microcompact, summary: (tokens, places). Limits: max_result, preview, snip_max,
    # snip_kept, keep_recent, longest_marker, min_tokens, max_tokens, min_text_messages. A bool for each
    # of `result_tools`.
    def freeable(
        self, limits: Mapping[str, int], unlimited: Sequence[bool], clearable: Sequence[bool]
    ) -> list[tuple[int, int]]: ...

# ---- rules -----------------------------------------------------------------------------------

# Providers: `anthropic`, `openai_chat`, `mistral`, `deepseek`, `local`; facts: some of the fields of `ullage._reference.rules.Facts`
# by name. Sorted by message, block, rule and detail. An unknown provider or fact is `InvalidPolicy`.
def check(ledger: Ledger, provider: str, facts: Mapping[str, Any]) -> list[Violation]: ...

@final
class Verifier:
    """Checks one ledger again and again, reading only what changed since the last time."""

    def __new__(cls, ledger: Ledger, provider: str, facts: Mapping[str, Any]) -> Self: ...
    @property
    def read(self) -> int: ...  # messages that the last check read
    def check(self) -> list[Violation]: ...
