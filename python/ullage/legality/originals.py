"""Rules that compare a request with the conversation as the model saw it.

Thinking is known by its signature (or encrypted data); where it stood is known by a hash of all
that came before it: system, tools and messages, without cache markers and without thinking itself,
which has a rule of its own (one unbroken run).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from ullage._engine.digests import Violation
from ullage._start import NamedTuple, hashlib, orjson
from ullage.legality.draft import error_at
from ullage.messages import THINKING, Item, SystemPrompt, Tools, as_blocks, message_of

# Other keys of a thinking block are added by clients and are not part of what the model sealed.
_THINKING_KEYS = frozenset(("type", "thinking", "signature", "data"))
_NOTHING: Mapping[str, Any] = {}


class Place(NamedTuple):
    """Where a block stands."""

    message: int
    block: int


def message_in(item: Any) -> Mapping[str, Any]:
    """The message of an item; empty if it has none."""
    if type(item) is dict and "role" in item:  # nearly all
        return item
    return message_of(item) or _NOTHING


def blocks_in(message: Mapping[str, Any]) -> list[Any]:
    """Content blocks, which are only read; a string content is one text block."""
    content = message.get("content")
    return content if type(content) is list else as_blocks(content)


def blocks_of(item: object) -> list[Any]:
    """Content blocks of an item; see `blocks_in`."""
    return blocks_in(message_in(item))


def thought_key(block: Any) -> str | None:
    """What identifies a thinking block: its signature or data; `None` for any other block."""
    if type(block) is not dict and not isinstance(block, Mapping):
        return None
    if block.get("type") not in THINKING:
        return None
    return f"{block['type']}:{_seal(block)}"


def _seal(block: Mapping[str, Any]) -> Any:
    return block.get("signature" if block["type"] == "thinking" else "data")


def sealed(block: Mapping[str, Any]) -> bool:
    """Whether a thinking block has its signature, or its data."""
    seal = _seal(block)
    return isinstance(seal, str) and bool(seal)


def bare_thinking(block: Mapping[str, Any]) -> dict[str, Any]:
    """A thinking block without anything that the API did not put there."""
    if block.keys() <= _THINKING_KEYS:  # nearly all
        return {**block}
    return {key: value for key, value in block.items() if key in _THINKING_KEYS}


def json_of(value: Any) -> bytes:
    """A value as compact JSON, what is no JSON as its `repr`; empty if even that cannot be written."""
    try:
        # Without looking for keys that are no strings: that takes half as long.
        return orjson.dumps(value, default=repr)
    except TypeError:
        pass
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # too deep, or an integer out of range: reported where it stands
        return b""


def hashed(block: Any) -> bytes:
    """A block's bytes for comparison: without its cache marker, its own keys in order of name."""
    plain = block
    if type(block) is dict or isinstance(block, Mapping):
        # Order of a block's own keys says nothing; order inside a tool input reaches the model.
        plain = {str(key): block[key] for key in sorted(block, key=str) if key != "cache_control"}
    return json_of(plain) or repr(type(plain)).encode()


class PrefixHash:
    """Running hash of all that stands before a block: what thinking is bound to."""

    __slots__ = ("_running",)

    def __init__(self, system: Any, tools: Any) -> None:
        self._running = hashlib.sha256(_head(system) + b"\0" + _head(tools))

    def copy(self) -> PrefixHash:
        """The same state, to go on from elsewhere."""
        copied = PrefixHash.__new__(PrefixHash)
        copied._running = self._running.copy()
        return copied

    def feed(self, item: Any) -> Iterator[tuple[int, str, bytes]]:
        """Takes a message; each thinking block in it with the hash of what stands before it."""
        message = message_in(item)
        if not message:
            return
        self._running.update(b"\1" + str(message.get("role")).encode(errors="replace"))
        for position, block in enumerate(blocks_of(item)):
            key = thought_key(block)
            if key is not None:
                yield position, key, self._running.digest()
            else:
                self._running.update(b"\2" + hashed(block))


def prefixes(
    system: Any, tools: Any, messages: Iterable[Any]
) -> Iterator[tuple[Place, str, bytes]]:
    """Each thinking block with the hash of what stands before it."""
    running = PrefixHash(system, tools)
    for index, item in enumerate(messages):
        for position, key, digest in running.feed(item):
            yield Place(index, position), key, digest


