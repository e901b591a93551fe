"""Client tools: ids that are valid and unique, one result per call, at its place (A05 to A08)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, TypeVar

from ullage._engine import core
from ullage.legality.blocks import DISPLACED, INTERRUPTED, ORPHANS
from ullage.legality.draft import (
    ASSISTANT,
    SYSTEM,
    USER,
    Draft,
    Slot,
    kind_of,
    list_in,
    text_block,
)
from ullage.legality.originals import unmarked
from ullage.messages import THINKING, with_parts

T = TypeVar("T")

_BASE_CHARS = 40  # at most 51 with the digest: Converse takes 64
_ID = re.compile(r"[A-Za-z0-9_-]+\Z")


def synthetic_id(name: Any, occurrence: int) -> str:
    """A valid id for one that is not: the same for the same id and occurrence, in every process."""
    raw = name if isinstance(name, str) else f"{type(name).__name__}:{name!r}"
    base = re.sub(r"[^A-Za-z0-9_-]", "_", raw)[:_BASE_CHARS] if isinstance(name, str) else "toolu"
    digest = hashlib.sha256(f"{raw}#{occurrence}".encode(errors="surrogatepass")).hexdigest()
    return f"{base or 'toolu'}_{digest[:10]}"


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
    """Calls and results of the whole conversation, matched; result blocks by id()."""

    calls: list[_Call] = field(default_factory=list)
    orphans: set[int] = field(default_factory=set)
    # Of further results the call that has one.
    twins: dict[int, _Call] = field(default_factory=dict)


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


_Key = tuple[str, str]


def _key(name: Any) -> _Key:
    return type(name).__name__, name if isinstance(name, str) else repr(name)


def repair_pairs(draft: Draft, *, orphans: str) -> None:
    """Renames ids, moves results to their place, answers what has no answer; `orphans`: see `RepairOptions`."""
    # One object may stand in two places: each place gets its own copy of a tool block.
    seen: set[int] = set()
    for slot in draft.speaking():
        blocks = []
        for block in slot.blocks:
            twice = id(block) in seen and kind_of(block) in ("tool_use", "tool_result")
            blocks.append(dict(block) if twice else block)
            seen.add(id(block))
        slot.blocks = blocks
    pairs = _match(draft)
    _name(draft, pairs)
    _remove_orphans(draft, pairs, orphans)
    _place(draft, pairs)


def _match(draft: Draft) -> _Pairs:
    """Each result goes to the newest turn's first open call of its id before it; what is left, to a later call with its id."""
    pairs = _Pairs()
    waiting: dict[_Key, OpenCalls[_Call]] = {}
    early: dict[_Key, deque[tuple[Slot, Mapping[str, Any]]]] = {}
    turn, previous = 0, ""
    for slot in draft.speaking():
        turn += slot.role == ASSISTANT and previous != ASSISTANT
        previous = previous if slot.role == SYSTEM else slot.role
        for block in slot.blocks:
            kind = kind_of(block)
            if kind == "tool_use" and slot.role == ASSISTANT:
                call = _Call(slot, block, block.get("id"))
                pairs.calls.append(call)
                waiting.setdefault(_key(call.old_id), OpenCalls()).add(turn, call)
            elif kind == "tool_result" and slot.role == USER:
                key = _key(block.get("tool_use_id"))
                matched = waiting[key].pop() if key in waiting else None
                if matched is not None:
                    matched.result, matched.result_slot = block, slot
                else:
                    early.setdefault(key, deque()).append((slot, block))
    _match_early(pairs, early)
    return pairs


def _match_early(
    pairs: _Pairs, early: Mapping[_Key, deque[tuple[Slot, Mapping[str, Any]]]]
) -> None:
    """Results that stood before any call of their id, in order, to the calls that have none."""
    answered = {_key(call.old_id) for call in pairs.calls if call.result is not None}
    for call in pairs.calls:
        left = early.get(_key(call.old_id))
        if call.result is None and left and _key(call.old_id) not in answered:
            call.result_slot, call.result = left.popleft()
    first = {_key(call.old_id): call for call in reversed(pairs.calls) if call.result is not None}
    for key, left in early.items():
        if key in first:
            pairs.twins.update((id(block), first[key]) for _, block in left)
        else:
            pairs.orphans.update(id(block) for _, block in left)


