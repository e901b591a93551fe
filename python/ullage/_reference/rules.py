"""The verifier: what a provider would refuse, over digests. Rules are named in `ullage.validate`.

It reads each message once, and keeps its small state every few messages, so that after an edit only what comes after the edit is
read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from ullage._engine.digests import (
    BlockDigest,
    BlockFlag as B,
    BlockKind,
    MessageDigest,
    MessageFlag as M,
    Role,
    Violation,
)
from ullage.exceptions import InvalidPolicy

if TYPE_CHECKING:
    from ullage._reference.ledger import Ledger

# What the rules must know and the messages do not say: the model's limits, the request's other parts.


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one request. The defaults are a current Claude model on Anthropic's own API.

    Attributes:
        prefill_ok: The model takes an assistant message at the end (Claude 4.5 and older).
        mid_system_ok: The model takes system messages inside the conversation.
        manual_thinking: The request has `thinking.type: "enabled"`.
        image_limit: Images per request.
        image_mb: Base64 size of one image in MiB: 10, or 5 on Bedrock and Google.
        page_limit: PDF pages per request, which `ullage.legality` counts: a digest never decodes data.
        pdfs_count: PDFs count as images for the stricter side limit (Bedrock and Google).
        window: Context window in tokens; 0: unknown, not checked.
        max_output: The model's largest `max_tokens`; 0: unknown.
        max_tokens: The request's `max_tokens`; 0: none.
        output_in_window: The model refuses input + `max_tokens` over the window.
        fixed_tokens: Tokens of system prompt and tool definitions.
        body_bytes: Size of the request's JSON; 0: not measured.
        body_limit: Largest JSON body in bytes.
        tools: Names of the request's tools, server tools included; `None`: unknown.
        tools_required: The platform refuses tool blocks without tools (Bedrock, LiteLLM).
        alternation: The platform refuses neighbours of one role and a first assistant message.
        markers: Cache markers in tools and system, in that order: "5m" or "1h" each.
        auto_cache: TTL of the automatic marker, or "".
        version: API version date as a number.
        tool_changes: The header for tool changes inside the conversation is sent.
        sampling: The request has temperature, top_p or top_k.
        resume: "pause_turn" or "compaction": the request resumes such a stop; else "".
        compact_beta: The header for on-demand compaction is sent; `None`: unknown.
        compact_edit: The request has a `compact_*` edit.
        thinking: The model thinks (DeepSeek: `reasoning_content` must come back).
        reasoning_forbidden: `reasoning_content` must not come back (old R1).
        strict: An OpenAI-compatible server that enforces what OpenAI itself does not.
        skip: Rule ids that are not checked; for tests.
    """

    prefill_ok: bool = False
    mid_system_ok: bool = True
    manual_thinking: bool = False
    image_limit: int = 100
    image_mb: int = 10
    page_limit: int = 100
    pdfs_count: bool = False
    window: int = 0
    max_output: int = 0
    max_tokens: int = 0
    output_in_window: bool = False
    fixed_tokens: int = 0
    body_bytes: int = 0
    # The documented limit is 32 MB at the edge; headers and re-encoding need some room.
    body_limit: int = 30_000_000
    tools: tuple[str, ...] | None = None
    tools_required: bool = False
    alternation: bool = False
    markers: tuple[str, ...] = ()
    auto_cache: str = ""
    version: int = 2026_10_21
    tool_changes: bool = False
    sampling: bool = False
    resume: str = ""
    compact_beta: bool | None = None
    compact_edit: bool = False
    thinking: bool = False
    reasoning_forbidden: bool = False
    strict: bool = False
    skip: tuple[str, ...] = ()

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Facts:
        """Some of the fields by name; lists stand for tuples."""
        return cls(**{name: _value(name, value) for name, value in facts.items()})


_TYPES: Mapping[str, str] = {field.name: str(field.type) for field in fields(Facts)}


def _value(name: str, value: Any) -> Any:
    kind = _TYPES.get(name)
    if kind is None:
        raise InvalidPolicy("facts", name, "is not a known fact")
    if value is None and kind.endswith("| None"):
        return None
    if kind.startswith("tuple"):
        good = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        return tuple(_expect(name, value, good, "must be a list of strings"))
    if kind.startswith("bool"):
        return _expect(name, value, isinstance(value, bool), "must be true or false")
    if kind == "int":
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
        return _expect(name, value, good, "must be a whole number, 0 or more")
    return _expect(name, value, isinstance(value, str), "must be a string")


def _expect(name: str, value: Any, good: bool, limit: str) -> Any:
    if not good:
        raise InvalidPolicy(f"facts.{name}", value, limit)
    return value


# What was found so far, and what must be remembered of all messages.


# A hostile id can be megabytes long; a report is for reading.
SHOWN_CHARS = 64


At: TypeAlias = tuple[int, int]
"""A message and a block in it."""
REQUEST: At = (-1, -1)


class Findings:
    """Violations in the order of reading, with the logs that grow with the conversation.

    Everything is noted together with the message that was being read (`at`), so that the notes of
    later messages can be taken back.
    """

    def __init__(self, skip: tuple[str, ...]) -> None:
        self.at = 0
        self.skip = frozenset(skip)
        self.violations: list[tuple[int, Violation]] = []
        self.calls: set[int] = set()  # string indices of tool use ids
        self.call_log: list[tuple[int, int]] = []
        self.large: list[tuple[int, At]] = []  # images over the side limit of many-image requests

    def error(self, rule: str, at: At, detail: str) -> None:
        self.note(rule, True, at, detail)

    def note(self, rule: str, error: bool, at: At, detail: str) -> None:
        if rule not in self.skip:
            violation = Violation(rule, "error" if error else "warning", *at, detail)
            self.violations.append((self.at, violation))

    def first_call(self, tool_id: int) -> bool:
        """Notes a tool use id; False if it was there before."""
        if tool_id in self.calls:
            return False
        self.calls.add(tool_id)
        self.call_log.append((self.at, tool_id))
        return True

    def rewind(self, index: int) -> None:
        """Takes back what was noted while message `index` and later ones were read."""
        while self.violations and self.violations[-1][0] >= index:
            self.violations.pop()
        while self.call_log and self.call_log[-1][0] >= index:
            self.calls.discard(self.call_log.pop()[1])
        while self.large and self.large[-1][0] >= index:
            self.large.pop()