def _head(value: Any) -> bytes:
    if isinstance(value, str):
        value = [{"type": "text", "text": value}]
    if not isinstance(value, list | tuple):
        return b""
    return b"\2".join(hashed(block) for block in value)


@dataclass(slots=True, eq=False, repr=False)
class Originals:
    """What the model made, and after what: the yardstick for thinking and compaction blocks.

    One conversation gives one (`Originals.of`). A host that compacts observes each response with
    the request that it answers, since later thinking is bound to the shorter prefix.
    """

    order: dict[str, int] = field(default_factory=dict)  # thinking in the order it was made
    bound: dict[str, set[bytes]] = field(default_factory=dict)
    blocks: dict[str, Any] = field(default_factory=dict)
    # By step: a piece of a turn, its blocks.
    layout: list[list[object]] = field(default_factory=list)
    step_of: dict[str, int] = field(default_factory=dict)  # tool use id or thinking -> step
    compactions: list[Mapping[str, Any]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)  # thinking that the provider takes no more

    @classmethod
    def read(
        cls, original: Original, *, system: SystemPrompt | None = None, tools: Tools | None = None
    ) -> Originals:
        """Takes messages, or a request with `messages`, `system` and `tools`."""
        if isinstance(original, Originals):
            return original
        if isinstance(original, Mapping):
            messages = original.get("messages", ())
            return cls.of(messages, system=original.get("system"), tools=original.get("tools"))
        return cls.of(original, system=system, tools=tools)

    @classmethod
    def of(
        cls,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
    ) -> Originals:
        """Takes a whole conversation, responses included."""
        originals = cls()
        originals.follow(messages, range(len(messages)), system=system, tools=tools)
        return originals

    def observe(
        self,
        request: Sequence[Item],
        response: Item,
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
    ) -> None:
        """Adds a response, bound to the request that it answers."""
        self.follow([*request, response], (len(request),), system=system, tools=tools)

    def follow(
        self,
        messages: Sequence[Item],
        fresh: Collection[int],
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
    ) -> None:
        """Adds messages that came after a compaction: each is bound to all that stands before it.

        `messages`: the context, kept messages included; `fresh`: positions of those that were not in an earlier one.
        """
        previous = ""
        for item in (item for at, item in enumerate(messages) if at in fresh):
            role = str(message_in(item).get("role", ""))
            if role == "assistant":
                self.learn(item, goes_on=previous == "assistant")
            previous = role or previous
        for place, key, digest in prefixes(system, tools, messages):
            if place.message in fresh:
                self.bind(key, digest)

    def bind(self, key: str, digest: bytes) -> None:
        """Says what a thinking block was made after."""
        self.order.setdefault(key, len(self.order))
        self.bound.setdefault(key, set()).add(digest)

    def learn(self, item: object, *, goes_on: bool) -> bool:
        """Takes an assistant message; `goes_on`: it is of the same turn piece as the one before.

        Returns:
            Whether nothing in it came before, each call and all thinking, and all thinking has its seal.
        """
        if not goes_on or not self.layout:
            self.layout.append([])
        layout, step_of, number, new = self.layout[-1], self.step_of, len(self.layout) - 1, True
        for block in blocks_of(item):
            kind = block.get("type") if type(block) is dict or isinstance(block, Mapping) else None
            if kind == "tool_use":
                key = f"call:{block.get('id')}"
            elif kind in THINKING:
                if not sealed(block):
                    new = False
                    continue
                key = f"{kind}:{_seal(block)}"
                block = bare_thinking(block)
                self.blocks.setdefault(key, block)
            else:
                if kind == "compaction":
                    self.compactions.append(block)
                layout.append(block)
                continue
            layout.append(block)
            if key in step_of:
                new = False
            else:
                step_of[key] = number
                new = new and key not in self.refused
        return new

    def forget(self) -> None:
        """Nothing made so far is valid any more, nor missed in the open turn: the provider refused it."""
        self.refused.update(self.order, self.blocks)
        for table in (self.bound, self.blocks, self.step_of):
            table.clear()
        self.layout.clear()

    def step(self, block: object) -> int | None:
        """Which assistant turn made a call or a thinking block; `None`: none that is known."""
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            return self.step_of.get(f"call:{block.get('id')}")
        key = thought_key(block)
        return None if key is None else self.step_of.get(key)


