"""OpenAI's Responses API: the rules R01 to R07, over its input items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ullage.legality.findings import Violation
from ullage.legality.rule_request import RuleRequest
from ullage.legality.unicode import check_unicode

__all__ = [
    "CALLS",
    "check",
    "kind_of",
    "known_items",
    "made_by_model",
    "name_of",
    "output_of",
    "shared",
]

CALLS = (
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
)
_OUTPUT = "_output"


def check(items: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks input items."""
    params, original = request.params, request.original
    yield from _pairs(items, chained=bool(params.get("previous_response_id")))
    yield from _reasoning(items, params)
    yield from _ids(items)
    for index, item in enumerate(items):
        if kind_of(item) == "compaction" and not isinstance(item.get("encrypted_content"), str):
            yield _error("R04", index, "compaction item without encrypted_content")
    if params.get("previous_response_id") and params.get("conversation"):
        yield _error("R05", -1, "previous_response_id together with conversation")
    if original is not None:
        yield from _originals(items, known_items(original), params)
    yield from check_unicode(items, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str | None]:
    """As that of the chat form: ids of items, and of the calls that are items of their own."""
    names: set[str] = set()
    for item in items:
        kind = kind_of(item)
        if isinstance(item.get("id"), str) and item["id"]:
            yield f"id {item['id']}"
        if kind in CALLS:
            names.add(f"{kind} {item.get('call_id')}")
        elif output_of(kind) and f"{output_of(kind)} {item.get('call_id')}" not in names:
            yield ""
    yield from names


def _error(rule: str, index: int, detail: str) -> Violation:
    return Violation(rule, "error", index, -1, detail)


def kind_of(item: Any) -> str:
    """An item's type; messages may leave it out."""
    if not isinstance(item, Mapping):
        return ""
    kind = item.get("type")
    if isinstance(kind, str) and kind:
        return kind
    return "message" if isinstance(item.get("role"), str) else ""


def output_of(kind: str) -> str:
    """The call type that an output item answers, or ""."""
    base = kind.removesuffix(_OUTPUT)
    return base if base != kind and base in CALLS else ""


def _pairs(items: Sequence[Any], *, chained: bool) -> Iterator[Violation]:
    open_calls: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        kind = kind_of(item)
        if not kind:
            yield _error("R01", index, "not an input item")
        elif kind in CALLS:
            key = (kind, str(item.get("call_id")))
            if key in seen:
                yield _error("R01", index, f"call_id {key[1]} is there twice")
            seen.add(key)
            open_calls[key] = index
        elif output_of(kind):
            key = (output_of(kind), str(item.get("call_id")))
            if open_calls.pop(key, None) is None and (key in seen or not chained):
                yield _error("R01", index, f"{kind} {key[1]} answers no open call before it")
    for (kind, call_id), index in open_calls.items():
        yield _error("R01", index, f"{kind} {call_id} has no output")


def _reasoning(items: Sequence[Any], params: Mapping[str, Any]) -> Iterator[Violation]:
    for index, item in enumerate(items):
        if kind_of(item) != "reasoning":
            continue
        following = kind_of(items[index + 1]) if index + 1 < len(items) else ""
        if not made_by_model(following, items[index + 1] if following else None):
            yield _error("R02", index, "reasoning without the item that follows it")
        if params.get("store") is False and not isinstance(item.get("encrypted_content"), str):
            yield _error("R03", index, "reasoning without encrypted_content and nothing stored")


def made_by_model(kind: str, item: Any) -> bool:
    """Whether an item of that type comes from the model, so that it can follow reasoning."""
    if kind == "message":
        return bool(item.get("role") == "assistant")
    return kind == "reasoning" or kind.endswith("_call")


def _ids(items: Sequence[Any]) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("id") if isinstance(item, Mapping) else None
        if isinstance(name, str) and name:
            if name in seen:
                yield _error("R06", index, f"item id {name} is there twice")
            seen.add(name)


def known_items(original: Any) -> Sequence[Any]:
    """Items of a request, or of a list of them."""
    given = original.get("input", ()) if isinstance(original, Mapping) else original
    return given if isinstance(given, list | tuple) else ()


def name_of(item: Any) -> str:
    """What identifies an item of the model: its id, else its call_id; "" if it has neither."""
    if not isinstance(item, Mapping) or output_of(kind_of(item)):
        return ""
    return str(item.get("id") or item.get("call_id") or "")


def _originals(
    items: Sequence[Any], known: Sequence[Any], params: Mapping[str, Any]
) -> Iterator[Violation]:
    after = {name_of(a): name_of(b) for a, b in pairwise(known)}
    before = {name_of(b): a for a, b in pairwise(known) if name_of(b)}
    exact = {name_of(item): item for item in known if name_of(item)}
    compacted = [item for item in known if kind_of(item) == "compaction"]
    for index, item in enumerate(items):
        kind, name = kind_of(item), name_of(item)
        if kind == "compaction" and item not in compacted:
            yield _error("R04", index, "compaction item is not as it came")
        if kind == "reasoning" and name in after and index + 1 < len(items):
            if name_of(items[index + 1]) != after[name]:
                yield _error("R02", index, "reasoning is followed by another item than it was")
        if item.get("id") if isinstance(item, Mapping) else None:
            yield from _predecessor(items, index, before)
        if kind == "message" and name in exact and item != exact[name]:
            yield Violation("R07", "warning", index, -1, "assistant message is not as it came")
        if params.get("previous_response_id") and name and item == exact.get(name):
            yield Violation("R05", "warning", index, -1, "item that the server already has")


def _predecessor(
    items: Sequence[Any], index: int, before: Mapping[str, Any]
) -> Iterator[Violation]:
    was = before.get(name_of(items[index]))
    if kind_of(was) != "reasoning" or kind_of(items[index]) == "reasoning":
        return
    if index == 0 or name_of(items[index - 1]) != name_of(was):
        yield _error("R02", index, "item without the reasoning that came before it")