def short(text: str) -> str:
    """A hostile id, cut for a report; what a terminal could take amiss shows as `?`."""
    shown = "".join(char if " " < char <= "~" else "?" for char in text[:SHOWN_CHARS])
    return shown if len(text) <= SHOWN_CHARS else f"{shown}..."


# One message as the rules see it.


@dataclass(slots=True)
class View:
    """A message's digest, its blocks, and the ledger for its strings."""

    index: int
    message: MessageDigest
    blocks: list[BlockDigest]
    ledger: Ledger

    def string(self, ref: int) -> str:
        return self.ledger.string(ref)

    def short(self, ref: int) -> str:
        return short(self.ledger.string(ref))

    def whole(self) -> At:
        """The message as a whole."""
        return self.index, -1

    def places(self) -> Iterator[tuple[At, BlockDigest]]:
        """Blocks with their places."""
        return (((self.index, at), block) for at, block in enumerate(self.blocks))


class State:
    """State of rules after the messages read so far; copies are checkpoints."""

    __slots__ = ()

    def copy(self) -> Self:
        """One that goes its own way: what it holds is copied too."""
        state: Any = self
        held = {field.name: getattr(self, field.name) for field in fields(state)}
        tables = {name: value.copy() for name, value in held.items() if hasattr(value, "copy")}
        return cast("Self", replace(state, **tables))


# Client tools: every call answered once, at once and first (A05 to A08).


UNNAMED = 0  # string index of "no id"


@dataclass(slots=True)
class Pairing(State):
    """State of the tool loop. A turn is a run of messages of one role: the API merges them.

    A system message between call and result is placement's business (A12): it neither closes
    the loop nor opens a new user turn here, so that one fault is not reported as many.
    """

    role: int = Role.NONE
    awaiting: dict[int, At] = field(default_factory=dict)  # id -> where the call is
    answered: set[int] = field(default_factory=set)
    other: bool = False  # the user turn has a block that is no result

    def feed(self, view: View, out: Findings) -> None:
        if view.message.role == Role.ASSISTANT:
            self._assistant(view, out)
        elif view.message.role == Role.USER:
            self._user(view, out)

    def _assistant(self, view: View, out: Findings) -> None:
        if self.role != Role.ASSISTANT:
            self.report_unanswered(view, out)
            self.awaiting.clear()
            self.answered.clear()
            self.role = Role.ASSISTANT
        for at, block in view.places():
            if block.kind == BlockKind.TOOL_USE:
                self._call(at, block, view, out)

    def _call(self, at: At, block: BlockDigest, view: View, out: Findings) -> None:
        if block.flags & B.INPUT_NOT_OBJECT:
            out.error("A08", at, "tool use input is not an object")
        if block.id == UNNAMED or block.flags & B.MISSING_ID:
            out.error("A08", at, "tool use without an id")
            return
        name = view.short(block.id)
        if block.flags & B.BAD_ID:
            out.error("A08", at, f"tool use id {name} has characters other than A-Z a-z 0-9 _ -")
        if not out.first_call(block.id):
            out.error("A08", at, f"tool use id {name} is there twice")
        self.awaiting[block.id] = at

    def _user(self, view: View, out: Findings) -> None:
        if self.role != Role.USER:
            self.other = False
            self.role = Role.USER
        for at, block in view.places():
            if block.kind == BlockKind.TOOL_RESULT:
                self._result(at, block, view, out)
            else:
                self.other = True

    def _result(self, at: At, block: BlockDigest, view: View, out: Findings) -> None:
        name = view.short(block.id)
        if self.awaiting.pop(block.id, None) is not None:
            self.answered.add(block.id)
            if self.other:
                out.error("A07", at, f"result of {name} comes after other content")
        elif block.id in self.answered:
            out.error("A05", at, f"tool use {name} has more than one result")
        elif block.id == UNNAMED:
            out.error("A06", at, "tool result without a tool_use_id")
        else:
            out.error("A06", at, f"no tool use {name} in the assistant turn just before")

    def report_unanswered(self, view: View, out: Findings) -> None:
        """The loop ends here: what is still open stays without a result."""
        for tool_id, at in self.awaiting.items():
            name = view.short(tool_id)
            out.error("A05", at, f"tool use {name} has no result in the next message")


# Who may speak where (A01, A11, A12, A29).


MAX_MESSAGES = 100_000  # A01


@dataclass(slots=True)
class Placement(State):
    """The last turn that counts, and the system message that waits for what follows it."""

    messages: int = 0
    role: int = Role.NONE
    last: int = -1  # index of the last message that is no system message
    system: int = -1  # first system message of the run that is last, -1: none is last
    after_server_result: bool = False  # the last assistant block is a server tool's result
    trailing_space: bool = False
    uneven: int = -1  # first place where roles do not alternate
    uneven_places: int = 0

    def feed(self, view: View, facts: Facts, out: Findings) -> None:
        self.messages += 1
        role = view.message.role
        if view.message.flags & M.OPENAI_CHAT and role != Role.TOOL:
            out.error("A01", view.whole(), "message of the chat form")
        if role == Role.SYSTEM:
            self._system(view, facts, out)
            return
        if role not in (Role.USER, Role.ASSISTANT):
            out.error("A01", view.whole(), "role is not user, assistant or system")
            return
        if self.system >= 0 and role == Role.USER:
            out.error("A12", (self.system, -1), "system message is followed by a user message")
        self._alternation(view.index, role)
        self.role, self.system, self.last = role, -1, view.index
        last = view.blocks[-1] if view.blocks else None
        self.after_server_result = last is not None and last.kind == BlockKind.SERVER_TOOL_RESULT
        self.trailing_space = last is not None and bool(last.flags & B.TRAILING_SPACE)

    def _alternation(self, index: int, role: int) -> None:
        first_assistant = self.role == Role.NONE and role == Role.ASSISTANT
        if first_assistant or (self.role == role and self.system < 0):
            self.uneven = index if self.uneven < 0 else self.uneven
            self.uneven_places += 1

    def _system(self, view: View, facts: Facts, out: Findings) -> None:
        flags = view.message.flags
        empty = bool(flags & M.EMPTY_CONTENT)
        if flags & M.OUTPUT_CONFIG and empty:
            return  # sets the effort only: may stand anywhere
        if empty:
            out.error("A12", view.whole(), "system message with neither content nor output_config")
        elif not facts.mid_system_ok:
            detail = "the model takes no system messages inside the conversation"
            out.error("A12", view.whole(), detail)
        elif self.system < 0 and self.role == Role.NONE:
            out.error("A12", view.whole(), "system message is first")
        elif self.system < 0 and self.role == Role.ASSISTANT and not self.after_server_result:
            out.error("A12", view.whole(), "system message follows an assistant message")
        self.system = view.index if self.system < 0 else self.system

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.messages == 0:
            out.error("A01", REQUEST, "there is no message")
        if self.messages > MAX_MESSAGES:
            out.error("A01", REQUEST, f"{self.messages} messages, the limit is {MAX_MESSAGES}")
        if self.role == Role.ASSISTANT and self.system < 0:
            self._last_word(facts, out)
        if self.uneven >= 0:
            detail = f"roles do not alternate from user in {self.uneven_places} places"
            out.note("A29", facts.alternation, (self.uneven, -1), detail)

    def _last_word(self, facts: Facts, out: Findings) -> None:
        if facts.resume in ("pause_turn", "compaction"):
            return
        if not facts.prefill_ok:
            out.error("A11", (self.last, -1), "the last message is an assistant message")
        elif self.trailing_space:
            out.error("A11", (self.last, -1), "the last assistant message ends in white space")


