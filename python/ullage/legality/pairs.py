"""Client tools: ids that are valid and unique, one result per call, at its place (A05 to A08)."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ullage.legality.blocks import DISPLACED, INTERRUPTED, ORPHANS
from ullage.legality.draft import ASSISTANT, SYSTEM, USER, Draft, Slot, kind_of, text_block
from ullage.legality.originals import unmarked
from ullage.messages import THINKING, same_items

T = TypeVar("T")

_BASE_CHARS = 40  # at most 51 with the digest: Converse takes 64
_ID = re.compile(r"[A-Za-z0-9_-]+\Z")
_NO_ID: Any = object()
"""No call, or no result."""


def synthetic_id(name: Any, occurrence: int) -> str:
    """A valid id for one that is not: the same for the same id and occurrence, in every process."""
    raw = name if isinstance(name, str) else f"{type(name).__name__}:{name!r}"
    base = re.sub(r"[^A-Za-z0-9_-]", "_", raw)[:_BASE_CHARS] if isinstance(name, str) else "toolu"
    digest = hashlib.sha256(f"{raw}#{occurrence}".encode(errors="surrogatepass")).hexdigest()
    return f"{base or 'toolu'}_{digest[:10]}"


def _called(block: Any) -> Any:
    """The id of a call, `_NO_ID` if the block is none."""
    return block.get("id") if kind_of(block) == "tool_use" else _NO_ID


def _answered(block: Any) -> Any:
    """The id that a result names, `_NO_ID` if the block is none."""
    return block.get("tool_use_id") if kind_of(block) == "tool_result" else _NO_ID


def _is_valid(name: Any) -> bool:
    return isinstance(name, str) and _ID.match(name) is not None


def _interrupted(name: str) -> dict[str, Any]:
    """An error result for a call that has none."""
    return {"type": "tool_result", "tool_use_id": name, "is_error": True, "content": INTERRUPTED}


@dataclass(eq=False, slots=True)
class _Call:
    slot: Slot
    block: Mapping[str, Any]
    old_id: Any
    id: str = ""
    result: Mapping[str, Any] | None = None
    result_slot: Slot | None = None


@dataclass(slots=True)
class _Pairs:
    """Calls and results of the whole conversation, matched."""

    calls: list[_Call] = field(default_factory=list)
    by_result: dict[int, _Call] = field(default_factory=dict)  # id() of a result block
    orphans: set[int] = field(default_factory=set)  # id() of result blocks
    duplicates: set[int] = field(default_factory=set)
    twins: dict[int, _Call] = field(default_factory=dict)  # a call with another result of that id

    def answer(self, call: _Call, slot: Slot, block: Mapping[str, Any]) -> None:
        call.result, call.result_slot = block, slot
        self.by_result[id(block)] = call


class OpenCalls(Generic[T]):
    """Calls of one id without a result: the newest turn's first is answered next."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: list[tuple[object, deque[T]]] = []

    def add(self, turn: object, call: T) -> None:
        """A call more; those of one turn come one after the other."""
        if not self._turns or self._turns[-1][0] != turn:
            self._turns.append((turn, deque()))
        self._turns[-1][1].append(call)

    def pop(self) -> T | None:
        """The call that the next result answers, which waits no longer; `None`: none waits."""
        if not self._turns:
            return None
        calls = self._turns[-1][1]
        call = calls.popleft()
        if not calls:
            self._turns.pop()
        return call


def _key(name: Any) -> tuple[str, str]:
    return type(name).__name__, name if isinstance(name, str) else repr(name)


def repair_pairs(draft: Draft, *, orphans: str) -> None:
    """Renames ids, moves results to their place, answers what has no answer.

    Args:
        draft: Changed.
        orphans: What becomes of results without a call: `note` (one line), `text` (their text,
            marked as what it is), or `drop`.
    """
    _separate(draft)
    pairs = _match(draft)
    _name(draft, pairs)
    _remove_orphans(draft, pairs, orphans)
    _place(draft, pairs)


