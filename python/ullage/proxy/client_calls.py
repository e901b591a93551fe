"""A call of a client that may be changed or answered here: its bytes, what they say, and the line of its conversation.

Unchanged parts are sent as the bytes that came. Parsing and writing them would turn integers over 64 bits into floats and change the
spelling of floats and escapes, and signed thinking may be bound to those.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import orjson

from ullage._engine import core
from ullage._start import NamedTuple
from ullage.exceptions import UllageError
from ullage.facts.sections import CLOSING
from ullage.facts.words import is_standing
from ullage.messages import common_length, is_thinking

if TYPE_CHECKING:  # reading a call needs no HTTP client, and no manager
    from ullage.manager import ContextManager, ListView
    from ullage.proxy.upstream import Endpoint, Incoming
    from ullage.transcript.record import RecordFile

_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')
_MOST_VALUES = 4_000_000
"""Maximum commas and opening brackets of a body to parse; each may become a value of 60 bytes. A window of a million tokens has fewer."""


class ClientCall:
    """One call.

    `endpoint`: what it is for. `incoming`: the request, for its headers. `raw`: its body, exactly as it came.
    """

    def __init__(self, endpoint: Endpoint, incoming: Incoming, raw: bytes) -> None:
        self.endpoint, self.incoming, self.raw = endpoint, incoming, raw

    @staticmethod
    def can_be_read(endpoint: Endpoint, incoming: Incoming) -> bool:
        """Whether the gateway can read such a call: a known one, and not compressed."""
        packed = incoming.header(b"content-encoding") not in ("", "identity")
        return endpoint.kind != "other" and not packed

    @cached_property
    def body(self) -> dict[str, Any] | None:
        """The body as an object; `None` if it is not JSON, has lone surrogates or is too large, so that it can only be passed on."""
        marks = (self.raw.count(mark) for mark in (b",", b"{", b"["))
        if len(self.raw) > _MOST_VALUES and sum(marks) > _MOST_VALUES:
            return None
        try:
            value = orjson.loads(self.raw)
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) else None

    @property
    def list_key(self) -> str:
        """The API's key for the conversation."""
        return "input" if self.endpoint.provider == "openai_responses" else "messages"

    @cached_property
    def items(self) -> list[Any] | None:
        """The conversation; `None`: there is none, or it is not a list."""
        value = (self.body or {}).get(self.list_key)
        return value if isinstance(value, list) and value else None

    @cached_property
    def model(self) -> str:
        """The model's name; empty if there is none."""
        early = _MODEL.search(self.raw, 0, 512)  # later bytes may be part of a message
        if early is not None:
            return early[1].decode("utf-8", "replace")
        named = (self.body or {}).get("model")
        return named if isinstance(named, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the answer is to be a stream."""
        return (self.body or {}).get("stream") is True

    def with_items(self, items: list[Any], **others: object) -> bytes:
        """The body with another conversation; everything else byte for byte, in the same order.

        `items`: those that are the same objects as in `items` keep their bytes, and so do the blocks of a changed message.
        `others`: other keys of the body to replace or add.
        """
        raw = self.raw
        members = _members(raw, raw.index(b"{"))
        elements = core.json_parts(raw, members[self.list_key][0])
        pairs = zip(self.items or [], elements or [], strict=True)
        places = {id(item): place for item, place in pairs if isinstance(item, dict)}
        changed = (item for item in items if id(item) not in places)
        wanted = {id(block) for item in changed for block in _blocks(item)}
        for item in self.items or []:
            blocks = _blocks(item)
            if not wanted.isdisjoint(map(id, blocks)):
                content = _members(raw, places[id(item)][0])["content"]
                pairs = zip(blocks, core.json_parts(raw, content[0]) or [], strict=True)
                places.update((id(block), at) for block, at in pairs if isinstance(block, dict))
        parts = [_spliced(item, places, raw) for item in items]
        body = {key: orjson.Fragment(raw[begin:end]) for key, (begin, end) in members.items()}
        return orjson.dumps({**body, self.list_key: parts, **others})


Place = tuple[int, int]


def _members(raw: bytes, at: int) -> dict[str, Place]:
    """Positions of the values of the keys of the object that begins there; of a repeated key the last, as every parser takes it."""
    parts = core.json_parts(raw, at) or []
    keys = (orjson.loads(raw[begin:end]) for begin, end in parts[::2])
    return dict(zip(keys, parts[1::2], strict=True))


def _blocks(item: Any) -> list[Any]:
    """The blocks of a message; none, where its content is text."""
    blocks = item.get("content") if isinstance(item, dict) else None
    return blocks if isinstance(blocks, list) else []


def _spliced(item: Any, places: dict[int, Place], raw: bytes) -> Any:
    """An item to write: the bytes that came, for the whole or for its unchanged blocks."""
    if (place := places.get(id(item))) is not None:
        return orjson.Fragment(raw[place[0] : place[1]])
    blocks = [
        block
        if (place := places.get(id(block))) is None
        else orjson.Fragment(raw[place[0] : place[1]])
        for block in _blocks(item)
    ]
    return {**item, "content": blocks} if blocks else item


# The conversation of a call as a manager reads it: without the system prompt at its head and without cache marks, which move with each call.


_HEAD_ROLES = ("system", "developer")
_HELD_ELSEWHERE = ("previous_response_id", "conversation", "thread", "compaction")
"""With one of these keys the provider holds part of the conversation, or compacts it now: the list is incomplete."""


class ClientList:
    """The list of one call.

    `name`: of its conversation. `head`: messages before the conversation, such as the system prompt. `messages`: the other ones, as
    they came. `system`, `tools`: to be counted. `bare`: the messages without cache marks; a single text is a string, which clients
    write as a block to mark it. Other messages are the same objects.
    """

    def __init__(self, call: ClientCall, items: list[Any], start: int) -> None:
        body: dict[str, Any] = call.body or {}
        self.call, self.name, self.thinking = call, name_of(call), body.get("thinking")
        self.head, self.messages = items[:start], items[start:]
        self.system = _system(body, self.head)
        self.tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
        self.bare: list[Any] = [
            item if type(item.get("content")) is str else _without_marks(item)
            for item in self.messages
        ]

    @classmethod
    def of(cls, call: ClientCall) -> ClientList | None:
        """The list of a call; `None` if it is incomplete or cannot be read."""
        body, items = call.body, call.items
        if body is None or items is None or any(body.get(key) for key in _HELD_ELSEWHERE):
            return None
        if any(type(item) is not dict or item.get("type") == "item_reference" for item in items):
            return None
        heads = (at for at, item in enumerate(items) if item.get("role") not in _HEAD_ROLES)
        start = next(heads, len(items)) if call.endpoint.provider != "anthropic" else 0
        return cls(call, items, start) if items[start:] else None

    def written(self, view: ListView) -> list[Any]:
        """The list to send: unchanged messages as they came, changed ones with the marks of their originals."""
        items = list(self.head)
        for message, origin in zip(view.messages, view.origin, strict=True):
            if origin is None:
                items.append(message)
            elif message is self.bare[origin]:
                items.append(self.messages[origin])
            else:
                whole = self._with_given_blocks(message, origin)
                items.append(_with_mark(whole, self.messages[origin]))
        return items

    def _with_given_blocks(self, message: Mapping[str, Any], origin: int) -> Mapping[str, Any]:
        """A changed message whose unchanged blocks are the original objects, so that their bytes are known."""
        content = message.get("content")
        bare, original = self.bare[origin].get("content"), self.messages[origin].get("content")
        if not (
            isinstance(content, list) and isinstance(bare, list) and isinstance(original, list)
        ):
            return message
        came = {id(block): own for block, own in zip(bare, original, strict=False) if block == own}
        return {**message, "content": [came.get(id(block), block) for block in content]}


def _system(body: Mapping[str, Any], head: Sequence[Mapping[str, Any]]) -> Any:
    """What is counted as the system prompt."""
    own = body.get("system") or body.get("instructions")
    if not head:
        return own if isinstance(own, (str, list)) else None
    texts = [own] if isinstance(own, str) else []
    return "\n".join([*texts, *(_text(message.get("content")) for message in head)])


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))


def _without_marks(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    only = content[0] if len(content) == 1 else None
    if isinstance(only, dict) and only.get("type") == "text":
        if only.keys() <= {"type", "text", "cache_control"}:
            return {**message, "content": only.get("text")}
    marks = [isinstance(block, dict) and "cache_control" in block for block in content]
    if not any(marks):
        return message
    bare = [
        {key: value for key, value in block.items() if key != "cache_control"} if marked else block
        for block, marked in zip(content, marks, strict=True)
    ]
    return {**message, "content": bare}


def _with_mark(message: Mapping[str, Any], original: Mapping[str, Any]) -> Mapping[str, Any]:
    """A changed message with the mark of its original at the end."""
    content, blocks = message.get("content"), original.get("content")
    marked = blocks if isinstance(blocks, list) else []
    marks = (block.get("cache_control") for block in marked if isinstance(block, dict))
    mark = next(filter(None, marks), None)
    if mark is not None and isinstance(content, str):
        block = {"type": "text", "text": content, "cache_control": mark}
        return {**message, "content": [block]}
    if mark is None or not isinstance(content, list) or not content:
        return message
    last = content[-1]
    if not isinstance(last, dict) or is_thinking(last):
        return message
    return {**message, "content": [*content[:-1], {**last, "cache_control": mark}]}


# How the gateway recognises conversations: by the client's name for a session, or by a common beginning.


_SESSION_HEADERS = (b"x-claude-code-session-id", b"session_id", b"session-id", b"conversation_id")


def name_of(call: ClientCall) -> str:
    """A name for a call's conversation: the client's session, else model and beginning of the system prompt."""
    headers = call.incoming
    session = next((value for name in _SESSION_HEADERS if (value := headers.header(name))), "")
    named = session or _named_in(call.body or {})
    if named:
        parts = ["session", named, headers.header(b"x-claude-code-agent-id")]
    else:
        parts = ["prefix", call.model, _leading_text(call.body or {}, call.items or ())]
    identity = json.dumps([call.endpoint.provider, *parts])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def claude_session(call: ClientCall) -> str:
    """Claude Code's session id, which its hooks get too; empty if the call has none."""
    if value := call.incoming.header(_SESSION_HEADERS[0]):
        return value
    _, mark, name = _named_in(call.body or {}).rpartition("_session_")
    return name if mark else ""


def _named_in(body: dict[str, Any]) -> str:
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    named = user or body.get("prompt_cache_key")
    return named if isinstance(named, str) else ""


def _leading_text(body: dict[str, Any], items: Sequence[Any]) -> str:
    first = items[0] if items and isinstance(items[0], dict) else {}
    leads = first.get("content") if first.get("role") in _HEAD_ROLES else None
    lead = body.get("system") or body.get("instructions") or leads
    # The first block counts clients and builds, the second says what the agent is.
    if isinstance(lead, list):
        texts = [block.get("text") for block in lead[:2] if isinstance(block, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))[:4_000]
    return lead[:4_000] if isinstance(lead, str) else ""


@dataclass(slots=True, eq=False)
class ClientLine:
    """One branch of a conversation: the main one, a side query, an edited one."""

    name: str
    number: int  # among the lines of its conversation, from 1
    manager: ContextManager
    thinking: object  # the parameter of that name in its calls
    bare: list[Any] = field(default_factory=list)  # the list as it was last seen
    seen: int = 0  # how many of its messages the manager has
    size: int = 0  # bytes of the call with which it took the newest
    # Held while a call is made to fit, so that calls of one line run one after the other.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    records: RecordFile | None = None  # of its calls; `None`: there are none, or none yet


class ClientLines:
    """The lines in memory."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, int], ClientLine] = OrderedDict()
        self._numbers: dict[str, int] = {}

    def __iter__(self) -> Iterator[ClientLine]:
        return iter(tuple(self._lines.values()))

    def nearest(self, client_list: ClientList) -> tuple[ClientLine | None, int]:
        """The line with the longest common beginning, and its length."""
        best: ClientLine | None = None
        most = 0
        for line in self:
            if line.name != client_list.name or line.thinking != client_list.thinking:
                continue
            same = common_length(line.bare, client_list.bare)
            if same > most or (same == most and best is not None and same == len(line.bare)):
                best, most = line, same
        return best, most

    def add(self, client_list: ClientList, manager: ContextManager, seen: int) -> ClientLine:
        """Add a line; of more than 64 the least recently used is dropped, and restored from its state when it is used again."""
        name = client_list.name
        self._numbers[name] = number = self._numbers.get(name, 0) + 1
        added = ClientLine(name, number, manager, client_list.thinking, client_list.bare, seen)
        self._lines[name, number] = added
        while len(self._lines) > 64:
            (old, _), _ = self._lines.popitem(last=False)
            if not any(line.name == old for line in self):
                self._numbers.pop(old, None)
        return added

    def used(self, line: ClientLine) -> None:
        """Mark a line as the most recently used."""
        if (line.name, line.number) in self._lines:
            self._lines.move_to_end((line.name, line.number))


# A client's own compaction: recognised by documented signs, and answered without a model. What summarises loads with the first one.


_MARKS = {
    "messages": (b"summary of the conversation so far",),
    "responses": (b'"compaction_trigger"', b"CONTEXT CHECKPOINT COMPACTION"),
}
"""By kind of call, bytes that every such request contains. A search of a megabyte costs 0.3 ms, so there is only one."""

_OPENINGS = ("CRITICAL: Respond with TEXT ONLY", "Your task is to create a detailed summary")
_PHRASES = ("create a detailed summary of the conversation so far", "<analysis>", "<summary>")
"""Claude Code's request: how the text begins, and what it contains. Requests to summarise only a part, such as recent messages, are passed on."""

_INSTRUCTIONS = re.compile(r"\nAdditional Instructions:\n(.*?)(?:\n\nREMINDER:|\Z)", re.DOTALL)

_CODEX_OPENING = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM"
)
"""Codex's request for a summary where its provider is not named "OpenAI"; it offers no tools then."""