# What each message and block must be by itself (A02 to A04, A13, A19, A20, A32).


BLANK = B.EMPTY_TEXT | B.BLANK_TEXT
MARKED = B.CACHE_5M | B.CACHE_1H | B.CACHE_BAD
THOUGHTS = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)
# The API version that refuses documents of the assistant, citations of the user and sampling.
STRICT_VERSION = 2026_10_21
EMPTY = "content is empty"
# Blocks that are known to stand in assistant messages but need no rule of their own.
PASSIVE_TYPES = ("mcp_tool_listing", "connector_text")

USER_KINDS = (
    BlockKind.TEXT,
    BlockKind.IMAGE,
    BlockKind.DOCUMENT,
    BlockKind.SEARCH_RESULT,
    BlockKind.TOOL_RESULT,
    BlockKind.CONTAINER_UPLOAD,
)
ASSISTANT_KINDS = (
    BlockKind.TEXT,
    BlockKind.TOOL_USE,
    BlockKind.THINKING,
    BlockKind.REDACTED_THINKING,
    BlockKind.DOCUMENT,  # until the strict version: A20
    BlockKind.SERVER_TOOL_USE,
    BlockKind.SERVER_TOOL_RESULT,
    BlockKind.COMPACTION,
    BlockKind.FALLBACK,
)
SYSTEM_KINDS = (BlockKind.TEXT, BlockKind.TOOL_CHANGE)
_ALLOWED: tuple[tuple[BlockKind, ...], ...] = (USER_KINDS, ASSISTANT_KINDS, SYSTEM_KINDS)
# A digest names the type of such a block only if it is not the kind's own.
OWN_TYPES = (BlockKind.TEXT, BlockKind.IMAGE, BlockKind.DOCUMENT)
ROLE_NAMES = ("user", "assistant", "system")
_SPOKEN = {BlockKind.SERVER_TOOL_RESULT: "server tool result", BlockKind.TOOL_CHANGE: "tool change"}
KIND_NAMES = tuple(_SPOKEN.get(kind, kind.name.lower()) for kind in BlockKind)


@dataclass(slots=True)
class Blocks(State):
    """Checks one message at a time; only emptiness of the last one depends on what follows."""

    held: int = -1  # an empty assistant message, legal as the last one where prefill is

    def feed(self, view: View, facts: Facts, out: Findings) -> None:
        if self.held >= 0:  # it was not the last: its emptiness counts
            out.error("A02", (self.held, -1), EMPTY)
            self.held = -1
        self._content(view, out)
        flags = view.message.flags
        if flags & M.UNKNOWN_KEYS:
            out.error("A04", view.whole(), "message has keys that the API does not know")
        for at, block in view.places():
            _block(at, block, view, facts, out)

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.held >= 0 and not facts.prefill_ok:
            out.error("A02", (self.held, -1), EMPTY)

    def _content(self, view: View, out: Findings) -> None:
        role, flags = view.message.role, view.message.flags
        if flags & M.BAD_CONTENT:
            out.error("A02", view.whole(), "content is neither a string nor a list")
        elif flags & (M.EMPTY_CONTENT | M.BLANK_CONTENT):
            if role == Role.ASSISTANT:
                self.held = view.index
            elif role != Role.SYSTEM or flags & M.BLANK_CONTENT:
                out.error("A02", view.whole(), EMPTY)


def _block(at: At, block: BlockDigest, view: View, facts: Facts, out: Findings) -> None:
    kind, flags = block.kind, block.flags
    string = bool(view.message.flags & M.STRING_CONTENT)
    if flags & B.NOT_A_BLOCK:
        out.error("A03", at, "not a content block")
        return
    if kind == BlockKind.TEXT and flags & BLANK and not string:
        out.error("A02", at, "text is blank")
    if flags & B.NESTED_BLANK:
        out.error("A02", at, f"text inside a {KIND_NAMES[kind]} block is blank")
    _kind(at, block, view, out)
    if flags & B.UNKNOWN_KEYS:
        out.error("A04", at, f"{KIND_NAMES[kind]} block has keys that the API does not know")
    if kind in THOUGHTS and not flags & B.HAS_SIGNATURE:
        out.error("A13", at, f"{KIND_NAMES[kind]} block without its signature or data")
    if flags & MARKED and (kind in THOUGHTS or (kind == BlockKind.TEXT and flags & BLANK)):
        out.error("A19", at, "cache_control on thinking or on blank text")
    if flags & (B.CACHE_BAD | B.CACHE_EDIT):
        out.error("A32", at, "cache_control or cache edit of a form that the API does not take")
    if facts.version >= STRICT_VERSION:
        _strict(at, view.message.role, block, out)


