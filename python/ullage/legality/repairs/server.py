"""Server tools, compaction, fallback, citations, tool changes (A09, A10, A25, A27, A28, A31)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ullage.legality.repairs.working_copy import ASSISTANT, SYSTEM, USER, Draft, Slot, kind_of
from ullage.messages import THINKING

__all__ = [
    "repair_citations",
    "repair_compaction",
    "repair_fallback",
    "repair_server_tools",
    "repair_tool_changes",
]

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


def _drop(draft: Draft, rule: str, gone: set[int], action: str) -> None:
    """Removes blocks by object identity; all of a unit go together."""
    if not gone:
        return
    for slot in draft.speaking():
        dropped = [block for block in slot.blocks if id(block) in gone]
        if dropped:
            ids = [block.get("id") or block.get("tool_use_id") for block in dropped]
            draft.note(rule, slot, action, ids=[each for each in ids if each])
            slot.blocks = [block for block in slot.blocks if id(block) not in gone]
    draft.drop_empty(rule)


class _Open:
    """Server calls that wait, as the verifier sees them."""

    def __init__(self, tools: Iterable[str] | None) -> None:
        self.tools = None if tools is None else tuple(tools)
        self.open: dict[Any, tuple[Mapping[str, Any], int]] = {}
        self.gone: set[int] = set()
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
            self.gone.add(id(block))
        else:
            self.seen.add(name)
            self.open[name] = (block, self.turn)

    def _result(self, block: Mapping[str, Any]) -> None:
        call = self.open.get(str(block.get("tool_use_id")))
        if call is None or not _fits(call[0], block):
            self.gone.add(id(block))
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
                self.gone.add(id(call))
                del self.open[name]

    def finish(self, resume: str) -> None:
        paused = self.role == ASSISTANT and resume == "pause_turn"
        carried = self.role == USER and not self.broken
        for call, turn in self.open.values():
            if turn != self.turn or not (paused or carried):
                self.gone.add(id(call))


def repair_server_tools(draft: Draft, *, tools: Iterable[str] | None, resume: str) -> None:
    """Drops server calls that nobody can answer any more, and results without their call."""
    state = _Open(tools)
    for slot in draft.speaking():
        state.feed(slot)
    state.finish(resume)
    _drop(draft, "A09", state.gone, "dropped one half of a server tool's unit")


def repair_fallback(draft: Draft) -> None:
    """Drop what a fallback leaves over: thinking and open calls before its block."""
    gone: set[int] = set()
    for run in draft.runs(ASSISTANT):
        blocks = [block for slot in run for block in slot.blocks]
        last = max(
            (at for at, block in enumerate(blocks) if kind_of(block) == "fallback"), default=-1
        )
        gone |= _left_behind(blocks[: last + 1])
    _drop(draft, "A28", gone, "dropped what stood before a fallback block")


def _left_behind(blocks: list[Any]) -> set[int]:
    refused = (*THINKING, "tool_use")
    gone = {id(block) for block in blocks if kind_of(block) in refused}
    since = 0
    for at, block in enumerate(blocks):
        if kind_of(block) == "fallback":
            answered = {part.get("tool_use_id") for part in blocks[since:at] if _is_result(part)}
            calls = (part for part in blocks[since:at] if kind_of(part) in _CALLS)
            gone |= {id(call) for call in calls if call.get("id") not in answered}
            since = at
    return gone


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
    start = next(index for index, each in enumerate(slot.blocks) if each is block)
    slot.blocks = slot.blocks[start:]


def _empty(draft: Draft) -> set[int]:
    blocks = (block for slot in draft.speaking() for block in slot.blocks)
    return {
        id(block)
        for block in blocks
        if kind_of(block) == "compaction" and block.get("content") == ""
    }


def _restore(draft: Draft, originals: list[Mapping[str, Any]]) -> None:
    plain = [_unmarked(block) for block in originals]
    gone: set[int] = set()
    for slot in draft.speaking():
        for index, block in enumerate(slot.blocks):
            if kind_of(block) != "compaction" or _unmarked(block) in plain:
                continue
            match = next((each for each in originals if _same_seal(each, block)), None)
            if match is None:
                gone.add(id(block))
                continue
            draft.note("A25", slot, "put the compaction block back as it came", block=index)
            slot.blocks = [match if each is block else each for each in slot.blocks]
    _drop(draft, "A25", gone, "dropped a compaction block of another conversation")


def _unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _same_seal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    keys = ("signature", "encrypted_content")
    return any(a.get(key) is not None and a.get(key) == b.get(key) for key in keys)


def repair_citations(draft: Draft) -> None:
    """Sets citations on all search results as the newest one has them."""
    found = [
        part for slot in draft.speaking() for block in slot.blocks for part in _searches(block)
    ]
    if not found:
        return
    enabled = _cites(found[-1])
    for slot in draft.speaking():
        blocks = [_set_citations(block, enabled) for block in slot.blocks]
        if any(a is not b for a, b in zip(blocks, slot.blocks, strict=True)):
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
    same = all(a is b for a, b in zip(parts, content, strict=True))
    return block if same else {**block, "content": parts}


def repair_tool_changes(draft: Draft, *, tools: Iterable[str] | None) -> None:
    """Drops changes of tools that nobody declared, and second definitions; without a list of tools only these."""
    known = set(tools or ())
    for slot in draft.speaking():
        if slot.role != SYSTEM:
            continue
        kept = [block for block in slot.blocks if _change_stays(block, known, tools is None)]
        if len(kept) < len(slot.blocks):
            draft.note("A31", slot, "dropped a tool change that refers to nothing")
            slot.blocks = kept
    empty = [slot for slot in draft.speaking() if slot.role == SYSTEM and _hollow(slot)]
    draft.slots = [slot for slot in draft.slots if slot not in empty]


def _change_stays(block: Any, known: set[str], all_known: bool) -> bool:
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
        return all_known or name in known
    fresh = name not in known
    known.add(name)
    return fresh


def _hollow(slot: Slot) -> bool:
    return not slot.blocks and slot.message.get("output_config") is None


def _tool_name(block: Mapping[str, Any], body: Any) -> str:
    own = body.get("name") if isinstance(body, Mapping) else None
    names = (own, block.get("name"), block.get("tool_name"))
    return next((name for name in names if isinstance(name, str)), "")