def _name(draft: Draft, pairs: _Pairs) -> None:
    """Gives every call a valid id of its own; its result follows."""
    used: set[str] = set()
    times: Counter[_Key] = Counter()
    in_use = {call.old_id for call in pairs.calls if isinstance(call.old_id, str)}
    renamed: dict[int, Any] = {}
    for call in pairs.calls:
        name, key = call.old_id, _key(call.old_id)
        if not isinstance(name, str) or not _ID.match(name) or name in used:
            times[key] += 1
            while (name := synthetic_id(call.old_id, times[key])) in used or name in in_use:
                times[key] += 1
            ids = (call.old_id, name)
            draft.note("A08", call.slot, "gave a tool call a valid id of its own", ids=ids)
            renamed[id(call.block)] = {**call.block, "id": name}
        call.id = name
        used.add(call.id)
    for call in pairs.calls:
        result = call.result
        if result is not None and result.get("tool_use_id") != call.id:
            call.result = renamed[id(result)] = {**result, "tool_use_id": call.id}
    for slot in draft.speaking():
        slot.blocks = [renamed.get(id(block), block) for block in slot.blocks]


def _remove_orphans(draft: Draft, pairs: _Pairs, policy: str) -> None:
    explained = False  # one line says it for all of a user turn
    # User messages of turns whose calls have not all found their result.
    open_in = {id(call.slot) for call in pairs.calls if call.result is None}
    asked = {
        id(slot)
        for run, target in _turns(draft)
        if any(id(slot) in open_in for slot in run)
        for slot in target
    }
    for slot in draft.speaking():
        explained = explained and slot.role != ASSISTANT
        orphaned = [block for block in slot.blocks if id(block) in pairs.orphans]
        twice = [block for block in slot.blocks if id(block) in pairs.twins]
        if not orphaned and not twice:
            continue
        out = {id(block) for block in (*orphaned, *twice)}
        blocks = [block for block in slot.blocks if id(block) not in out]
        if twice:
            ids = (block.get("tool_use_id") for block in twice)
            draft.note("A05", slot, "further results of one call", ids=ids)
            blocks += _displaced(twice, pairs, policy)
        if orphaned:
            # Where a call waits for its result, a stray one may be it: what it says stays.
            how = "text" if policy == "note" and id(slot) in asked else policy
            ids = (block.get("tool_use_id") for block in orphaned)
            draft.note("A06", slot, f"tool results without their calls: {how}", ids=ids)
            if how == "text" or (how != "drop" and not explained):
                texts = () if how == "note" else map(_text, orphaned)
                blocks.append(text_block("\n".join([ORPHANS, *filter(None, texts)])))
            explained = True
        slot.blocks = blocks
    draft.drop_empty("A06", "dropped a message that held only results without calls")


def _displaced(twice: list[Any], pairs: _Pairs, policy: str) -> list[Any]:
    """What further results of a call say, unless it is what the first one says."""
    texts: dict[str, None] = {}
    for block in twice if policy != "drop" else ():
        text = _text(block)
        if text and text != _text(pairs.twins[id(block)].result or {}):
            texts.setdefault(text)
    return [text_block("\n".join([DISPLACED, *texts]))] if texts else []


def _text(result: Mapping[str, Any]) -> str:
    content, parts = result.get("content"), list_in(result, "content")
    texts = (str(part["text"]) for part in parts if kind_of(part) == "text" and "text" in part)
    return (content if isinstance(content, str) else "\n".join(texts)).strip()


def _place(draft: Draft, pairs: _Pairs) -> None:
    """Put results first in the user turn after their calls."""
    by_slot: dict[int, list[_Call]] = {}
    for call in pairs.calls:
        by_slot.setdefault(id(call.slot), []).append(call)
    turns = []
    elsewhere: set[int] = set()  # results (by object) outside of the user turn after their calls
    for run, target in _turns(draft):
        if calls := [call for slot in run for call in by_slot.get(id(slot), ())]:
            turns.append((run[-1], target, calls))
            at_home = {id(slot) for slot in target}
            results = (call for call in calls if call.result is not None)
            elsewhere |= {id(c.result) for c in results if id(c.result_slot) not in at_home}
    _take_out(draft.speaking(), elsewhere)
    after: dict[int, Slot] = {}
    for last, target, calls in turns:
        if added := _answer_turn(draft, target, calls):
            after[id(last)] = Slot.added(USER, added, last.origin)
    draft.slots = [
        placed
        for slot in draft.slots
        for placed in (slot, after.get(id(slot)))
        if placed is not None
    ]
    draft.drop_empty("A06", "dropped a message whose results were moved")


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