def _kind(at: At, block: BlockDigest, view: View, out: Findings) -> None:
    role, kind = view.message.role, block.kind
    if kind in OWN_TYPES and block.name:
        name = view.short(block.name)
        out.error("A03", at, f"{name} is a block type of another API")
    elif kind == BlockKind.UNKNOWN:
        name = view.string(block.name)
        if name not in PASSIVE_TYPES and not block.flags & B.CACHE_EDIT:
            out.error("A03", at, f"block type {short(name)} is unknown to the API")
    elif role <= Role.SYSTEM and kind not in _ALLOWED[role]:
        out.error("A03", at, f"{KIND_NAMES[kind]} block in a message of the {ROLE_NAMES[role]}")
    if block.flags & B.BAD_NESTED:
        out.error("A03", at, "tool result holds what it may not")


def _strict(at: At, role: int, block: BlockDigest, out: Findings) -> None:
    if role == Role.ASSISTANT and block.kind == BlockKind.DOCUMENT:
        out.error("A20", at, "document block in an assistant message")
    if role == Role.USER and block.flags & B.HAS_CITATIONS:
        out.error("A20", at, "citations in a user message")


# Cache markers: how many, and in which order (A17, A18).


MAX_MARKERS = 4  # A17


@dataclass(slots=True)
class CacheMarkers(State):
    """Markers in the order tools, system, messages. A marker of unknown TTL counts as 5m."""

    count: int = 0
    short_seen: bool = False
    over: At | None = None  # the first marker beyond the limit
    last_ttl: str = ""  # of the very last block, "" if it has none

    @classmethod
    def start(cls, facts: Facts) -> CacheMarkers:
        return cls(
            count=len(facts.markers) + bool(facts.auto_cache), short_seen="5m" in facts.markers
        )

    def feed(self, view: View, out: Findings) -> None:
        for at, block in view.places():
            self.last_ttl = ""
            if block.flags & (MARKED | B.NESTED_CACHE):
                self._block(at, block, out)

    def _block(self, at: At, block: BlockDigest, out: Findings) -> None:
        # What is inside a result comes before the result's own marker.
        if block.kind == BlockKind.TOOL_RESULT:
            self._note(at, "1h", block.aux >> 24 & 0xFF, out)
            self._note(at, "5m", block.aux >> 16 & 0xFF, out)
        if block.flags & MARKED:
            self.last_ttl = "1h" if block.flags & B.CACHE_1H else "5m"
            self._note(at, self.last_ttl, 1, out)

    def _note(self, at: At, ttl: str, times: int, out: Findings) -> None:
        if times == 0:
            return
        self.count += times
        if self.count > MAX_MARKERS and self.over is None:
            self.over = at
        if ttl == "5m":
            self.short_seen = True
        elif self.short_seen:
            out.error("A18", at, "a 1h cache marker comes after a 5m one")

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.count > MAX_MARKERS:
            detail = f"{self.count} cache markers, the limit is {MAX_MARKERS}"
            out.error("A17", self.over or REQUEST, detail)
        if "1h" in facts.markers and "5m" in facts.markers[: _last(facts.markers, "1h")]:
            out.error("A18", REQUEST, "a 1h cache marker of tools or system comes after a 5m one")
        if facts.auto_cache == "1h" and self.short_seen:
            out.error("A18", REQUEST, "the automatic cache marker is 1h and comes after a 5m one")
        elif facts.auto_cache == "5m" and self.last_ttl == "1h":
            out.error("A18", REQUEST, "the automatic cache marker and the last block's differ")


def _last(markers: tuple[str, ...], ttl: str) -> int:
    return len(markers) - 1 - markers[::-1].index(ttl)


# Images (A21).


# More images than this in one request, and every one of them must keep to 2000 px per side.
MANY_IMAGES = 20


@dataclass(slots=True)
class Media(State):
    """Counts over the whole request; results inside tool results included."""

    images: int = 0
    documents: int = 0

    def feed(self, view: View, facts: Facts, out: Findings) -> None:
        for at, block in view.places():
            if block.kind == BlockKind.DOCUMENT:
                self.documents += 1
            elif block.kind == BlockKind.IMAGE or block.flags & B.NESTED_MEDIA:
                self._image(at, block, facts, out)

    def _image(self, at: At, block: BlockDigest, facts: Facts, out: Findings) -> None:
        self.images += 1 if block.kind == BlockKind.IMAGE else block.aux & 0xFFFF
        flags = block.flags
        if flags & B.BAD_FORMAT:
            out.error("A21", at, "image is not jpeg, png, gif or webp")
        if flags & B.OVER_8000PX:
            out.error("A21", at, "image has a side over 8000 px")
        over = B.OVER_5MB if facts.image_mb < 10 else B.OVER_10MB
        if flags & over:
            out.error("A21", at, f"image is over {facts.image_mb} MB in base64")
        if flags & B.OVER_2000PX:
            out.large.append((out.at, at))

    def finish(self, facts: Facts, out: Findings) -> None:
        if self.images > facts.image_limit:
            out.error("A21", REQUEST, f"{self.images} images, the limit is {facts.image_limit}")
        if self.images + (self.documents if facts.pdfs_count else 0) > MANY_IMAGES:
            detail = f"image has a side over 2000 px among more than {MANY_IMAGES}"
            for _, at in out.large:
                out.error("A21", at, detail)


# Server tools: call and result are one unit, across messages (A09, A10).


RESULT_SUFFIX = "_tool_result"
MCP_PREFIX = "mcp:"


def result_fits(tool: str, result_type: str) -> bool:
    """Whether a result block's type belongs to a server tool of that name.

    `tool_search_tool_bm25` is answered by `tool_search_tool_result`, `web_search` by
    `web_search_tool_result`, and every MCP tool by `mcp_tool_result`.
    """
    base = result_type.removesuffix(RESULT_SUFFIX)
    if tool.startswith(MCP_PREFIX) or base == "mcp":
        return tool.startswith(MCP_PREFIX) and base == "mcp"
    return tool.startswith(base)