def _separate(draft: Draft) -> None:
    """One object may stand in two places: each place gets its own copy of a tool block."""
    seen: set[int] = set()
    for slot in draft.speaking():
        blocks = []
        for block in slot.blocks:
            tool = _called(block) is not _NO_ID or _answered(block) is not _NO_ID
            blocks.append(dict(block) if tool and id(block) in seen else block)
            seen.add(id(block))
        slot.blocks = blocks


def _match(draft: Draft) -> _Pairs:
    """Each result goes to the newest turn's first open call of its id that stands before it.

    What is left after that goes to a later call with its id.
    """
    pairs = _Pairs()
    waiting: dict[tuple[str, str], OpenCalls[_Call]] = {}
    early: dict[tuple[str, str], deque[tuple[Slot, Mapping[str, Any]]]] = {}
    turn, previous = 0, ""
    for slot in draft.speaking():
        turn += slot.role == ASSISTANT and previous != ASSISTANT
        previous = previous if slot.role == SYSTEM else slot.role
        for block in slot.blocks:
            name, answer = _called(block), _answered(block)
            if name is not _NO_ID and slot.role == ASSISTANT:
                call = _Call(slot, block, name)
                pairs.calls.append(call)
                waiting.setdefault(_key(name), OpenCalls()).add(turn, call)
            elif answer is not _NO_ID and slot.role == USER:
                matched = waiting[_key(answer)].pop() if _key(answer) in waiting else None
                if matched is not None:
                    pairs.answer(matched, slot, block)
                else:
                    early.setdefault(_key(answer), deque()).append((slot, block))
    _match_early(pairs, early)
    return pairs


def _match_early(
    pairs: _Pairs, early: Mapping[tuple[str, str], deque[tuple[Slot, Mapping[str, Any]]]]
) -> None:
    """Results that stood before any call of their id, in order, to the calls that have none."""
    answered = {_key(call.old_id) for call in pairs.calls if call.result is not None}
    for call in pairs.calls:
        left = early.get(_key(call.old_id))
        if call.result is None and left and _key(call.old_id) not in answered:
            pairs.answer(call, *left.popleft())
    answered_calls = {
        _key(call.old_id): call for call in reversed(pairs.calls) if call.result is not None
    }
    for key, left in early.items():
        for _, block in left:
            (pairs.duplicates if key in answered_calls else pairs.orphans).add(id(block))
            if key in answered_calls:
                pairs.twins[id(block)] = answered_calls[key]


def _name(draft: Draft, pairs: _Pairs) -> None:
    """Gives every call a valid id of its own; its result follows."""
    used: set[str] = set()
    times: dict[tuple[str, str], int] = {}
    in_use = {call.old_id for call in pairs.calls if isinstance(call.old_id, str)}
    renamed: dict[int, Any] = {}
    for call in pairs.calls:
        good = _is_valid(call.old_id) and call.old_id not in used
        call.id = call.old_id if good else _fresh(call.old_id, times, (used, in_use))
        used.add(call.id)
        if good:
            continue
        rule, ids = "A08", (call.old_id, call.id)
        draft.note(rule, call.slot, "gave a tool call a valid id of its own", ids=ids)
        renamed[id(call.block)] = {**call.block, "id": call.id}
    for slot in draft.speaking():
        blocks = [renamed.get(id(block), block) for block in slot.blocks]
        slot.blocks = [_renamed(block, pairs) for block in blocks]


def _fresh(name: Any, times: dict[tuple[str, str], int], used: tuple[set[str], set[str]]) -> str:
    key = _key(name)
    while True:
        times[key] = times.get(key, 0) + 1
        fresh = synthetic_id(name, times[key])
        if not any(fresh in names for names in used):
            return fresh


def _renamed(block: Any, pairs: _Pairs) -> Any:
    call = pairs.by_result.get(id(block))
    if call is None or _answered(block) == call.id:
        return block
    renamed = {**block, "tool_use_id": call.id}
    call.result = renamed
    pairs.by_result[id(renamed)] = call
    return renamed


