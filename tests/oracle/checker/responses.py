"""R: OpenAI's Responses form."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.oracle.checker.report import Finding, error, ident
from tests.oracle.checker.size import count_tokens

__all__ = ["check_responses"]

_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
_OUTPUTS = {output: call for call, output in _CALLS.items()}
# `openai.types.responses.ResponseInputItemParam` of openai 3.54.
_KINDS = frozenset(
    "additional_tools code_interpreter_call compaction compaction_trigger computer_call configuration_update "
    "file_search_call image_generation_call item_reference mcp_approval_request mcp_approval_response mcp_call "
    "mcp_list_tools message program program_output reasoning tool_search_call tool_search_output "
    "web_search_call".split()
)


def check_responses(
    body: dict[str, Any], original: Any = None, *, window: int = 0
) -> Iterator[Finding]:
    """Pairs, reasoning with what follows it, ids.

    Args:
        body: The request.
        original: Items as the model gave them, in their order; `None`: nothing is compared.
        window: Context window in tokens; 0: not checked. `truncation: "auto"` lets any length pass.
    """
    given = body.get("input")
    items = (
        [item if isinstance(item, dict) else {} for item in given]
        if isinstance(given, list)
        else []
    )
    chained = bool(body.get("previous_response_id"))
    for index, item in enumerate(items):
        if not isinstance(item.get("type"), str) and not isinstance(item.get("role"), str):
            text = f"Invalid value: 'input[{index}]' has neither a type nor a role."
            yield error("R01", (index, -1), text)
        yield from _known(index, item)
    yield from _pairs(items, chained)
    yield from _ids(items)
    yield from _reasoning(body, items)
    yield from _following(items, original)
    if chained and body.get("conversation") is not None:
        text = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."
        yield error("R05", (-1, -1), text)
    if window and body.get("truncation") != "auto" and count_tokens(body) > window:
        text = "Your input exceeds the context window of this model. Please adjust your input and try again."
        yield error("O09", (-1, -1), text, code="context_length_exceeded")
    for index, item in enumerate(items):
        if item.get("type") == "compaction" and not isinstance(item.get("encrypted_content"), str):
            text = f"Missing required parameter: 'input[{index}].encrypted_content'."
            yield error("R04", (index, -1), text)


def _known(index: int, item: dict[str, Any]) -> Iterator[Finding]:
    """R08: an item of a type that the API has."""
    kind = item.get("type")
    known = _KINDS | set(_CALLS) | set(_OUTPUTS)
    if isinstance(kind, str) and kind not in known:
        names = ", ".join(f"'{name}'" for name in sorted(known))
        text = f"Invalid value: '{kind}'. Supported values are: {names}."
        yield error("R08", (index, -1), text, code="invalid_value")


def _pairs(items: list[dict[str, Any]], chained: bool) -> Iterator[Finding]:
    calls: dict[Any, int] = {}
    done: set[Any] = set()
    for index, item in enumerate(items):
        kind, name = str(item.get("type")), ident(item.get("call_id"))
        if kind in _CALLS:
            if (kind, name) in calls:
                yield error("R01", (index, -1), f"Duplicate function call with call_id {name}.")
            calls[kind, name] = index
        elif kind in _OUTPUTS:
            key = (_OUTPUTS[kind], name)
            # With a chained response the call may lie on the server.
            if key not in calls and not chained:
                text = f"No tool call found for function call output with call_id {name}."
                yield error("R01", (index, -1), text)
            elif key in done:
                text = f"Duplicate function call output with call_id {name}."
                yield error("R01", (index, -1), text)
            done.add(key)
    for key, index in calls.items():
        if key not in done:
            yield error("R01", (index, -1), f"No tool output found for function call {key[1]}.")


def _ids(items: list[dict[str, Any]]) -> Iterator[Finding]:
    seen: set[Any] = set()
    for index, item in enumerate(items):
        name = item.get("id")
        if isinstance(name, str) and name in seen:
            text = f"Duplicate item found with id {name}. Remove duplicate items from your input."
            yield error("R06", (index, -1), text)
        seen.add(ident(name))


def _reasoning(body: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Finding]:
    for index, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        name = item.get("id")
        if body.get("store") is False and not item.get("encrypted_content"):
            text = (
                f"Item with id '{name}' not found. Items are not persisted when `store` is set to "
                "false. Try again with `store` set to true, or remove this item from your input."
            )
            yield error("R03", (index, -1), text, status=404)
        after = items[index + 1] if index + 1 < len(items) else {}
        if isinstance(name, str) and not _produced(after):
            text = f"Item '{name}' of type 'reasoning' was provided without its required following item."
            yield error("R02", (index, -1), text)


def _produced(item: dict[str, Any]) -> bool:
    """Whether it is something that a model says: a message of its own, a call, more reasoning."""
    kind = item.get("type")
    return (
        kind in _CALLS
        or kind in ("reasoning", "web_search_call", "tool_search_call")
        or (kind in ("message", None) and item.get("role") == "assistant")
    )


def _following(items: list[dict[str, Any]], original: Any) -> Iterator[Finding]:
    """With the originals known: each item keeps the reasoning that it came with, and its order."""
    known = original.get("input", []) if isinstance(original, dict) else original or []
    needs = {
        after["id"]: before["id"]
        for before, after in pairwise(known)
        if before.get("type") == "reasoning" and before.get("id") and after.get("id")
    }
    for index, item in enumerate(items):
        wanted = needs.get(ident(item.get("id")))
        before = items[index - 1] if index else {}
        if wanted and before.get("id") != wanted:
            text = (
                f"Item '{item['id']}' of type '{item.get('type')}' was provided without its required "
                f"'reasoning' item: '{wanted}'."
            )
            yield error("R02", (index, -1), text)