Client = Literal["claude_code", "codex_compact", "codex_trigger", "codex_prompt"]


class AskedCompaction(NamedTuple):
    """A client's request for a compaction."""

    client: Client  # who asks, and the expected form of the answer
    items: Sequence[Mapping[str, Any]]  # the conversation, without the request for the summary
    # What the user wants the summary to focus on, without the ledger of Ullage's own hook.
    instructions: str = ""


def asked_compaction(call: ClientCall) -> AskedCompaction | None:
    """The compaction that a call asks for; `None` if it asks for something else."""
    kind = call.endpoint.kind
    if kind == "compact":
        return None if call.items is None else AskedCompaction("codex_compact", call.items)
    marks = _MARKS.get(kind, ())
    if not any(mark in call.raw for mark in marks) or call.items is None:
        return None
    return _of_claude_code(call.items) if kind == "messages" else _of_codex(call, call.items)


def _of_codex(call: ClientCall, items: Sequence[Any]) -> AskedCompaction | None:
    before, last = items[:-1], items[-1]
    if not before or not isinstance(last, Mapping):
        return None
    if last.get("type") == "compaction_trigger":
        return AskedCompaction("codex_trigger", before)
    asked = _split(last, "input_text")[0].startswith(_CODEX_OPENING)
    if not asked or (call.body or {}).get("tools"):
        return None
    # Codex sends its own instructions again after the summary, so they do not belong in it.
    messages = (item for item in before if isinstance(item, dict))
    conversation = [item for item in messages if item.get("role") not in _HEAD_ROLES]
    return AskedCompaction("codex_prompt", conversation) if conversation else None