def _answer_turn(draft: Draft, target: list[Slot], calls: list[_Call]) -> list[Any]:
    """Puts the results of calls first in the user turn after them, those that stand there already before the others.

    Returns:
        The results, where there is no such turn.
    """
    results = {id(call.result) for call in calls if call.result is not None}
    leading, place = _leading(target, results)
    added: list[Any] = []
    for call in calls:
        if call.result is None:
            draft.note("A05", call.slot, "answered an interrupted tool call", ids=(call.id,))
            answer = {"type": "tool_result", "tool_use_id": call.id, "is_error": True}
            added.append({**answer, "content": INTERRUPTED})
        elif id(call.result) not in leading:
            draft.note("A07", call.slot, "moved a result after its call", ids=(call.id,))
            added.append(call.result)
    if added and place is not None:
        _take_out(target, {id(block) for block in added})
        slot, position = place
        slot.blocks = [*slot.blocks[:position], *added, *slot.blocks[position:]]
        return []
    return added


def _leading(target: list[Slot], results: set[int]) -> tuple[set[int], tuple[Slot, int] | None]:
    """Results (by object) at the head of a user turn, and the place after them; `None`: there is no turn."""
    leading: set[int] = set()
    place = (target[0], 0) if target else None
    for slot in target:
        for position, block in enumerate(slot.blocks):
            if id(block) not in results:
                return leading, place
            leading.add(id(block))
            place = (slot, position + 1)
    return leading, place


# Server tools, compaction, fallback, citations, tool changes (A09, A10, A25, A27, A28, A31).


_CALLS = ("server_tool_use", "mcp_tool_use")
_RESULT = "_tool_result"
_CHANGES = ("tool_addition", "tool_removal")
_BY_DEFINITION, _OF_SERVER = 3, 4  # `BlockDigest.aux` of a tool change


def _is_result(block: Any) -> bool:
    return kind_of(block).endswith(_RESULT)


def _drop(draft: Draft, rule: str, doomed: set[int], action: str) -> None:
    """Removes blocks by object identity; all of a unit go together."""
    if not doomed:
        return
    for slot in draft.speaking():
        dropped = [block for block in slot.blocks if id(block) in doomed]
        if dropped:
            names = (block.get("id") or block.get("tool_use_id") for block in dropped)
            draft.note(rule, slot, action, ids=filter(None, names))
            slot.blocks = [block for block in slot.blocks if id(block) not in doomed]
    draft.drop_empty(rule)


class _ServerCalls:
    """Server calls that wait, as the verifier sees them; `unpaired`: blocks (by object) that have no other half."""

    def __init__(self, tools: Iterable[str] | None) -> None:
        self.tools = None if tools is None else tuple(tools)
        self.waiting: dict[str, tuple[Mapping[str, Any], int]] = {}  # with the turn
        self.unpaired: set[int] = set()
        self.seen: set[str] = set()
        self.turn = 0
        self.role = ""
        self.broken = False

    def answer(self, slot: Slot) -> None:
        """A message of the assistant."""
        if self.role != ASSISTANT:
            self.role, self.turn, self.broken = ASSISTANT, self.turn + 1, False
        for block in slot.blocks:
            if kind_of(block) in _CALLS:
                name = str(block.get("id"))
                if name in self.seen:
                    # What the server made is not renamed: the copy goes, with its result.
                    self.unpaired.add(id(block))
                else:
                    self.seen.add(name)
                    self.waiting[name] = (block, self.turn)
            elif _is_result(block):
                name = str(block.get("tool_use_id"))
                if name in self.waiting and _fits(self.waiting[name][0], block):
                    del self.waiting[name]
                else:
                    self.unpaired.add(id(block))

    def heard(self, slot: Slot) -> None:
        """A message of the user."""
        first, self.role = self.role != USER, USER
        spoken = any(kind_of(block) != "tool_result" for block in slot.blocks)
        self.broken = self.broken or spoken
        for name, (call, _) in list(self.waiting.items()):
            lost = first and self.tools is not None and kind_of(call) != "mcp_tool_use"
            if spoken or (lost and not str(call.get("name", "")).endswith(self.tools or ())):
                self.unpaired.add(id(call))
                del self.waiting[name]