@dataclass(slots=True)
class ServerTools(State):
    """Server calls without a result yet, and what stood in the user turn after them."""

    role: int = Role.NONE
    # Calls of the newest assistant turn, and those of earlier ones: id -> place, name.
    open: dict[int, tuple[At, int]] = field(default_factory=dict)
    lost: dict[int, tuple[At, int]] = field(default_factory=dict)
    broken: bool = False  # a user turn with more than tool results came while calls were open

    def calls(self) -> int:
        """Calls that it remembers."""
        return len(self.open) + len(self.lost)

    def feed(self, view: View, facts: Facts, out: Findings) -> None:
        if view.message.role == Role.ASSISTANT:
            self._assistant(view, out)
        elif view.message.role == Role.USER:
            self._user(view, facts, out)

    def _assistant(self, view: View, out: Findings) -> None:
        if self.role != Role.ASSISTANT:
            self.role, self.broken = Role.ASSISTANT, False
            self.lost.update(self.open)
            self.open = {}
        for at, block in view.places():
            if block.kind == BlockKind.SERVER_TOOL_USE:
                if block.id and not out.first_call(block.id):
                    name = view.short(block.id)
                    out.error("A08", at, f"tool use id {name} is there twice")
                self.lost.pop(block.id, None)
                self.open[block.id] = (at, block.name)
            elif block.kind == BlockKind.SERVER_TOOL_RESULT:
                self._result(at, block, view, out)

    def _result(self, at: At, block: BlockDigest, view: View, out: Findings) -> None:
        # Half of a unit that does not fit is treated as missing, like the other half.
        call = self.open.pop(block.id, None) or self.lost.pop(block.id, None)
        kind, name = view.string(block.name), view.short(block.id)
        if call is None:
            out.error("A09", at, f"{short(kind)}: no server tool use {name} before it")
        elif not result_fits(view.string(call[1]), kind):
            out.error("A09", at, f"{short(kind)} does not fit the tool of {name}")

    def _user(self, view: View, facts: Facts, out: Findings) -> None:
        first = self.role != Role.USER
        self.role = Role.USER
        if self.broken or not self.open:
            return
        if any(block.kind != BlockKind.TOOL_RESULT for block in view.blocks):
            self.broken = True
            detail = "a server tool use is open: only tool results may follow"
            out.error("A10", view.whole(), detail)
        if first and facts.tools is not None:
            self._need_tools(view, facts.tools, out)

    def _need_tools(self, view: View, tools: tuple[str, ...], out: Findings) -> None:
        for _, ref in self.open.values():
            name = view.string(ref)
            # `bash_code_execution` is a call of the tool `code_execution`.
            if not name.startswith(MCP_PREFIX) and not any(name.endswith(tool) for tool in tools):
                detail = f"server tool {short(name)} is open but not among the tools"
                out.error("A10", view.whole(), detail)

    def finish(self, view: View, facts: Facts, out: Findings) -> None:
        """Reports what stays open, unless the request lets the server go on with it."""
        paused = self.role == Role.ASSISTANT and facts.resume == "pause_turn"
        carried = self.role == Role.USER and not self.broken
        open_still = {} if paused or carried else self.open
        for tool_id, (at, ref) in chain(self.lost.items(), open_still.items()):
            kind, name = view.string(ref), view.short(tool_id)
            out.error("A09", at, f"{short(kind)} tool use {name} has no result")


# Blocks with rules of their own: compaction, citations, fallback, tool changes (A25, A27, A28, A31).


BY_REFERENCE, REMOVAL, BY_DEFINITION, OF_SERVER = 1, 2, 3, 4  # aux of a tool change
# Types that a fallback leaves over: they may not come before the turn's last fallback block.
NOT_BEFORE_FALLBACK = (BlockKind.THINKING, BlockKind.REDACTED_THINKING, BlockKind.TOOL_USE)


@dataclass(slots=True)
class Special(State):
    """State over the request for the rarer kinds of blocks."""

    role: int = Role.NONE
    first: bool = True  # no message was read yet
    compactions: int = 0  # with content
    cited: bool = False
    uncited: bool = False
    hop: list[tuple[int, At]] = field(default_factory=list)  # kind and place
    calls: dict[int, At] = field(default_factory=dict)  # server calls open in the turn
    defined: set[str] = field(default_factory=set)  # tools that the conversation itself defined

    def remembered(self) -> int:
        """Blocks and names that it remembers."""
        return len(self.hop) + len(self.calls) + len(self.defined)

    def feed(self, view: View, facts: Facts, out: Findings) -> None:
        if view.message.role != self.role:
            self.role = view.message.role
            self.hop.clear()
            self.calls.clear()
        for at, block in view.places():
            self._block(at, block, view, facts, out)
        self.first = False

    def _block(self, at: At, block: BlockDigest, view: View, facts: Facts, out: Findings) -> None:
        kind = block.kind
        if kind == BlockKind.COMPACTION:
            self._compaction(at, block, facts, out)
        elif kind == BlockKind.TOOL_CHANGE:
            self._tool_change(at, block, view, facts, out)
        elif self.role == Role.ASSISTANT:
            self._hop(at, block, out)
            if kind == BlockKind.TOOL_USE and facts.tool_changes:
                self._called(at, block, view, facts, out)
        if block.flags & (B.CITATIONS_ON | B.CITATIONS_OFF):
            self._citations(at, block, out)

    def _compaction(self, at: At, block: BlockDigest, facts: Facts, out: Findings) -> None:
        if block.flags & B.EMPTY_TEXT:
            out.error("A25", at, "compaction block with empty content")
        if block.flags & (B.NULL_CONTENT | B.EMPTY_TEXT):
            return
        self.compactions += 1
        # Signed blocks come from on-demand compaction; the older automatic one ignores what is before.
        if not (block.flags & B.HAS_SIGNATURE or facts.compact_beta):
            return
        if self.compactions > 1:
            out.error("A25", at, "more than one compaction block with content")
        elif not self.first or at[1] != 0:
            out.error("A25", at, "compaction block is not the first block of the conversation")
        if facts.compact_beta is False:
            out.error("A25", at, "signed compaction block without the header compact-2026-09-04")
        if facts.compact_edit:
            out.error("A25", at, "signed compaction block together with a compact edit")

    def _citations(self, at: At, block: BlockDigest, out: Findings) -> None:
        if block.kind not in (BlockKind.SEARCH_RESULT, BlockKind.TOOL_RESULT):
            return
        mixed = self.cited and self.uncited
        self.cited = self.cited or bool(block.flags & B.CITATIONS_ON)
        self.uncited = self.uncited or bool(block.flags & B.CITATIONS_OFF)
        if self.cited and self.uncited and not mixed:
            out.error("A27", at, "search results with and without citations in one request")

    def _hop(self, at: At, block: BlockDigest, out: Findings) -> None:
        if block.kind == BlockKind.FALLBACK:
            self._fallback(out)
        elif block.kind in NOT_BEFORE_FALLBACK:
            self.hop.append((block.kind, at))
        elif block.kind == BlockKind.SERVER_TOOL_USE:
            self.calls[block.id] = at
        elif block.kind == BlockKind.SERVER_TOOL_RESULT:
            self.calls.pop(block.id, None)

    def _fallback(self, out: Findings) -> None:
        calls = ((BlockKind.SERVER_TOOL_USE, at) for at in self.calls.values())
        for kind, at in chain(self.hop, calls):
            out.error("A28", at, f"{KIND_NAMES[kind]} block before the fallback block")
        self.hop.clear()
        self.calls.clear()

    def _is_listed(self, name: str, facts: Facts) -> bool:
        return name in self.defined or (facts.tools is not None and name in facts.tools)

    def _called(self, at: At, block: BlockDigest, view: View, facts: Facts, out: Findings) -> None:
        name = view.string(block.name)
        if facts.tools is not None and not self._is_listed(name, facts):
            out.error("A31", at, f"tool {short(name)} is called but not there")

    def _tool_change(
        self, at: At, block: BlockDigest, view: View, facts: Facts, out: Findings
    ) -> None:
        if block.aux == OF_SERVER:
            return  # what a server holds is not in the request
        name = view.string(block.name)
        listed = self._is_listed(name, facts)
        if block.aux == BY_DEFINITION:
            if listed:
                out.error("A31", at, f"tool {short(name)} is defined twice")
            self.defined.add(name)
        elif not listed and facts.tools is not None:
            out.error("A31", at, f"tool {short(name)} is neither in tools nor defined before")