Original: TypeAlias = Sequence[Item] | Mapping[str, Any] | Originals
"""A conversation as the model saw it: messages, a request that holds them, or what was noted of it."""


def check_originals(
    messages: Sequence[Any], originals: Originals, *, system: Any, tools: Any, bound: bool
) -> Iterator[Violation]:
    """A13, A15, A16 and A25; `bound`: mismatched thinking is refused (a bound model, and no `drop_block`)."""
    for at, item in enumerate(messages):
        for position, block in enumerate(blocks_of(item)):
            recorded = originals.blocks.get(thought_key(block) or "")
            if recorded is not None and recorded != bare_thinking(block):
                yield error_at("A13", at, position, "thinking is not as it came")
            if foreign_compaction(block, originals):
                yield error_at("A25", at, position, "compaction block is not as it came")
    for start, stop in _assistant_runs(messages, current_turn(messages)):
        if not run_unchanged(messages[start:stop], originals):
            detail = "thinking of the current turn is not as it came"
            yield error_at("A13", start, -1, detail)
    expected: int | None = None
    for place, key, digest in prefixes(system, tools, messages) if bound else ():
        if digest not in originals.bound.get(key, ()):
            yield error_at("A15", *place, "thinking is bound to a different conversation")
            continue
        position = originals.order[key]
        if expected is not None and position != expected:
            detail = "thinking between this and the one before is missing"
            yield error_at("A16", *place, detail)
        expected = position + 1


def current_turn(messages: Sequence[Any]) -> int:
    """First message of the current turn: after the last user turn without any tool result."""
    end, answered = -1, False  # of the user turn that is being looked at, backwards
    for index in range(len(messages) - 1, -1, -1):
        role = message_in(messages[index]).get("role")
        if role == "user":
            end = index if end < 0 else end
            kinds = (
                block.get("type")
                for block in blocks_of(messages[index])
                if isinstance(block, Mapping)
            )
            answered = answered or "tool_result" in kinds
        elif role == "assistant":
            if end >= 0 and not answered:
                return end + 1
            end, answered = -1, False
    return end + 1 if end >= 0 and not answered else 0


def run_unchanged(run: Iterable[Any], originals: Originals) -> bool:
    """Whether neighbouring assistant messages hold the thinking that came with what they hold."""
    thinking: list[dict[str, Any]] = []
    steps: set[int] = set()
    for block in (block for item in run for block in blocks_of(item)):
        key = thought_key(block)
        if key is None:
            step = originals.step(block)
        else:
            step = originals.step_of.get(key)
            if key not in originals.refused:
                thinking.append(bare_thinking(block))
        if step is not None:
            steps.add(step)
    came = (thought_key(block) for step in sorted(steps) for block in originals.layout[step])
    return thinking == [originals.blocks[key] for key in came if key is not None]


def _assistant_runs(messages: Sequence[Any], start: int) -> Iterator[tuple[int, int]]:
    """Neighbouring messages of the assistant: from, to; an envelope without a message is not on the wire, and parts none."""
    speaking = (
        (at, role == "assistant")
        for at in range(start, len(messages))
        if (role := message_in(messages[at]).get("role")) is not None
    )
    for assistant, run in groupby(speaking, itemgetter(1)):
        if assistant:
            places = [at for at, _ in run]
            yield places[0], places[-1] + 1


def foreign_compaction(block: Any, originals: Originals) -> bool:
    """Whether a block is a compaction block that the API did not send like this."""
    if not isinstance(block, Mapping) or block.get("type") != "compaction":
        return False
    return unmarked(block) not in [unmarked(original) for original in originals.compactions]


def unmarked(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block without its cache marker."""
    return without(block, "cache_control")


def without(fields: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """A mapping without these keys; the same object if it has none of them."""
    if not any(key in fields for key in keys):
        return fields
    return {key: value for key, value in fields.items() if key not in keys}