def _fits(call: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    base = kind_of(result).removesuffix(_RESULT)
    if kind_of(call) == "mcp_tool_use" or base == "mcp":
        return kind_of(call) == "mcp_tool_use" and base == "mcp"
    return str(call.get("name", "")).startswith(base)


def repair_server_tools(draft: Draft, *, tools: Iterable[str] | None, resume: str) -> None:
    """Drops server calls that nobody can answer any more, and results without their call."""
    calls = _ServerCalls(tools)
    for slot in draft.speaking():
        if slot.role == ASSISTANT:
            calls.answer(slot)
        elif slot.role == USER:
            calls.heard(slot)
    paused = calls.role == ASSISTANT and resume == "pause_turn"
    carried = calls.role == USER and not calls.broken
    for call, turn in calls.waiting.values():
        if turn != calls.turn or not (paused or carried):
            calls.unpaired.add(id(call))
    _drop(draft, "A09", calls.unpaired, "dropped one half of a server tool's unit")


def repair_fallback(draft: Draft) -> None:
    """Drop what a fallback leaves over: thinking and open calls before its block."""
    dropped: set[int] = set()
    for role, run in groupby(draft.speaking(), lambda slot: slot.role):
        blocks = [block for slot in run for block in slot.blocks if role == ASSISTANT]
        start = 0
        for at, block in enumerate(blocks):
            if kind_of(block) != "fallback":
                continue
            part, start = blocks[start:at], at
            answered = {result.get("tool_use_id") for result in part if _is_result(result)}
            dropped |= {
                id(left)
                for left in part
                if kind_of(left) in (*THINKING, "tool_use")
                or (kind_of(left) in _CALLS and left.get("id") not in answered)
            }
    _drop(draft, "A28", dropped, "dropped what stood before a fallback block")


def repair_compaction(
    draft: Draft, *, originals: Iterable[Mapping[str, Any]] | None, one_only: bool
) -> None:
    """Keeps one compaction block with what follows it, as it is in `originals`; `None`: these are unknown.

    `one_only`: blocks of on-demand compaction, exactly one, and first of all.
    """
    if originals is not None:
        _restore(draft, list(originals))
    empty = {id(block) for _, block in _compactions(draft) if block.get("content") == ""}
    _drop(draft, "A25", empty, "dropped a compaction block without content")
    places = [(slot, b) for slot, b in _compactions(draft) if b.get("content") is not None]
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


def _compactions(draft: Draft) -> Iterator[tuple[Slot, Mapping[str, Any]]]:
    for slot in draft.speaking():
        yield from ((slot, block) for block in slot.blocks if kind_of(block) == "compaction")


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
    blocks = [block for slot in draft.speaking() for block in slot.blocks]
    cited = [part for block in blocks for part in _searches(block)]
    if not cited:
        return
    enabled = _cites(cited[-1])

    def alike(block: Any) -> Any:
        if kind_of(block) == "search_result" and _cites(block) != enabled:
            return {**block, "citations": {"enabled": enabled}}
        return with_parts(block, alike) if kind_of(block) == "tool_result" else block

    draft.change("A27", f"switched citations {'on' if enabled else 'off'}", alike)


def _searches(block: Any) -> list[Mapping[str, Any]]:
    parts = list_in(block, "content") if kind_of(block) == "tool_result" else ()
    return [part for part in (block, *parts) if kind_of(part) == "search_result"]


def _cites(block: Mapping[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, Mapping) and citations.get("enabled") is True


def repair_tool_changes(draft: Draft, *, tools: Iterable[str] | None) -> None:
    """Drops changes of tools that nobody declared, and second definitions; without a list of tools only these."""
    names = set(tools or ())
    system = [slot for slot in draft.speaking() if slot.role == SYSTEM]
    draft.keep(
        "A31",
        "dropped a tool change that refers to nothing",
        lambda block: _change_stays(block, names, tools is None),
        system,
    )
    for slot in system:
        if not slot.blocks and slot.message.get("output_config") is None:
            draft.slots.remove(slot)


def _change_stays(block: Any, names: set[str], all_known: bool) -> bool:
    """Whether a block is in order; what a tool change defines is known from then on."""
    if kind_of(block) not in _CHANGES:
        return True
    ledger = core.Ledger(None, [{"role": SYSTEM, "content": [block]}])
    change = ledger.blocks(0)[0]
    name = ledger.string(change.name)
    if change.aux == _OF_SERVER:
        return True  # what a server holds is not in the request
    if change.aux != _BY_DEFINITION:
        return all_known or name in names
    fresh = name not in names
    names.add(name)
    return fresh