# Anthropic's Messages API: the rules A01 to A32, as far as digests and facts can tell.
#
# What needs the messages themselves (equality with the original, prefix hashes) is done over them:
# `ullage.validate`.


TOOL_KINDS = (BlockKind.TOOL_USE, BlockKind.TOOL_RESULT)


@dataclass(slots=True)
class Loop(State):
    """The current turn: all since the last user turn without any tool result (A14)."""

    role: int = Role.NONE
    answered: bool = False  # the newest user turn holds a tool result
    first: At | None = None  # first assistant block of the turn
    thought: bool = False  # and it is thinking

    def feed(self, view: View) -> None:
        role = view.message.role
        if role == Role.USER:
            results = any(block.kind == BlockKind.TOOL_RESULT for block in view.blocks)
            self.answered = results or (self.answered and self.role == Role.USER)
            self.role = Role.USER
        elif role == Role.ASSISTANT:
            if self.role == Role.USER and not self.answered:
                self.first = None
            self.role = Role.ASSISTANT
            if self.first is None and view.blocks:
                self.first = (view.index, 0)
                self.thought = view.blocks[0].kind in THOUGHTS

    def finish(self, facts: Facts, out: Findings) -> None:
        open_loop = self.role == Role.USER and self.answered
        if facts.manual_thinking and open_loop and self.first is not None and not self.thought:
            out.error("A14", self.first, "the open turn does not begin with thinking")


@dataclass(slots=True)
class Anthropic(State):
    """State after the messages read so far: small, so that it can be kept as a checkpoint."""

    facts: Facts
    markers: CacheMarkers
    pairing: Pairing = field(default_factory=Pairing)
    server: ServerTools = field(default_factory=ServerTools)
    placement: Placement = field(default_factory=Placement)
    blocks: Blocks = field(default_factory=Blocks)
    media: Media = field(default_factory=Media)
    special: Special = field(default_factory=Special)
    loop: Loop = field(default_factory=Loop)
    tool_blocks: bool = False

    @classmethod
    def start(cls, facts: Facts) -> Anthropic:
        return cls(facts, CacheMarkers.start(facts))

    def calls(self) -> int:
        """Calls, blocks and names that it remembers."""
        pairing = len(self.pairing.awaiting) + len(self.pairing.answered)
        return pairing + self.server.calls() + self.special.remembered()

    def feed(self, view: View, out: Findings) -> None:
        self.placement.feed(view, self.facts, out)
        self.blocks.feed(view, self.facts, out)
        self.pairing.feed(view, out)
        self.server.feed(view, self.facts, out)
        self.markers.feed(view, out)
        self.media.feed(view, self.facts, out)
        self.special.feed(view, self.facts, out)
        self.loop.feed(view)
        self.tool_blocks = self.tool_blocks or any(
            block.kind in TOOL_KINDS for block in view.blocks
        )

    def finish(self, view: View, out: Findings) -> None:
        """What only the end can tell. `view` gives the strings; its message does not matter."""
        facts = self.facts
        self.placement.finish(facts, out)
        self.blocks.finish(facts, out)
        self.pairing.report_unanswered(view, out)
        self.server.finish(view, facts, out)
        self.markers.finish(facts, out)
        self.media.finish(facts, out)
        self.loop.finish(facts, out)
        if facts.sampling and facts.version >= STRICT_VERSION:
            out.error("A20", REQUEST, "temperature, top_p or top_k is present")
        if self.tool_blocks and facts.tools == ():
            detail = "tool blocks in the messages, but no tools in the request"
            out.note("A30", facts.tools_required, REQUEST, detail)
        size(facts, view, out)


def size(facts: Facts, view: View, out: Findings) -> None:
    """Bytes and tokens of the whole request (A23, A24)."""
    if facts.body_bytes > facts.body_limit:
        out.error("A23", REQUEST, f"{facts.body_bytes} bytes, the limit is {facts.body_limit}")
    if facts.max_output and facts.max_tokens > facts.max_output:
        detail = f"max_tokens {facts.max_tokens}, the model's limit is {facts.max_output}"
        out.error("A24", REQUEST, detail)
    if facts.window:
        tokens = facts.fixed_tokens + view.ledger.tokens()
        tokens += facts.max_tokens if facts.output_in_window else 0
        if tokens > facts.window:
            out.error("A24", REQUEST, f"about {tokens} tokens, the window is {facts.window}")


# DeepSeek: reasoning that must come back, or must not (D01).