def _remove_orphans(draft: Draft, pairs: _Pairs, policy: str) -> None:
    explained = False  # one line says it for all of a user turn
    asked = _asked(draft, pairs)
    for slot in draft.speaking():
        explained = explained and slot.role != ASSISTANT
        orphaned = [block for block in slot.blocks if id(block) in pairs.orphans]
        twice = [block for block in slot.blocks if id(block) in pairs.duplicates]
        if not orphaned and not twice:
            continue
        out = {id(block) for block in (*orphaned, *twice)}
        left = [block for block in slot.blocks if id(block) not in out]
        if twice:
            ids = [_answered(block) for block in twice]
            draft.note("A05", slot, "further results of one call", ids=ids)
        # Where a call waits for its result, a stray one may be it: what it says stays.
        how = policy if policy != "note" or id(slot) not in asked else "text"
        if orphaned:
            ids = [_answered(block) for block in orphaned]
            draft.note("A06", slot, f"tool results without their calls: {how}", ids=ids)
        lines = _orphans_in_words(orphaned, how) if how == "text" or not explained else []
        explained = explained or bool(orphaned)
        slot.blocks = [*left, *_displaced(twice, pairs, policy), *lines]
    draft.drop_empty("A06", "dropped a message that held only results without calls")


def _asked(draft: Draft, pairs: _Pairs) -> set[int]:
    """User messages (by object) of turns whose calls have not all found their result."""
    open_in = {id(call.slot) for call in pairs.calls if call.result is None}
    return {
        id(slot)
        for run, target in _turns(draft)
        if any(id(slot) in open_in for slot in run)
        for slot in target
    }


def _displaced(twice: list[Any], pairs: _Pairs, policy: str) -> list[Any]:
    """What further results of a call say, unless it is what the first one says."""
    if policy == "drop":
        return []
    texts: dict[str, None] = {}
    for block in twice:
        text = _text(block.get("content")).strip()
        first = pairs.twins[id(block)].result or {}
        if text and text != _text(first.get("content")).strip():
            texts.setdefault(text)
    return [text_block("\n".join([DISPLACED, *texts]))] if texts else []


def _orphans_in_words(orphaned: list[Any], policy: str) -> list[Any]:
    if not orphaned or policy == "drop":
        return []
    if policy == "note":
        return [text_block(ORPHANS)]
    texts = [text for block in orphaned if (text := _text(block.get("content")).strip())]
    return [text_block("\n".join([ORPHANS, *texts]))]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(
        str(part["text"]) for part in parts if kind_of(part) == "text" and "text" in part
    )


def _place(draft: Draft, pairs: _Pairs) -> None:
    """Put results first in the user turn after their calls."""
    by_slot: dict[int, list[_Call]] = {}
    for call in pairs.calls:
        by_slot.setdefault(id(call.slot), []).append(call)
    turns = []
    for run, target in _turns(draft):
        if calls := [call for slot in run for call in by_slot.get(id(slot), ())]:
            turns.append((run[-1], target, calls))
    _take_out(draft.speaking(), _elsewhere(turns))
    after: dict[int, Slot] = {}
    for last, target, calls in turns:
        _answer_turn(draft, last, target, calls, after)
    draft.slots = [
        placed
        for slot in draft.slots
        for placed in (slot, after.get(id(slot)))
        if placed is not None
    ]
    draft.drop_empty("A06", "dropped a message whose results were moved")


def _elsewhere(turns: Iterable[tuple[Slot, list[Slot], list[_Call]]]) -> set[int]:
    """Results (by object) that are not in the user turn after their calls."""
    ids: set[int] = set()
    for _, target, calls in turns:
        at_home = {id(slot) for slot in target}
        ids |= {
            id(call.result)
            for call in calls
            if call.result is not None and id(call.result_slot) not in at_home
        }
    return ids


def _take_out(slots: Iterable[Slot], dropped: set[int]) -> None:
    for slot in slots:
        slot.blocks = [block for block in slot.blocks if id(block) not in dropped]


def _turns(draft: Draft) -> list[tuple[list[Slot], list[Slot]]]:
    """Assistant turns with the user turn after each; system messages separate neither."""
    turns: list[tuple[list[Slot], list[Slot]]] = []
    previous = ""
    for slot in draft.speaking():
        if slot.role == ASSISTANT:
            if previous != ASSISTANT:
                turns.append(([], []))
            turns[-1][0].append(slot)
        elif slot.role == USER and turns:
            turns[-1][1].append(slot)
        previous = previous if slot.role == SYSTEM else slot.role
    return turns