def _of_claude_code(all_items: Sequence[Any]) -> AskedCompaction | None:
    text, without_request = _split(all_items[-1])
    if not text.startswith(_OPENINGS) or any(phrase not in text for phrase in _PHRASES):
        return None
    from ullage.summarizers.extractive import without_ledger

    match = _INSTRUCTIONS.search(text)
    items = [*all_items[:-1], *([] if without_request is None else [without_request])]
    asked = without_ledger(match[1]) if match else ""
    return AskedCompaction("claude_code", items, asked) if items else None


def _split(message: object, kind: str = "text") -> tuple[str, Mapping[str, Any] | None]:
    """The last text of a user message, and the message without it; `None`: nothing is left of it."""
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return "", None
    content = message.get("content")
    if isinstance(content, str):
        return content.strip(), None
    blocks = content if isinstance(content, list) else []
    last = blocks[-1] if blocks else None
    if not isinstance(last, Mapping) or last.get("type") != kind:
        return "", None
    others = blocks[:-1]
    return str(last.get("text", "")).strip(), {**message, "content": others} if others else None


def compacted_messages(asked: AskedCompaction, model: str) -> list[dict[str, Any]] | None:
    """The compacted conversation for a Codex item; `None` if nothing could be compacted."""
    from ullage.compaction import compact

    try:
        result = compact(asked.items, model=model or None, provider="openai_responses", keep=0)
    except UllageError:
        return None
    if not result.compacted:
        return None
    # Codex puts its instructions in again by itself.
    return [dict(item) for item in result.messages if not is_standing(item)]