def deepseek(view: View, facts: Facts, out: Findings) -> None:
    """Checks one message; only assistant messages matter."""
    if view.message.role != Role.ASSISTANT:
        return
    reasoning = view.message.flags & M.REASONING
    calls = any(block.kind == BlockKind.TOOL_USE for block in view.blocks)
    if facts.thinking and calls and not reasoning:
        out.error("D01", view.whole(), "tool calls without reasoning_content in thinking mode")
    if facts.reasoning_forbidden and reasoning:
        out.error("D01", view.whole(), "reasoning_content is there, and the model refuses it")


# Local servers and strict clones: what chat templates enforce (L01 to L03, O10).


@dataclass(slots=True)
class Local(State):
    """Who spoke last. Templates that know tools take anyone after a tool message."""

    speaker: int = Role.NONE
    started: bool = False
    last: int = -1

    def feed(self, view: View, local: bool, out: Findings) -> None:
        """`local` files under L01 and L02, else all is O10."""
        role = view.message.role
        if role == Role.SYSTEM and self.started:
            detail = "system message is not the only first one"
            out.error("L01" if local else "O10", view.whole(), detail)
        if role in (Role.USER, Role.ASSISTANT):
            self._alternation(view, "L02" if local else "O10", out)
        flags = view.message.flags
        null = flags & M.EMPTY_CONTENT and not flags & M.STRING_CONTENT
        if not local and role == Role.ASSISTANT and null:
            out.error("O10", view.whole(), "assistant content is null")
        self.started = True
        if role != Role.SYSTEM:
            self.speaker, self.last = role, view.index

    def _alternation(self, view: View, rule: str, out: Findings) -> None:
        role = view.message.role
        if self.speaker == Role.NONE and role == Role.ASSISTANT:
            out.error(rule, view.whole(), "the first message is not the user's")
        elif self.speaker == role:
            out.error(rule, view.whole(), "two messages of one side in a row")

    def finish(self, out: Findings) -> None:
        if self.last >= 0 and self.speaker not in (Role.USER, Role.TOOL):
            out.error("L03", (self.last, -1), "the last message is neither user nor tool")


# Mistral: what it asks beyond the chat form (M02 to M05).


ID_CHARS = 9  # M03


@dataclass(slots=True)
class Mistral(State):
    """The role before, and whether anyone but the system has spoken."""

    role: int = Role.NONE
    last: int = -1
    prefix: bool = False

    def feed(self, view: View, out: Findings) -> None:
        role = view.message.role
        if self.role == Role.TOOL and role not in (Role.ASSISTANT, Role.TOOL):
            out.error("M02", view.whole(), "only assistant or tool may follow a tool message")
        if role == Role.SYSTEM and self.role != Role.NONE:
            out.error("M05", view.whole(), "system message is not the only first one")
        self.role, self.last = role, view.index
        self.prefix = bool(view.message.flags & M.PREFIX)

    def finish(self, out: Findings) -> None:
        if self.last >= 0 and self.role not in (Role.USER, Role.TOOL) and not self.prefix:
            detail = "the last message is neither user nor tool nor a prefix"
            out.error("M04", (self.last, -1), detail)


def mistral_call(at: At, name: str, out: Findings) -> None:
    """M03: exactly nine letters or digits."""
    if len(name) != ID_CHARS or not (name.isascii() and name.isalnum()):
        detail = f"tool call id {short(name)} is not 9 letters or digits"
        out.error("M03", at, detail)


# OpenAI's chat form: the rules O01 to O10, and the base of all who speak it.


MAX_ID_CHARS = 40  # O05
MAX_STRING_CHARS = 10_485_760  # O08: the error `string_above_max_length` names it
PART_KINDS = (BlockKind.TEXT, BlockKind.IMAGE, BlockKind.DOCUMENT, BlockKind.UNKNOWN)
# Under which rule each dialect files an unpaired call, a stray tool message and too many tokens.
RULES = {
    "openai_chat": ("O01", "O02", "O04", "O09"),
    "mistral": ("M01", "M01", "O04", "O09"),
    "deepseek": ("D03", "D03", "D02", "O09"),
    "local": ("O01", "O02", "O04", "L04"),
}