def _answer_turn(
    draft: Draft,
    last: Slot,
    target: list[Slot],
    calls: list[_Call],
    after: dict[int, Slot],
) -> None:
    results = {id(call.result) for call in calls if call.result is not None}
    leading = _leading(target, results)
    moved = [call for call in calls if call.result is None or id(call.result) not in leading]
    if not moved:
        return
    added = [_brought(draft, call) for call in moved]
    _take_out(target, {id(block) for block in added})
    if not target:
        after[id(last)] = Slot.added(USER, added, last.origin)
        return
    slot, position = _end_of_leading(target, leading)
    slot.blocks = [*slot.blocks[:position], *added, *slot.blocks[position:]]


def _brought(draft: Draft, call: _Call) -> Any:
    """A result for the call, to be put after it, that says that there is none."""
    if call.result is None:
        draft.note("A05", call.slot, "answered an interrupted tool call", ids=(call.id,))
        return _interrupted(call.id)
    draft.note("A07", call.slot, "moved a result after its call", ids=(call.id,))
    return call.result


def _leading(target: list[Slot], results: set[int]) -> set[int]:
    ids: set[int] = set()
    for slot in target:
        for block in slot.blocks:
            if id(block) not in results:
                return ids
            ids.add(id(block))
    return ids


def _end_of_leading(target: list[Slot], leading: set[int]) -> tuple[Slot, int]:
    place = (target[0], 0)
    for slot in target:
        for position, block in enumerate(slot.blocks):
            if id(block) not in leading:
                return place
            place = (slot, position + 1)
    return place


# Server tools, compaction, fallback, citations, tool changes (A09, A10, A25, A27, A28, A31).


_CALLS = ("server_tool_use", "mcp_tool_use")
_RESULT = "_tool_result"
_CHANGES = ("tool_addition", "tool_removal")
_OF_SERVER = ("mcp_tool_reference", "mcp_toolset_reference")


def _is_result(block: Any) -> bool:
    return kind_of(block).endswith(_RESULT)