def extractive_text(asked: AskedCompaction, *, max_tokens: int | None = None) -> str | None:
    """A summary as text, for Claude Code between its tags; `None`: the messages cannot be read.

    `max_tokens`: the client's output limit; `None`: only the summarizer's own.
    """
    from ullage.facts import collect
    from ullage.summarizers.extractive import DEFAULT_TOKENS, MIN_TOKENS, render

    try:
        facts = collect(asked.items)
    except UllageError:
        return None
    room = max(MIN_TOKENS, min(DEFAULT_TOKENS, max_tokens or DEFAULT_TOKENS))
    text = render(facts, tokens=room, instructions=asked.instructions)
    return within(text) if asked.client == "claude_code" else text.strip()


def completed_text(asked: AskedCompaction, summary: str) -> str:
    """A model's summary plus the user's messages, files, commands and names that it lost, inside its tags."""
    from ullage.compaction.assemble import repair
    from ullage.facts import collect

    # At most about the length of a summary is added, in UTF-8 bytes / 4.
    lost = repair(collect(asked.items), summary, tokens=4_000).text
    if not lost:
        return summary
    before, tag, after = summary.rpartition("</summary>")
    if not tag:
        return f"{summary}\n\n{_safe(lost)}"
    return f"{before.rstrip()}\n\n{_safe(lost)}\n{tag}{after}"


def within(summary: str) -> str:
    """A summary between the client's tags, with its end mark: the client's own words follow it in its next request."""
    return f"<summary>\n{_safe(summary.strip())}\n\n{CLOSING}\n</summary>"


def _safe(text: str) -> str:
    """Defuse copies of the client's tags in a text."""
    return re.sub(r"<(/?)(summary|analysis)>", r"<\1 \2>", text)