@dataclass(slots=True)
class OpenAI(State):
    """State after the messages read so far."""

    dialect: str
    facts: Facts
    messages: int = 0
    awaiting: dict[int, At] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    legacy_call: bool = False  # the last assistant message has a `function_call`
    mistral: Mistral = field(default_factory=Mistral)
    local: Local = field(default_factory=Local)

    def calls(self) -> int:
        """Calls that it remembers."""
        return len(self.awaiting) + len(self.answered)

    def feed(self, view: View, out: Findings) -> None:
        self.messages += 1
        role, flags = view.message.role, view.message.flags
        if role == Role.TOOL:
            self._tool(view, out)
        else:
            self._close_group(view, out)
        if role == Role.ASSISTANT:
            self._assistant(view, out)
        elif flags & (M.EMPTY_CONTENT | M.BAD_CONTENT):
            self._no_content(view, out)
        self._parts(view, out)
        if self.dialect == "mistral":
            self.mistral.feed(view, out)
        elif self.dialect == "deepseek":
            deepseek(view, self.facts, out)
        if self.dialect == "local" or self.facts.strict:
            self.local.feed(view, self.dialect == "local", out)

    def _close_group(self, view: View, out: Findings) -> None:
        for tool_id, at in self.awaiting.items():
            name = view.short(tool_id)
            rule = RULES[self.dialect][0]
            out.error(rule, at, f"tool call {name} has no tool message right after it")
        self.awaiting.clear()
        self.answered.clear()

    def _assistant(self, view: View, out: Findings) -> None:
        flags = view.message.flags
        self.legacy_call = bool(flags & M.OTHER_CONTENT)
        if flags & M.EMPTY_CALLS:
            out.error("O03", view.whole(), "tool_calls is not a list with calls in it")
        calls = False
        for at, block in view.places():
            if block.kind == BlockKind.TOOL_USE and flags & M.OPENAI_CHAT:
                calls = True
                self._call(at, block, view, out)
        if not calls and not flags & M.OTHER_CONTENT:
            self._no_content(view, out)

    def _call(self, at: At, block: BlockDigest, view: View, out: Findings) -> None:
        if block.flags & B.BAD_ARGUMENTS:
            out.error("O03", at, "arguments are not a string")
        if block.id == 0 or block.flags & B.MISSING_ID:
            out.error("O05", at, "tool call without an id")
            return
        name = view.string(block.id)
        if block.id in self.awaiting:
            out.error("O05", at, f"tool call id {short(name)} is there twice")
        elif not out.first_call(block.id):
            out.error("O05", at, f"tool call id {short(name)} was used before")
        if self.dialect == "mistral":
            mistral_call(at, name, out)
        elif len(name) > MAX_ID_CHARS:
            out.error("O05", at, f"tool call id {short(name)} is over 40 characters")
        self.awaiting[block.id] = at

    def _no_content(self, view: View, out: Findings) -> None:
        role, flags = view.message.role, view.message.flags
        rule = "O07" if role == Role.TOOL else RULES[self.dialect][2]
        if flags & M.BAD_CONTENT:
            out.error(rule, view.whole(), "content is neither a string nor a list")
        elif flags & M.EMPTY_CONTENT and not flags & M.STRING_CONTENT:
            out.error(rule, view.whole(), "message without content")
        elif flags & M.EMPTY_CONTENT and role == Role.ASSISTANT:
            out.note(rule, self.dialect == "deepseek", view.whole(), "content is an empty string")

    def _tool(self, view: View, out: Findings) -> None:
        if view.message.flags & M.FUNCTION_ROLE:
            if not self.legacy_call:
                out.error("O06", view.whole(), "function message without a function_call before it")
            return
        block = view.blocks[0]
        name = view.short(block.id)
        pair, stray = RULES[self.dialect][:2]
        if self.awaiting.pop(block.id, None) is not None:
            self.answered.add(block.id)
        elif block.id in self.answered:
            out.error(pair, view.whole(), f"tool call {name} has more than one tool message")
        else:
            out.error(stray, view.whole(), f"no tool call {name} in the assistant message before")
        if block.flags & (B.NESTED_MEDIA | B.BAD_NESTED):
            out.error("O07", view.whole(), "tool message holds more than text")

    def _parts(self, view: View, out: Findings) -> None:
        flags = view.message.flags
        for at, block in view.places():
            if block.chars > MAX_STRING_CHARS:
                out.error("O08", at, f"string is over {MAX_STRING_CHARS} characters")
            own = block.kind == BlockKind.TOOL_USE and flags & M.OPENAI_CHAT
            if block.flags & B.NOT_A_BLOCK or (
                view.message.role != Role.TOOL and block.kind not in PART_KINDS and not own
            ):
                out.error("O04", at, "not a content part of the chat form")

    def finish(self, view: View, out: Findings) -> None:
        """What only the end can tell. `view` gives the strings; its message does not matter."""
        if self.messages == 0:
            out.error("O06", REQUEST, "there is no message")
        self._close_group(view, out)
        if self.dialect == "mistral":
            self.mistral.finish(out)
        elif self.dialect == "local":
            self.local.finish(out)
        facts, rule = self.facts, RULES[self.dialect][3]
        tokens = facts.fixed_tokens + view.ledger.tokens() + facts.max_tokens
        if facts.window and tokens > facts.window:
            out.error(rule, REQUEST, f"about {tokens} tokens, the window is {facts.window}")


# One state in so many messages is kept: after an edit at most this many are read once more.
STRIDE = 64
# A state that remembers more calls than this is not kept: memory stays in proportion to the messages.
KEPT_CALLS = 512


def _family(provider: str, facts: Facts) -> Anthropic | OpenAI:
    """The rules of a provider's family, as a state that messages are fed to."""
    if provider == "anthropic":
        return Anthropic.start(facts)
    if provider in RULES:
        return OpenAI(provider, facts)
    raise InvalidPolicy("provider", provider, "is not one that digests can be checked for")


class Verifier:
    """Checks one ledger again and again, reading only what changed since the last time."""

    def __init__(self, ledger: Ledger, provider: str, facts: Mapping[str, Any]) -> None:
        read_facts = Facts.read(facts)
        self._ledger = ledger
        self._out = Findings(read_facts.skip)
        self._state = _family(provider, read_facts)
        # States before message 0 and before some that STRIDE divides, with the numbers of these.
        self._saved = [(0, self._state.copy())]
        self._keeps = True
        self._upto = 0
        self._version = ledger.version
        self._read = 0

    @property
    def read(self) -> int:
        """Messages that the last check read."""
        return self._read

    def check(self) -> list[Violation]:
        """All violations as of now, sorted by message, block, rule and detail."""
        self._rewind(min(self._ledger.changed_since(self._version), len(self._ledger)))
        self._version = self._ledger.version
        self._read = len(self._ledger) - self._upto
        for index in range(self._upto, len(self._ledger)):
            self._feed(index)
        self._upto = len(self._ledger)
        return self._finish()

    def _rewind(self, index: int) -> None:
        if index >= self._upto:
            return
        while len(self._saved) > 1 and self._saved[-1][0] > index:
            self._saved.pop()
        self._upto, state = self._saved[-1]
        self._state = state.copy()
        self._out.rewind(self._upto)

    def _feed(self, index: int) -> None:
        due = self._keeps and index % STRIDE == 0 and index > self._saved[-1][0]
        if due and self._state.calls() <= KEPT_CALLS:
            self._saved.append((index, self._state.copy()))
        message = self._ledger.message(index)
        # Envelopes without a message are not on the wire.
        if message.role == Role.NONE:
            return
        self._out.at = index
        blocks = self._ledger.blocks(index)
        self._state.feed(View(index, message, blocks, self._ledger), self._out)

    def _finish(self) -> list[Violation]:
        out = self._out
        out.at = self._upto
        self._state.finish(View(-1, NOTHING, [], self._ledger), out)
        violations = [violation for _, violation in out.violations]
        out.rewind(self._upto)
        return sorted(violations, key=attrgetter("message", "block", "rule", "detail"))


NOTHING: Any = None


def check(ledger: Ledger, provider: str, facts: Mapping[str, Any]) -> list[Violation]:
    """What the provider would refuse, and warnings, sorted by message, block, rule and detail."""
    once = Verifier(ledger, provider, facts)
    once._keeps = False
    return once.check()