def _fits(call: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    base = kind_of(result).removesuffix(_RESULT)
    if kind_of(call) == "mcp_tool_use" or base == "mcp":
        return kind_of(call) == "mcp_tool_use" and base == "mcp"
    return str(call.get("name", "")).startswith(base)


def _drop(draft: Draft, rule: str, doomed: set[int], action: str) -> None:
    """Removes blocks by object identity; all of a unit go together."""
    if not doomed:
        return
    for slot in draft.speaking():
        dropped = [block for block in slot.blocks if id(block) in doomed]
        if dropped:
            ids = [block.get("id") or block.get("tool_use_id") for block in dropped]
            draft.note(rule, slot, action, ids=[name for name in ids if name])
            slot.blocks = [block for block in slot.blocks if id(block) not in doomed]
    draft.drop_empty(rule)


class _Open:
    """Server calls that wait, as the verifier sees them."""

    def __init__(self, tools: Iterable[str] | None) -> None:
        self.tools = None if tools is None else tuple(tools)
        self.open: dict[Any, tuple[Mapping[str, Any], int]] = {}
        self.unpaired: set[int] = set()
        self.seen: set[str] = set()
        self.turn = 0
        self.role = ""
        self.broken = False

    def feed(self, slot: Slot) -> None:
        if slot.role == ASSISTANT:
            self._assistant(slot)
        elif slot.role == USER:
            self._user(slot)

    def _assistant(self, slot: Slot) -> None:
        if self.role != ASSISTANT:
            self.role, self.turn, self.broken = ASSISTANT, self.turn + 1, False
        for block in slot.blocks:
            if kind_of(block) in _CALLS:
                self._call(str(block.get("id")), block)
            elif _is_result(block):
                self._result(block)

    def _call(self, name: str, block: Mapping[str, Any]) -> None:
        if name in self.seen:  # what the server made is not renamed: the copy goes, with its result
            self.unpaired.add(id(block))
        else:
            self.seen.add(name)
            self.open[name] = (block, self.turn)

    def _result(self, block: Mapping[str, Any]) -> None:
        call = self.open.get(str(block.get("tool_use_id")))
        if call is None or not _fits(call[0], block):
            self.unpaired.add(id(block))
        else:
            del self.open[str(block.get("tool_use_id"))]

    def _user(self, slot: Slot) -> None:
        first = self.role != USER
        self.role = USER
        if any(kind_of(block) != "tool_result" for block in slot.blocks):
            self._give_up(lambda _: True)
            self.broken = True
        elif first and self.tools is not None:
            self._give_up(lambda call: kind_of(call) != "mcp_tool_use" and not self._has_tool(call))

    def _has_tool(self, call: Mapping[str, Any]) -> bool:
        return any(str(call.get("name", "")).endswith(tool) for tool in self.tools or ())

    def _give_up(self, which: Callable[[Mapping[str, Any]], bool]) -> None:
        for name, (call, _) in list(self.open.items()):
            if which(call):
                self.unpaired.add(id(call))
                del self.open[name]

    def finish(self, resume: str) -> None:
        paused = self.role == ASSISTANT and resume == "pause_turn"
        carried = self.role == USER and not self.broken
        for call, turn in self.open.values():
            if turn != self.turn or not (paused or carried):
                self.unpaired.add(id(call))


def repair_server_tools(draft: Draft, *, tools: Iterable[str] | None, resume: str) -> None:
    """Drops server calls that nobody can answer any more, and results without their call."""
    state = _Open(tools)
    for slot in draft.speaking():
        state.feed(slot)
    state.finish(resume)
    _drop(draft, "A09", state.unpaired, "dropped one half of a server tool's unit")


def repair_fallback(draft: Draft) -> None:
    """Drop what a fallback leaves over: thinking and open calls before its block."""
    dropped: set[int] = set()
    for run in draft.runs(ASSISTANT):
        blocks = [block for slot in run for block in slot.blocks]
        last = max(
            (at for at, block in enumerate(blocks) if kind_of(block) == "fallback"), default=-1
        )
        dropped |= _left_behind(blocks[: last + 1])
    _drop(draft, "A28", dropped, "dropped what stood before a fallback block")


def _left_behind(blocks: list[Any]) -> set[int]:
    refused = (*THINKING, "tool_use")
    dropped = {id(block) for block in blocks if kind_of(block) in refused}
    since = 0
    for at, block in enumerate(blocks):
        if kind_of(block) == "fallback":
            answered = {part.get("tool_use_id") for part in blocks[since:at] if _is_result(part)}
            calls = (part for part in blocks[since:at] if kind_of(part) in _CALLS)
            dropped |= {id(call) for call in calls if call.get("id") not in answered}
            since = at
    return dropped


def repair_compaction(
    draft: Draft, *, originals: Iterable[Mapping[str, Any]] | None, one_only: bool
) -> None:
    """Keeps one compaction block, as it came, with what follows it.

    Args:
        draft: Changed.
        originals: The blocks as they came; `None`: unknown.
        one_only: Blocks of on-demand compaction: exactly one, and first of all.
    """
    if originals is not None:
        _restore(draft, list(originals))
    _drop(draft, "A25", _empty(draft), "dropped a compaction block without content")
    places = [
        (slot, block)
        for slot in draft.speaking()
        for block in slot.blocks
        if kind_of(block) == "compaction" and block.get("content") is not None
    ]
    signed = one_only or any(isinstance(block.get("signature"), str) for _, block in places)
    if not places or not signed:
        return
    slot, block = places[-1]
    at = draft.slots.index(slot)
    if at or slot.blocks[0] is not block:
        draft.note("A25", slot, "dropped what the newest compaction block stands for")
    draft.slots = draft.slots[at:]
    start = next(index for index, other in enumerate(slot.blocks) if other is block)
    slot.blocks = slot.blocks[start:]


def _empty(draft: Draft) -> set[int]:
    blocks = (block for slot in draft.speaking() for block in slot.blocks)
    return {
        id(block)
        for block in blocks
        if kind_of(block) == "compaction" and block.get("content") == ""
    }


def _restore(draft: Draft, originals: list[Mapping[str, Any]]) -> None:
    plain = [unmarked(block) for block in originals]
    dropped: set[int] = set()
    for slot in draft.speaking():
        for index, block in enumerate(slot.blocks):
            if kind_of(block) != "compaction" or unmarked(block) in plain:
                continue
            match = next((original for original in originals if _same_seal(original, block)), None)
            if match is None:
                dropped.add(id(block))
                continue
            draft.note("A25", slot, "put the compaction block back as it came", block=index)
            slot.blocks = [match if original is block else original for original in slot.blocks]
    _drop(draft, "A25", dropped, "dropped a compaction block of another conversation")


def _same_seal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    keys = ("signature", "encrypted_content")
    return any(a.get(key) is not None and a.get(key) == b.get(key) for key in keys)


def repair_citations(draft: Draft) -> None:
    """Sets citations on all search results as the newest one has them."""
    cited = [
        part for slot in draft.speaking() for block in slot.blocks for part in _searches(block)
    ]
    if not cited:
        return
    enabled = _cites(cited[-1])
    for slot in draft.speaking():
        blocks = [_set_citations(block, enabled) for block in slot.blocks]
        if not same_items(blocks, slot.blocks):
            draft.note("A27", slot, f"switched citations {'on' if enabled else 'off'}")
            slot.blocks = blocks


def _searches(block: Any) -> list[Mapping[str, Any]]:
    content = block.get("content") if kind_of(block) == "tool_result" else None
    parts = content if isinstance(content, list | tuple) else ()
    return [part for part in (block, *parts) if kind_of(part) == "search_result"]


def _cites(block: Mapping[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, Mapping) and citations.get("enabled") is True


def _set_citations(block: Any, enabled: bool) -> Any:
    if kind_of(block) == "search_result" and _cites(block) != enabled:
        return {**block, "citations": {"enabled": enabled}}
    content = block.get("content") if kind_of(block) == "tool_result" else None
    if not isinstance(content, list | tuple):
        return block
    parts = [_set_citations(part, enabled) for part in content]
    return block if same_items(parts, content) else {**block, "content": parts}


def repair_tool_changes(draft: Draft, *, tools: Iterable[str] | None) -> None:
    """Drops changes of tools that nobody declared, and second definitions; without a list of tools only these."""
    names = set(tools or ())
    for slot in draft.speaking():
        if slot.role != SYSTEM:
            continue
        staying = [block for block in slot.blocks if _change_stays(block, names, tools is None)]
        if len(staying) < len(slot.blocks):
            draft.note("A31", slot, "dropped a tool change that refers to nothing")
            slot.blocks = staying
    empty = [slot for slot in draft.speaking() if slot.role == SYSTEM and _hollow(slot)]
    draft.slots = [slot for slot in draft.slots if slot not in empty]


def _change_stays(block: Any, names: set[str], all_known: bool) -> bool:
    """Whether a block is in order; what a tool change defines is known from then on."""
    kind = kind_of(block)
    if kind not in _CHANGES:
        return True
    tool = block.get("tool")
    definition = tool.get("definition") if isinstance(tool, Mapping) else None
    if kind_of(tool) in _OF_SERVER or kind_of(definition) == "mcp_toolset":
        return True  # what a server holds is not in the request
    by_value = isinstance(definition, Mapping)
    name = _tool_name(block, definition if by_value else tool)
    inline = by_value or (isinstance(tool, Mapping) and "input_schema" in tool)
    if kind == "tool_removal" or not inline:
        return all_known or name in names
    fresh = name not in names
    names.add(name)
    return fresh


def _hollow(slot: Slot) -> bool:
    return not slot.blocks and slot.message.get("output_config") is None


def _tool_name(block: Mapping[str, Any], body: Any) -> str:
    own = body.get("name") if isinstance(body, Mapping) else None
    names = (own, block.get("name"), block.get("tool_name"))
    return next((name for name in names if isinstance(name, str)), "")
